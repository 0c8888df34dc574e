package quota

import (
	"encoding/binary"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Unit is a set of pods that are evicted together: a pod, or several pods of a gang.
type Unit struct {
	// Account that is charged for the unit; "" for none.
	Account string
	// Priority of the unit.
	Priority int32
	// Requests of all its pods. No amount may be negative.
	Requests resources.List
	// AsksToStay: one of its pods says itself that it must not be evicted. That counts where priority decides, and keeps nothing that a queue
	// has borrowed.
	AsksToStay bool
}

// Rule says why a unit may be evicted.
type Rule int

// Rules, in the order in which units go.
const (
	// NotAllowed: it must not be evicted.
	NotAllowed Rule = iota
	// ByShare: its queue uses more than its share, and the waiting queue less.
	ByShare
	// ByPriority: it has a lower priority, and no other queue is concerned.
	ByPriority
	// FromOutside: it is in no queue, the gang is in one, and it has a lower priority. It goes only if nothing else helps.
	FromOutside
)

// Reclaim answers which units may be evicted together for a gang that waits. It works on a copy of the tree.
//
// In the same queue, and where the gang or the unit has no queue, priority decides. A unit that asks to stay does so there. The users of a
// queue are in the same queue. Between two queues only shares decide. Each of the two has a side. It is made of the nodes from the queue up
// to the children of the lowest common ancestor. A queue and its own ancestor never reclaim from each other. The rules between two queues are:
//
//  1. The gang fits into the share of each node on its side, in each resource that is shared out. Units that are evicted from its own
//     queue do not count as free here. So the answer does not depend on the order of eviction.
//  2. Each node on the side of a unit stays above its share without the other taken units. That must be so in a resource of both the unit
//     and the gang. So a unit that comes back does not fit into its share, and can never reclaim by rule 1.
//  3. No node on the side of a unit falls below its guarantee. A node that was below it before does not count.
//  4. No node on the side of a unit is declared not reclaimable.
//
// Volcano asks the ancestors of the victim only up to its argument ancestorReclaimLevel. Rule 2 asks them all, up to the node below the
// common ancestor, so there is no such setting.
//
// If units may be evicted together, then any part of them may too.
type Reclaim struct {
	tree     *Tree
	shares   Shares
	account  string
	priority int32
	want     resources.List

	wanted  []corev1.ResourceName // resources of which something is wanted
	path    []*queue              // from the waiting queue up to the root
	fits    int                   // number of nodes at the start of path into whose share the gang fits
	victims map[string]*victim    // by account
	takes   map[*queue]map[string]*takes
}

// victim is an account from which units may be taken.
type victim struct {
	path []*queue // from the account up to the root
	// side is the part of path on the side of the victim, without users. It is empty if nothing may be taken by share.
	side []*queue
}

// takes counts the taken units that ask for the same amounts of the wanted resources.
type takes struct {
	amounts []int64 // by index of the wanted resource
	count   int
}

// Reclaim answers for a gang or a single pod that waits in an account. It has a priority and wants an amount. shares are those of the tree.
// An empty account means that it waits in no queue.
func (t *Tree) Reclaim(shares Shares, account string, priority int32, want resources.List) *Reclaim {
	r := &Reclaim{tree: t.Clone(), shares: shares, account: account, priority: priority, want: want, wanted: wantedOf(want),
		victims: map[string]*victim{}, takes: map[*queue]map[string]*takes{}}
	if account != "" {
		r.path = withoutUser(r.tree.path(r.tree.ensure(account)))
		r.fits = shares.countFitting(r.path, r.wanted, want)
	}
	return r
}

// Rule says whether a unit may be evicted beside the taken units, and why.
func (r *Reclaim) Rule(u Unit) Rule {
	if r.isInOtherQueue(u) {
		if r.isDue(u) {
			return ByShare
		}
		return NotAllowed
	}
	switch {
	case u.Priority >= r.priority || u.AsksToStay:
		return NotAllowed
	case u.Account == "" && r.account != "":
		return FromOutside
	}
	return ByPriority
}

// HasClaim says whether the gang is within the shares on its side and some queue uses more than its share. Only resources that the gang wants
// count.
func (r *Reclaim) HasClaim() bool {
	amounts := r.amounts(Unit{Requests: r.want})
	return slices.ContainsFunc(r.tree.Names(), func(name string) bool {
		if name == Root || IsUser(name) || !r.isInOtherQueue(Unit{Account: name}) {
			return false
		}
		side := r.victim(name).side
		return len(side) > 0 && !slices.ContainsFunc(side, func(node *queue) bool { return !r.staysAbove(node, amounts) })
	})
}

// Take evicts a unit in the copy if it may be evicted beside the taken ones. It says whether it did.
func (r *Reclaim) Take(u Unit) bool {
	if r.Rule(u) == NotAllowed {
		return false
	}
	if u.Account == "" {
		return true
	}
	v := r.victim(u.Account)
	for _, node := range v.path {
		node.total.Sub(u.Requests)
	}
	for _, node := range v.side {
		r.count(node, u, 1)
	}
	return true
}

// GiveBack undoes Take. The units may come back in any order.
func (r *Reclaim) GiveBack(u Unit) {
	if u.Account == "" {
		return
	}
	v := r.victim(u.Account)
	for _, node := range v.path {
		node.total.Add(u.Requests)
	}
	for _, node := range v.side {
		r.count(node, u, -1)
	}
}

// Shortage says which capability keeps the gang out when the taken units are gone; nil means none.
func (r *Reclaim) Shortage() *Shortage {
	if r.account == "" {
		return nil
	}
	return r.tree.Room(r.account, r.want)
}

// Excess is how much of its share the queue of a unit uses without the taken units. Only the wanted resources count.
func (r *Reclaim) Excess(u Unit) Ratio {
	share := resources.List{}
	queue := QueueOf(u.Account)
	for _, name := range r.wanted {
		if amount, isShared := r.shares[queue][name]; isShared {
			share[name] = amount
		}
	}
	return ratioOf(r.tree.find(queue).total, share)
}

func (r *Reclaim) isInOtherQueue(u Unit) bool {
	return u.Account != "" && r.account != "" && QueueOf(u.Account) != QueueOf(r.account)
}

// countFitting counts the nodes at the start of a path that have room in their shares for what is wanted.
func (s Shares) countFitting(path []*queue, wanted []corev1.ResourceName, want resources.List) int {
	for i, node := range path {
		if !s.fits(node, wanted, want) {
			return i
		}
	}
	return len(path)
}

// fits says whether a node has room in its share for what is wanted. A node whose share is not known has none.
func (s Shares) fits(node *queue, wanted []corev1.ResourceName, want resources.List) bool {
	share, isKnown := s[node.name]
	for _, name := range wanted {
		if amount, isShared := share[name]; isShared && want[name] > node.total.Left(name, amount) {
			return false
		}
	}
	return isKnown
}

// isDue says whether a unit of another queue may be taken by share.
func (r *Reclaim) isDue(u Unit) bool {
	side := r.victim(u.Account).side
	amounts := r.amounts(u)
	for _, node := range side {
		if node.breaksGuarantee(u.Requests) || !r.staysAbove(node, amounts) {
			return false
		}
	}
	return len(side) > 0
}

// staysAbove says whether a node stays above its share with any single taken unit, or any of the amounts.
func (r *Reclaim) staysAbove(node *queue, amounts []int64) bool {
	share := r.shares[node.name]
	free := make([]int64, len(amounts)) // of the share when all is gone
	for i, name := range r.wanted {
		free[i] = math.MaxInt64 // no unit has more: no reason to evict
		if amount, isShared := share[name]; isShared {
			free[i] = resources.Left(node.total.Left(name, amount), -amounts[i])
		}
	}
	if !exceedsAny(amounts, free) {
		return false
	}
	for _, taken := range r.takes[node] {
		if !exceedsAny(taken.amounts, free) {
			return false
		}
	}
	return true
}

func exceedsAny(amounts, free []int64) bool {
	for i, amount := range amounts {
		if amount > 0 && amount > free[i] {
			return true
		}
	}
	return false
}

// victim looks an account up. The tree may not know the account that the unit is charged to.
func (r *Reclaim) victim(account string) *victim {
	if v, ok := r.victims[account]; ok {
		return v
	}
	v := &victim{path: r.tree.path(r.tree.ensure(account))}
	r.victims[account] = v
	queues := withoutUser(v.path)
	waiting := sideOf(r.path, queues)
	if len(waiting) == 0 || len(waiting) > r.fits {
		return v
	}
	side := sideOf(queues, r.path)
	if !slices.ContainsFunc(side, func(node *queue) bool { return node.terms.NotReclaimable }) {
		v.side = side
	}
	return v
}

// withoutUser is the part of a path that has shares. The users of an undeclared queue hang below the root: it has no part of their path.
func withoutUser(path []*queue) []*queue {
	if IsUser(path[0].name) {
		return path[1:]
	}
	return path
}

// sideOf is the part of a path below the other path.
func sideOf(path, other []*queue) []*queue {
	for i, node := range path {
		if slices.Contains(other, node) {
			return path[:i]
		}
	}
	return nil
}

// amounts are a unit's amounts of the wanted resources.
func (r *Reclaim) amounts(u Unit) []int64 {
	amounts := make([]int64, len(r.wanted))
	for i, name := range r.wanted {
		amounts[i] = u.Requests[name]
	}
	return amounts
}

// count adds a number of taken units at a node.
func (r *Reclaim) count(node *queue, u Unit, n int) {
	amounts := r.amounts(u)
	var key []byte
	for _, amount := range amounts {
		key = binary.BigEndian.AppendUint64(key, uint64(amount))
	}
	if r.takes[node] == nil {
		r.takes[node] = map[string]*takes{}
	}
	same := r.takes[node][string(key)]
	if same == nil {
		same = &takes{amounts: amounts}
		r.takes[node][string(key)] = same
	}
	if same.count += n; same.count == 0 {
		delete(r.takes[node], string(key))
	}
}

// breaksGuarantee says whether a queue is not below its guarantee of a resource, but would be without an amount.
func (q *queue) breaksGuarantee(amount resources.List) bool {
	for name, least := range q.terms.Guarantee {
		if lacks := q.total.Left(name, least); lacks <= 0 && lacks+amount[name] > 0 {
			return true
		}
	}
	return false
}
