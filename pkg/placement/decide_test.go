package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

// recorder is a profile that records the nodes that its filters are asked about.
type recorder struct {
	Profile
	nodes []string
}

func (r *recorder) RunFilterPluginsWithNominatedPods(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	r.nodes = append(r.nodes, node.Node().Name)
	return r.Profile.RunFilterPluginsWithNominatedPods(ctx, cycle, pod, node)
}

func TestFewNodesAreTakenInACircle(t *testing.T) {
	nodes := make([]fwk.NodeInfo, 5)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		info := framework.NewNodeInfo()
		info.SetNode(mustertesting.MakeNode(name).Obj())
		nodes[i] = info
	}
	planner := NewPlanner(nil)
	var taken []string
	for range 4 {
		names := ""
		for _, node := range planner.nextNodes(nodes, 2) {
			names += node.Node().Name
		}
		taken = append(taken, names)
	}
	assert.Equal(t, []string{"ab", "cd", "ea", "bc"}, taken)
	assert.Equal(t, "a", nodes[0].Node().Name, "the list of the snapshot is not changed")
}

// TestASmallGangIsTriedOnFewNodes has a cluster of 200 nodes. A gang of one is placed by a look at 8 of them. It needs more looks if it
// must have exact places or fits only on another node.
func TestASmallGangIsTriedOnFewNodes(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 200 {
		nodes = append(nodes, nodeIn("z", fmt.Sprintf("n%03d", i), 1))
	}
	withDisk(nodes[199])
	planner, infos := plannerOn(t, nodes)
	for range 2 {
		decision := planner.Decide(t.Context(), problemOf(some(1, "worker")), infos)
		require.Equal(t, Possible, decision.Feasibility)
	}
	assert.Equal(t, 2*firstNodes, planner.next, "no further nodes were tried")
	decision := planner.Decide(t.Context(), problemOf(some(1, "worker", needsDisk)), infos)
	assert.Equal(t, map[types.UID]string{"worker-0": "n199"}, decision.Places)
	decision = planner.Decide(t.Context(), problemOf(some(150, "worker")), infos)
	assert.Equal(t, Possible, decision.Feasibility)

	before := planner.next
	exact := problemOf(some(1, "worker"))
	exact.Exact = true
	assert.Equal(t, Possible, planner.Decide(t.Context(), exact, infos).Feasibility)
	assert.Equal(t, before, planner.next, "exact places are searched on all nodes")
}

// firstOf chooses the first members of a gang that needs so many, in their order. It is nil if there are too few.
func firstOf(needed int, calls *int) func([]*gang.Member) []*gang.Member {
	return func(waiting []*gang.Member) []*gang.Member {
		*calls++
		if len(waiting) < needed {
			return nil
		}
		chosen := slices.Clone(waiting)
		slices.SortFunc(chosen, func(a, b *gang.Member) int { return a.Index - b.Index })
		return chosen[:needed]
	}
}

// elastic is the problem of a gang that needs fewer members than it has.
func elastic(needed int, calls *int, change ...func(*corev1.Pod)) *Problem {
	problem := &Problem{Choose: firstOf(needed, calls)}
	for i, change := range change {
		m := memberFor(in("worker", fmt.Sprint("m", i), change))
		m.Index = i
		if i < needed {
			problem.Members = append(problem.Members, m)
		} else {
			problem.Spare = append(problem.Spare, m)
		}
	}
	return problem
}

func anyPod(*corev1.Pod)           {}
func needsLostZone(p *corev1.Pod)  { p.Spec.NodeSelector = map[string]string{zone: "lost"} }
func needsOtherZone(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: "other"} }
func needsNineCPUs(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
}

