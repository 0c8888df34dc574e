package gangpreemption

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// cluster has full nodes, for a tracker and for the scheduler's snapshot, and a filter that looks at cpu only.
type cluster struct {
	fwk.Handle // only the methods below are used
	tracker    *gangs.Tracker
	specs      map[string]gang.Spec
	pods       []*corev1.Pod
	snapshot   *cache.Snapshot
	extenders  []fwk.Extender
	budgets    []runtime.Object
}

func (c *cluster) SnapshotSharedLister() fwk.SharedLister { return c.snapshot }

func (*cluster) RunPreFilterExtensionRemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (*cluster) RunPreFilterExtensionAddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (*cluster) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if cpuOf(pod) > node.GetAllocatable().GetMilliCPU()-node.GetRequested().GetMilliCPU() {
		return fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu")
	}
	return nil
}

func (*cluster) RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (*cluster) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

func (*cluster) RunReservePluginsReserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

func (*cluster) RunReservePluginsUnreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (*cluster) EnqueueExtensions() []fwk.EnqueueExtensions { return nil }

func (*cluster) SharedInformerFactory() informers.SharedInformerFactory { return emptyFactory }

// emptyFactory knows no disruption budgets.
var emptyFactory = informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)

func cpuOf(pod *corev1.Pod) int64 { return resources.PodRequests(pod)[corev1.ResourceCPU] }

func newCluster() *cluster {
	s := &cluster{tracker: gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0))), specs: map[string]gang.Spec{}}
	err := s.tracker.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired, PermitTimeout: metav1.Duration{Duration: time.Minute}})
	if err != nil {
		panic(err) // there is no other profile
	}
	return s
}

func (c *cluster) group(pg *schedulingv1beta1.PodGroup) {
	spec := gang.Spec{MinMember: int(pg.Spec.MinMember), Succeeded: int(pg.Status.Succeeded), MinTaskMember: map[string]int{}}
	for task, n := range pg.Spec.MinTaskMember {
		spec.MinTaskMember[task] = int(n)
	}
	c.specs[pg.Name] = spec
	c.tracker.SetPodGroup(pg)
}

func (c *cluster) add(pods ...*corev1.Pod) {
	for _, pod := range pods {
		pod.UID = types.UID(pod.Name)
		c.pods = append(c.pods, pod)
		c.tracker.SetPod(pod)
	}
}

// fullNodes are nodes that are full but for a rest.
func (c *cluster) fullNodes(nodes int, rest int64) (objects []*corev1.Node) {
	for i := range nodes {
		used := rest
		for _, pod := range c.pods {
			if pod.Spec.NodeName == nodeName(i) {
				used += cpuOf(pod)
			}
		}
		objects = append(objects, mustertesting.MakeNode(nodeName(i)).Allocatable("cpu", fmt.Sprintf("%dm", used), "pods", "100").Obj())
	}
	return objects
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i) }

// victims are the victims for a pod on one of some nodes that are full but for a rest. It says whether there are any.
func (c *cluster) victims(t require.TestingT, preemptor *corev1.Pod, nodes int, rest int64, node string) ([]*corev1.Pod, bool) {
	c.snapshot = cache.NewSnapshot(c.pods, c.fullNodes(nodes, rest))
	info, err := c.snapshot.NodeInfos().Get(node)
	require.NoError(t, err)
	found, victims := c.search(preemptor, []fwk.NodeInfo{info}, 1)
	require.Contains(t, []string{"", node}, found)
	return victims, found != ""
}

// search looks for victims of a pod on some nodes of the snapshot.
func (c *cluster) search(preemptor *corev1.Pod, nodes []fwk.NodeInfo, enough int) (string, []*corev1.Pod) {
	cycle := framework.NewCycleState()
	cycle.SetSkipFilterPlugins(sets.New(names.InterPodAffinity, names.PodTopologySpread))
	found, victims := eviction.New(c.tracker.Victims, c, placement.NewPlanner(c)).ByPriority(context.Background(), &eviction.Preemptor{
		Pod: preemptor, Cycle: cycle, Nodes: nodes, Enough: enough, MayUse: func(string) bool { return true },
	})
	var pods []*corev1.Pod
	for _, v := range victims {
		pods = append(pods, v.AllPods()...)
	}
	return found, pods
}

func namesOf(pods []*corev1.Pod) []string {
	out := []string{}
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	slices.Sort(out)
	return out
}

