// Package ledger keeps the charges of pods and what is assumed for gangs on the tree of queues. Every charge is by pod UID and is released
// exactly once, however often and in whatever order its events arrive.
package ledger

import (
	"maps"
	"slices"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Ledger is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	tree    *quota.Tree         // used + assumed
	used    *quota.Tree         // used alone
	charges map[types.UID]entry // pod -> what it was charged
	assumed map[string]entry    // by the keys of the holders

	declared  map[string]quota.Declaration // queue -> what it asks for
	settled   map[string]quota.Settled     // queue -> what counts of that
	unsettled bool                         // a declaration has changed since

	changes int64      // how often the tree has changed
	shared  sharedOnce // the last shares
}

// sharedOnce are shares with what they were computed from: many ask for them between two changes.
type sharedOnce struct {
	changes int64
	total   resources.List
	waiting map[string]resources.Sums
	shares  quota.Shares
	count   int // how often shares were computed
}

// entry is an amount that was written to a queue. It remembers the queue, so that it is taken back from where it is.
type entry struct {
	queue  string
	amount resources.List
}

// New makes an empty ledger.
func New() *Ledger {
	return &Ledger{
		tree:    quota.NewTree(),
		used:    quota.NewTree(),
		charges: map[types.UID]entry{},
		assumed: map[string]entry{},

		declared: map[string]quota.Declaration{},
		settled:  map[string]quota.Settled{},
	}
}

// SetQueue takes over what a queue says about its place and its share, and says whether that is new.
func (l *Ledger) SetQueue(queue *schedulingv1beta1.Queue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	declaration := declarationOf(queue)
	if last, known := l.declared[queue.Name]; known && areEqual(last, declaration) {
		return false
	}
	l.declared[queue.Name] = declaration
	l.unsettled = true
	return true
}

// Settle computes which terms of queues count, and what is wrong with terms that do not.
func Settle(queues []*schedulingv1beta1.Queue) map[string]quota.Settled {
	declared := make([]quota.Declaration, 0, len(queues))
	for _, queue := range queues {
		declared = append(declared, declarationOf(queue))
	}
	return quota.Settle(declared)
}

// lock locks the ledger and settles what queues have changed since: many change at once when a program starts.
func (l *Ledger) lock() {
	l.mu.Lock()
	if !l.unsettled {
		return
	}
	l.unsettled = false
	last := l.settled
	l.settled = quota.Settle(slices.Collect(maps.Values(l.declared)))
	for name, settled := range l.settled {
		if before, known := last[name]; !known || !apiequality.Semantic.DeepEqual(before.Terms, settled.Terms) {
			l.changes++
			l.tree.Set(name, settled.Terms)
			l.used.Set(name, settled.Terms)
		}
	}
}

func areEqual(a, b quota.Declaration) bool {
	return a.Name == b.Name && a.Created.Equal(b.Created) && apiequality.Semantic.DeepEqual(a.Asked, b.Asked) && apiequality.Semantic.DeepEqual(a.Valid, b.Valid)
}

func declarationOf(queue *schedulingv1beta1.Queue) quota.Declaration {
	declaration := quota.Declaration{Name: queue.Name, Asked: termsOf(queue), Created: queue.CreationTimestamp.Time}
	if own := queue.Status.Muster; own != nil && own.LastValid != nil {
		declaration.Valid = &quota.Terms{
			Parent:     own.LastValid.Parent,
			Guarantee:  resources.FromResourceList(own.LastValid.Guarantee),
			Deserved:   resources.FromResourceList(own.LastValid.Deserved),
			Capability: resources.FromResourceList(own.LastValid.Capability),
		}
	}
	return declaration
}

func termsOf(queue *schedulingv1beta1.Queue) quota.Terms {
	terms := quota.Terms{
		Parent:     queue.Spec.Parent,
		Weight:     int64(queue.Spec.Weight),
		Guarantee:  resources.FromResourceList(queue.Spec.Guarantee.Resource),
		Deserved:   resources.FromResourceList(queue.Spec.Deserved),
		Capability: resources.FromResourceList(queue.Spec.Capability),

		NotReclaimable: !ptr.Deref(queue.Spec.Reclaimable, true),
	}
	if queue.Spec.Muster == nil || queue.Spec.Muster.UserQuota == nil {
		return terms
	}
	users := queue.Spec.Muster.UserQuota
	terms.EachUser, terms.Users = resources.FromResourceList(users.Default), map[string]resources.List{}
	for _, user := range users.Users {
		terms.Users[user.Name] = resources.FromResourceList(user.Quota)
	}
	return terms
}

