package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestMembersWithConstraintsArePlaced(t *testing.T) {
	zonesOf := func(room ...int) (nodes []*corev1.Node) {
		for i, n := range room {
			nodes = append(nodes, nodeIn(fmt.Sprint("z", i), fmt.Sprint("n", i), n))
		}
		return nodes
	}
	psAndWorkers := func(key string) []*corev1.Pod { return append(some(2, "worker", near(key, "ps")), in("ps", "ps-0")) }
	tests := map[string]struct {
		nodes   []*corev1.Node
		running []*corev1.Pod
		gang    []*corev1.Pod
		placed  int // fewer than the members if they do not fit
		in      map[string]int
		by      string // the plugin that rejects members
	}{
		"members that others need in their zone": {nodes: zonesOf(2, 3), gang: psAndWorkers(zone), placed: 3, in: map[string]int{"n1": 3}},
		"members that others need on their node": {nodes: zonesOf(2, 3), gang: psAndWorkers(corev1.LabelHostname), placed: 3, in: map[string]int{"n1": 3}},
		"no zone has room for all of them":       {nodes: zonesOf(2, 2), gang: psAndWorkers(zone), placed: 2, by: names.InterPodAffinity},
		"near a pod that runs already": {nodes: zonesOf(3, 3), running: []*corev1.Pod{in("ps", "other", on("n0"))},
			gang: some(2, "worker", near(zone, "ps")), placed: 2, in: map[string]int{"n0": 2}},
		"all in one zone that has the room": {nodes: zonesOf(5, 5, 8), gang: some(8, "worker", near(zone, "worker")), placed: 8, in: map[string]int{"n2": 8}},
		"all in one zone, and none has it":  {nodes: zonesOf(5, 5, 5), gang: some(8, "worker", near(zone, "worker")), placed: 5, by: names.InterPodAffinity},
		"the fuller zone last": {nodes: zonesOf(9, 1), running: []*corev1.Pod{in("worker", "w", on("n0"))},
			gang: some(2, "worker", spread(zone, "worker")), placed: 2, in: map[string]int{"n0": 1, "n1": 1}},
		"evenly over three zones": {nodes: zonesOf(9, 9, 9), gang: some(7, "worker", spread(zone, "worker")), placed: 7},
		"no zone may have two more than the emptiest": {nodes: zonesOf(9, 9, 1), gang: some(7, "worker", spread(zone, "worker")), placed: 5,
			by: names.PodTopologySpread},
		"one of each zone": {nodes: zonesOf(2, 2, 2), gang: some(3, "worker", awayFrom(zone, "worker")), placed: 3,
			in: map[string]int{"n0": 1, "n1": 1, "n2": 1}},
		"more than there are zones": {nodes: zonesOf(4, 4), gang: some(3, "worker", awayFrom(zone, "worker")), placed: 2, by: names.InterPodAffinity},
		"classes that keep each other off": {nodes: zonesOf(2, 2), placed: 4,
			gang: append(some(2, "a", awayFrom(corev1.LabelHostname, "b")), some(2, "b")...)},
		"some of each class on each node": {nodes: []*corev1.Node{nodeIn("z", "n0", 4), nodeIn("z", "n1", 3)}, placed: 6,
			gang: append(some(3, "a"), some(3, "b", near(corev1.LabelHostname, "a"))...)},
		"one class in the zone with the room, and the other in the other": {
			nodes: []*corev1.Node{nodeIn("z1", "n0", 1), nodeIn("z0", "n1", 1), nodeIn("z0", "n2", 4)}, placed: 3, in: map[string]int{"n0": 1},
			gang: append(some(2, "a", awayFrom(corev1.LabelHostname, "b")), some(1, "b", awayFrom(zone, "a"))...)},
		"each class on a node of its own": {nodes: zonesOf(4, 4, 1), placed: 5,
			gang: append(some(2, "a", near(corev1.LabelHostname, "a")), some(3, "b", near(corev1.LabelHostname, "b"))...)},
		"the zone that has what one of them needs": {nodes: append(zonesOf(9, 9, 9, 9, 9, 9, 9, 9, 9, 9), withDisk(nodeIn("z10", "n10", 5))),
			gang: append(some(4, "worker", near(zone, "worker")), in("ps", "ps-0", near(zone, "worker"), needsDisk)), placed: 5, in: map[string]int{"n10": 5}},
		"one that keeps all others off": {nodes: zonesOf(9), placed: 2, by: names.InterPodAffinity,
			gang: append(some(2, "a"), in("b", "b-0", awayFrom(corev1.LabelHostname, "a")))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, test.nodes, test.running...)
			decision := planner.Decide(t.Context(), problemOf(test.gang), infos)
			if test.placed < len(test.gang) {
				require.Equal(t, Impossible, decision.Feasibility)
				assert.Empty(t, decision.Places)
				assert.True(t, decision.Rejectors.Has(test.by), "its events retry the gang: %v", decision.Rejectors)
				assert.Contains(t, decision.Message, fmt.Sprintf("room for %d of the %d members that start together", test.placed, len(test.gang)))
				assert.Positive(t, decision.SearchTime)
				return
			}
			require.Equal(t, Possible, decision.Feasibility, decision.Message)
			expectLegal(t, t, test.nodes, test.running, test.gang, decision)
			for node, count := range test.in {
				assert.Equal(t, count, countOf(decision.Places, node), "on %s", node)
			}
		})
	}
}