func TestVictimsOnANode(t *testing.T) {
	member := func(name, gang string, node int, cpu string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).Group(gang).Node(nodeName(node)).Requests("cpu", cpu).Priority(0)
	}
	single := func(name string, cpu string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).Node(nodeName(0)).Requests("cpu", cpu).Priority(0)
	}
	group := func(name string, n int32) *mustertesting.PodGroupWrapper {
		return mustertesting.MakePodGroup(name).UID(name).MinMember(n)
	}
	urgent := mustertesting.MakePod("urgent").Requests("cpu", "2").Priority(10)
	tests := map[string]struct {
		groups    []*mustertesting.PodGroupWrapper
		pods      []*mustertesting.PodWrapper
		preemptor *mustertesting.PodWrapper // urgent if nil
		want      []string                  // nil: none can be found
	}{
		"the ordinary pod, not the gang": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), single("a", "2")},
			want:   []string{"a"},
		},
		"the gang of lower priority, not the ordinary pod": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), single("a", "2").Priority(5)},
			want:   []string{"g0"},
		},
		"surplus before the ordinary pod": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 1, "2"), single("a", "2")},
			want:   []string{"g0"},
		},
		"the gang whole, on all nodes": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 2)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 1, "2")},
			want:   []string{"g0", "g1"},
		},
		"a whole gang's surplus goes too": {
			groups:    []*mustertesting.PodGroupWrapper{group("g", 2)},
			pods:      []*mustertesting.PodWrapper{member("g0", "g", 0, "1"), member("g1", "g", 0, "1"), member("g2", "g", 0, "1")},
			preemptor: mustertesting.MakePod("urgent").Requests("cpu", "3").Priority(10),
			want:      []string{"g0", "g1", "g2"},
		},
		"a gang that is broken is taken whole": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 3)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 1, "2")},
			want:   []string{"g0", "g1"},
		},
		"not a gang with a member of the preemptor's priority": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 2)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 1, "2").Priority(10)},
		},
		"surplus of a gang with such a member": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 1, "2").Priority(10)},
			want:   []string{"g0"},
		},
		"not the preemptor's own gang": {
			groups:    []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:      []*mustertesting.PodWrapper{member("g0", "g", 0, "2"), member("g1", "g", 0, "2")},
			preemptor: mustertesting.MakePod("g2").Group("g").Requests("cpu", "2").Priority(10),
		},
		"the large member goes if the small ones are enough": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 2)},
			pods: []*mustertesting.PodWrapper{
				member("g0", "g", 0, "2").Priority(5), member("g1", "g", 0, "1"), member("g2", "g", 0, "1")},
			want: []string{"g0"},
		},
		"a task keeps its minimum": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1).MinTaskMember("ps", 1)},
			pods:   []*mustertesting.PodWrapper{member("g0", "g", 0, "2").Task("ps"), member("g1", "g", 0, "2").Task("worker")},
			want:   []string{"g1"},
		},
		"a member that is being deleted counts for its gang no more": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 2)},
			pods: []*mustertesting.PodWrapper{
				member("g0", "g", 0, "2").Terminating(time.Unix(1000, 0)), member("g1", "g", 1, "2"), member("g2", "g", 1, "2"), member("g3", "g", 0, "1")},
			want: []string{"g0"},
		},
		"the other gang's pods without a PodGroup are ordinary": {
			groups: []*mustertesting.PodGroupWrapper{group("g", 1)},
			pods:   []*mustertesting.PodWrapper{member("h0", "h", 0, "2"), member("h1", "h", 1, "2"), member("g0", "g", 0, "2")},
			want:   []string{"h0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			for _, group := range test.groups {
				s.group(group.Obj())
			}
			for _, pod := range test.pods {
				s.add(pod.Obj())
			}
			preemptor := urgent
			if test.preemptor != nil {
				preemptor = test.preemptor
			}
			victims, found := s.victims(t, preemptor.Obj(), 2, 0, nodeName(0))
			if test.want == nil {
				assert.False(t, found)
				return
			}
			assert.True(t, found)
			assert.Equal(t, test.want, namesOf(victims))
		})
	}
}

// T6: the victims make room, whatever runs on the nodes. None of them could stay, and all are less important than the preemptor. Each gang
// is whole or gone. If there are such victims, the search finds them. Among pods of equal priority, no gang is evicted if that is not
// needed.
func TestT6_VictimsAreFewAndLeaveGangsWholeOrGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCluster(t)
		priority := rapid.Int32Range(1, 3).Draw(t, "preemptor's priority")
		cpu := rapid.Int64Range(1, 8).Draw(t, "preemptor's cpu")
		preemptor := mustertesting.MakePod("urgent").Requests("cpu", fmt.Sprint(cpu)).Priority(priority).Obj()
		free := rapid.Int64Range(0, cpu-1).Draw(t, "free cpu") * 1000
		here := s.on(nodeName(0))
		victims, found := s.victims(t, preemptor, 2, free, nodeName(0))
		solutions := s.solutions(here, priority, cpuOf(preemptor)-free)
		if !found {
			require.Empty(t, solutions, "victims exist, but none were found")
			return
		}
		s.checkVictims(t, victims, priority, cpuOf(preemptor)-free)
		if s.allAlike() && slices.ContainsFunc(solutions, func(gone sets.Set[string]) bool { return s.wholeGangs(gone) == 0 }) {
			require.Zero(t, s.wholeGangs(sets.New(namesOf(victims)...)), "a gang is evicted without need: %v", namesOf(victims))
		}
	})
}

