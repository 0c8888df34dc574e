package placement

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
)

// Counts is how many pods of each demand class each node holds, beside none of the others. Amounts and all filters decide.
type Counts struct {
	// Demands are the demand classes, and Members the members of each.
	Demands []Demand
	Members [][]*gang.Member
	// Nodes are the names of the nodes.
	Nodes []string
	// Slots has, for each demand and each node, the number of pods.
	Slots [][]int
}

// Count counts on each node that a problem allows. The pods of the given victims count as gone. With all candidates, the counts are the
// most that evictions can make.
func (p *Planner) Count(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo, without []*Victim) *Counts {
	r := newRoom(problem.on(ctx, p.profile, membersOf(p.profile, problem.Members), problem.within(nodes)), without, nil)
	for i := range without {
		r.vacate(i)
	}
	r.countSlots()
	counts := &Counts{Demands: r.demands, Members: r.classes, Slots: r.slots}
	for _, node := range r.nodes {
		counts.Nodes = append(counts.Nodes, node.Name)
	}
	return counts
}
