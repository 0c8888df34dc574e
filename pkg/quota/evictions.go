package quota

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Evictions answers for many requests whether a Reclaim of each would find enough units to make its quota. It works on a copy of the tree.
type Evictions struct {
	base   *Tree // does not change
	tree   *Tree // with what was added
	shares Shares
	units  []Unit
	freed  map[string]map[string]resources.Sums // by the request's part that the rules look at, and by queue
}

// Evictions is for the units that are used or assumed in the tree, in their order of eviction. shares are those of the tree.
func (t *Tree) Evictions(shares Shares, units []Unit) *Evictions {
	return &Evictions{base: t.Clone(), tree: t.Clone(), shares: shares, units: units, freed: map[string]map[string]resources.Sums{}}
}

// Add counts an amount that an account was given meanwhile. It is not evicted, and gives other queues no right to reclaim from its queue.
func (e *Evictions) Add(account string, amount resources.List) { e.tree.Add(account, amount) }

// CanMakeRoom says whether there would be room for an amount, beside reservations, without all units that Reclaim allows to evict.
func (e *Evictions) CanMakeRoom(reserved Reserved, account string, priority int32, want resources.List) bool {
	freed := e.freedFor(account, priority, want)
	path := e.tree.path(e.tree.find(account))
	kept := e.tree.keptOn(path)
	return !slices.ContainsFunc(path, func(node *queue) bool {
		left := *node
		left.total = node.total.Clone()
		left.total.SubSums(freed[node.name])
		return e.tree.room(&left, want, reserved[node.name], kept[node]) != nil
	})
}

// freedFor is what would come free in each queue from the account up to the root. Only the part of the request that fits into the shares on
// its path matters to the rules.
func (e *Evictions) freedFor(account string, priority int32, want resources.List) map[string]resources.Sums {
	wanted, path := wantedOf(want), withoutUser(e.tree.path(e.tree.find(account)))
	fits := e.shares.countFitting(path, wanted, want)
	key := fmt.Sprint(account, priority, wanted, fits)
	freed, known := e.freed[key]
	if !known {
		r := e.base.Reclaim(e.shares, account, priority, want)
		r.fits = fits
		freed = e.takeAll(r)
		e.freed[key] = freed
	}
	return freed
}

func (e *Evictions) takeAll(r *Reclaim) map[string]resources.Sums {
	for _, u := range e.units {
		r.Take(u)
	}
	freed := map[string]resources.Sums{}
	for _, node := range r.tree.path(r.tree.find(r.account)) {
		freed[node.name] = e.base.Total(node.name)
		freed[node.name].SubSums(node.total)
	}
	return freed
}

// wantedOf are the requested resources, by name.
func wantedOf(want resources.List) []corev1.ResourceName {
	var wanted []corev1.ResourceName
	for name, amount := range want {
		if amount > 0 {
			wanted = append(wanted, name)
		}
	}
	slices.Sort(wanted)
	return wanted
}