// ShareOut computes what each queue deserves of a total, from its pods' use, its assumed amounts and its waiting demand. It computes that once
// while nothing of it changes: the caller must change neither the shares nor what it passes.
func (l *Ledger) ShareOut(total resources.List, waiting map[string]resources.Sums) quota.Shares {
	l.lock()
	defer l.mu.Unlock()
	last := &l.shared
	if last.shares != nil && last.changes == l.changes && maps.Equal(last.total, total) && maps.EqualFunc(last.waiting, waiting, maps.Equal[resources.Sums, resources.Sums]) {
		return last.shares
	}
	l.shared = sharedOnce{l.changes, total, waiting, l.tree.ShareOut(total, waiting), last.count + 1}
	return l.shared.shares
}

// SharesComputed is how often shares were computed.
func (l *Ledger) SharesComputed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared.count
}

// Changes is how often a queue, a charge or an assumed amount has changed.
func (l *Ledger) Changes() int64 {
	l.lock()
	defer l.mu.Unlock()
	return l.changes
}

// Snapshot copies the tree of the queues, with what they use and what is assumed for them.
func (l *Ledger) Snapshot() *quota.Tree {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Clone()
}

// Charges are a copy of the tree, and of what each pod is charged in it.
type Charges struct {
	*quota.Tree
	of map[types.UID]entry
}

// Charges copies the tree of the queues and the charges of pods.
func (l *Ledger) Charges() Charges {
	l.lock()
	defer l.mu.Unlock()
	return Charges{l.tree.Clone(), maps.Clone(l.charges)}
}

// Pods lists the pods that are charged, in no particular order.
func (c Charges) Pods() []types.UID { return slices.Collect(maps.Keys(c.of)) }

// End takes a pod's charge back, if there is one.
func (c Charges) End(pod types.UID) {
	if charge, charged := c.of[pod]; charged {
		delete(c.of, pod)
		c.Sub(charge.queue, charge.amount)
	}
}

// Ratio is how much of its share a queue and its descendants use, with what is assumed for them.
func (l *Ledger) Ratio(queue string, shares quota.Shares) quota.Ratio {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Ratio(queue, shares)
}

// SetTotal says what all nodes have, and returns whether guarantees are kept free of it.
func (l *Ledger) SetTotal(total resources.List) (guarantees bool) {
	l.lock()
	defer l.mu.Unlock()
	l.tree.SetTotal(total)
	return l.tree.HasGuarantees()
}

// Nodes is what all nodes have, nil if that is not known.
func (l *Ledger) Nodes() resources.List {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Nodes()
}

// DeleteQueue forgets a queue. Its charges stay.
func (l *Ledger) DeleteQueue(name string) {
	l.lock()
	defer l.mu.Unlock()
	delete(l.declared, name)
	delete(l.settled, name)
	l.unsettled = true
	l.changes++
	l.tree.Remove(name)
	l.used.Remove(name)
}

// Charge books what a pod uses of a queue, or of a user's account there. Charging a pod again changes its queue and amount, and says that
// another charge was given back for it. It never books twice. The amount is kept, not copied: it must not change any more.
func (l *Ledger) Charge(pod types.UID, queue string, amount resources.List) (replaced bool) {
	l.lock()
	defer l.mu.Unlock()
	old, charged := l.charges[pod]
	if charged && old.queue == queue && old.amount.Equal(amount) {
		return false
	}
	if charged {
		l.release(pod, old)
	}
	charge := entry{queue: queue, amount: amount}
	l.charges[pod] = charge
	l.changes++
	l.tree.Add(queue, charge.amount)
	l.used.Add(queue, charge.amount)
	return charged
}

// Release takes a pod's charge back, if there is one, and says whether there was.
func (l *Ledger) Release(pod types.UID) bool {
	l.lock()
	defer l.mu.Unlock()
	charge, charged := l.charges[pod]
	if charged {
		l.release(pod, charge)
	}
	return charged
}

