package placement

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// gangSpec is what a gang needs. It is written out here so that the tests judge gangs independently of package gang.
type gangSpec struct {
	min, succeeded int
	minTask        map[string]int
	floor          int32
}

// isWhole says whether some pods are the minimum of a gang. Tasks must have their own minimums, too, if the gang's minimum has room for
// them.
func (s gangSpec) isWhole(pods []*corev1.Pod) bool {
	tasks, total, gaps := map[string]int{}, 0, 0
	for _, pod := range pods {
		tasks[pod.Annotations["task"]]++
	}
	for task, least := range s.minTask {
		total += least
		gaps += max(0, least-tasks[task])
	}
	if total > s.min {
		gaps = 0
	}
	return len(pods)+s.succeeded >= s.min && gaps <= s.succeeded
}

// cluster has two full nodes.
type cluster struct {
	specs    map[string]gangSpec
	pods     []*corev1.Pod
	snapshot *cache.Snapshot
}

func newCluster() *cluster {
	return &cluster{specs: map[string]gangSpec{}}
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i) }

func (c *cluster) gangOf(pod *corev1.Pod) string { return pod.Annotations["gang"] }

// fill makes the nodes as large as their pods and a rest of free CPU.
func (c *cluster) fill(rest int64) {
	var nodes []*corev1.Node
	for i := range 2 {
		used := rest
		for _, pod := range c.on(nodeName(i)) {
			used += cpuOf(pod)
		}
		nodes = append(nodes, mustertesting.MakeNode(nodeName(i)).Allocatable("cpu", fmt.Sprintf("%dm", used), "pods", "100").Obj())
	}
	c.snapshot = cache.NewSnapshot(c.pods, nodes)
}

