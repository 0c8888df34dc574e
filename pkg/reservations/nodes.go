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
	// Queue of the gang, "" for none.
	Queue string
	// Priority: gangs and pods of a higher one may take the reserved room.
	Priority int32
	// Version of the amounts.
	Version int
	// Places has the node of each member.
	Places map[types.UID]string
	// Amounts is the reserved room on each node.
	Amounts map[string]resources.List

	awaitsOwn bool             // pods of its own queue must end before the gang fits
	avoid     sets.Set[string] // nodes on which the gang has waited without success
	since     time.Time        // when the gang began to wait for these nodes
	chosenAt  time.Time        // when places were chosen last
}

// Choice is a choice of places for a gang.
type Choice struct {
	// Places has the node of each member.
	Places map[types.UID]string
	// Amounts is the members' requests on each node.
	Amounts map[string]resources.List
	// Avoid are nodes on which the gang has waited without success.
	Avoid sets.Set[string]
	// AwaitsOwn: the gang fits there only when pods of its own queue have ended.
	AwaitsOwn bool
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

// Nodes returns the reservation that holds against all queues, nil if there is none.
func (b *Book[K]) Nodes() *Nodes[K] {
	if b.turns.holder == nil {
		return nil
	}
	return b.nodes[b.turns.holder.rank.Queue]
}

// NodesAgainst returns the reservations that hold against gangs and pods of a queue ("" for none). They are that of the queue, and that
// against all.
func (b *Book[K]) NodesAgainst(queue string) (against []*Nodes[K]) {
	all := b.Nodes()
	if all != nil {
		against = append(against, all)
	}
	if own := b.nodes[queue]; own != nil && own != all && queue != "" {
		against = append(against, own)
	}
	return against
}

// IsHolder says whether places are reserved for a gang.
func (b *Book[K]) IsHolder(key K) bool {
	w := b.gangs[key]
	return w != nil && b.holds(w)
}

func (b *Book[K]) holds(w *waiting[K]) bool {
	n := b.nodes[w.rank.Queue]
	return n != nil && n.Key == w.key
}

// ReserveNodes reserves places for a gang, in place of the last reservation of its queue.
func (b *Book[K]) ReserveNodes(key K, c Choice, now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	b.noteStarving(w, now)
	queue := w.rank.Queue
	old := b.nodes[queue]
	if old != nil && old.Key != key {
		b.dropNodes(b.gangs[old.Key])
		old = nil
	}
	next := &Nodes[K]{Key: key, Queue: queue, Priority: w.rank.Priority, Places: c.Places, Amounts: c.Amounts, awaitsOwn: c.AwaitsOwn, avoid: c.Avoid,
		since: now, chosenAt: now}
	if w.rank.Repair {
		next.Priority = repairPriority
	}
	if old != nil && now.Sub(old.since) < b.renewal() {
		next.since = old.since
	}
	b.nodes[queue] = next
	if old != nil && maps.EqualFunc(old.Amounts, c.Amounts, resources.List.Equal) {
		next.Version = old.Version
	} else {
		b.version++
		next.Version = b.version
		b.events.RoomFreed = b.events.RoomFreed || old != nil
		b.events.HoldFreed = true // other nodes need not be left to the gang any more
	}
	b.settleTurn(now)
}

// BackOff reserves no places for a gang until it is time to look again. The next gang in order has its turn.
func (b *Book[K]) BackOff(key K, now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	w.room.noPlaces = true
	w.room.retryAt = now.Add(b.retryAfter(w.room.retries))
	w.room.retries++
	b.leaveRoom(w)
	b.endQuotaTurn(w, now)
	b.decideFirst(w.rank.Queue, now)
	b.settleTurn(now)
}

// settled says that a gang's places need no new decision.
func (b *Book[K]) settled(key K) {
	b.events.Decide = slices.DeleteFunc(b.events.Decide, func(k K) bool { return k == key })
}

// leaveRoom takes a gang off the list of gangs that lack room.
func (b *Book[K]) leaveRoom(w *waiting[K]) {
	if leave(b.room, w.rank.Queue, w) {
		b.events.HoldFreed = true
	}
	b.dropNodes(w)
}

// dropNodes ends the reservation of a gang, if it has one.
func (b *Book[K]) dropNodes(w *waiting[K]) {
	if b.holds(w) {
		delete(b.nodes, w.rank.Queue)
		b.events.RoomFreed = true
	}
	if b.turns.holder == w {
		b.turns.end()
	}
}

// firstStarving returns the first gang of a queue that lacks room if it is starving, else nil.
func (b *Book[K]) firstStarving(queue string, now time.Time) *waiting[K] {
	line := b.room[queue]
	if line == nil {
		return nil
	}
	w := line.first()
	if !w.rank.Repair && w.reserved.IsZero() && !b.isStarving(&w.room, now) {
		return nil
	}
	return w
}

// decideFirst has the gang of a queue decided that should get a reservation of places.
func (b *Book[K]) decideFirst(queue string, now time.Time) {
	if w := b.firstStarving(queue, now); w != nil && !b.holds(w) {
		b.events.Decide = append(b.events.Decide, w.key)
	}
}

// Holds returns the needs on nodes of all waiting gangs of at least a priority that count. Surplus pods of a queue must not take it from
// them. Of equal needs it returns one, so that thousands of gangs that are alike cost no more than one. A starving gang has places reserved
// for it, or waits for its turn to have some. Surplus may take all other places. A gang under repair has places reserved from the beginning,
// but is evicted if it is not completed soon. Surplus leaves other places to it, too.
func (b *Book[K]) Holds(queue string, priority int32, now time.Time, counts func(key K) bool) []Need {
	var needs []Need
	kinds := sets.New[string]()
	for _, line := range b.room {
		for w := range line.members {
			if w.need == nil || w.rank.Priority < priority || b.isLeftPlaces(queue, w) || b.isStarvingFor(queue, w, now) {
				continue
			}
			if kind := w.need.Kind(); !kinds.Has(kind) && counts(w.key) {
				kinds.Insert(kind)
				needs = append(needs, w.need)
			}
		}
	}
	return needs
}

// isLeftPlaces says whether a queue leaves the reserved places to a gang. Then all other places are free.
func (b *Book[K]) isLeftPlaces(queue string, w *waiting[K]) bool {
	return !w.rank.Repair && b.holds(w) && (b.turns.holder == w || queue != "" && queue == w.rank.Queue)
}
