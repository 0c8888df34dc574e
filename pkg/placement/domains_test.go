package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/topology"
)

// treeByZone has a domain of tier 1 for each zone, in a domain of tier 2 for each row. The row is the first letter of the zone.
func treeByZone(nodes []fwk.NodeInfo) *topology.Tree {
	var all []topology.Node
	for _, info := range nodes {
		all = append(all, topology.Node{Name: info.Node().Name, Labels: map[string]string{"rack": info.Node().Labels[zone], "row": info.Node().Labels[zone][:1]}})
	}
	return topology.Build(nil, []topology.Labels{{Name: "t", Levels: []topology.Level{{Key: "row", TierName: "row", Tier: 2}, {Key: "rack", TierName: "rack", Tier: 1}}}}, all)
}

func within(tier int) topology.Bound { return topology.Bound{Tier: &tier} }

// ranks gives the members of a problem a rank in their order.
func ranks(problem *Problem) *Problem {
	for i, m := range problem.Members {
		m.Index = i
	}
	return problem
}

// racks are two rows of two racks, with three nodes each for four pods.
func racks() (nodes []*corev1.Node) {
	for _, rack := range []string{"a1", "a2", "b1", "b2"} {
		for n := range 3 {
			nodes = append(nodes, nodeIn(rack, fmt.Sprintf("%s-%d", rack, n), 4))
		}
	}
	return nodes
}

func nodesInOrder(problem *Problem, places map[types.UID]string) (nodes []string) {
	for _, m := range problem.Members {
		nodes = append(nodes, places[m.UID])
	}
	return nodes
}

func TestAGangGoesToOneRack(t *testing.T) {
	planner, infos := plannerOn(t, racks(), in("x", "old", on("b1-1")))
	problem := ranks(problemOf(some(11, "w")))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	nodes := nodesInOrder(problem, decision.Places)
	assert.True(t, slices.IsSorted(nodes), "ranks in the order of paths: %v", nodes)
	for _, node := range nodes {
		assert.Equal(t, "b1", node[:2], "the rack with the least room left")
	}
	assert.Equal(t, "b1-2", nodes[10], "ten comes after two")
}

// TestRanksFollowTheOrderOfTheTasks of the Job, and not their names. Ten comes after two.
func TestRanksFollowTheOrderOfTheTasks(t *testing.T) {
	planner, infos := plannerOn(t, racks())
	problem := problemOf(some(12, "w"))
	for i, m := range problem.Members {
		m.Task, m.TaskOrder, m.Index = "worker", 0, i
		if i == 11 {
			m.Task, m.TaskOrder, m.Index = "launcher", 1, 0
		}
	}
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	nodes := nodesInOrder(problem, decision.Places)
	assert.True(t, slices.IsSorted(nodes), "%v", nodes)
	assert.Equal(t, []string{nodes[8], nodes[8]}, []string{nodes[10], nodes[11]}, "the launcher is last")
}

func TestAGangWaitsAndSaysWhichRackLacksWhat(t *testing.T) {
	planner, infos := plannerOn(t, racks(), in("x", "old", on("b1-1")))
	problem := ranks(problemOf(some(13, "w")))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: topology.Bound{TierName: "rack"}}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	assert.Equal(t, Impossible, decision.Feasibility)
	assert.True(t, decision.TooLarge)
	assert.Equal(t, `no domain within tier "rack" has room for the 13 members that start together; tier 1 (rack): 12 of 13 fit in a/a1 (short of cpu); it would not fit into an empty cluster either`, decision.Message)

	problem.Topology.Bound = within(2)
	decision = planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	assert.True(t, slices.IsSorted(nodesInOrder(problem, decision.Places)))
	for _, node := range decision.Places {
		assert.Equal(t, "b", node[:1], "row b has least room left")
	}
}

// TestTheFiltersDecideWhichRack: a rack whose nodes refuse the pods does not count, and the message says how many are out.
func TestTheFiltersDecideWhichRack(t *testing.T) {
	nodes := racks()
	for n := range nodes[:11] {
		nodes[n].Spec.Unschedulable = true
	}
	planner, infos := plannerOn(t, nodes)
	problem := problemOf(some(5, "w"))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	assert.Equal(t, `no domain within tier 1 has room for the 5 members that start together; tier 1 (rack): 4 of 5 fit in b/b2 (short of cpu; 2 of 3 nodes are out: node(s) were unschedulable); it would not fit into an empty cluster either`, decision.Message)
}

