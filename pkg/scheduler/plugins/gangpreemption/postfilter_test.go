package gangpreemption

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// world is the plugin in a profile with NodeResourcesFit, on nodes that pods fill.
type world struct {
	framework.Framework
	plugin  *GangPreemption
	tracker *gangs.Tracker
	client  *fake.Clientset
	node    fwk.NodeInfo

	activated activator
}

// newWorld makes a world with some nodes, and a pod that is to preempt. Without nodes it has one of 4 CPUs.
func newWorld(t *testing.T, c *cluster, preemptor *corev1.Pod, nodes ...*corev1.Node) *world {
	t.Helper()
	return newWorldOf(t, c, append([]*corev1.Pod{preemptor}, c.pods...), nodes...)
}

// newWorldOf makes a world in which the API knows only some of the pods.
func newWorldOf(t testing.TB, c *cluster, known []*corev1.Pod, nodes ...*corev1.Node) *world {
	t.Helper()
	metrics.Register()
	objects := make([]runtime.Object, len(known))
	for i, pod := range known {
		objects[i] = pod
	}
	w := &world{tracker: c.tracker, client: fake.NewClientset(slices.Concat(objects, c.budgets)...), activated: make(activator, 100)}
	factory := informers.NewSharedInformerFactory(w.client, 0)
	if len(nodes) == 0 {
		nodes = append(nodes, mustertesting.MakeNode(nodeName(0)).Allocatable("cpu", "4", "pods", "10").Obj())
	}
	snapshot := cache.NewSnapshot(c.pods, nodes)
	registry := upstreamplugins.NewInTreeRegistry()
	registry[Name] = func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		upstream, err := defaultpreemption.New(ctx, &schedulerconfig.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}, handle,
			feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			return nil, err
		}
		victims, err := eviction.ForProfile(w.tracker.Victims, handle)
		if err != nil {
			return nil, err
		}
		w.plugin = &GangPreemption{tracker: w.tracker, handle: handle, victims: victims}
		w.plugin.takeOver(upstream)
		return w.plugin, nil
	}
	set := func(name string) schedulerconfig.PluginSet {
		return schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: name}}}
	}
	stock, err := latest.Default()
	require.NoError(t, err)
	w.Framework, err = frameworkruntime.NewFramework(t.Context(), registry, &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: "muster", PluginConfig: stock.Profiles[0].PluginConfig,
		Plugins: &schedulerconfig.Plugins{
			QueueSort: set(names.PrioritySort), Bind: set(names.DefaultBinder), PostFilter: set(Name), PreFilter: set(names.NodeResourcesFit),
			Filter: set(names.NodeResourcesFit),
		},
	},
		frameworkruntime.WithClientSet(w.client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot), frameworkruntime.WithExtenders(c.extenders),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100)), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()), frameworkruntime.WithLogger(klog.Background()),
		frameworkruntime.WithPodNominator(queue.NewSchedulingQueue(nil, factory)))
	require.NoError(t, err)
	w.SetPodActivator(w.activated)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	w.node, err = snapshot.NodeInfos().Get(nodeName(0))
	require.NoError(t, err)
	return w
}

// activator keeps the pods that were activated.
type activator chan *corev1.Pod

func (a activator) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		a <- pod
	}
}

// postFilter runs the cycle of a pod that fits on no node.
func (w *world) postFilter(t *testing.T, pod *corev1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	t.Helper()
	cycle := framework.NewCycleState()
	_, status, _ := w.RunPreFilterPlugins(t.Context(), cycle, pod)
	require.True(t, status.IsSuccess(), status)
	status = w.RunFilterPlugins(t.Context(), cycle, pod, w.node)
	require.False(t, status.IsSuccess())
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set(nodeName(0), status)
	return w.plugin.PostFilter(t.Context(), cycle, pod, statuses)
}

// deleted are the pods that were deleted in the API.
func (w *world) deleted() sets.Set[string] {
	gone := sets.New[string]()
	for _, action := range w.client.Actions() {
		if deletion, ok := action.(clienttesting.DeleteAction); ok && action.GetVerb() == "delete" {
			gone.Insert(deletion.GetName())
		}
	}
	return gone
}

// fullOf is a cluster whose node the members of a gang fill, two of 2 CPUs.
func fullOf(minimum int32) *cluster {
	c := newCluster()
	c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(minimum).Obj())
	for _, name := range []string{"g0", "g1"} {
		c.add(mustertesting.MakePod(name).Group("g").Node(nodeName(0)).SchedulerName("muster").Requests("cpu", "2").Priority(0).Obj())
	}
	return c
}

func urgentPod(priority int32) *corev1.Pod {
	return mustertesting.MakePod("urgent").UID("urgent").SchedulerName("muster").Requests("cpu", "2").Priority(priority).Obj()
}