// A gang that needs fewer members than it has starts with any that fit.
func TestSpareMembersReplaceThoseThatDoNotFit(t *testing.T) {
	for name, test := range map[string]struct {
		needed  int
		members []func(*corev1.Pod)
		start   []string
		calls   int
	}{
		"the first, if they fit":                           {2, []func(*corev1.Pod){anyPod, anyPod, needsLostZone}, []string{"m0", "m1"}, 0},
		"one cannot be placed anywhere":                    {3, []func(*corev1.Pod){needsLostZone, anyPod, anyPod, anyPod}, []string{"m1", "m2", "m3"}, 1},
		"two classes cannot":                               {2, []func(*corev1.Pod){needsLostZone, needsNineCPUs, anyPod, anyPod}, []string{"m2", "m3"}, 1},
		"as many of a class as find room, and then others": {3, []func(*corev1.Pod){needsDisk, needsDisk, needsDisk, anyPod}, []string{"m0", "m1", "m3"}, 1},
		"there are too few others":                         {3, []func(*corev1.Pod){needsLostZone, needsLostZone, anyPod, anyPod}, nil, 1},
		"all are alike":                                    {3, []func(*corev1.Pod){needsLostZone, needsLostZone, needsLostZone, needsLostZone}, nil, 0},
		"the others do not fit either, one by one":         {1, []func(*corev1.Pod){needsLostZone, needsNineCPUs, needsOtherZone, anyPod}, []string{"m3"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 2), withDisk(nodeIn("a", "n1", 2))})
			calls := 0
			decision := planner.Decide(t.Context(), elastic(test.needed, &calls, test.members...), infos)
			assert.Equal(t, test.calls, calls)
			if test.start == nil {
				assert.Equal(t, Impossible, decision.Feasibility)
				return
			}
			require.Equal(t, Possible, decision.Feasibility)
			var start []string
			for _, m := range decision.Members {
				start = append(start, m.Pod.Name)
				assert.NotEmpty(t, decision.Places[m.UID])
			}
			assert.Equal(t, test.start, start)
			assert.Len(t, decision.Places, test.needed)
		})
	}
}

// TestEventsForAllMembersThatWereTriedRetryTheGang: members that were tried in place of others count as rejected. Room may help any of
// them.
func TestEventsForAllMembersThatWereTriedRetryTheGang(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 2)})
	calls := 0
	decision := planner.Decide(t.Context(), elastic(1, &calls, needsLostZone, needsDisk, needsNineCPUs), infos)
	require.Equal(t, Impossible, decision.Feasibility)
	assert.Contains(t, decision.Message, "no room for the one pod that the gang needs to start")
	assert.Equal(t, sets.New(names.NodeAffinity, names.NodeResourcesFit), decision.Rejectors)
	assert.Equal(t, []string{"m0", "m1", "m2"}, podNames(decision.Rejected))
	assert.Nil(t, decision.Shortfall)
	assert.Positive(t, decision.SearchTime)
	assert.NotContains(t, decision.Message, "empty cluster")
}

