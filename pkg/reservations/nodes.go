package reservations

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/quota"
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
	// Rank of the gang.
	Rank Rank
	// Start is when what runs there will have ended, so that the gang starts. It is zero if that is not known.
	Start time.Time
	// Version of the amounts and the start.
	Version int
	// Places has the node of each member.
	Places map[types.UID]string
	// Amounts is the reserved room on each node.
	Amounts map[string]resources.List
	// Claim is the quota that the gang takes at its start. It is kept from what would still run then. Its queue is "" if none is kept.
	Claim quota.Claim

	awaitsOwn bool             // pods of its own queue must end before the gang fits
	avoid     sets.Set[string] // nodes on which the gang has waited without success
	since     time.Time        // when the gang began to wait for these nodes
	chosenAt  time.Time        // when places were chosen last
	moved     int              // Book.moved then
}

// pause is the least time until places are chosen again.
func (n *Nodes[K]) pause() time.Duration {
	if n.Start.IsZero() {
		return placesPause
	}
	return startPause
}

// HoldsAgainst says whether the reservation holds against a start. One with a start gives way to gangs that rank before, and to what ends by then.
func (n *Nodes[K]) HoldsAgainst(start *Start, end time.Time, known bool) bool {
	return n.Start.IsZero() || start.bypasses(n.Rank) && (!known || end.After(n.Start))
}

// isMissed says whether the start has proved wrong when the next is chosen. It has passed, or it moves to later though it holds against all queues. One
// that holds within its own queue says nothing about estimates: gangs of other queues may have moved it.
func (n *Nodes[K]) isMissed(next, now time.Time, holdsAll bool) bool {
	return hasStart(n) && (!now.Before(n.Start) || holdsAll && next.After(n.Start))
}

// KeptOn is the room that is kept on a node now. ending is the room of what ends there by a time. A reservation with a start does not keep it: it
// comes free for the gang.
func (n *Nodes[K]) KeptOn(node string, ending func(by time.Time) resources.List) resources.List {
	amounts := n.Amounts[node]
	if n.Start.IsZero() || len(amounts) == 0 {
		return amounts
	}
	kept, comes := resources.List{}, ending(n.Start)
	for name, amount := range amounts {
		if left := amount - max(0, comes[name]); left > 0 {
			kept[name] = left
		}
	}
	return kept
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
	// Start is when what runs there will have ended; zero if that is not known.
	Start time.Time
	// Length is how long the gang is expected to run; 0 if that is not known.
	Length time.Duration
	// Claim is the quota that the gang takes; its queue is "" for none.
	Claim quota.Claim
}

// On says whether room is reserved on a node.
func (n *Nodes[K]) On(node string) bool {
	_, ok := n.Amounts[node]
	return ok
}

// Kept are reservations that hold against a pod.
type Kept[K comparable] []*Nodes[K]

// On says whether room is reserved on a node.
func (k Kept[K]) On(node string) bool {
	return slices.ContainsFunc(k, func(n *Nodes[K]) bool { return n.On(node) })
}

