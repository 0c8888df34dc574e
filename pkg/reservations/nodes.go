package reservations

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
)

// repairPriority is that of a reservation for a gang under repair: only system-critical pods go first.
const repairPriority = 2_000_000_000 - 1

// Nodes are the places that are reserved for a gang. They do not change; a new value replaces them.
type Nodes[K comparable] struct {
	// Key is the gang.
	Key K
	// Priority: gangs and pods of a higher one may take the reserved room.
	Priority int32
	// Version of the amounts.
	Version int
	// Places has the node of each member.
	Places map[types.UID]string
	// Amounts is the reserved room on each node.
	Amounts map[string]resources.List

	avoid sets.Set[string] // nodes on which the gang has waited without success
	since time.Time        // when the gang began to wait for these nodes
}

// On says whether room is reserved on a node.
func (n *Nodes[K]) On(node string) bool {
	_, ok := n.Amounts[node]
	return ok
}

// Bars says whether a node with so much free room has none for the requests, beside its reservations.
func (n *Nodes[K]) Bars(node string, free, requests resources.List) bool {
	reserved, ok := n.Amounts[node]
	if !ok {
		return false
	}
	for name, amount := range requests {
		if amount > 0 && amount > free[name]-reserved[name] {
			return true
		}
	}
	return false
}

// Nodes returns the reservation of nodes, nil if there is none.
func (b *Book[K]) Nodes() *Nodes[K] { return b.nodes }

// IsHolder says whether places are reserved for a gang.
func (b *Book[K]) IsHolder(key K) bool { return b.nodes != nil && b.nodes.Key == key }

// ReserveNodes reserves places for a gang, in place of the last reservation. amounts is the members' requests on each node.
func (b *Book[K]) ReserveNodes(key K, places map[types.UID]string, amounts map[string]resources.List, avoid sets.Set[string], now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	old := b.nodes
	next := &Nodes[K]{Key: key, Priority: w.rank.Priority, Places: places, Amounts: amounts, avoid: avoid, since: now}
	if w.rank.Repair {
		next.Priority = repairPriority
	}
	b.chosenAt = now
	if old != nil && old.Key == key && now.Sub(old.since) < b.renewal() {
		next.since = old.since
	}
	b.nodes = next
	if old != nil && old.Key == key && maps.EqualFunc(old.Amounts, amounts, resources.List.Equal) {
		next.Version = old.Version
		return
	}
	b.version++
	next.Version = b.version
	b.events.RoomFreed = b.events.RoomFreed || old != nil
	b.events.HoldFreed = true // other nodes need not be left to the gang any more
}

// GiveUp reserves no places for a gang until it is time to look again. The next gang in order has its turn.
func (b *Book[K]) GiveUp(key K, now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	b.chosenAt = now
	w.room.givenUp = true
	w.room.retryAt = now.Add(b.retryAfter(w.room.retries))
	w.room.retries++
	b.leaveRoom(w)
	b.endQuotaTurn(w, now)
	b.decideFirst(now)
}

// settled says that a gang's places need no new decision.
func (b *Book[K]) settled(key K) {
	b.events.Decide = slices.DeleteFunc(b.events.Decide, func(k K) bool { return k == key })
}

// leaveRoom takes a gang off the list of gangs that lack room.
func (b *Book[K]) leaveRoom(w *waiting[K]) {
	if b.room.remove(w) {
		b.events.HoldFreed = true
	}
	if b.IsHolder(w.key) {
		b.nodes, b.events.RoomFreed = nil, true
	}
}

// firstStarving returns the first gang that lacks room if it is starving, else nil.
func (b *Book[K]) firstStarving(now time.Time) *waiting[K] {
	w := b.room.first()
	if w == nil || !w.rank.Repair && w.reserved.IsZero() && !b.isStarving(&w.room, now) {
		return nil
	}
	return w
}

// decideFirst has the gang decided that should get a reservation of places.
func (b *Book[K]) decideFirst(now time.Time) {
	if w := b.firstStarving(now); w != nil && !b.IsHolder(w.key) {
		b.events.Decide = append(b.events.Decide, w.key)
	}
}

// Holds returns the needs on nodes of all waiting gangs of at least a priority that count. Surplus pods must not take it from them. Of equal needs it
// returns one, so that thousands of gangs that are alike cost no more than one. A starving gang has places reserved for it, or waits for its
// turn to have some. Surplus may take all other places. A gang under repair has places reserved from the beginning, but is evicted if it is
// not completed soon. Surplus leaves other places to it, too.
func (b *Book[K]) Holds(priority int32, now time.Time, counts func(key K) bool) []Need {
	var needs []Need
	kinds := sets.New[string]()
	for w := range b.room.members {
		if w.need == nil || w.rank.Priority < priority || !w.rank.Repair && b.IsHolder(w.key) || b.isStarving(&w.room, now) {
			continue
		}
		if kind := w.need.Kind(); !kinds.Has(kind) && counts(w.key) {
			kinds.Insert(kind)
			needs = append(needs, w.need)
		}
	}
	return needs
}
