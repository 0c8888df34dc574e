package quota

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Overuse says that an account uses more of a resource than its limit.
type Overuse struct {
	// Account is the queue, or the user of one.
	Account string
	// Resource is the first, by name, of which more is used.
	Resource corev1.ResourceName
	// Used and Limit are its amounts, in the unit of resources.List.
	Used, Limit int64
}

// Error describes the overuse.
func (o Overuse) Error() string {
	who, limit := nameOf(o.Account)
	return fmt.Sprintf("%s uses %s %s, and its %s is %s", who,
		resources.Format(o.Resource, o.Used), o.Resource, limit, resources.Format(o.Resource, o.Limit))
}

// Overused lists the accounts that use more than they may, descendants before ancestors, and then by name.
func (t *Tree) Overused() []Overuse {
	var all []Overuse
	for _, name := range t.Names() {
		if o, above := t.overuse(t.queues[name]); above {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Overuse) int { return cmp.Compare(len(t.Path(b.Account)), len(t.Path(a.Account))) })
	return all
}

func (t *Tree) overuse(q *queue) (o Overuse, above bool) {
	for name, limit := range t.limits(q) {
		if q.total.Left(name, max(0, limit)) < 0 && (!above || name < o.Resource) {
			o, above = Overuse{q.name, name, q.total.Amount(name), max(0, limit)}, true
		}
	}
	return o, above
}

// AboveCapability chooses units of a queue and its descendants to evict, until the queue uses no more than its capability. The account of a
// user is bounded by the user's quota instead. units are in the order in which they may be evicted. The answer is the indices of the chosen
// units, in that order. The tree does not change. Nothing is chosen from a queue that is not reclaimable. The same holds below one, up to
// the queue that uses too much.
//
// If some children of a queue use more than their shares, units are chosen from these only. A queue within its share loses nothing for another
// one. If no child uses more than its share, units are chosen from all of them. The same holds for users, which have no shares, and with nil
// shares.
//
// A unit larger than what is still above the capability is chosen only when no smaller one is left. Each chosen unit is needed: with it the
// queue would be above its capability. No queue from that of the unit up to this one falls below its guarantee. So the queue may stay above
// its capability.
func (t *Tree) AboveCapability(account string, shares Shares, units []Unit) []int {
	l := newLowering(t.Clone(), account, shares, units)
	for l.evictSmall() || l.evictLarge() {
		continue
	}
	l.giveBack()
	var chosen []int
	for i := range units {
		if l.chosen[i] {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// lowering is one call of AboveCapability.
type lowering struct {
	queue    *queue
	limits   resources.List
	shares   Shares
	children map[*queue][]*queue // of each queue; users are none
	units    []Unit
	paths    [][]*queue // from the account of each unit up to the queue; empty if it is not below the queue
	chosen   []bool
}

func newLowering(tree *Tree, account string, shares Shares, units []Unit) *lowering {
	l := &lowering{queue: tree.ensure(account), shares: shares, children: map[*queue][]*queue{}, units: units,
		paths: make([][]*queue, len(units)), chosen: make([]bool, len(units))}
	l.limits = tree.limits(l.queue)
	paths := map[string][]*queue{}
	for i, u := range units {
		if _, known := paths[u.Account]; !known && u.Account != "" {
			path := tree.path(tree.ensure(u.Account))
			paths[u.Account] = path[:slices.Index(path, l.queue)+1]
		}
		l.paths[i] = paths[u.Account]
	}
	for parent, names := range tree.children() {
		for _, name := range names {
			l.children[tree.find(parent)] = append(l.children[tree.find(parent)], tree.find(name))
		}
	}
	return l
}

// above is how much of a resource is used beyond the capability, 0 or less if none is.
func (l *lowering) above(name corev1.ResourceName) int64 {
	limit, isLimited := l.limits[name]
	if !isLimited {
		return 0
	}
	return resources.Left(0, l.queue.total.Left(name, max(0, limit)))
}

// evictSmall evicts, in order, the units that are not larger than what is above, and says whether there was one.
func (l *lowering) evictSmall() bool {
	evicted := false
	for i := range l.units {
		if l.helps(i) && !l.isLarge(i) {
			l.evict(i)
			evicted = true
		}
	}
	return evicted
}

// evictLarge evicts the first unit that helps, and says whether there is one.
func (l *lowering) evictLarge() bool {
	for i := range l.units {
		if l.helps(i) {
			l.evict(i)
			return true
		}
	}
	return false
}

// helps says whether a unit has a resource that is above, and may be evicted.
func (l *lowering) helps(i int) bool {
	if l.chosen[i] || len(l.paths[i]) == 0 {
		return false
	}
	isAbove := false
	for name, amount := range l.units[i].Requests {
		isAbove = isAbove || amount > 0 && l.above(name) > 0 && l.gives(l.paths[i], name)
	}
	return isAbove && !slices.ContainsFunc(l.paths[i], func(node *queue) bool {
		return node.terms.NotReclaimable || node.breaksGuarantee(l.units[i].Requests)
	})
}

// gives says whether each queue of a path gives a resource back. The last of the path is above its capability.
func (l *lowering) gives(path []*queue, name corev1.ResourceName) bool {
	for i, node := range path[:len(path)-1] {
		if IsUser(node.name) || l.exceedsShare(node, name) {
			continue
		}
		if slices.ContainsFunc(l.children[path[i+1]], func(child *queue) bool { return l.exceedsShare(child, name) }) {
			return false
		}
	}
	return true
}

// exceedsShare says whether a queue uses more of a resource than its share.
func (l *lowering) exceedsShare(node *queue, name corev1.ResourceName) bool {
	share, isShared := l.shares[node.name][name]
	return isShared && node.total.Left(name, share) < 0
}

// isLarge says whether a unit has more of a resource than is above.
func (l *lowering) isLarge(i int) bool {
	for name, amount := range l.units[i].Requests {
		if above := l.above(name); above > 0 && amount > above {
			return true
		}
	}
	return false
}

func (l *lowering) evict(i int) {
	l.chosen[i] = true
	for _, node := range l.paths[i] {
		node.total.Sub(l.units[i].Requests)
	}
}

// giveBack takes back the eviction of units that are not needed, the last first. Large ones may have made small ones needless.
func (l *lowering) giveBack() {
	for i := len(l.units) - 1; i >= 0; i-- {
		if !l.chosen[i] || l.isNeeded(i) {
			continue
		}
		l.chosen[i] = false
		for _, node := range l.paths[i] {
			node.total.Add(l.units[i].Requests)
		}
	}
}

// isNeeded says whether a resource would be above with an evicted unit.
func (l *lowering) isNeeded(i int) bool {
	for name, amount := range l.units[i].Requests {
		if _, isLimited := l.limits[name]; isLimited && amount > 0 && amount > resources.Left(0, l.above(name)) {
			return true
		}
	}
	return false
}