func podNames(pods []*corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// TestRoomIsReservedForTheFirstMembersOnly: places are reserved for the first members, also when other members start.
func TestRoomIsReservedForTheFirstMembersOnly(t *testing.T) {
	running := in("job", "j0", on("n1"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 1), withDisk(nodeIn("a", "n1", 1))}, running)
	calls := 0
	problem := elastic(1, &calls, needsDisk, anyPod)
	problem.Reserve = true
	decision := planner.Decide(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	assert.Equal(t, map[types.UID]string{"m1": "n0"}, decision.Places)
	require.NotNil(t, decision.Reserve)
	assert.Equal(t, map[types.UID]string{"m0": "n1"}, decision.Reserve.Of)

	alternative := planner.newAlternatives(problem).next(&outcome{
		view: viewOf(t, planner, problem, infos), problem: problem, Packing: Packing{Placed: []int{0}},
	})
	assert.False(t, alternative.Reserve || alternative.Renew || alternative.Reserved != nil)
}

func TestMessages(t *testing.T) {
	gpus := func(cpu int64, gpu int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), "nvidia.com/gpu": *resource.NewQuantity(gpu, resource.DecimalSI)}
		}
	}
	node := func(name string, gpu int, taint bool) *corev1.Node {
		made := mustertesting.MakeNode(name).Allocatable("cpu", "64", "pods", "110", "nvidia.com/gpu", fmt.Sprint(gpu)).Obj()
		if taint {
			made.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
		}
		return made
	}
	nodes := []*corev1.Node{node("node-5", 5, true), node("node-6", 5, false), node("node-7", 11, false)}
	planner, infos := plannerOn(t, nodes)
	problem := problemOf(some(8, "worker", gpus(1, 4)))
	for _, m := range problem.Members {
		m.Task = "worker"
	}
	decision := planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, `room for 3 of the 8 members that start together; 5 more of task "worker" need 1 cpu, 4 nvidia.com/gpu each; `+
		`nearest: node-7 lacks 1 nvidia.com/gpu (node(s) had untolerated taint(s)); it would not fit into an empty cluster either`,
		decision.Message)
	assert.Equal(t, sets.New(names.NodeResourcesFit, names.TaintToleration), decision.Rejectors)
	assert.True(t, decision.TooLarge)

	two := append(some(1, "small", gpus(1, 1)), some(3, "large", gpus(1, 8))...)
	decision = planner.Decide(t.Context(), problemOf(two), infos)
	assert.Equal(t, []string{"large-0", "small-0"}, podNames(decision.Rejected), "the pod of the class that misses most comes first")
	assert.Contains(t, decision.Message,
		"room for 2 of the 4 members that start together; 2 more need 1 cpu, 8 nvidia.com/gpu each; nearest: node-6 lacks 3 nvidia.com/gpu")

	held := problemOf(some(3, "worker", gpus(1, 5)))
	held.Held = map[string]resources.List{"node-7": {"nvidia.com/gpu": 2}}
	decision = planner.Decide(t.Context(), held, infos)
	assert.Contains(t, decision.Message, "room for 2 of the 3 members that start together; 1 more needs 1 cpu, 5 nvidia.com/gpu")
	assert.False(t, decision.ShortWithoutHeld)
	require.NotNil(t, decision.Shortfall)
	decision.Shortfall.Free("node-7", resources.List{"nvidia.com/gpu": 1})
	assert.True(t, decision.Shortfall.Covered())
	held.Members = problemOf(some(4, "worker", gpus(1, 5))).Members
	decision = planner.Decide(t.Context(), held, infos)
	assert.True(t, decision.ShortWithoutHeld, "it lacks room even if all is given back")
	decision.Shortfall.Free("node-6", resources.List{"nvidia.com/gpu": 5})
	assert.True(t, decision.Shortfall.Covered(), "what is held counts as free")
}

// TestMessagesDoNotCountOvercommitment: other gangs hold more than the nodes have, and one pod lacks no more than it requests.
func TestMessagesDoNotCountOvercommitment(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 2), nodeIn("a", "n1", 2)})
	problem := problemOf(some(1, "worker"))
	problem.Held = map[string]resources.List{"n0": {corev1.ResourceCPU: 5000}, "n1": {corev1.ResourceCPU: 3000}}
	decision := planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, Impossible, decision.Feasibility)
	assert.Contains(t, decision.Message, "nearest: n0 lacks 1 cpu")
}

// TestOutlooks: the only node has two CPUs, of which one is free. Each member of a gang of two or three asks for one.
func TestOutlooks(t *testing.T) {
	const none = "; no room is reserved for it: it would not fit either if everything of its priority and below had ended"
	tests := map[string]struct {
		size     int
		running  func(*corev1.Pod)
		change   func(*Problem)
		outlook  string // what the message ends with
		noPlaces bool
		tooLarge bool
	}{
		"nothing is known":        {2, ends, func(*Problem) {}, "; nearest: n0 lacks 1 cpu", false, false},
		"larger than the cluster": {3, ends, func(p *Problem) { p.Reserve = true }, "; it would not fit into an empty cluster either", false, true},
		"room is reserved now":    {2, ends, func(p *Problem) { p.Reserve = true }, "; room is being reserved for it", false, false},
		"it has a reservation": {2, ends, func(p *Problem) { p.Reserved = map[types.UID]string{"worker-0": "n0", "worker-1": "n0"} },
			"; room is being reserved for it", false, false},
		"no room can be reserved":              {2, urgent, func(p *Problem) { p.Reserve = true }, none, true, false},
		"the reservation cannot be renewed":    {2, urgent, func(p *Problem) { p.Reserve, p.Renew, p.Reserved = true, true, map[types.UID]string{"worker-0": "n0"} }, none, true, false},
		"none could be reserved before":        {2, urgent, func(p *Problem) { p.NoPlaces = true }, none, false, false},
		"now room can be reserved again":       {2, ends, func(p *Problem) { p.NoPlaces, p.Reserve = true, true }, "; room is being reserved for it", false, false},
		"another gang has a reservation":       {2, ends, func(p *Problem) { p.HeldByReservation = true }, "; room is reserved for a gang that has waited longer", false, false},
		"another gang has one, and it has too": {2, ends, func(p *Problem) { p.HeldByReservation, p.Reserve = true, true }, "; room is being reserved for it", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 2)}, in("job", "j0", on("n0"), test.running))
			problem := problemOf(some(test.size, "worker"))
			test.change(problem)
			decision := planner.Decide(t.Context(), problem, infos)
			require.Equal(t, Impossible, decision.Feasibility)
			assert.Regexp(t, "^room for 1 of the . members that start together", decision.Message)
			assert.True(t, strings.HasSuffix(decision.Message, test.outlook), decision.Message)
			assert.Equal(t, test.noPlaces, decision.NoPlaces)
			assert.Equal(t, test.tooLarge, decision.TooLarge)
		})
	}
}