// Assume books an amount for the holder of a key, in place of what was assumed for it before. It says whether some of that has come free.
func (l *Ledger) Assume(key, queue string, amount resources.List) (freed bool) {
	l.lock()
	defer l.mu.Unlock()
	old := l.assumed[key]
	l.dropAssumed(key)
	for name, before := range old.amount {
		freed = freed || before > 0 && (old.queue != queue || before > amount[name])
	}
	if amount.IsZero() {
		return freed
	}
	assumed := entry{queue: queue, amount: amount.Clone()}
	l.assumed[key] = assumed
	l.changes++
	l.tree.Add(queue, assumed.amount)
	return freed
}

// DropAssumed takes back what was assumed for the holder of a key, and says whether there was something.
func (l *Ledger) DropAssumed(key string) (freed bool) {
	return l.Assume(key, "", nil)
}

// Room says whether an amount fits in the queue and its ancestors, beside all used and assumed amounts. Nil means yes.
func (l *Ledger) Room(queue string, want resources.List) *quota.Shortage {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Room(queue, want)
}

// Exceeds says whether an amount is more than the queue or an ancestor could have even if nothing was used.
func (l *Ledger) Exceeds(queue string, want resources.List) bool {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Exceeds(queue, want)
}

// RoomFor is Room for the holder of a key, beside what is reserved for claims that come first. Its own assumed amount does not count.
func (l *Ledger) RoomFor(key string, ahead []quota.Claim, queue string, want resources.List) *quota.Shortage {
	l.lock()
	defer l.mu.Unlock()
	own, ok := l.assumed[key]
	if !ok {
		return l.tree.Room(queue, want, ahead...)
	}
	l.tree.Sub(own.queue, own.amount)
	defer l.tree.Add(own.queue, own.amount)
	return l.tree.Room(queue, want, ahead...)
}

// MayTake says whether a claimant within its share may take what is kept for a holder. An amount that is assumed under the claimant's key does not
// count.
func (l *Ledger) MayTake(shares quota.Shares, holder quota.Claim, key string, claimant quota.Claim) bool {
	l.lock()
	defer l.mu.Unlock()
	if own, ok := l.assumed[key]; ok {
		l.tree.Sub(own.queue, own.amount)
		defer l.tree.Add(own.queue, own.amount)
	}
	return l.tree.MayTake(shares, holder, claimant)
}

// Used is the sum of the charges of the pods of the queue and its descendants. Amounts end at the bounds of int64.
func (l *Ledger) Used(queue string) resources.List {
	l.lock()
	defer l.mu.Unlock()
	return l.used.Total(queue).List()
}

// Users lists the users of a queue and their pods' charges, by the largest part of one of its resources.
func (l *Ledger) Users(queue string) []quota.UserUse {
	l.lock()
	defer l.mu.Unlock()
	return l.used.Users(queue)
}

// BorrowedByOthers is, for each queue, what the charges of other queues are beyond their shares, in sum.
func (l *Ledger) BorrowedByOthers(shares quota.Shares) map[string]resources.List {
	l.lock()
	defer l.mu.Unlock()
	return l.used.BorrowedByOthers(shares)
}

// Terms are the terms of a queue that count. They must not be changed.
func (l *Ledger) Terms(queue string) quota.Terms {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Terms(queue)
}

// Below lists a queue and its descendants by name: the queues whose use is part of its own.
func (l *Ledger) Below(queue string) []string {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Below(queue)
}

// Limits are the capability of a queue. For a resource that the queue does not name, its nearest ancestor's counts.
func (l *Ledger) Limits(queue string) resources.List {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Limits(queue)
}

// Charged is what a pod is charged, and to which queue; false when it is not charged.
func (l *Ledger) Charged(pod types.UID) (queue string, amount resources.List, charged bool) {
	l.lock()
	defer l.mu.Unlock()
	charge, charged := l.charges[pod]
	return charge.queue, charge.amount.Clone(), charged
}

// Pods lists all pods that are charged, in no particular order.
func (l *Ledger) Pods() []types.UID {
	l.lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.charges))
}