// noting notes about which nodes the filters are asked.
type noting struct {
	Profile
	asked map[string]bool
}

func (p noting) RunFilterPluginsWithNominatedPods(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	p.asked[node.Node().Name] = true
	return p.Profile.RunFilterPluginsWithNominatedPods(ctx, cycle, pod, node)
}

// TestTheFiltersAreAskedInFewRacks: only about the nodes of a rack that has room by amounts. The next one is asked about if the filters leave too little.
func TestTheFiltersAreAskedInFewRacks(t *testing.T) {
	for cordoned, want := range map[string][]string{"": {"b1"}, "b1-0": {"b1", "a1"}} {
		nodes := racks()
		for _, node := range nodes {
			node.Spec.Unschedulable = node.Name == cordoned
		}
		planner, infos := plannerOn(t, nodes, in("x", "old", on("b1-1")))
		profile := noting{planner.profile, map[string]bool{}}
		planner.profile = profile
		problem := problemOf(some(11, "w"))
		problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
		decision := planner.DecideWithin(t.Context(), problem, infos)
		require.Equal(t, Possible, decision.Feasibility)
		asked := map[string]bool{}
		for node := range profile.asked {
			asked[node[:2]] = true
		}
		assert.ElementsMatch(t, want, slices.Collect(maps.Keys(asked)), "cordoned: %q", cordoned)
	}
}

func TestAReplacedMemberReturnsToItsRack(t *testing.T) {
	planner, infos := plannerOn(t, racks(), slices.Concat(some(4, "x", on("a1-0")), some(4, "y", on("a2-1")))...)
	problem := problemOf(some(1, "w"))
	problem.Members[0].Index = 5
	for rack, bound := range map[string]string{"a1": "a1-0", "a2": "a2-1"} {
		other := memberFor(in("w", "held-"+rack))
		other.Index = 4
		far := memberFor(in("w", "far"))
		far.Index = 9
		problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2), Holding: map[*gang.Member]string{other: bound, far: "a2-2"}}
		decision := planner.DecideWithin(t.Context(), problem, infos)
		require.Equal(t, Possible, decision.Feasibility)
		assert.Equal(t, rack, decision.Places[problem.Members[0].UID][:2])
	}
}

func TestMembersBeyondTheBoundAreSaid(t *testing.T) {
	planner, infos := plannerOn(t, racks())
	problem := problemOf(some(1, "w"))
	problem.Topology = &Topology{
		Tree: treeByZone(infos), Bound: within(1),
		Holding: map[*gang.Member]string{memberFor(in("w", "p")): "a1-0", memberFor(in("w", "q")): "a2-0"},
	}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	assert.Equal(t, "members run in a, which is wider than tier 1 allows; restart the gang to place it anew", decision.Message)
}

func TestGroupsHaveTheirOwnRacks(t *testing.T) {
	planner, infos := plannerOn(t, racks(), some(4, "x", on("a1-0"))...)
	problem := ranks(problemOf(some(20, "w")))
	one := within(1)
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2), GroupOf: func(m *gang.Member) (string, topology.Bound) {
		return strconv.Itoa(m.Index / 10), one
	}}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	nodes := nodesInOrder(problem, decision.Places)
	assert.True(t, slices.IsSorted(nodes))
	assert.Equal(t, nodes[0][:1], nodes[19][:1], "one row")
	assert.Equal(t, nodes[0][:2], nodes[9][:2], "one rack")
	assert.Equal(t, nodes[10][:2], nodes[19][:2], "one rack")
}