// TestAnUncertainGangWithAReservationWaits: it is tried without places only if no room is reserved for it.
func TestAnUncertainGangWithAReservationWaits(t *testing.T) {
	cpus := func(n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(n)
		}
	}
	job := in("job", "j0", on("n2"), cpus("5"), ends)
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 8), nodeIn("a", "n1", 9), nodeIn("a", "n2", 5)}, job)
	problem := problemOf(append(some(1, "large", cpus("6")), some(2, "small", cpus("5"))...))
	decision := planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, Uncertain, decision.Feasibility)
	assert.Nil(t, decision.Places)
	assert.Empty(t, decision.Message)
	assert.Len(t, decision.Members, 3)

	problem.Reserve = true
	decision = planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, Impossible, decision.Feasibility)
	assert.NotNil(t, decision.Reserve)

	problem.Reserve, problem.Reserved = false, decision.Reserve.Of
	assert.Equal(t, Impossible, planner.Decide(t.Context(), problem, infos).Feasibility)

	problem.Reserve, problem.Reserved, problem.Priority = true, nil, -1 // the running pod is more important
	decision = planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, Uncertain, decision.Feasibility)
	assert.True(t, decision.NoPlaces)

	planner, infos = plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 5), nodeIn("a", "n1", 6)})
	problem = problemOf(append(some(1, "large", cpus("6")), some(1, "small", cpus("5"))...))
	problem.Reserved = map[types.UID]string{"large-0": "n1", "small-0": "n0"}
	assert.Equal(t, problem.Reserved, planner.Decide(t.Context(), problem, infos).Places)
}

func TestNodesThatRefuseThePodsCountForNothing(t *testing.T) {
	tainted := nodeIn("a", "n1", 8)
	tainted.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 2), tainted, nodeIn("lost", "n2", 1)})
	asked := &recorder{Profile: planner.profile}
	planner.profile = asked
	decision := planner.Decide(t.Context(), problemOf(some(3, "worker", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{zone: "a"}
	})), infos)
	require.Equal(t, Impossible, decision.Feasibility)
	assert.True(t, decision.TooLarge)
	require.NotNil(t, decision.Shortfall)
	decision.Shortfall.Free("n1", resources.List{corev1.ResourceCPU: 8000})
	decision.Shortfall.Free("n2", resources.List{corev1.ResourceCPU: 8000})
	assert.False(t, decision.Shortfall.Covered())
	decision.Shortfall.Free("n0", resources.List{corev1.ResourceCPU: 1000})
	assert.True(t, decision.Shortfall.Covered())
	assert.Contains(t, asked.nodes, "n1")
	assert.Equal(t, sets.New(names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit), decision.Rejectors)
}

// TestPluginsThatLeaveFewNodesAreRejectors: PreFilter of NodeAffinity leaves only the named node, so Filter rejects no pod.
func TestPluginsThatLeaveFewNodesAreRejectors(t *testing.T) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 1), nodeIn("a", "n1", 8)})
	named := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n0"}}}}}}}}
	}
	decision := planner.Decide(t.Context(), problemOf(some(2, "worker", named)), infos)
	require.Equal(t, Impossible, decision.Feasibility)
	assert.Contains(t, decision.Message, "room for 1 of the 2 members that start together")
	assert.Equal(t, sets.New(names.NodeAffinity, names.NodeResourcesFit), decision.Rejectors)
	require.NotNil(t, decision.Shortfall)
	decision.Shortfall.Free("n1", resources.List{corev1.ResourceCPU: 1000})
	assert.False(t, decision.Shortfall.Covered(), "the other node refuses the pods")
}

