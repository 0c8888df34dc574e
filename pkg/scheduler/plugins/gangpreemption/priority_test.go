package gangpreemption

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/placement"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// lowPods are a cluster of nodes with a pod of 2 CPUs each. The pod of a node has the priority of its number.
func lowPods(count int, change ...func(*corev1.Pod)) *cluster {
	c := newCluster()
	for i := range count {
		pod := mustertesting.MakePod(fmt.Sprint("low", i)).Node(nodeName(i)).SchedulerName("muster").Requests("cpu", "2").Priority(int32(i)).Obj()
		for _, change := range change {
			change(pod)
		}
		c.add(pod)
	}
	return c
}

// withGang adds a gang, so that not everything is left to upstream.
func (c *cluster) withGang() *cluster {
	c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Obj())
	return c
}

// preempts runs PostFilter for a pod that lacks room on all nodes, and for another reason on some.
func (c *cluster) preempts(t *testing.T, pod *corev1.Pod, count int, tainted ...string) (*world, *fwk.PostFilterResult, *fwk.Status) {
	nodes, statuses := c.fullNodes(count, 0), framework.NewDefaultNodeToStatus()
	for _, node := range nodes {
		statuses.Set(node.Name, fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu"))
	}
	for _, node := range tainted {
		statuses.Set(node, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a taint"))
	}
	w := newWorld(t, c, pod, nodes...)
	cycle := framework.NewCycleState()
	_, status, _ := w.RunPreFilterPlugins(t.Context(), cycle, pod)
	require.True(t, status.IsSuccess(), status)
	result, status := w.plugin.PostFilter(t.Context(), cycle, pod, statuses)
	return w, result, status
}

// expectDeleted waits until exactly some pods are deleted.
func (w *world) expectDeleted(t *testing.T, names ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return w.deleted().Equal(sets.New(names...)) }, time.Minute, time.Millisecond, "%v", w.deleted())
}

// TestTheLeastImportantPodGoes of all nodes where evictions may help.
func TestTheLeastImportantPodGoes(t *testing.T) {
	w, result, status := lowPods(12).withGang().preempts(t, urgentPod(100), 12, nodeName(0), nodeName(1))
	require.True(t, status.IsSuccess(), status)
	assert.Equal(t, nodeName(2), result.NominatedNodeName)
	w.expectDeleted(t, "low2")
}

// TestTheSearchGoesOnBeyondItsSample: by their amounts the first nodes have room, but the class of their gang forbids its eviction.
func TestTheSearchGoesOnBeyondItsSample(t *testing.T) {
	c := newCluster()
	c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(3).Obj())
	for i := range 4 {
		made := mustertesting.MakePod(fmt.Sprint("low", i)).Node(nodeName(i)).Requests("cpu", "2")
		if i < 3 {
			made.Group("g")
		}
		c.add(made.Obj())
	}
	c.add(mustertesting.MakePod("high").Group("g").Node(nodeName(4)).Requests("cpu", "2").Priority(100).Obj())
	c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(4).Obj())
	c.snapshot = cache.NewSnapshot(c.pods, c.fullNodes(5, 0))
	var nodes []fwk.NodeInfo
	for i := range 4 {
		node, err := c.snapshot.NodeInfos().Get(nodeName(i))
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	node, victims := c.search(urgentPod(10), nodes, 1)
	assert.Equal(t, nodeName(3), node)
	assert.Equal(t, []string{"low3"}, namesOf(victims))
	node, _ = c.search(urgentPod(10), nodes[:3], 1)
	assert.Empty(t, node)
}