// TestGroupsThatClaimDevices: each group is in a rack that has devices for all of it. Each member has its device on its node. In the end nothing is
// reserved.
func TestGroupsThatClaimDevices(t *testing.T) {
	one := within(1)
	for name, test := range map[string]struct {
		devices map[string]int
		late    bool
		plain   bool // one member of each group claims nothing
		fits    bool
	}{
		"a rack has too few":           {devices: map[string]int{"a1-0": 2, "a2-0": 2, "b1-0": 1, "b1-1": 2, "b2-2": 3}, fits: true},
		"seen late":                    {devices: map[string]int{"a1-0": 2, "a2-0": 2, "b1-0": 1, "b1-1": 2, "b2-2": 3}, late: true, fits: true},
		"some members claim nothing":   {devices: map[string]int{"a1-0": 1, "b1-0": 1, "b1-1": 1, "b2-2": 1, "b2-1": 1}, plain: true, fits: true},
		"two groups in one rack":       {devices: map[string]int{"b1-0": 2, "b1-1": 2, "b1-2": 2}, fits: true},
		"the row lacks one":            {devices: map[string]int{"a1-0": 3, "a2-0": 2, "b1-0": 3, "b2-0": 1, "b2-1": 1}},
		"enough in the row, not apart": {devices: map[string]int{"a1-0": 4, "a2-0": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, racks())
			devices := map[string][]string{}
			for node, count := range test.devices {
				devices[node] = slices.Repeat([]string{"a"}, count)
			}
			d := withDevices(t, planner, devices)
			d.late = test.late
			pods := some(6, "w", claims("a"))
			if test.plain {
				pods[0], pods[3] = in("plain", "plain-0"), in("plain", "plain-3")
			}
			problem := ranks(problemOf(pods))
			problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2), GroupOf: func(m *gang.Member) (string, topology.Bound) {
				return strconv.Itoa(m.Index / 3), one
			}}
			decision := planner.DecideWithin(t.Context(), problem, infos)
			assert.Empty(t, d.onNode, "all is undone")
			if !test.fits {
				assert.Equal(t, Impossible, decision.Feasibility)
				assert.True(t, decision.Rejectors.Has("Devices"), "the gang is tried again when devices come free")
				assert.NotContains(t, decision.Message, "placed by amounts")
				return
			}
			require.Equal(t, Possible, decision.Feasibility, decision.Message)
			nodes, taken := nodesInOrder(problem, decision.Places), map[string]int{}
			for i, m := range problem.Members {
				assert.Equal(t, nodes[i/3*3][:2], nodes[i][:2], "one rack for each group")
				if m.Pod.Labels["device"] != "" {
					taken[nodes[i]]++
				}
			}
			for node, count := range taken {
				assert.LessOrEqual(t, count, test.devices[node], "devices of %s", node)
			}
		})
	}
}

// TestGroupsWithAffinityAreToldWhy: groups within their own racks are placed by amounts and devices. If members need more than that, the gang says so.
func TestGroupsWithAffinityAreToldWhy(t *testing.T) {
	planner, infos := plannerOn(t, racks())
	problem := ranks(problemOf(some(4, "w", spread(corev1.LabelHostname, "w"))))
	one := within(1)
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2), GroupOf: func(m *gang.Member) (string, topology.Bound) {
		return strconv.Itoa(m.Index / 2), one
	}}
	problem.Reserve = true
	decision := planner.DecideWithin(t.Context(), problem, infos)
	assert.Equal(t, Impossible, decision.Feasibility)
	assert.Contains(t, decision.Message, "placed by amounts and devices only: remove their networkTopology, or the required rules")
	assert.Nil(t, decision.Reserve, "it would be kept from others for nothing")
}

// TestAffinityInsideARack: inter-pod constraints are searched inside one domain.
func TestAffinityInsideARack(t *testing.T) {
	planner, infos := plannerOn(t, racks())
	problem := ranks(problemOf(some(3, "w", spread(corev1.LabelHostname, "w"))))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility)
	nodes := nodesInOrder(problem, decision.Places)
	assert.Equal(t, nodes[0][:2], nodes[2][:2])
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(nodes))), 3)
}

