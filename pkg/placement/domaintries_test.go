package placement

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/topology"
)

// manyRacks are rows of ten racks, with two nodes each for four pods.
func manyRacks(rows int) (nodes []*corev1.Node) {
	for row := range rows {
		for rack := range 10 {
			for n := range 2 {
				zone := fmt.Sprintf("%c%d", 'a'+row, rack)
				nodes = append(nodes, nodeIn(zone, fmt.Sprintf("%s-%d", zone, n), 4))
			}
		}
	}
	return nodes
}

// TestAWiderTierIsTriedAfterRacksThatFail: each demand fits into a rack, both together do not. No number of such racks hides the row.
func TestAWiderTierIsTriedAfterRacksThatFail(t *testing.T) {
	planner, infos := plannerOn(t, manyRacks(3))
	pods := some(2, "worker", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("4")
	})
	problem := ranks(problemOf(append(pods, in("launcher", "launcher"))))
	for _, bound := range []topology.Bound{within(2), {}} {
		problem.Topology = &Topology{Tree: treeByZone(infos), Bound: bound}
		decision := planner.DecideWithin(t.Context(), problem, infos)
		require.Equal(t, Possible, decision.Feasibility, decision.Message)
		nodes := nodesInOrder(problem, decision.Places)
		assert.Equal(t, nodes[0][:2], nodes[1][:2], "the workers share a rack")
		assert.Equal(t, nodes[0][:1], nodes[2][:1], "one row")
	}
}

// TestAWiderTierIsTriedAfterRacksThatBreakRules: the same where only a trial shows that racks are of no use.
func TestAWiderTierIsTriedAfterRacksThatBreakRules(t *testing.T) {
	planner, infos := plannerOn(t, manyRacks(2))
	problem := ranks(problemOf(some(2, "w", awayFrom(zone, "w"))))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(2)}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility, decision.Message)
	nodes := nodesInOrder(problem, decision.Places)
	assert.Equal(t, nodes[0][:1], nodes[1][:1], "one row")
	assert.NotEqual(t, nodes[0][:2], nodes[1][:2])
}

// TestTheLargestGroupGoesFirst: small groups that went first would leave it no rack.
func TestTheLargestGroupGoesFirst(t *testing.T) {
	planner, infos := plannerOn(t, racks(), slices.Concat(some(4, "x", on("a1-0")), some(4, "y", on("a1-1")), some(4, "z", on("a2-0")), some(4, "u", on("a2-1")), some(1, "v", on("a2-2")))...)
	problem := ranks(problemOf(some(7, "w")))
	one := within(1)
	problem.Topology = &Topology{Tree: treeByZone(infos[:6]), Bound: within(2), GroupOf: func(m *gang.Member) (string, topology.Bound) {
		return strconv.Itoa(min(m.Index/2, 2)), one
	}}
	decision := planner.DecideWithin(t.Context(), problem, infos)
	require.Equal(t, Possible, decision.Feasibility, decision.Message)
	nodes := nodesInOrder(problem, decision.Places)
	assert.Equal(t, []string{"a1-2", "a1-2", "a1-2", "a1-2", "a2-2", "a2-2", "a2-2"}, nodes)
}

// TestRoomIsReservedWhereTheGangCanStart: a rack that lacks fewer places is of no use if a pod there never ends.
func TestRoomIsReservedWhereTheGangCanStart(t *testing.T) {
	now := time.Now()
	batch := func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }
	pods := []*corev1.Pod{in("service", "service", on("a1-2"))}
	for _, node := range []string{"a2-0", "a2-1", "a2-2", "b2-0", "b2-1", "b2-2"} {
		pods = append(pods, in("service", "first-"+node, on(node)), in("service", "second-"+node, on(node)))
	}
	for _, node := range []string{"b1-1", "b1-2"} {
		for n := range 4 {
			pods = append(pods, in("job", fmt.Sprintf("job-%s-%d", node, n), on(node), batch))
		}
	}
	planner, infos := plannerOn(t, racks(), pods...)
	problem := ranks(problemOf(some(12, "w")))
	problem.Topology = &Topology{Tree: treeByZone(infos), Bound: within(1)}
	problem.Now, problem.Reserve = now, true
	problem.EndOf = func(pod *corev1.Pod) (time.Time, bool) { return now.Add(10 * time.Minute), pod.Labels["role"] == "job" }
	for _, onlyWithStart := range []bool{true, false} {
		problem.OnlyWithStart = onlyWithStart
		decision := planner.DecideWithin(t.Context(), problem, infos)
		require.NotNil(t, decision.Reserve)
		assert.Equal(t, now.Add(10*time.Minute), decision.Reserve.Start)
		assert.Contains(t, decision.Message, "reserved for it in b/b1")
		for _, node := range decision.Reserve.Of {
			assert.Equal(t, "b1", node[:2])
		}
	}

	problem.EndOf = func(*corev1.Pod) (time.Time, bool) { return time.Time{}, false }
	first := planner.DecideWithin(t.Context(), problem, infos)
	require.NotNil(t, first.Reserve)
	assert.Contains(t, first.Message, "reserved for it in a/a1", "no start is known, so the rack that lacks fewest")
	problem.Reserved, problem.Renew = map[types.UID]string{}, true
	for uid, node := range first.Reserve.Of {
		problem.Reserved[uid] = node
	}
	again := planner.DecideWithin(t.Context(), problem, infos)
	assert.NotContains(t, again.Message, "reserved for it in a/a1", "it has been of no use")
}