// Queues lists the names of all queues that exist, and of the root.
func (l *Ledger) Queues() []string {
	l.lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(l.tree.Names(), func(name string) bool { return name != quota.Root && !l.exists(name) })
}

// Exists says whether there is a queue of a name. Pods may be charged to one that is not.
func (l *Ledger) Exists(queue string) bool {
	l.lock()
	defer l.mu.Unlock()
	return l.exists(queue)
}

func (l *Ledger) exists(queue string) bool {
	_, declared := l.declared[queue]
	return declared
}

// Totals is what a queue and its descendants use, and that with what is assumed for them.
func (l *Ledger) Totals(queue string) (used, all resources.Sums) {
	l.lock()
	defer l.mu.Unlock()
	return l.used.Total(queue), l.tree.Total(queue)
}

// Differing compares the totals of all queues with fresh sums of all charges and assumed amounts. It lists the queues whose totals differ.
// Anything is a defect.
func (l *Ledger) Differing() []string {
	l.lock()
	defer l.mu.Unlock()
	used, all := map[string]resources.Sums{}, map[string]resources.Sums{}
	for _, charge := range l.charges {
		resources.AddTo(used, charge.queue, charge.amount)
		resources.AddTo(all, charge.queue, charge.amount)
	}
	for _, assumed := range l.assumed {
		resources.AddTo(all, assumed.queue, assumed.amount)
	}
	return sets.List(sets.New(l.used.Differing(used)...).Insert(l.tree.Differing(all)...))
}

// Path lists the names of the queue and its ancestors up to the root.
func (l *Ledger) Path(queue string) []string {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Path(queue)
}

func (l *Ledger) release(pod types.UID, charge entry) {
	delete(l.charges, pod)
	l.changes++
	l.tree.Sub(charge.queue, charge.amount)
	l.used.Sub(charge.queue, charge.amount)
}

func (l *Ledger) dropAssumed(key string) {
	if assumed, ok := l.assumed[key]; ok {
		delete(l.assumed, key)
		l.changes++
		l.tree.Sub(assumed.queue, assumed.amount)
	}
}

// Overused lists the accounts that use more than their capability. Pods that leave do not count.
func (l *Ledger) Overused(leaving []types.UID) []quota.Overuse {
	l.lock()
	defer l.mu.Unlock()
	return l.usedWithout(leaving).Overused()
}

// AboveCapability chooses which units to evict until an account uses no more than it may without the pods that leave. Queues within their
// shares of all nodes lose nothing for other ones. waiting is the demand that waits in each queue.
func (l *Ledger) AboveCapability(account string, waiting map[string]resources.Sums, units []quota.Unit, leaving []types.UID) []int {
	l.lock()
	defer l.mu.Unlock()
	return l.usedWithout(leaving).AboveCapability(account, l.tree.Shares(waiting), units)
}

// usedWithout is what all pods use. Pods that leave do not count.
func (l *Ledger) usedWithout(leaving []types.UID) *quota.Tree {
	tree := l.used.Clone()
	for _, pod := range leaving {
		if charge, ok := l.charges[pod]; ok {
			tree.Sub(charge.queue, charge.amount)
		}
	}
	return tree
}

// MayReclaim says whether a gang of an account that wants an amount might have something evicted by shares.
func (l *Ledger) MayReclaim(shares quota.Shares, account string, want resources.List) bool {
	l.lock()
	defer l.mu.Unlock()
	return l.tree.Reclaim(shares, account, 0, want).HasClaim()
}

// Reclaim answers for the holder of a key which units may be evicted for it. The holder's assumed amount does not count, nor do charges of
// pods that leave by themselves.
func (l *Ledger) Reclaim(key string, shares quota.Shares, account string, priority int32, want resources.List, leaving []types.UID) *quota.Reclaim {
	l.lock()
	defer l.mu.Unlock()
	tree := l.tree.Clone()
	if own, ok := l.assumed[key]; ok {
		tree.Sub(own.queue, own.amount)
	}
	for _, pod := range leaving {
		if charge, ok := l.charges[pod]; ok {
			tree.Sub(charge.queue, charge.amount)
		}
	}
	return tree.Reclaim(shares, account, priority, want)
}