// T7: no A evicts B evicts A. An evicted pod that comes again finds no victim in the pod that took its place, on any node. The same is true
// of single pods and members of gangs.
func TestT7_EvictedPodsDoNotEvictBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCluster(t)
		made := mustertesting.MakePod("urgent").Requests("cpu", "2").Priority(rapid.Int32Range(1, 3).Draw(t, "preemptor's priority"))
		if rapid.Bool().Draw(t, "preemptor is a member of a gang") {
			made.Group("gang0").Task("a")
		}
		victims, found := s.victims(t, made.Obj(), 2, 0, nodeName(0))
		if !found {
			return
		}
		after := newCluster()
		for name, spec := range s.specs {
			pg := mustertesting.MakePodGroup(name).UID(name).MinMember(int32(spec.MinMember))
			for task, n := range spec.MinTaskMember {
				pg.MinTaskMember(task, int32(n))
			}
			after.group(pg.Obj())
		}
		gone := sets.New(namesOf(victims)...)
		for _, pod := range s.pods {
			if !gone.Has(pod.Name) {
				after.add(pod)
			}
		}
		after.add(made.Node(nodeName(0)).Obj())
		for _, victim := range victims {
			back := victim.DeepCopy()
			back.Name, back.UID, back.Spec.NodeName = "again", "again", ""
			for node := range 2 {
				again, _ := after.victims(t, back, 2, 0, nodeName(node))
				require.NotContains(t, namesOf(again), "urgent", "%s evicts the pod that it was evicted for", victim.Name)
			}
		}
	})
}

// drawCluster makes two nodes with ordinary pods and members of gangs, whole, with surplus, and broken.
func drawCluster(t *rapid.T) *cluster {
	s := newCluster()
	alike := rapid.Bool().Draw(t, "all of one priority")
	for g := range rapid.IntRange(1, 3).Draw(t, "gangs") {
		name := fmt.Sprintf("gang%d", g)
		pg := mustertesting.MakePodGroup(name).UID(name).MinMember(rapid.Int32Range(0, 4).Draw(t, "minMember"))
		if rapid.Bool().Draw(t, "tasks have minimums") {
			pg.MinTaskMember("a", rapid.Int32Range(0, 2).Draw(t, "minimum of a")).MinTaskMember("b", rapid.Int32Range(0, 2).Draw(t, "minimum of b"))
		}
		obj := pg.Obj()
		obj.Status.Succeeded = rapid.Int32Range(0, 1).Draw(t, "succeeded")
		s.group(obj)
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
		pod := mustertesting.MakePod(fmt.Sprintf("pod%d", i)).Node(nodeName(rapid.IntRange(0, 1).Draw(t, "node"))).
			Requests("cpu", fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "cpu")))
		if !alike {
			pod.Priority(rapid.Int32Range(0, 2).Draw(t, "priority"))
		}
		if g := rapid.IntRange(-1, len(s.specs)-1).Draw(t, "gang"); g >= 0 {
			pod.Group(fmt.Sprintf("gang%d", g)).Task(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "task"))
		}
		s.add(pod.Obj())
	}
	return s
}

