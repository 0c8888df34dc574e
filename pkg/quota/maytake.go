package quota

import (
	"slices"

	"github.com/muster-sched/muster/pkg/resources"
)

// MayTake says whether a claimant of another queue may take what is kept for a holder. The claimant must fit into the shares on its side, and the
// holder into none of those on its own. Sides are those of Reclaim. Only resources count that both want. Neither amount is in the tree.
func (t *Tree) MayTake(shares Shares, holder, claimant Claim) bool {
	if holder.Queue == "" || claimant.Queue == "" || QueueOf(holder.Queue) == QueueOf(claimant.Queue) {
		return false
	}
	holders, claimants := withoutUser(t.path(t.find(holder.Queue))), withoutUser(t.path(t.find(claimant.Queue)))
	side, wanted := sideOf(claimants, holders), wantedOf(claimant.Want)
	if len(side) == 0 || shares.countFitting(side, wanted, claimant.Want) < len(side) {
		return false
	}
	side, wanted = sideOf(holders, claimants), wantedOf(common(holder.Want, claimant.Want))
	return len(side) > 0 && !slices.ContainsFunc(side, func(node *queue) bool { return shares.fits(node, wanted, holder.Want) })
}

// common are the amounts of resources that another list has, too.
func common(list, other resources.List) resources.List {
	both := resources.List{}
	for name, amount := range list {
		if other[name] > 0 {
			both[name] = amount
		}
	}
	return both
}