func (c *cluster) on(node string) (pods []*corev1.Pod) {
	for _, pod := range c.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// membersOf are the pods of a gang.
func (c *cluster) membersOf(gang string, but sets.Set[string]) (pods []*corev1.Pod) {
	for _, pod := range c.pods {
		if c.gangOf(pod) == gang && !but.Has(pod.Name) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// gang makes the view of a gang that a search for victims has. Surplus is chosen one by one.
func (c *cluster) gang(name string) *GangVictims {
	g := &GangVictims{Key: name, Floor: c.specs[name].floor, Holding: map[types.UID]*gang.Member{}, Pods: map[types.UID]fwk.PodInfo{}}
	for _, pod := range c.membersOf(name, nil) {
		g.Holding[pod.UID] = &gang.Member{UID: pod.UID, Pod: pod, Priority: priorityOf(pod), Requests: resources.PodRequests(pod), Index: len(g.Holding)}
	}
	nodes, _ := c.snapshot.NodeInfos().List()
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if c.gangOf(info.GetPod()) == name {
				g.Pods[info.GetPod().UID] = info
			}
		}
	}
	g.Spare = func(members []*gang.Member) (spare []*gang.Member) {
		gone := sets.New[string]()
		for _, m := range members {
			gone.Insert(m.Pod.Name)
			if !c.specs[name].isWhole(c.membersOf(name, gone)) {
				gone.Delete(m.Pod.Name)
				continue
			}
			spare = append(spare, m)
		}
		return spare
	}
	return g
}

// candidates are the victims that may be evicted from node0.
func (c *cluster) candidates(preemptor *corev1.Pod, order EvictionOrder) (candidates []*Victim) {
	info, _ := c.snapshot.NodeInfos().Get(nodeName(0))
	here := map[string][]*gang.Member{}
	gangs := map[string]*GangVictims{}
	for _, pod := range info.GetPods() {
		name := c.gangOf(pod.GetPod())
		if name == "" {
			if priorityOf(pod.GetPod()) < priorityOf(preemptor) {
				candidates = append(candidates, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
			}
			continue
		}
		if gangs[name] == nil {
			gangs[name] = c.gang(name)
		}
		here[name] = append(here[name], gangs[name].Holding[pod.GetPod().UID])
	}
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		for _, v := range gangs[name].Candidates(here[name], priorityOf(preemptor), order, gang.AsksToStay) {
			v.Rule = quota.ByPriority
			candidates = append(candidates, v)
		}
	}
	return candidates
}

// victims chooses victims on node0, and says whether there are any.
func (c *cluster) victims(t require.TestingT, preemptor *corev1.Pod, order EvictionOrder) ([]*Victim, bool) {
	node, err := c.snapshot.NodeInfos().Get(nodeName(0))
	require.NoError(t, err)
	planner := NewPlanner(&amountsProfile{snapshot: c.snapshot})
	ranked := RankForRoom(c.candidates(preemptor, order), nil, func(*Victim) quota.Ratio { return quota.Ratio{} })
	seat := planner.MakeRoom(context.Background(), problemOf([]*corev1.Pod{preemptor}), []fwk.NodeInfo{node}, ranked, allow{})
	if seat == nil {
		return nil, false
	}
	require.Equal(t, map[types.UID]string{preemptor.UID: nodeName(0)}, seat.Places)
	return seat.Victims, true
}

func namesOf(victims []*Victim) []string {
	all := []string{}
	for _, v := range victims {
		all = append(all, podNames(v.AllPods())...)
	}
	slices.Sort(all)
	return all
}

func pod(name, gang string, node int, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	made := mustertesting.MakePod(name).UID(name).Node(nodeName(node)).Requests("cpu", cpu).Priority(0).Annotation("gang", gang).Annotation("task", "").Obj()
	for _, change := range change {
		change(made)
	}
	return made
}

func TestVictimsOnANode(t *testing.T) {
	single := func(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, "", 0, cpu, change...)
	}
	task := func(task string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Annotations["task"] = task } }
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = new(n) } }
	tests := map[string]struct {
		gang  gangSpec
		pods  []*corev1.Pod
		cpu   string // of the preemptor, 2 if ""
		order EvictionOrder
		want  []string // nil: none can be found
	}{
		"the single pod, not the gang":                     {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), single("a", "2")}, want: []string{"a"}},
		"the gang of lower priority, not the single pod":   {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), single("a", "2", priority(5))}, want: []string{"g0"}},
		"surplus before the single pod":                    {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2"), single("a", "2")}, want: []string{"g0"}},
		"the whole gang, on all nodes":                     {gang: gangSpec{min: 2}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2")}, want: []string{"g0", "g1"}},
		"the surplus of a whole gang goes too":             {gang: gangSpec{min: 2}, pods: []*corev1.Pod{pod("g0", "g", 0, "1"), pod("g1", "g", 0, "1"), pod("g2", "g", 0, "1")}, cpu: "3", want: []string{"g0", "g1", "g2"}},
		"a gang below its minimum goes whole":              {gang: gangSpec{min: 3}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2")}, want: []string{"g0", "g1"}},
		"not a gang with a member as important":            {gang: gangSpec{min: 2}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2", priority(10))}},
		"surplus of a gang with such a member":             {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2", priority(10))}, want: []string{"g0"}},
		"not a gang whose class is as important":           {gang: gangSpec{min: 1, floor: 10}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2")}},
		"the class of the gang counts, not that of a pod":  {gang: gangSpec{min: 1, floor: 5}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 1, "2"), single("a", "2", priority(3))}, want: []string{"a"}},
		"a task keeps its minimum":                         {gang: gangSpec{min: 1, minTask: map[string]int{"ps": 1}}, pods: []*corev1.Pod{pod("g0", "g", 0, "2", task("ps")), pod("g1", "g", 0, "2", task("worker"))}, want: []string{"g1"}},
		"the least important member is lost first":         {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2", priority(1)), pod("g1", "g", 0, "2")}, want: []string{"g1"}},
		"the last member is lost first":                    {gang: gangSpec{min: 1}, pods: []*corev1.Pod{pod("g0", "g", 0, "2"), pod("g1", "g", 0, "2")}, want: []string{"g1"}},
		"small surplus is not enough, so the gang goes":    {gang: gangSpec{min: 2}, pods: []*corev1.Pod{pod("g0", "g", 0, "2", priority(5)), pod("g1", "g", 0, "1"), pod("g2", "g", 0, "1")}, want: []string{"g0", "g1", "g2"}},
		"the largest first":                                {gang: gangSpec{min: 2}, pods: []*corev1.Pod{pod("g0", "g", 0, "2", priority(5)), pod("g1", "g", 0, "1"), pod("g2", "g", 0, "1")}, order: LargestFirst, want: []string{"g0"}},
		"no victims are important enough to make the room": {pods: []*corev1.Pod{single("a", "1"), single("b", "2", priority(10))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.specs["g"], c.pods = test.gang, test.pods
			c.fill(0)
			if test.cpu == "" {
				test.cpu = "2"
			}
			if test.order == nil {
				test.order = gang.LeastImportantFirst
			}
			victims, found := c.victims(t, mustertesting.MakePod("urgent").Requests("cpu", test.cpu).Priority(10).Obj(), test.order)
			if test.want == nil {
				assert.False(t, found)
				return
			}
			assert.True(t, found)
			assert.Equal(t, test.want, namesOf(victims))
		})
	}
}

// TestUnseenMembersGoWithTheirGang: a member that is bound but not in the snapshot is evicted with its gang. One without a node is not.
func TestUnseenMembersGoWithTheirGang(t *testing.T) {
	c := newCluster()
	c.specs["g"] = gangSpec{min: 2, floor: math.MinInt32}
	c.pods = []*corev1.Pod{pod("g0", "g", 0, "2")}
	c.fill(0)
	g := c.gang("g")
	for _, unseen := range []*corev1.Pod{pod("g1", "g", 1, "2"), pod("g2", "g", 1, "2", func(p *corev1.Pod) { p.Spec.NodeName = "" })} {
		g.Holding[unseen.UID] = &gang.Member{UID: unseen.UID, Pod: unseen, Priority: -3}
	}
	g.Spare = func([]*gang.Member) []*gang.Member { return nil }
	candidates := g.Candidates([]*gang.Member{g.Holding["g0"]}, 1, gang.LeastImportantFirst, gang.AsksToStay)
	require.Len(t, candidates, 1)
	assert.Equal(t, gang.WholeGang, candidates[0].Kind)
	assert.Equal(t, []string{"g0", "g1"}, namesOf(candidates))
	assert.Equal(t, int32(0), candidates[0].Priority())
	assert.Empty(t, g.Candidates([]*gang.Member{g.Holding["g0"]}, 0, gang.LeastImportantFirst, gang.AsksToStay))
}

// TestVictimsAreFewAndLeaveGangsWholeOrGone: the victims make room, whatever runs on the nodes. None of them could stay, and all are less
// important than the preemptor. Each gang keeps its minimum or is gone. If all sets of pods are tried and one makes room, victims are
// found. Among pods of equal priority no gang is evicted if that is not needed.
func TestVictimsAreFewAndLeaveGangsWholeOrGone(t *testing.T) {
	found := 0
	mustertesting.HistoriesUntil(t, 200, func() bool { return found > 0 }, func(t *rapid.T) {
		c := drawCluster(t)
		cpu := rapid.Int64Range(1, 8).Draw(t, "preemptor's cpu")
		preemptor := mustertesting.MakePod("urgent").Requests("cpu", fmt.Sprint(cpu)).Priority(rapid.Int32Range(1, 3).Draw(t, "preemptor's priority")).Obj()
		need := cpuOf(preemptor) - 1000*rapid.Int64Range(0, cpu-1).Draw(t, "free cpu")
		c.fill(cpuOf(preemptor) - need)
		best, ok := c.victims(t, preemptor, gang.LeastImportantFirst)
		if !ok || c.wholeGangs(sets.New(namesOf(best)...)) > 0 {
			// As the preemption plugin does: sparing small members instead of important ones may leave more room.
			other, otherOK := c.victims(t, preemptor, LargestFirst)
			if otherOK && (!ok || c.wholeGangs(sets.New(namesOf(other)...)) < c.wholeGangs(sets.New(namesOf(best)...))) {
				best, ok = other, true
			}
		}
		solutions := c.solutions(priorityOf(preemptor), need)
		if !ok {
			require.Empty(t, solutions, "victims exist, but none were found")
			return
		}
		found++
		c.checkVictims(t, namesOf(best), priorityOf(preemptor), need)
		if c.allOfOnePriority() && slices.ContainsFunc(solutions, func(gone sets.Set[string]) bool { return c.wholeGangs(gone) == 0 }) {
			require.Zero(t, c.wholeGangs(sets.New(namesOf(best)...)), "a gang is evicted without need: %v", namesOf(best))
		}
	})
	assert.Positive(t, found)
}

// drawCluster makes two nodes with single pods and gangs: whole, with surplus, and below their minimum.
func drawCluster(t *rapid.T) *cluster {
	c := newCluster()
	alike := rapid.Bool().Draw(t, "all of one priority")
	for g := range rapid.IntRange(1, 3).Draw(t, "gangs") {
		spec := gangSpec{min: rapid.IntRange(0, 4).Draw(t, "minimum"), succeeded: rapid.IntRange(0, 1).Draw(t, "succeeded"), floor: math.MinInt32}
		if rapid.Bool().Draw(t, "tasks have minimums") {
			spec.minTask = map[string]int{"a": rapid.IntRange(0, 2).Draw(t, "minimum of a"), "b": rapid.IntRange(0, 2).Draw(t, "minimum of b")}
		}
		c.specs[fmt.Sprintf("gang%d", g)] = spec
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
		name, task := "", ""
		if g := rapid.IntRange(-1, len(c.specs)-1).Draw(t, "gang"); g >= 0 {
			name, task = fmt.Sprintf("gang%d", g), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "task")
		}
		c.pods = append(c.pods, pod(fmt.Sprintf("pod%d", i), name, rapid.IntRange(0, 1).Draw(t, "node"), fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "cpu")),
			func(p *corev1.Pod) {
				p.Annotations["task"] = task
				if !alike {
					p.Spec.Priority = new(rapid.Int32Range(0, 2).Draw(t, "priority"))
				}
			}))
	}
	return c
}