func (c *cluster) on(node string) (pods []*corev1.Pod) {
	for _, pod := range c.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (c *cluster) allAlike() bool {
	return !slices.ContainsFunc(c.pods, func(pod *corev1.Pod) bool { return pod.Spec.Priority != nil && *pod.Spec.Priority != 0 })
}

// left is a gang without the pods that are gone, and as it was before.
func (c *cluster) left(name string, gone sets.Set[string]) (after, before *gang.Gang) {
	after, before = &gang.Gang{Spec: c.specs[name]}, &gang.Gang{Spec: c.specs[name]}
	for _, pod := range c.pods {
		if pod.Annotations[schedulingv1beta1.GroupNameAnnotation] != name {
			continue
		}
		m := gang.Member{UID: pod.UID, Pod: pod, Task: pod.Annotations["volcano.sh/task-spec"], State: gang.Bound}
		other := m
		before.Put(&m)
		if !gone.Has(pod.Name) {
			after.Put(&other)
		}
	}
	return after, before
}

// leavesWholeGangs says whether each gang that has lost members keeps its minimum or is gone.
func (c *cluster) leavesWholeGangs(gone sets.Set[string]) bool {
	for name := range c.specs {
		after, before := c.left(name, gone)
		if after.Len() < before.Len() && after.Len() > 0 && !after.Seated() {
			return false
		}
	}
	return true
}

// wholeGangs counts the gangs that are gone and needed members.
func (c *cluster) wholeGangs(gone sets.Set[string]) int {
	n := 0
	for name := range c.specs {
		if after, before := c.left(name, gone); before.Len() > 0 && after.Len() == 0 && !after.Seated() {
			n++
		}
	}
	return n
}

// solutions are all sets of pods that may go and make room on the node, tried one by one.
func (c *cluster) solutions(here []*corev1.Pod, priority int32, need int64) []sets.Set[string] {
	var found []sets.Set[string]
	for choice := range 1 << len(c.pods) {
		gone := sets.New[string]()
		room, allowed := int64(0), true
		for i, pod := range c.pods {
			if choice&(1<<i) == 0 {
				continue
			}
			gone.Insert(pod.Name)
			allowed = allowed && (pod.Spec.Priority == nil || *pod.Spec.Priority < priority)
			if slices.Contains(here, pod) {
				room += cpuOf(pod)
			}
		}
		if allowed && room >= need && c.leavesWholeGangs(gone) {
			found = append(found, gone)
		}
	}
	return found
}

func (c *cluster) checkVictims(t *rapid.T, victims []*corev1.Pod, priority int32, need int64) {
	gone := sets.New(namesOf(victims)...)
	require.Len(t, victims, gone.Len(), "each once")
	require.True(t, c.leavesWholeGangs(gone), "a part of a gang is left: %v", namesOf(victims))
	room := func(gone sets.Set[string]) (sum int64) {
		for _, pod := range c.on(nodeName(0)) {
			if gone.Has(pod.Name) {
				sum += cpuOf(pod)
			}
		}
		return sum
	}
	require.GreaterOrEqual(t, room(gone), need, "the preemptor fits")
	for _, victim := range victims {
		require.True(t, victim.Spec.Priority == nil || *victim.Spec.Priority < priority, "%s is as important", victim.Name)
		stays := sets.New(victim.Name)
		if name := victim.Annotations[schedulingv1beta1.GroupNameAnnotation]; name != "" {
			if after, before := c.left(name, gone); after.Len() == 0 && !after.Seated() {
				for _, m := range before.Members() {
					stays.Insert(m.Pod.Name) // it stays whole or not at all
				}
			}
		}
		require.Less(t, room(gone.Difference(stays)), need, "%v could stay", stays.UnsortedList())
	}
}

// TestANodeWithSurplusIsPreferred: at equal priority surplus is evicted first, then pods without a gang, then gangs. The node and the start
// time do not matter.
func TestANodeWithSurplusIsPreferred(t *testing.T) {
	c := newCluster()
	c.group(mustertesting.MakePodGroup("spare").UID("spare").MinMember(1).Obj())
	c.group(mustertesting.MakePodGroup("whole").UID("whole").MinMember(1).Obj())
	for i, pods := range [][]*mustertesting.PodWrapper{
		{mustertesting.MakePod("needed").Group("spare").Priority(10)}, // its node is full of what is as important
		{mustertesting.MakePod("surplus0").Group("spare"), mustertesting.MakePod("surplus1").Group("spare")},
		{mustertesting.MakePod("single0"), mustertesting.MakePod("surplus2").Group("spare")},
		{mustertesting.MakePod("single1"), mustertesting.MakePod("single2")},
		{mustertesting.MakePod("whole0").Group("whole"), mustertesting.MakePod("whole1").Group("whole")},
	} {
		for _, made := range pods {
			pod := made.Node(nodeName(i)).Requests("cpu", "1").Obj()
			pod.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1000+i), 0)} // the gang last, which is evicted first otherwise
			c.add(pod)
		}
	}
	c.snapshot = cache.NewSnapshot(c.pods, c.fullNodes(5, 0))
	nodes, err := c.snapshot.NodeInfos().List()
	require.NoError(t, err)
	var order []string
	for range 4 {
		found, _ := c.search(mustertesting.MakePod("urgent").UID("urgent").Requests("cpu", "2").Priority(5).Obj(), nodes, len(nodes))
		order = append(order, found)
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return node.Node().Name == found })
	}
	assert.Equal(t, nodeName(1), order[0], "surplus")
	assert.ElementsMatch(t, []string{nodeName(2), nodeName(3)}, order[1:3], "single pods")
	assert.Equal(t, nodeName(4), order[3], "a whole gang")
}
