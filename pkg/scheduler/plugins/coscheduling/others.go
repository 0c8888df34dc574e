package coscheduling

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// otherChoices is how many times other members of a gang are judged in place of those that do not fit.
const otherChoices = 4

// planOthers looks for members of other kinds that may start in place of those of a gang that find no room: of a gang that has more
// members than its minimum any will do. It returns nil if there is no plan for any other choice: nothing is tried on the chance that it
// might fit, as room may be set aside for the first choice, or will be. Who was judged, and what stood in the way, is added to the first.
func (c *Coscheduling) planOthers(ctx context.Context, first *cast, result plan.Result, nodes []fwk.NodeInfo) (*cast, plan.Result) {
	last, limits := first, map[string]int{}
	for range otherChoices {
		round := c.otherChoice(last, result, limits)
		if round == nil {
			break
		}
		last, result = c.plan(ctx, round, nodes)
		if result.Verdict == plan.Possible {
			return last, result
		}
		first.rejectors = first.rejectors.Union(last.rejectors)
		for _, pod := range last.examples() {
			if !slices.Contains(first.substitutes, pod) {
				first.substitutes = append(first.substitutes, pod)
			}
		}
		if result.Verdict != plan.Impossible {
			break // it is not known who falls short
		}
	}
	return nil, plan.Result{}
}

// otherChoice begins the judgement of other members: of the kinds that fell short no more than have found a place. The limits, by kind,
// are added to. It returns nil if there is nobody of another kind, or if these are too few.
func (c *Coscheduling) otherChoice(last *cast, result plan.Result, limits map[string]int) *state.Round {
	spare := c.store.Spare(last.round)
	if len(spare) == 0 {
		return nil
	}
	all := slices.Concat(last.round.Members, spare)
	shapes := c.shapesOf(all)
	for d, members := range last.groups {
		if seats := result.Seats[d]; seats < len(members) {
			limits[shapes.of(members[0])] = seats
		}
	}
	taken, from, other := map[string]int{}, all[:0], false
	for i, m := range all {
		shape := shapes.of(m)
		limit, limited := limits[shape]
		if limited && taken[shape] == limit {
			continue
		}
		taken[shape]++
		from = append(from, m)
		other = other || !limited && i >= len(last.round.Members)
	}
	if !other {
		return nil
	}
	return c.store.Instead(last.round, from)
}