// Bars says whether a node with so much free room has none for the requests, beside its reservations. See KeptOn for ending.
func (k Kept[K]) Bars(node string, free, requests resources.List, ending func(by time.Time) resources.List) bool {
	if !k.On(node) {
		return false
	}
	kept, used := resources.List{}, resources.List{}
	for _, n := range k {
		own := n.KeptOn(node, func(by time.Time) resources.List { // what comes free does so for one of them
			left := ending(by).Clone()
			left.Sub(used)
			return left
		})
		kept.Add(own)
		used.Add(n.Amounts[node])
		used.Sub(own)
	}
	for name, amount := range requests {
		if amount > 0 && amount > free[name]-kept[name] {
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

// NodesAgainst returns the reservations that hold against gangs and pods of a queue ("" for none). The first is
// that of the queue whose turn it is. Then come those of the first gang with a start and of the queue.
func (b *Book[K]) NodesAgainst(queue string) (against []*Nodes[K]) {
	if all := b.Nodes(); all != nil {
		against = append(against, all)
	}
	if w := b.turns.first; w != nil && w != b.turns.holder {
		against = append(against, b.nodes[w.rank.Queue])
	}
	if own := b.nodes[queue]; own != nil && queue != "" && !slices.Contains(against, own) {
		against = append(against, own)
	}
	return against
}

// ReservedFor returns the places that are reserved for a gang, nil if there are none.
func (b *Book[K]) ReservedFor(key K) *Nodes[K] {
	if w := b.gangs[key]; w != nil && b.holds(w) {
		return b.nodes[w.rank.Queue]
	}
	return nil
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
	next := &Nodes[K]{Key: key, Queue: queue, Priority: w.rank.Priority, Rank: w.rank, Places: c.Places, Amounts: c.Amounts, Start: c.Start,
		awaitsOwn: c.AwaitsOwn, avoid: c.Avoid, since: now, chosenAt: now, moved: b.moved}
	if w.rank.Repair {
		next.Priority = repairPriority
	}
	if old != nil && now.Sub(old.since) < b.bounds.renewal() && old.Start.IsZero() == c.Start.IsZero() {
		next.since = old.since
	}
	if !c.Start.IsZero() {
		next.Claim, w.outlook.retries = c.Claim, 0
		if w.lacks != nil { // it is on both lists
			listIn(b.room, queue).add(w)
		}
		if w.outlook.missed.IsZero() && old.isMissed(c.Start, now, b.turns.first == w) {
			w.outlook.missed, w.outlook.slack = old.Start, max(old.Start.Sub(b.WaitsSince(key)), c.Length)
		}
	}
	b.nodes[queue] = next
	b.replaced(old, next)
	b.settleTurn(now)
}

// replaced gives a reservation that replaces another its version, and tells of room that is not kept any more.
func (b *Book[K]) replaced(old, next *Nodes[K]) {
	moved := old == nil || !maps.EqualFunc(old.Amounts, next.Amounts, resources.List.Equal)
	if !moved && old.Start.Equal(next.Start) {
		next.Version = old.Version
		return
	}
	b.version++
	next.Version = b.version
	later := old != nil && !next.Start.IsZero() && (old.Start.IsZero() || next.Start.After(old.Start))
	b.events.RoomFreed = b.events.RoomFreed || old != nil && moved || later
	b.events.HoldFreed = b.events.HoldFreed || moved // other nodes need not be left to the gang any more
	b.events.QuotaFreed = b.events.QuotaFreed || old != nil && old.Claim.Queue != "" && (later || old.Claim.Queue != next.Claim.Queue || !old.Claim.Want.Equal(next.Claim.Want))
}

// NoStart notes that no start is known for a gang that gets a reservation only with one. It is looked for again after a while.
func (b *Book[K]) NoStart(key K, now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	w.outlook.retryAt = now.Add(b.bounds.retryAfter(w.outlook.retries))
	w.outlook.retries++
	if b.dropNodes(w); w.lacks != nil {
		b.leaveRoom(w)
	}
	b.settleTurn(now)
}

// RoomMoved notes that pods have ended, or nodes have changed. Reservations with a start may begin earlier.
func (b *Book[K]) RoomMoved() { b.moved++ }

// isOutdated says whether the places of a reservation are to be chosen again. Without a start, the gang has waited for them for too long. With one,
// something has changed, or it has passed.
func (b *Book[K]) isOutdated(n *Nodes[K], now time.Time) bool {
	if n.Start.IsZero() {
		return now.Sub(n.since) >= b.bounds.renewal()
	}
	return now.Sub(n.chosenAt) >= startPause && (n.moved != b.moved || !now.Before(n.Start) || b.gangs[n.Key].outlook.isWrong(b.bounds, now))
}

// BackOff reserves no places for a gang until it is time to look again. The next gang in order has its turn.
func (b *Book[K]) BackOff(key K, now time.Time) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	b.settled(key)
	w.room.retryAt = now.Add(b.bounds.retryAfter(w.room.retries))
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
		b.events.RoomFreed, b.events.QuotaFreed = true, b.events.QuotaFreed || b.nodes[w.rank.Queue].Claim.Queue != ""
		delete(b.nodes, w.rank.Queue)
	}
	if b.turns.holder == w {
		b.turns.end()
	}
	if b.turns.first == w {
		b.turns.first = nil
	}
}

// mayHoldAll says whether a gang that lacks room may have a reservation without a start. All that comes free in its places is kept then.
func (w *waiting[K]) mayHoldAll(bounds Bounds, now time.Time) bool {
	return w.rank.Repair || !w.reserved.IsZero() || bounds.isStarving(&w.room, now)
}

// toChoose returns the first gang of a queue that lacks room, if it is starving or may get a start. Places are to be chosen for it then. Else it
// returns nil.
func (b *Book[K]) toChoose(queue string, now time.Time) *waiting[K] {
	line := b.room[queue]
	if line == nil {
		return nil
	}
	w := line.first()
	if w.mayHoldAll(b.bounds, now) || b.bounds.Starts && !now.Before(w.outlook.retryAt) {
		return w
	}
	return nil
}

// BecomesFirst says whether a gang would be the first of its queue to lack room, and to lack quota. It could get a start then. No start is looked for
// with thousands of gangs behind one for which none is known.
func (b *Book[K]) BecomesFirst(key K, rank Rank, now time.Time) bool {
	w, line := b.gangs[key], b.room[rank.Queue]
	if !b.bounds.Starts || w != nil && now.Before(w.outlook.retryAt) {
		return false
	}
	for account, short := range b.quota {
		if quota.QueueOf(account) == rank.Queue && short.first() != w && short.first().rank.Compare(rank) < 0 {
			return false
		}
	}
	return line == nil || !line.members.Has(w) && rank.Compare(line.first().rank) < 0
}

// decideFirst has the gang of a queue decided that should get a reservation of places.
func (b *Book[K]) decideFirst(queue string, now time.Time) {
	if w := b.toChoose(queue, now); w != nil && !b.holds(w) {
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
	return !w.rank.Repair && b.holds(w) && (b.turns.holder == w || b.turns.first == w || queue != "" && queue == w.rank.Queue)
}
