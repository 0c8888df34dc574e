package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
)

// fourNodes have room for 4, 2, 4 and 4 pods. Some pods of the role "old" run there.
func fourNodes(t *testing.T, old ...*corev1.Pod) (*Planner, *Problem, []*Victim, func(problem *Problem) (*Decision, *Counts, *Seat)) {
	planner, infos := plannerOn(t, []*corev1.Node{nodeIn("a", "n0", 4), nodeIn("a", "n1", 2), withDisk(nodeIn("b", "n2", 4)), nodeIn("b", "n3", 4)}, old...)
	var victims []*Victim
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			victims = append(victims, &Victim{Victim: preemption.NewPodVictim(pod, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
		}
	}
	problem := problemOf(append(some(3, "worker"), some(1, "disk", needsDisk)...))
	return planner, problem, victims, func(problem *Problem) (*Decision, *Counts, *Seat) {
		ranked := RankForRoom(victims, nil, func(*Victim) quota.Ratio { return quota.Ratio{} })
		return planner.Decide(t.Context(), problem, infos), planner.Count(t.Context(), problem, infos, nil), planner.MakeRoom(t.Context(), problem, infos, ranked, allow{})
	}
}

// TestAGangIsPlacedOnGivenNodesOnly: neither places nor victims are anywhere else.
func TestAGangIsPlacedOnGivenNodesOnly(t *testing.T) {
	_, problem, _, solve := fourNodes(t, some(3, "old", on("n2"))...)
	decision, _, _ := solve(problem)
	require.Equal(t, Possible, decision.Feasibility)

	problem.Nodes = sets.New("n1", "n2")
	decision, _, seat := solve(problem)
	require.Equal(t, Impossible, decision.Feasibility)
	assert.Equal(t, "room for 3 of the 4 members that start together", decision.Message[:len("room for 3 of the 4 members that start together")])
	require.NotNil(t, seat)
	assert.Len(t, seat.Victims, 1)
	assert.Subset(t, sets.List(problem.Nodes), placesOf(seat))

	problem.Nodes = sets.New("n0", "n1", "n3")
	decision, _, seat = solve(problem)
	assert.Equal(t, Impossible, decision.Feasibility, "none of them has a disk")
	assert.Nil(t, seat)

	problem.Nodes = sets.New("n2", "n9")
	_, _, seat = solve(problem)
	require.NotNil(t, seat, "a name of no node does not matter")
	assert.Len(t, seat.Victims, 3)

	problem.Nodes = sets.New("n9")
	decision, _, seat = solve(problem)
	assert.Equal(t, Impossible, decision.Feasibility)
	assert.Nil(t, seat)
}

func placesOf(seat *Seat) (nodes []string) {
	for _, node := range seat.Places {
		nodes = append(nodes, node)
	}
	return nodes
}

// TestCountsOfEachClassOnEachNode: amounts and filters count, and victims if they are given.
func TestCountsOfEachClassOnEachNode(t *testing.T) {
	planner, problem, victims, solve := fourNodes(t, append(some(3, "old", on("n2")), in("old", "last", on("n0")))...)
	_, counts, _ := solve(problem)
	assert.Equal(t, []string{"n0", "n1", "n2", "n3"}, counts.Nodes)
	assert.Equal(t, [][]int{{3, 2, 1, 4}, {0, 0, 1, 0}}, counts.Slots)
	assert.Equal(t, []int{3, 1}, []int{counts.Demands[0].Count, counts.Demands[1].Count})
	assert.Equal(t, []int{3, 1}, []int{len(counts.Members[0]), len(counts.Members[1])})

	infos, err := planner.profile.SnapshotSharedLister().NodeInfos().List()
	require.NoError(t, err)
	problem.Nodes = sets.New("n2")
	assert.Equal(t, [][]int{{4}, {4}}, planner.Count(t.Context(), problem, infos, victims).Slots)
	assert.Equal(t, [][]int{{1}, {1}}, planner.Count(t.Context(), problem, infos, nil).Slots, "the victims are back")
}

// TestVictimsOfTwoDomainsAreCompared: fewer are cheaper.
func TestVictimsOfTwoDomainsAreCompared(t *testing.T) {
	_, _, _, solve := fourNodes(t, append(some(2, "old", on("n0")), in("old", "last", on("n3")))...)
	problem := problemOf(some(4, "worker"))
	problem.Nodes = sets.New("n0")
	_, _, two := solve(problem)
	problem.Nodes = sets.New("n3")
	_, _, one := solve(problem)
	assert.True(t, one.IsCheaperThan(two))
	assert.False(t, two.IsCheaperThan(one))
	assert.False(t, one.IsCheaperThan(one))
}