// TestRoomIsReservedInOneRack: all reserved places are in the rack that lacks fewest, and the message names it.
func TestRoomIsReservedInOneRack(t *testing.T) {
	pods := slices.Concat(some(4, "k", on("a1-0")), some(4, "l", on("a1-1")), some(4, "m", on("a2-0")), some(2, "n", on("b1-1")), some(4, "o", on("b2-1")))
	for _, pod := range pods {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	planner, infos := plannerOn(t, racks(), pods...)
	problem := ranks(problemOf(some(12, "w")))
	problem.Topology, problem.Reserve = &Topology{Tree: treeByZone(infos), Bound: within(1)}, true
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.NotNil(t, decision.Reserve)
	for _, node := range decision.Reserve.Of {
		assert.Equal(t, "b1", node[:2])
	}
	assert.Contains(t, decision.Message, "; room is being reserved for it in b/b1")

	problem.Reserved = decision.Reserve.Of
	again := planner.DecideWithin(t.Context(), problem, infos)
	require.NotNil(t, again.Reserve)
	assert.Equal(t, decision.Reserve.Of, again.Reserve.Of)
}

// TestRoomIsReservedInARackForEachGroup: each group has a rack in which its places come free, and the places stay the same.
func TestRoomIsReservedInARackForEachGroup(t *testing.T) {
	pods := slices.Concat(some(4, "k", on("a1-0")), some(2, "m", on("a2-0")), some(4, "n", on("b1-1")), some(4, "o", on("b2-1")))
	for _, pod := range pods {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	planner, infos := plannerOn(t, racks(), pods...)
	one := within(1)
	of := func(groups, size int) *Problem {
		problem := ranks(problemOf(some(size*groups, "w")))
		problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2), GroupOf: func(m *gang.Member) (string, topology.Bound) {
			return strconv.Itoa(m.Index / size), one
		}}
		problem.Reserve = true
		return problem
	}
	problem := of(2, 10)
	decision := planner.DecideWithin(t.Context(), problem, infos)
	assert.Equal(t, Impossible, decision.Feasibility)
	require.NotNil(t, decision.Reserve)
	inRack := map[string]int{}
	for _, node := range decision.Reserve.Of {
		inRack[node[:2]]++
	}
	assert.Equal(t, map[string]int{"a1": 10, "a2": 10}, inRack, "the row with most room now, and no rack has two groups")
	assert.Contains(t, decision.Message, "; room is being reserved for it in a")

	problem.Reserved = decision.Reserve.Of
	again := planner.DecideWithin(t.Context(), problem, infos)
	require.NotNil(t, again.Reserve)
	assert.Equal(t, decision.Reserve.Of, again.Reserve.Of)

	more := planner.DecideWithin(t.Context(), of(3, 7), infos)
	assert.Nil(t, more.Reserve, "an empty row has room for 24 pods, and for two such groups")
	assert.True(t, more.NoPlaces)
}

// TestVictimsAreInOneRack: the rack with the cheapest victims, and none in another one.
func TestVictimsAreInOneRack(t *testing.T) {
	pods := slices.Concat(some(4, "k", on("a1-0")), some(4, "l", on("a2-0")), some(2, "m", on("b1-0")), some(3, "n", on("b2-0")))
	planner, infos := plannerOn(t, racks(), pods...)
	var candidates []*Victim
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			candidates = append(candidates, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
		}
	}
	problem := ranks(problemOf(some(12, "w")))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	seat := planner.MakeRoomWithin(t.Context(), problem, infos, candidates, allow{})
	require.NotNil(t, seat)
	assert.Len(t, seat.Victims, 2)
	nodes := nodesInOrder(problem, seat.Places)
	assert.True(t, slices.IsSorted(nodes))
	assert.Equal(t, "b1", nodes[0][:2])
	assert.Equal(t, "b1", nodes[11][:2])
}

// BenchmarkDomains decides a gang of 1,000 pods on 5,000 nodes in 250 racks of 10 rows, with filters.
func BenchmarkDomains(b *testing.B) {
	for _, test := range []struct {
		name  string
		racks int
		pods  int
		cpu   int
		tier  int
	}{
		{"yes", 250, 1000, 2, 3}, {"no", 250, 1000, 2, 1}, {"none", 250, 1000, 2, 0}, {"yes, ten times the domains", 2500, 1000, 2, 3},
	} {
		b.Run(test.name, func(b *testing.B) {
			var nodes []*corev1.Node
			for n := range 5000 {
				rack := n / (5000 / test.racks)
				nodes = append(nodes, nodeIn(fmt.Sprintf("%c%04d", 'a'+rack/(test.racks/10), rack), fmt.Sprintf("n%05d", n), test.cpu))
			}
			planner, infos := plannerOn(b, nodes)
			problem := ranks(problemOf(some(test.pods, "w")))
			if test.tier > 0 {
				problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(test.tier)}
			} else {
				problem.Exact = true // no short cut
			}
			for b.Loop() {
				planner.DecideWithin(b.Context(), problem, infos)
			}
		})
	}
}
