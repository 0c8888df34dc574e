// Package quota is the arithmetic of the queue tree: what each queue may use, uses, and has assumed. It knows no lock
// and no client.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// Root is the name of the ancestor of all queues.
const Root = "root"

// Shortage says what keeps a request out. It names the first queue on the way to the root, and the resource there, that is short.
type Shortage struct {
	// Queue is the queue whose capability is in the way: the one that was asked, or an ancestor.
	Queue string
	// Resource is what is short.
	Resource corev1.ResourceName
	// Want is the amount that was asked for, in the unit of resources.List.
	Want int64
	// Free is the amount that is left; negative when the capability was lowered below what is used.
	Free int64
	// Limit is what the queue may have at most.
	Limit int64
	// Kept is the part of the limit that is kept free for the guarantees of other queues.
	Kept int64
	// Guaranteed is the sum of those guarantees.
	Guaranteed int64
	// OfNodes: the limit is what all nodes have. It may grow.
	OfNodes bool
	// Behind: there would be enough, but it is reserved for earlier claims.
	Behind bool
	// BehindStarted: it is reserved for further members of a gang that has started.
	BehindStarted bool
}

// Claim is what a gang waits for in a queue. The part that is free is reserved, there and in the ancestors.
type Claim struct {
	// Queue that is asked.
	Queue string
	// Want is the whole amount.
	Want resources.List
	// Started: the gang has started, and the amount is for further members.
	Started bool
	// Own: nothing is kept from queues beside or above.
	Own bool
	// Beside: nothing is reserved for the gang, but its whole amount must stay free beside all that is reserved. Such claims are not added up.
	Beside bool
}

// The order in which claims are added up. Claims in their own queue only come last, so that they take nothing of what others keep above it.
const (
	claimsOthers = iota
	claimsStarted
	claimsOwn
)

func (c *Claim) turn() int {
	switch {
	case c.Own:
		return claimsOwn
	case c.Started:
		return claimsStarted
	}
	return claimsOthers
}

// Reserved is what is reserved in each queue, by its name.
type Reserved map[string]resources.List

// User is the user whose quota is short; "" if it is that of a queue.
func (s *Shortage) User() string {
	_, user := splitAccount(s.Queue)
	return user
}

// IsForEver says that the request does not fit even if nothing is used. It is more than the limit less the guarantees of other queues.
func (s *Shortage) IsForEver() bool {
	return !s.OfNodes && s.Want > max(0, resources.Left(s.Limit, s.Guaranteed))
}

// isWorseThan orders shortages: a shortage that lasts for ever comes first, then the name of the resource counts.
func (s *Shortage) isWorseThan(other *Shortage) bool {
	if other == nil || s.IsForEver() != other.IsForEver() {
		return other == nil || s.IsForEver()
	}
	return s.Queue == other.Queue && s.Resource < other.Resource
}

// Error describes the shortage in a sentence that stays the same as long as the amounts do.
func (s *Shortage) Error() string {
	who, limit := nameOf(s.Queue)
	if s.IsForEver() {
		never := fmt.Sprintf("%s%s: %s %s asked, its %s is %s", text.NeverFits, who,
			resources.Format(s.Resource, s.Want), s.Resource, limit, resources.Format(s.Resource, s.Limit))
		if s.Guaranteed > 0 {
			never += fmt.Sprintf(", of which %s are guaranteed to other queues", resources.Format(s.Resource, s.Guaranteed))
		}
		return never
	}
	if s.OfNodes {
		who, limit = "the cluster", "total"
	}
	free := "no" // more is used than the limit, as after the limit was lowered
	if s.Free >= 0 {
		free = resources.Format(s.Resource, s.Free)
	}
	lacks := fmt.Sprintf("%s has %s %s free of its %s, %s needed", who, free, s.Resource, limit, resources.Format(s.Resource, s.Want))
	if s.Kept > 0 {
		lacks += fmt.Sprintf("; %s %s are kept for the guarantees of other queues", resources.Format(s.Resource, s.Kept), s.Resource)
	}
	switch {
	case s.BehindStarted:
		lacks += "; quota is reserved for further members of a gang that has started"
	case s.Behind:
		lacks += "; quota is reserved for a gang that has waited longer"
	}
	return lacks
}