func countOf(places map[types.UID]string, node string) (n int) {
	for _, place := range places {
		if place == node {
			n++
		}
	}
	return n
}

// expectLegal checks the places of a gang. Each member has one, and no node holds more than it has room for. In the order of the decision,
// each member may go to its place beside the members before it. Filters that are set up from scratch say so.
func expectLegal(t *testing.T, check require.TestingT, nodes []*corev1.Node, running, members []*corev1.Pod, decision *Decision) {
	byUID := map[types.UID]*corev1.Pod{}
	order := decision.Order
	for _, member := range members {
		byUID[member.UID] = member
		if decision.Order == nil {
			order = append(order, member.UID)
		}
	}
	require.Len(check, decision.Places, len(members))
	require.Len(check, order, len(members))
	for _, uid := range order {
		member := byUID[uid]
		require.NotNil(check, member, "each member once")
		delete(byUID, uid)
		require.Contains(check, openTo(t, nodes, running, member), decision.Places[uid], "the place of %s", uid)
		placed := member.DeepCopy()
		placed.Spec.NodeName = decision.Places[uid]
		running = append(running, placed)
	}
}

// openTo are the nodes that the upstream filters leave to a pod.
func openTo(t *testing.T, nodes []*corev1.Node, running []*corev1.Pod, pod *corev1.Pod) (open []string) {
	planner, infos := plannerOn(t, nodes, running...)
	cycle := framework.NewCycleState()
	_, status, _ := planner.profile.RunPreFilterPlugins(t.Context(), cycle, pod)
	require.True(t, status.IsSuccess())
	for _, info := range infos {
		if planner.profile.RunFilterPlugins(t.Context(), cycle, pod, info).IsSuccess() {
			open = append(open, info.Node().Name)
		}
	}
	return open
}

// TestPlacesAreLegal places small gangs with constraints of all kinds.
func TestPlacesAreLegal(t *testing.T) {
	mustertesting.Histories(t, 200, func(r *rapid.T) {
		var nodes []*corev1.Node
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			inZone, room := rapid.SampledFrom([]string{"z0", "z1", "z2"}).Draw(r, "zone"), rapid.IntRange(1, 4).Draw(r, "room")
			nodes = append(nodes, nodeIn(inZone, fmt.Sprint("n", i), room))
		}
		roles := []string{"a", "b"}
		draw := func() []func(*corev1.Pod) {
			var rules []func(*corev1.Pod)
			key, role := rapid.SampledFrom([]string{zone, corev1.LabelHostname}).Draw(r, "key"), rapid.SampledFrom(roles).Draw(r, "of")
			switch rapid.IntRange(0, 3).Draw(r, "rule") {
			case 0:
				rules = append(rules, near(key, role))
			case 1:
				rules = append(rules, awayFrom(key, role))
			case 2:
				rules = append(rules, spread(key, role))
			}
			return rules
		}
		var members, running []*corev1.Pod
		for _, role := range roles {
			members = append(members, some(rapid.IntRange(0, 3).Draw(r, role), role, draw()...)...)
		}
		if len(members) == 0 {
			return
		}
		if rapid.Bool().Draw(r, "running") {
			running = []*corev1.Pod{in(rapid.SampledFrom(roles).Draw(r, "running role"), "running", on("n0"))}
		}
		planner, infos := plannerOn(t, nodes, running...)
		if decision := planner.Decide(t.Context(), problemOf(members), infos); decision.Feasibility == Possible {
			expectLegal(t, r, nodes, running, members, decision)
		}
	})
}