// TestAPodThatFitsNowhereHasVictimsEvicted, gangs whole unless the pod is critical for the cluster.
func TestAPodThatFitsNowhereHasVictimsEvicted(t *testing.T) {
	for name, test := range map[string]struct {
		minimum  int32
		priority int32
		gone     int
	}{
		"a gang whole":               {2, 10, 2},
		"surplus":                    {1, 10, 1},
		"a critical pod may do more": {2, scheduling.SystemCriticalPriority, 2},
	} {
		t.Run(name, func(t *testing.T) {
			pod := urgentPod(test.priority)
			w := newWorld(t, fullOf(test.minimum), pod)
			result, status := w.postFilter(t, pod)
			require.True(t, status.IsSuccess(), status)
			assert.Equal(t, nodeName(0), result.NominatedNodeName)
			standing := w.tracker.Victims.Standing(state.Key{Namespace: "default", Name: "g"})
			require.NotNil(t, standing)
			assert.Len(t, standing.Holding, 2-test.gone, "at once, the victims count as gone")
			require.Eventually(t, func() bool { return len(w.deleted()) == test.gone }, mustertesting.Timeout, time.Millisecond)
			for _, pod := range w.deleted().UnsortedList() {
				assert.Contains(t, []string{"g0", "g1"}, pod)
			}
		})
	}
}

// TestACriticalPodBreaksAGangThatMayNotBeEvictedWhole: a member of it is as important as the pod.
func TestACriticalPodBreaksAGangThatMayNotBeEvictedWhole(t *testing.T) {
	for name, test := range map[string]struct {
		priority int32
		code     fwk.Code
		message  string
	}{
		"critical":  {scheduling.SystemCriticalPriority, fwk.Success, ""},
		"important": {scheduling.SystemCriticalPriority - 1, fwk.Unschedulable, "preemption: 0/1 nodes are available"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
			for member, priority := range map[string]int32{"g0": 0, "g1": test.priority} {
				c.add(mustertesting.MakePod(member).Group("g").Node(nodeName(0)).SchedulerName("muster").Requests("cpu", "2").Priority(priority).Obj())
			}
			pod := urgentPod(test.priority)
			w := newWorld(t, c, pod)
			_, status := w.postFilter(t, pod)
			require.Equal(t, test.code, status.Code(), status)
			assert.Contains(t, status.Message(), test.message)
			if test.code == fwk.Success {
				require.Eventually(t, func() bool { return w.deleted().Equal(sets.New("g0")) }, mustertesting.Timeout, time.Millisecond)
			} else {
				assert.Empty(t, w.deleted())
			}
		})
	}
}

// TestAPodThatComesAgainClaimsNothingOfBefore: what it has claimed and not got is free for others.
func TestAPodThatComesAgainClaimsNothingOfBefore(t *testing.T) {
	pod := urgentPod(0) // as important as the gang: it preempts nothing
	w := newWorld(t, fullOf(2), pod)
	w.tracker.Victims.ClaimVictims(pod.UID, []types.UID{"g0", "g1"})
	_, status := w.postFilter(t, pod)
	require.Equal(t, fwk.Unschedulable, status.Code(), status)
	standing := w.tracker.Victims.Standing(state.Key{Namespace: "default", Name: "g"})
	require.NotNil(t, standing)
	assert.Len(t, standing.Holding, 2)
}

// TestAPodThatComesAgainHasItsVictimsGone: it comes before the informer shows that its victim has gone. If the victim counted again, a
// second member would go as surplus. The gang would be left below its minimum.
func TestAPodThatComesAgainHasItsVictimsGone(t *testing.T) {
	pod := urgentPod(10)
	w := newWorld(t, fullOf(1), pod)
	holding := func() int {
		standing := w.tracker.Victims.Standing(state.Key{Namespace: "default", Name: "g"})
		require.NotNil(t, standing)
		return len(standing.Holding)
	}
	evicted, evict := make(chan error, 1), w.plugin.Executor.PreemptPod
	w.plugin.Executor.PreemptPod = func(ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error) {
		inMemory, err := evict(ctx, c, by, victim, plugin)
		evicted <- err
		return inMemory, err
	}
	_, status := w.postFilter(t, pod)
	require.True(t, status.IsSuccess(), status)
	require.NoError(t, <-evicted)
	require.Equal(t, 1, holding())
	_, status = w.plugin.PostFilter(t.Context(), framework.NewCycleState(), pod, framework.NewDefaultNodeToStatus()) // no node helps now
	require.Equal(t, fwk.Unschedulable, status.Code(), status)
	assert.Equal(t, 1, holding())
	rival := mustertesting.MakePod("rival").UID("rival").SchedulerName("muster").Requests("cpu", "2").Priority(10).Obj()
	w.tracker.Victims.ClaimVictims(rival.UID, []types.UID{"g0", "g1"})
	w.tracker.Victims.DropClaims(rival.UID)
	assert.Equal(t, 1, holding(), "also if another pod has claimed it since")
}

// TestAPodWhoseVictimIsGoneAlreadyIsActivated: the end of the victim has been told while the pod could not be tried. No other event comes.
func TestAPodWhoseVictimIsGoneAlreadyIsActivated(t *testing.T) {
	pod := urgentPod(10)
	w := newWorldOf(t, fullOf(1), []*corev1.Pod{pod})
	w.tracker.PodLister = w.SharedInformerFactory().Core().V1().Pods().Lister()
	_, status := w.postFilter(t, pod)
	require.True(t, status.IsSuccess(), status)
	select {
	case activated := <-w.activated:
		assert.Equal(t, pod.Name, activated.Name)
		assert.Empty(t, w.deleted())
	case <-time.After(mustertesting.Timeout):
		t.Fatal("the pod waits for an event that does not come")
	}
}