// nameOf says whose an account is, and what its limit is called.
func nameOf(account string) (who, limit string) {
	queue, user := splitAccount(account)
	if user != "" {
		return fmt.Sprintf("user %q of queue %q", user, queue), "quota"
	}
	return fmt.Sprintf("queue %q", queue), "capability"
}

// Account is where a user of a queue is charged. It is a child of the queue that exists for as long as it is used. Without a user it is the
// queue itself. No queue has a slash in its name. A name with a slash names no queue, and must not be taken for a user.
func Account(queue, user string) string {
	if queue == "" || IsUser(queue) {
		return ""
	}
	if user == "" {
		return queue
	}
	return queue + accountSeparator + user
}

// accountSeparator is in no name of a queue and in no label.
const accountSeparator = "/"

// splitAccount is the inverse of Account.
func splitAccount(account string) (queue, user string) {
	queue, user, _ = strings.Cut(account, accountSeparator)
	return queue, user
}

// QueueOf is the queue of an account.
func QueueOf(account string) string {
	queue, _ := splitAccount(account)
	return queue
}

// IsUser tells whether an account is a user's.
func IsUser(account string) bool { return strings.Contains(account, accountSeparator) }

// Tree is the tree of queues. Amounts are kept at every node for the whole subtree, so that a question costs the depth
// of the tree. A queue whose parent is unknown hangs below the root until the parent appears. A queue that is unknown but
// used is kept, without a limit, until nothing is used any more.
type Tree struct {
	queues map[string]*queue
	// keepers are the queues with a guarantee and their ancestors; see keepersOf.
	keepers map[string][]string
	// nodes is what all nodes have; nil if that is not known.
	nodes resources.List
}

type queue struct {
	name  string
	terms Terms          // as declared
	known bool           // false: only used
	own   resources.Sums // used and assumed by this queue itself
	total resources.Sums // own and the totals of all children
}

// NewTree makes a tree that has only the root, without limits.
func NewTree() *Tree {
	t := &Tree{queues: map[string]*queue{}}
	t.ensure(Root)
	return t
}

// Set declares a queue, or changes its terms. The use of the queue moves with it.
func (t *Tree) Set(name string, terms Terms) {
	q := t.ensure(name)
	edgesMove := !q.known || q.terms.Parent != terms.Parent
	guaranteed := len(q.terms.Guarantee) > 0
	q.known, q.terms = true, terms
	if edgesMove {
		t.rebuild()
	} else if guaranteed != (len(terms.Guarantee) > 0) {
		t.keepers = t.keepersOf()
	}
}

// Remove takes the declaration of a queue back. Its use stays counted in it and in the root until it is released.
func (t *Tree) Remove(name string) {
	q, ok := t.queues[name]
	if !ok || name == Root {
		return
	}
	q.known, q.terms = false, Terms{}
	t.rebuild()
	t.forgetUnused(q)
}

// Names lists all queues that are declared or used, and the accounts of users, in the order of the alphabet.
func (t *Tree) Names() []string {
	return slices.Sorted(maps.Keys(t.queues))
}

// Add counts an amount in the queue and all its ancestors.
func (t *Tree) Add(name string, amount resources.List) {
	q := t.ensure(name)
	q.own.Add(amount)
	for _, node := range t.path(q) {
		node.total.Add(amount)
	}
}

// Sub takes an amount back that was added before.
func (t *Tree) Sub(name string, amount resources.List) {
	q := t.ensure(name)
	q.own.Sub(amount)
	for _, node := range t.path(q) {
		node.total.Sub(amount)
	}
	t.forgetUnused(q)
}

// Total is what the queue and its descendants use and have assumed.
func (t *Tree) Total(name string) resources.Sums { return t.find(name).total.Clone() }