func (c *cluster) allOfOnePriority() bool {
	return !slices.ContainsFunc(c.pods, func(pod *corev1.Pod) bool { return priorityOf(pod) != 0 })
}

// leavesWholeGangs says whether each gang that has lost members keeps its minimum or is gone.
func (c *cluster) leavesWholeGangs(gone sets.Set[string]) bool {
	for name, spec := range c.specs {
		before, after := c.membersOf(name, nil), c.membersOf(name, gone)
		if len(after) < len(before) && len(after) > 0 && !spec.isWhole(after) {
			return false
		}
	}
	return true
}

// wholeGangs counts the gangs that are gone and needed members.
func (c *cluster) wholeGangs(gone sets.Set[string]) (n int) {
	for name, spec := range c.specs {
		if after := c.membersOf(name, gone); len(c.membersOf(name, nil)) > 0 && len(after) == 0 && !spec.isWhole(nil) {
			n++
		}
	}
	return n
}

// roomOf is the CPU that pods of node0 leave free when they are gone.
func (c *cluster) roomOf(gone sets.Set[string]) (room int64) {
	for _, pod := range c.on(nodeName(0)) {
		if gone.Has(pod.Name) {
			room += cpuOf(pod)
		}
	}
	return room
}

// solutions are all sets of less important pods whose eviction makes room on node0, tried one by one.
func (c *cluster) solutions(priority int32, need int64) (solutions []sets.Set[string]) {
	for choice := range 1 << len(c.pods) {
		gone, allowed := sets.New[string](), true
		for i, pod := range c.pods {
			if choice&(1<<i) != 0 {
				gone.Insert(pod.Name)
				allowed = allowed && priorityOf(pod) < priority
			}
		}
		if allowed && c.roomOf(gone) >= need && c.leavesWholeGangs(gone) {
			solutions = append(solutions, gone)
		}
	}
	return solutions
}