// TestASampleIsNotLargerThanItNeedsToBe: a better node behind it is not looked at.
func TestASampleIsNotLargerThanItNeedsToBe(t *testing.T) {
	c := lowPods(3)
	c.snapshot = cache.NewSnapshot(c.pods, c.fullNodes(3, 0))
	var nodes []fwk.NodeInfo
	for _, i := range []int{2, 1, 0} {
		node, err := c.snapshot.NodeInfos().Get(nodeName(i))
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	for enough, want := range map[int]string{1: nodeName(2), 2: nodeName(1), 3: nodeName(0)} {
		node, _ := c.search(urgentPod(10), nodes, enough)
		assert.Equal(t, want, node, "%d nodes", enough)
	}
}

// refusing is an extender that refuses some nodes. It remembers about which it was asked.
type refusing struct {
	fwk.Extender
	refuses   sets.Set[string]
	asked     [][]string
	meanwhile func() // what happens while it is asked
}

func (*refusing) Name() string                  { return "refusing" }
func (*refusing) SupportsPreemption() bool      { return true }
func (*refusing) IsInterested(*corev1.Pod) bool { return true }
func (*refusing) IsIgnorable() bool             { return false }

func (r *refusing) ProcessPreemption(_ *corev1.Pod, victims map[string]*extenderv1.Victims, _ fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	if r.meanwhile != nil {
		r.meanwhile()
	}
	kept := map[string]*extenderv1.Victims{}
	for node, of := range victims {
		if !r.refuses.Has(node) {
			kept[node] = of
		}
	}
	r.asked = append(r.asked, sets.List(sets.KeySet(victims)))
	return kept, nil
}

// TestAnExtenderIsAskedAboutTheChosenNode, and about the next if it refuses.
func TestAnExtenderIsAskedAboutTheChosenNode(t *testing.T) {
	extender := &refusing{refuses: sets.New(nodeName(0))}
	c := lowPods(3).withGang()
	c.extenders = []fwk.Extender{extender}
	w, result, status := c.preempts(t, urgentPod(10), 3)
	require.True(t, status.IsSuccess(), status)
	assert.Equal(t, nodeName(1), result.NominatedNodeName)
	assert.Equal(t, [][]string{{nodeName(0)}, {nodeName(1)}}, extender.asked)
	w.expectDeleted(t, "low1")

	extender.refuses.Insert(nodeName(1), nodeName(2))
	c = lowPods(3).withGang()
	c.extenders = []fwk.Extender{extender}
	w, _, status = c.preempts(t, urgentPod(10), 3)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Empty(t, w.deleted())
}

// TestVictimsAreClaimedBeforeTheyGo: a claim that comes later than an eviction in memory would stay. A plan that is not carried out claims nothing.
func TestVictimsAreClaimedBeforeTheyGo(t *testing.T) {
	for name, refuses := range map[string]sets.Set[string]{"carried out": nil, "refused": sets.New(nodeName(0))} {
		t.Run(name, func(t *testing.T) {
			c := fullOf(1)
			claimed := func() int { return c.tracker.Victims.Leaving().Len() }
			before := 0 // upstream asks extenders just before it evicts
			c.extenders = []fwk.Extender{&refusing{refuses: refuses, meanwhile: func() { before = claimed() }}}
			_, status := newWorld(t, c, urgentPod(10)).postFilter(t, urgentPod(10))
			assert.Equal(t, refuses == nil, status.IsSuccess(), status)
			assert.Equal(t, 1, before)
			assert.Equal(t, refuses == nil, claimed() > 0)
		})
	}
}

// TestWhatAPodSaysCountsWithoutGangsAndQueues, too. Critical pods do not listen.
func TestWhatAPodSaysCountsWithoutGangsAndQueues(t *testing.T) {
	stays := func(pod *corev1.Pod) { pod.Annotations = map[string]string{"volcano.sh/preemptable": "false"} }
	for name, c := range map[string]*cluster{"upstream searches": lowPods(1, stays), "we search": lowPods(1, stays).withGang()} {
		t.Run(name, func(t *testing.T) {
			w, _, status := c.preempts(t, urgentPod(10), 1)
			assert.Equal(t, fwk.Unschedulable, status.Code())
			assert.Empty(t, w.deleted())
			w, _, status = c.preempts(t, urgentPod(scheduling.SystemCriticalPriority), 1)
			require.True(t, status.IsSuccess(), status)
			w.expectDeleted(t, "low0")
		})
	}
}

// TestBudgetsAreCountedForEachNodeAnew: only the victims of one node go.
func TestBudgetsAreCountedForEachNodeAnew(t *testing.T) {
	labelled := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "a"} }
	for name, test := range map[string]struct {
		allowed int32
		want    string
	}{
		"the budget allows one": {1, nodeName(0)},
		"it allows none":        {0, nodeName(3)},
	} {
		t.Run(name, func(t *testing.T) {
			c := lowPods(3, labelled).withGang()
			c.add(mustertesting.MakePod("other").Node(nodeName(3)).SchedulerName("muster").Requests("cpu", "2").Priority(9).Obj())
			c.budgets = append(c.budgets, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "a"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(map[string]string{"app": "a"})},
				Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: test.allowed},
			})
			_, result, status := c.preempts(t, urgentPod(10), 4)
			require.True(t, status.IsSuccess(), status)
			assert.Equal(t, test.want, result.NominatedNodeName)
		})
	}
}

// TestMembersThatWaitInPermitAreVictims: they hold room on a node, though not in the API.
func TestMembersThatWaitInPermitAreVictims(t *testing.T) {
	c := newCluster()
	c.group(mustertesting.MakePodGroup("g").UID("g").MinMember(3).Phase("Inqueue").Obj())
	c.tracker.Feed.Open()
	for _, name := range []string{"g0", "g1", "g2"} {
		c.add(mustertesting.MakePod(name).Group("g").SchedulerName("muster").Requests("cpu", "1").Obj())
	}
	require.Empty(t, c.tracker.Gate(c.pods[0]))
	snapshot := c.tracker.Decisions.Snapshot(c.pods[0])
	_, ok := c.tracker.Decisions.Commit(snapshot, &placement.Decision{Feasibility: placement.Uncertain, Members: snapshot.Problem.Members})
	require.True(t, ok)
	for i, pod := range c.pods[:2] {
		c.tracker.Reserve(pod)
		c.pods[i] = pod.DeepCopy()
		c.pods[i].Spec.NodeName = nodeName(i) // as the scheduler's cache has it
	}
	c.pods = c.pods[:2]
	victims, found := c.victims(t, mustertesting.MakePod("urgent").Requests("cpu", "1").Priority(10).Obj(), 2, 0, nodeName(0))
	require.True(t, found)
	assert.Equal(t, []string{"g0", "g1"}, namesOf(victims))
}

// TestAPodThatMustNotPreemptSearchesNothing.
func TestAPodThatMustNotPreemptSearchesNothing(t *testing.T) {
	pod := urgentPod(100)
	pod.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	w, _, status := lowPods(2).withGang().preempts(t, pod, 2)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Contains(t, status.Message(), "not eligible")
	assert.Empty(t, w.deleted())
}