// Differing recomputes the sums of all queues from the amounts that each queue itself uses and has assumed. It lists the queues whose sums
// differ, by name.
func (t *Tree) Differing(own map[string]resources.Sums) []string {
	totals := map[string]resources.Sums{}
	for name, amounts := range own {
		for _, node := range t.path(t.find(name)) {
			if totals[node.name] == nil {
				totals[node.name] = resources.Sums{}
			}
			totals[node.name].AddSums(amounts)
		}
	}
	differing := sets.New[string]()
	for name := range own {
		if _, known := t.queues[name]; !known && !own[name].IsZero() {
			differing.Insert(name)
		}
	}
	for name, q := range t.queues {
		if !q.own.Equal(own[name]) || !q.total.Equal(totals[name]) {
			differing.Insert(name)
		}
	}
	return sets.List(differing)
}

// Room says whether the queue and its ancestors have room for an amount beside the claims ahead; nil means yes. Resources of which nothing
// is wanted do not matter, even where more is used than the capability.
func (t *Tree) Room(name string, want resources.List, ahead ...Claim) *Shortage {
	if shortage := t.RoomBesideReserved(nil, name, want); shortage != nil || len(ahead) == 0 {
		return shortage
	}
	reserved := Reserved{}
	for _, turn := range []int{claimsOthers, claimsStarted, claimsOwn} {
		claims := 0
		for _, claim := range ahead {
			if claim.turn() == turn && !claim.Beside {
				t.AddReserved(reserved, claim)
				claims++
			}
		}
		if claims == 0 {
			continue
		}
		if shortage := t.RoomBesideReserved(reserved, name, want); shortage != nil {
			shortage.BehindStarted = turn == claimsStarted
			return shortage
		}
	}
	for _, claim := range ahead {
		if !claim.Beside {
			continue
		}
		with := maps.Clone(reserved)
		t.AddReserved(with, claim)
		if shortage := t.RoomBesideReserved(with, name, want); shortage != nil {
			return shortage
		}
	}
	return nil
}

// RoomBesideReserved is Room beside what is reserved already.
func (t *Tree) RoomBesideReserved(reserved Reserved, name string, want resources.List) *Shortage {
	path := t.path(t.find(name))
	kept := t.keptOn(path)
	var worst *Shortage
	for _, node := range path {
		if shortage := t.room(node, want, nil, kept[node]); shortage != nil && shortage.isWorseThan(worst) {
			worst = shortage
		}
	}
	if worst != nil || len(reserved) == 0 {
		return worst
	}
	for _, node := range path {
		if shortage := t.room(node, want, reserved[node.name], kept[node]); shortage != nil {
			shortage.Behind = true
			return shortage
		}
	}
	return nil
}

// AddReserved adds the part of a claim that is free in each queue beside what is reserved already. An amount that a queue lacks is not kept
// free in its ancestors either. When it comes free in the queue, it does so there, too. It says whether all queues that are asked
// have some of it free.
func (t *Tree) AddReserved(reserved Reserved, claim Claim) bool {
	amount, path := claim.Want, t.path(t.find(claim.Queue))
	kept := t.keptOn(path)
	for _, node := range path {
		if claim.Own && QueueOf(node.name) != QueueOf(claim.Queue) {
			break
		}
		amount = t.freeOf(node, amount, reserved[node.name], kept[node])
		sum := reserved[node.name].Clone()
		sum.Add(amount)
		reserved[node.name] = sum
	}
	return !amount.IsZero()
}

// Exceeds says whether an amount is more than the queue or an ancestor could have even if nothing was used.
func (t *Tree) Exceeds(name string, want resources.List) bool {
	path := t.path(t.find(name))
	kept := t.keptOn(path)
	for _, node := range path {
		for resource, limit := range t.limits(node) {
			if want[resource] > max(0, resources.Left(limit, kept[node].most.Amount(resource))) {
				return true
			}
		}
	}
	return false
}

// Path lists the names from the queue up to the root.
func (t *Tree) Path(name string) []string {
	var names []string
	for _, node := range t.path(t.find(name)) {
		names = append(names, node.name)
	}
	return names
}