func (c *cluster) checkVictims(t *rapid.T, victims []string, priority int32, need int64) {
	gone := sets.New(victims...)
	require.Len(t, victims, gone.Len(), "each once")
	require.True(t, c.leavesWholeGangs(gone), "a part of a gang is left: %v", victims)
	require.GreaterOrEqual(t, c.roomOf(gone), need, "the preemptor fits")
	for _, victim := range c.pods {
		if !gone.Has(victim.Name) {
			continue
		}
		require.Less(t, priorityOf(victim), priority, "%s is as important", victim.Name)
		stays := sets.New(victim.Name)
		if name := c.gangOf(victim); name != "" && len(c.membersOf(name, gone)) == 0 && !c.specs[name].isWhole(nil) {
			stays.Insert(podNames(c.membersOf(name, nil))...) // it stays whole or not at all
		}
		require.Less(t, c.roomOf(gone.Difference(stays)), need, "%v could stay", stays.UnsortedList())
	}
}

func TestRankOfVictims(t *testing.T) {
	victim := func(name string, kind gang.UnitKind, gang string, priority int32, start int64) *Victim {
		made := pod(name, gang, 0, "1", func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": name}
			p.Status.StartTime = &metav1.Time{Time: metav1.Unix(start, 0).Time}
		})
		info, err := framework.NewPodInfo(made)
		require.NoError(t, err)
		v, err := preemption.NewVictim([]fwk.PodInfo{info}, priority, fwk.PodKeyType)
		require.NoError(t, err)
		return &Victim{Victim: v, Kind: kind, Gang: gang}
	}
	budget := func(app string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	ranked := RankVictims([]*Victim{
		victim("surplus", gang.SurplusMember, "g", 1, 1), victim("young", gang.SinglePod, "", 1, 9), victim("old", gang.SinglePod, "", 1, 1),
		victim("whole", gang.WholeGang, "g", 1, 1), victim("minor", gang.SinglePod, "", 0, 1), victim("kept", gang.SurplusMember, "h", 0, 1),
		victim("gang-of-kept", gang.WholeGang, "h", 0, 1), victim("major", gang.SinglePod, "", 2, 1), victim("allowed", gang.SinglePod, "", 0, 5),
		victim("surplus-beside-kept", gang.SurplusMember, "h", 0, 1),
	}, []*policyv1.PodDisruptionBudget{budget("kept", 0), budget("allowed", 1)})
	assert.Equal(t, []string{"gang-of-kept", "kept", "major", "whole", "old", "young", "surplus", "minor", "allowed", "surplus-beside-kept"}, inOrder(ranked))
	for _, v := range ranked {
		name := v.AllPods()[0].Name
		assert.Equal(t, name == "kept" || name == "gang-of-kept", v.Protected, name)
		assert.Equal(t, map[string]int{"kept": 1}[name], v.Violations, name)
	}
}

func inOrder(victims []*Victim) (names []string) {
	for _, v := range victims {
		names = append(names, podNames(v.AllPods())...)
	}
	return names
}
