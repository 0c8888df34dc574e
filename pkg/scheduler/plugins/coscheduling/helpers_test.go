package coscheduling

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// testArgs are the plugin's arguments in these tests.
var testArgs = config.CoschedulingArgs{
	Admission:          config.AdmissionRequired,
	PermitTimeout:      metav1.Duration{Duration: time.Minute},
	PartialGangTimeout: metav1.Duration{Duration: time.Hour},
	InitialBackoff:     metav1.Duration{Duration: time.Second},
	MaxBackoff:         metav1.Duration{Duration: 10 * time.Second},
}

// openTracker is a tracker that has read everything, for the profile "muster".
func openTracker(t testing.TB) *gangs.Tracker {
	t.Helper()
	tracker, _ := trackerWithClock(t)
	return tracker
}

func trackerWithClock(t testing.TB) (*gangs.Tracker, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	tracker := gangs.New(clock)
	require.NoError(t, tracker.Configure("muster", testArgs))
	tracker.Feed.Open()
	return tracker, clock
}

// world is a profile with the plugin and NodeResourcesFit, on nodes that may have pods.
type world struct {
	framework.Framework
	tracker *gangs.Tracker
	clock   *clocktesting.FakeClock
	plugin  *Coscheduling
	nodes   []fwk.NodeInfo
	waiting map[types.UID]*waitingPod // in Permit
}

// waitingPod records which plugin allowed it.
type waitingPod struct {
	fwk.WaitingPod
	allowedBy []string
}

func (w *waitingPod) Allow(plugin string) { w.allowedBy = append(w.allowedBy, plugin) }

// GetWaitingPod finds a pod that waits in Permit.
func (w *world) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if pod, ok := w.waiting[uid]; ok {
		return pod
	}
	return nil
}

// newWorld makes a world of nodes, some pods on them.
func newWorld(t testing.TB, nodes []*corev1.Node, pods ...*corev1.Pod) *world {
	t.Helper()
	metrics.Register()
	w := &world{waiting: map[types.UID]*waitingPod{}}
	w.tracker, w.clock = trackerWithClock(t)
	w.plugin = &Coscheduling{binds: newBindLimiter(), tracker: w.tracker, handle: w}
	stock := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(stock, nil, nil)
	require.NoError(t, err)
	set := func(plugins ...string) (s schedulerconfig.PluginSet) {
		for _, name := range plugins {
			s.Enabled = append(s.Enabled, schedulerconfig.Plugin{Name: name})
		}
		return s
	}
	registry := upstreamplugins.NewInTreeRegistry()
	registry[Name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return w.plugin, nil }
	profile := &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: "muster",
		PluginConfig:  obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig,
		Plugins: &schedulerconfig.Plugins{
			QueueSort: set(names.PrioritySort), Bind: set(names.DefaultBinder),
			PreFilter: set(Name, names.NodeResourcesFit), Filter: set(Name, names.NodeResourcesFit), PostFilter: set(Name), Reserve: set(Name), Permit: set(Name),
		},
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewSnapshot(pods, nodes)
	w.Framework, err = frameworkruntime.NewFramework(t.Context(), registry, profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithPodNominator(queue.NewSchedulingQueue(nil, factory)))
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	w.plugin.planner = placement.NewPlanner(w)
	w.nodes, err = snapshot.NodeInfos().List()
	require.NoError(t, err)
	return w
}

// nodesOf makes n nodes of 4 CPUs: n0 and so on.
func nodesOf(n int) (nodes []*corev1.Node) {
	for i := range n {
		nodes = append(nodes, mustertesting.MakeNode(fmt.Sprint("n", i)).Allocatable("cpu", "4", "pods", "10").Obj())
	}
	return nodes
}

// gangOf has a gang come, with members of so many CPUs each: <name>-0 and so on.
func (w *world) gangOf(name string, minMember, members int, cpu string) []*corev1.Pod {
	return gangIn(w.tracker, name, "", minMember, members, cpu)
}

func gangIn(tracker *gangs.Tracker, name, queue string, minMember, members int, cpu string) (pods []*corev1.Pod) {
	tracker.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).MinMember(int32(minMember)).Queue(queue).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for i := range members {
		member := fmt.Sprintf("%s-%d", name, i)
		pod := mustertesting.MakePod(member).UID(member).Group(name).SchedulerName("muster").Requests("cpu", cpu).Obj()
		tracker.SetPod(pod)
		pods = append(pods, pod)
	}
	return pods
}

// newCycle is the state of a scheduling cycle.
func newCycle() *framework.CycleState {
	cycle := framework.NewCycleState()
	cycle.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	return cycle
}

// activated are the names of the pods that a cycle activates if it succeeds.
func activated(t testing.TB, cycle fwk.CycleState) sets.Set[string] {
	t.Helper()
	data, err := cycle.Read(framework.PodsToActivateKey)
	require.NoError(t, err)
	return sets.KeySet(data.(*framework.PodsToActivate).Map)
}

// preFilter has the plugin see a pod as it does at the start of its cycle.
func (w *world) preFilter(t testing.TB, pod *corev1.Pod) (*framework.CycleState, *fwk.PreFilterResult, *fwk.Status) {
	t.Helper()
	cycle := newCycle()
	result, status := w.plugin.PreFilter(t.Context(), cycle, pod, w.nodes)
	return cycle, result, status
}

// start takes a pod through the gate and PreFilter, which must let it pass.
func (w *world) start(t testing.TB, pod *corev1.Pod) *framework.CycleState {
	t.Helper()
	require.Empty(t, w.tracker.Gate(pod), pod.Name)
	cycle, _, status := w.preFilter(t, pod)
	require.True(t, status.IsSuccess() || status.IsSkip(), "%s: %v", pod.Name, status)
	return cycle
}

// permit reserves for a pod and asks Permit. A pod that is told to wait does.
func (w *world) permit(t testing.TB, pod *corev1.Pod) fwk.Code {
	t.Helper()
	cycle := newCycle()
	require.True(t, w.plugin.Reserve(t.Context(), cycle, pod, "n0").IsSuccess())
	status, _ := w.plugin.Permit(t.Context(), cycle, pod, "n0")
	if status.Code() == fwk.Wait {
		w.waiting[pod.UID] = &waitingPod{}
	}
	return status.Code()
}

// nodeWith is a node of 4 CPUs with pods on it.
func nodeWith(name string, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(mustertesting.MakeNode(name).Allocatable("cpu", "4", "pods", "10").Obj())
	return info
}

// occupy puts a pod of 4 CPUs on a node.
func (w *world) occupy(t testing.TB, name string) {
	t.Helper()
	for _, node := range w.nodes {
		if node.Node().Name == name {
			info, err := framework.NewPodInfo(mustertesting.MakePod("on-"+name).UID("on-"+name).Node(name).Requests("cpu", "4").Obj())
			require.NoError(t, err)
			node.AddPodInfo(info)
		}
	}
}