// Below lists a queue and its descendants in the order of the alphabet. Users are none.
func (t *Tree) Below(name string) []string {
	top := t.find(name)
	return slices.DeleteFunc(t.Names(), func(other string) bool {
		return IsUser(other) || other != name && !slices.Contains(t.path(t.find(other)), top)
	})
}

// limits are what a queue may have at most, or a user of one.
func (t *Tree) limits(q *queue) resources.List {
	queue, user := splitAccount(q.name)
	if user == "" {
		return q.terms.Capability
	}
	return t.find(queue).terms.userLimit(user)
}

// room says whether there is room beside what is reserved and what is kept for guarantees. If several resources are short, the answer does
// not depend on map order.
func (t *Tree) room(q *queue, want, reserved resources.List, kept kept) *Shortage {
	var worst *Shortage
	for resource, limit := range t.limitsBeside(q, kept) {
		amount := want[resource]
		if amount <= 0 {
			continue
		}
		free := resources.Left(q.total.Left(resource, limit.amount), kept.now.Amount(resource))
		if amount <= free && amount <= free-reserved[resource] {
			continue
		}
		if short := (&Shortage{Queue: q.name, Resource: resource, Want: amount, Free: free, Limit: limit.amount, OfNodes: limit.ofNodes,
			Kept: kept.now.Amount(resource), Guaranteed: kept.most.Amount(resource)}); short.isWorseThan(worst) {
			worst = short
		}
	}
	return worst
}

// freeOf is the part of an amount that is free beside reservations and guarantees.
func (t *Tree) freeOf(q *queue, amount, reserved resources.List, kept kept) resources.List {
	free := amount.Clone()
	for resource, limit := range t.limitsBeside(q, kept) {
		if free[resource] > 0 {
			left := resources.Left(q.total.Left(resource, limit.amount), kept.now.Amount(resource))
			free[resource] = max(0, min(free[resource], max(0, left)-reserved[resource]))
		}
	}
	return free
}

// find returns a queue, an empty one if nothing is known of it.
func (t *Tree) find(name string) *queue {
	if q, ok := t.queues[name]; ok {
		return q
	}
	return &queue{name: name}
}

func (t *Tree) ensure(name string) *queue {
	q, ok := t.queues[name]
	if !ok {
		q = &queue{name: name, own: resources.Sums{}, total: resources.Sums{}}
		t.queues[name] = q
	}
	return q
}

// path is the queue and its ancestors up to the root. A cycle of parents (nothing but the admission of queues prevents
// one) ends where it closes, below the root.
func (t *Tree) path(q *queue) []*queue {
	root := t.queues[Root]
	path := []*queue{q}
	for q != root {
		parent := q.terms.Parent
		if queue, user := splitAccount(q.name); user != "" {
			parent = queue
		}
		next, ok := t.queues[parent]
		if !ok || !next.known && next != root || slices.Contains(path, next) {
			next = root
		}
		path = append(path, next)
		q = next
	}
	return path
}

// rebuild sums the totals anew after an edge has moved.
func (t *Tree) rebuild() {
	for _, q := range t.queues {
		q.total = resources.Sums{}
	}
	for _, q := range t.queues {
		for _, node := range t.path(q) {
			node.total.AddSums(q.own)
		}
	}
	t.keepers = t.keepersOf()
}

// forgetUnused drops a queue that is neither declared nor used. Nothing hangs from an undeclared queue.
func (t *Tree) forgetUnused(q *queue) {
	if !q.known && q.name != Root && q.own.IsZero() {
		delete(t.queues, q.name)
	}
}

// Clone returns a copy that changes apart from the tree.
func (t *Tree) Clone() *Tree {
	clone := &Tree{queues: make(map[string]*queue, len(t.queues)), keepers: t.keepers, nodes: t.nodes}
	for name, q := range t.queues {
		own := *q
		own.own, own.total = q.own.Clone(), q.total.Clone()
		clone.queues[name] = &own
	}
	return clone
}