func TestGangsWithoutConstraintsBetweenMembers(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("z", "n0", 4), nodeIn("z", "n1", 4)}
	tests := map[string][]*corev1.Pod{
		"no constraints":                      some(2, "worker"),
		"only about other pods":               some(2, "worker", near(zone, "never-comes")),
		"only its class and only on its node": some(2, "worker", awayFrom(corev1.LabelHostname, "worker")),
	}
	for name, pods := range tests {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, nodes)
			assert.Nil(t, viewOf(t, planner, problemOf(pods), infos).constraints)
		})
	}
}

// TestReservationsRespectConstraints: all members must be in one zone, and only one has the room when its pods have ended.
func TestReservationsRespectConstraints(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "a0", 5), nodeIn("b", "b0", 4), nodeIn("b", "b1", 4)}
	job := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	running := []*corev1.Pod{in("job", "j0", on("b0"), job), in("job", "j1", on("b1"), job)}
	planner, infos := plannerOn(t, nodes, running...)
	problem := problemOf(some(8, "worker", near(zone, "worker")))
	problem.Reserve = true
	decision := planner.Decide(t.Context(), problem, infos)
	require.NotNil(t, decision.Reserve)
	assert.Len(t, decision.Reserve.Of, 8)
	assert.Zero(t, countOf(decision.Reserve.Of, "a0"))
	assert.Equal(t, Impossible, decision.Feasibility)

	problem.Reserved = decision.Reserve.Of
	again := planner.Decide(t.Context(), problem, infos)
	assert.Equal(t, decision.Reserve.Of, again.Reserve.Of, "the same places again")

	planner, infos = plannerOn(t, nodes)
	there := planner.Decide(t.Context(), problem, infos)
	require.Equal(t, Possible, there.Feasibility)
	assert.Equal(t, problem.Reserved, there.Places, "the reserved places are free")

	planner, infos = plannerOn(t, nodes[:2], running[0])
	problem.Reserved = nil
	none := planner.Decide(t.Context(), problem, infos)
	assert.Nil(t, none.Reserve)
	assert.True(t, none.NoPlaces, "no zone is large enough")
}

// TestTheSearchForAReservationChangesNothing: the message is about the present cluster, where a running pod keeps the gang off the node.
// The search for places to reserve has removed that pod in its own copy only.
func TestTheSearchForAReservationChangesNothing(t *testing.T) {
	nodes := []*corev1.Node{nodeIn("a", "a0", 4), nodeIn("b", "b0", 1)}
	planner, infos := plannerOn(t, nodes, in("job", "j0", on("a0"), ends))
	problem := problemOf(some(2, "worker", func(p *corev1.Pod) {
		terms := append(rule(zone, "worker"), rule(corev1.LabelHostname, "job")...)
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}))
	problem.Reserve, problem.Held = true, map[string]resources.List{"a0": {corev1.ResourceCPU: 3000}}
	decision := planner.Decide(t.Context(), problem, infos)
	require.NotNil(t, decision.Reserve, decision.Message)
	assert.Equal(t, 1, countOf(decision.Reserve.Of, "a0"))
	assert.NotContains(t, decision.Message, "nearest: a0")
}

// large are gangs of a thousand, and the answers. The cluster has 500 nodes in three zones, with room for twice as many.
var large = map[string]struct {
	constraint func(*corev1.Pod)
	want       Feasibility
}{
	"no constraints":                 {ofTemplate("worker"), Possible},
	"spread over zones":              {spread(zone, "worker"), Possible},
	"spread over nodes":              {spread(corev1.LabelHostname, "worker"), Possible},
	"in one zone, none has the room": {near(zone, "worker"), Impossible},
}

const largeSize = 1000

func largeNodes() (nodes []*corev1.Node) {
	for i := range largeSize / 2 {
		nodes = append(nodes, nodeIn(fmt.Sprint("z", i%3), fmt.Sprint("n", i), 4))
	}
	return nodes
}

// TestLargeGangsWithConstraints: the bound of filter calls is high enough for them.
func TestLargeGangsWithConstraints(t *testing.T) {
	for name, c := range large {
		t.Run(name, func(t *testing.T) {
			planner, infos := plannerOn(t, largeNodes())
			decision := planner.Decide(t.Context(), problemOf(some(largeSize, "worker", c.constraint)), infos)
			assert.Equal(t, c.want, decision.Feasibility, decision.Message)
		})
	}
}

// BenchmarkDecide measures the decision on a gang of a thousand with and without inter-pod constraints. The scheduling loop waits for it.
func BenchmarkDecide(b *testing.B) {
	for name, c := range large {
		b.Run(name, func(b *testing.B) {
			planner, infos := plannerOn(b, largeNodes())
			problem := problemOf(some(largeSize, "worker", c.constraint))
			for b.Loop() {
				planner.Decide(b.Context(), problem, infos)
			}
		})
	}
}