func TestDryRunMark(t *testing.T) {
	cycle := framework.NewCycleState()
	assert.False(t, IsDryRun(cycle))
	MarkDryRun(cycle)
	assert.True(t, IsDryRun(cycle))
	assert.True(t, IsDryRun(cycle.Clone()))
}

func TestResourcesThatNoNodeHasAreLeftToTheFilters(t *testing.T) {
	with := func(name, scalar string) fwk.NodeInfo {
		info := framework.NewNodeInfo(running("p", "1"))
		info.SetNode(mustertesting.MakeNode(name).Allocatable("cpu", "4", scalar, "10").Obj())
		return info
	}
	nodes := []fwk.NodeInfo{with("a", "pods"), with("b", "nvidia.com/gpu")}
	requests := resources.List{corev1.ResourceCPU: 1, "nvidia.com/gpu": 1, "example.com/from-a-device-class": 1}
	wanted := advertisedBy(nodes, []Demand{{Requests: requests}})
	assert.Equal(t, resources.List{corev1.ResourceCPU: 1, "nvidia.com/gpu": 1}, only(wanted, requests))
	assert.Equal(t, resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 0}, FreeOn(nodes[0], wanted))
	assert.Equal(t, resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 10}, FreeOn(nodes[1], wanted))
	assert.Empty(t, advertisedBy(nil, []Demand{{Requests: requests}}))
}

// TestWhatRefusesComesFirst: where more room on a node would not help, the message names the filter before the requests.
func TestWhatRefusesComesFirst(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "n0", 4), nodeIn("a", "n1", 4)}
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Ports: []corev1.ContainerPort{{ContainerPort: 81, HostPort: 81}, {ContainerPort: 82, HostPort: 82}}}}
	}
	four := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	}
	for name, c := range map[string]struct {
		nodes         []*corev1.Node
		running, gang []*corev1.Pod
		says          string
	}{
		"a port of its own": {nodes, nil, some(3, "m", port),
			"room for 2 of the 3 members that start together; 1 more finds no node (host port 80 allows one of these pods on a node); it needs 1 cpu"},
		"ports of a sidecar": {nodes, nil, some(4, "m", sidecar),
			"room for 2 of the 4 members that start together; 2 more find no node (host ports 81, 82 allow one of these pods on a node); they need 1 cpu each"},
		"a port, and the nodes are small": {nodes, nil, some(3, "m", port, four),
			"1 more finds no node (host port 80 allows one of these pods on a node); it needs 3 cpu"},
		"a port, and a node without room": {nodes, []*corev1.Pod{in("other", "o", on("n1"), four), in("other", "p", on("n1"))}, some(2, "m", port),
			"room for 1 of the 2 members that start together; 1 more needs 1 cpu; nearest: n1 lacks 1 cpu (host port 80 allows one of these pods on a node)"},
		"a port of another pod": {nodes, []*corev1.Pod{in("other", "o", on("n0"), port), in("other", "p", on("n1"), port)}, some(1, "m", port),
			"no room for the one pod that the gang needs to start; 1 more finds no node (node(s) didn't have free ports for the requested pod ports); it needs 1 cpu"},
		"anti-affinity": {nodes, nil, some(3, "m", awayFrom(corev1.LabelHostname, "m")),
			"1 more finds no node (anti-affinity allows one of these pods on a node); it needs 1 cpu"},
		"a selector": {nodes, nil, some(1, "m", needsDisk),
			"1 more finds no node (node(s) didn't match Pod's node affinity/selector); it needs 1 cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, c.nodes, c.running...)
			decision := planner.Decide(t.Context(), problemOf(c.gang), infos)
			assert.Equal(t, Impossible, decision.Feasibility)
			assert.Contains(t, decision.Message, c.says)
			assert.Equal(t, decision.TooLarge, text.RulesOut(decision.Message))
		})
	}
}
