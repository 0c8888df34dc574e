// Package reservations keeps the list of gangs that wait for room or for quota, and their reservations.
//
// Smaller gangs and single pods may bypass a gang that does not fit, but not for ever. A waiting gang that has been bypassed too often, or
// has waited too long, is starving. Room on nodes, or quota, is reserved for the first starving gang of each queue. The reservation holds
// against gangs and pods of the same and of lower priority. A gang that a crash left below its minimum ranks first and counts as starving
// at once.
//
// A reservation always holds within the queue. It holds against other queues only if these have bypassed the gang, or it has waited too
// long. While the gang waits for what its own queue uses, it does not. Room is reserved against all for one queue at a time, in turns.
//
// A reservation that does not help ends: its turn ends (quota.Turn). A gang that would not fit even after all pods have
// ended that can backs off for a while.
//
// A reservation may have a start. By that time enough of what runs in its places and in its queue is expected to have ended. The first gang of each
// queue gets one at once. It keeps room and quota only from what would still run then (backfill). That of the gang that ranks first
// holds against all queues.
//
// The package is pure: it knows no lock, no client and no clock.
package reservations

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// placesPause is the least time between two choices of places for the same gang.
	placesPause = time.Second
	// startPause is the pause where the places have a start. The choice of a start costs more.
	startPause = 5 * time.Second
	// firstRetry is how long a gang backs off for the first time; it doubles up to the renewal time.
	firstRetry = 10 * time.Second
	// defaultRenewal is the renewal time where waiting is not bounded by time.
	defaultRenewal = 10 * time.Minute
)

// Bounds say when a waiting gang is starving, and which gangs get a start.
type Bounds struct {
	// Bypasses is the number of starts that may bypass a gang. 0 means any number.
	Bypasses int
	// Age is how long a gang may wait. 0 means any time.
	Age time.Duration
	// Starts: the first gang of each queue that lacks room gets a reservation at once, if its start is known.
	Starts bool
}

// Rank orders waiting gangs.
type Rank struct {
	// Repair: a crash left the gang below its minimum. It goes first.
	Repair bool
	// Priority of the gang; higher goes first.
	Priority int32
	// Since is the creation time of the gang; earlier goes first.
	Since time.Time
	// Seen numbers the gangs as they are first seen; it orders gangs of the same second.
	Seen int64
	// Name settles ties.
	Name string
	// Queue of the gang, "" for none. It does not matter for the order.
	Queue string
}

// Compare is negative if a gang of this rank goes before one of the other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(r.compareClass(other), r.Since.Compare(other.Since), cmp.Compare(r.Seen, other.Seen), cmp.Compare(r.Name, other.Name))
}

// compareClass compares without age.
func (r Rank) compareClass(other Rank) int {
	switch {
	case r.Repair && !other.Repair:
		return -1
	case other.Repair && !r.Repair:
		return 1
	}
	return cmp.Compare(other.Priority, r.Priority)
}

// Need is the room that a gang lacks on nodes.
type Need interface {
	// IsHurtBy says whether taking an amount of a node's free room leaves places for fewer pods of the gang.
	IsHurtBy(node string, free, taken resources.List) bool
	// Kind is equal for needs that are hurt alike: one of them stands for all.
	Kind() string
}

// Start is a gang or a pod that starts. It bypasses waiting gangs that rank before it.
type Start struct {
	// Rank of the gang, or of the pod.
	Rank Rank
	// Surplus: a pod beyond the minimum of its gang.
	Surplus bool
	// Path is the queue and its ancestors, nil if no quota is used.
	Path []string
	// Amount is what is used of the quota.
	Amount resources.List
}

// isOf says whether the start is of a gang's own queue.
func (s *Start) isOf(r Rank) bool { return r.Queue != "" && s.Rank.Queue == r.Queue }

// bypasses says whether the start ranks behind a gang.
func (s *Start) bypasses(r Rank) bool {
	return r.Compare(s.Rank) < 0 || s.Surplus && s.Rank.Priority == r.Priority
}

// Events are the effects of a change of the book on other gangs and pods. The caller acts on them.
type Events[K comparable] struct {
	// RoomFreed: places are not reserved any more.
	RoomFreed bool
	// HoldFreed: a gang that lacked room waits no more, so surplus pods may use room that it needed.
	HoldFreed bool
	// QuotaFreed: quota is not reserved any more, or a gang that lacked it waits no more.
	QuotaFreed bool
	// Decide are waiting gangs that should be decided again, because a reservation is due or at its end.
	Decide []K
}

// Book is the list of waiting gangs and the reservations. K names a gang.
type Book[K comparable] struct {
	bounds  Bounds
	gangs   map[K]*waiting[K]
	room    map[string]*list[K]  // queue -> gangs that lack room
	quota   map[string]*list[K]  // account -> gangs that lack its quota
	nodes   map[string]*Nodes[K] // queue -> places that are reserved for its first gang
	version int                  // of the amounts in nodes
	turns   turns[K]
	moved   int // how often pods have ended or started, for reservations with a start
	events  Events[K]
}

// waiting is a gang with its history since it was first found to lack room or quota.
type waiting[K comparable] struct {
	key        K
	rank       Rank
	attempting bool // it has its reserved room, for now
	need       Need // of nodes; nil if that is not known
	room       history
	quota      history
	lacks      *quota.Shortage // of quota, as last decided
	claim      quota.Claim
	kind       string    // equal for equal claims
	reserved   time.Time // since when quota is reserved for it; zero if none is
	turns      int       // that room was reserved for it against all queues, without success
	outlook    outlook
}

// history is how long a gang has waited for room, or for quota.
type history struct {
	since   time.Time // when it was first found to lack it
	foreign time.Time // when it was first found to lack what other queues may use
	byOwn   int       // starts of its own queue that have bypassed it
	byOther int       // other starts that have bypassed it
	retryAt time.Time // it backs off until then. For room: zero if it does not
	retries int
	// starving and wide are isStarving and isStarvingByOthers as last seen.
	starving, wide bool
}

// outlook is what is known of when a gang starts.
type outlook struct {
	missed  time.Time     // the first start that was missed; zero for none
	slack   time.Duration // how long after that the gang may still wait before the estimates are wrong
	retryAt time.Time     // none is known: it is looked for again then
	retries int
}

// isWrong says whether a start was missed so long ago that the estimates must be wrong. Gangs whose users say less than they run are let past the
// gang, and delay it. Minutes mean little where Jobs run for hours. So a gang may be late by as long as it has waited, or as it is to run.
func (o *outlook) isWrong(bounds Bounds, now time.Time) bool {
	return !o.missed.IsZero() && now.Sub(o.missed) >= max(bounds.renewal(), o.slack)
}

// begin notes that a gang lacks something, and whether only its own queue may use that.
func (h *history) begin(own bool, now time.Time) {
	if h.since.IsZero() {
		h.since = now
	}
	if !own && h.foreign.IsZero() {
		h.foreign = now
	}
}

// count counts a start that bypassed the gang.
func (h *history) count(own bool) {
	if own {
		h.byOwn++
	} else {
		h.byOther++
	}
}

// New makes an empty book.
func New[K comparable]() *Book[K] {
	return &Book[K]{gangs: map[K]*waiting[K]{}, quota: map[string]*list[K]{}, room: map[string]*list[K]{}, nodes: map[string]*Nodes[K]{},
		turns: turns[K]{ended: map[string]int{}}}
}

// SetBounds says from now on when a gang is starving.
func (b *Book[K]) SetBounds(bounds Bounds) { b.bounds = bounds }

// TakeEvents returns the events since its last call.
func (b *Book[K]) TakeEvents() Events[K] {
	events := b.events
	b.events = Events[K]{}
	return events
}

// WaitForRoom puts a gang on the list of gangs that lack room. need may be nil.
func (b *Book[K]) WaitForRoom(key K, rank Rank, need Need, now time.Time) {
	w := b.gang(key, rank)
	w.room.begin(false, now)
	w.need = need
	if w.reserved.IsZero() {
		b.leaveQuota(w)
	}
	if w.room.retryAt.IsZero() {
		listIn(b.room, rank.Queue).add(w)
	}
	b.decideFirst(rank.Queue, now)
}

// WaitForQuota puts a gang on the list of gangs that lack the quota of a queue. canNever says that the gang asks for more than the whole
// capability. It waits for a change of the queue, and nothing is reserved for it. A reservation with a start stays.
func (b *Book[K]) WaitForQuota(key K, rank Rank, claim quota.Claim, lacks *quota.Shortage, canNever bool, now time.Time) {
	w := b.gang(key, rank)
	if w.need = nil; canNever || !hasStart(b.ReservedFor(key)) {
		b.leaveRoom(w)
	}
	if !w.claim.Want.Equal(claim.Want) {
		b.events.QuotaFreed = true
	}
	if w.claim.Queue != claim.Queue {
		b.leaveQuota(w)
	}
	wasOwn := w.lacksOwn()
	w.claim, w.lacks = claim, lacks
	w.kind = fmt.Sprint(claim.Queue, claim.Want, w.lacksOwn())
	w.quota.begin(w.lacksOwn(), now)
	b.events.QuotaFreed = b.events.QuotaFreed || !wasOwn && w.lacksOwn()
	if canNever || rank.Repair || now.Before(w.quota.retryAt) {
		b.leaveQuota(w)
	} else {
		listIn(b.quota, claim.Queue).add(w)
	}
	b.settleQuota(claim.Queue, now)
}

// HasQuota notes that a gang lacks quota no more, though it may lack room. Its reservation stays.
func (b *Book[K]) HasQuota(key K, claim quota.Claim) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	if w.lacks != nil {
		w.lacks, w.outlook.retryAt, w.outlook.retries = nil, time.Time{}, 0
	}
	if w.reserved.IsZero() {
		b.leaveQuota(w)
		return
	}
	if !w.claim.Want.Equal(claim.Want) {
		w.claim, w.kind, b.events.QuotaFreed = claim, fmt.Sprint(claim.Queue, claim.Want), true
	}
}

// TooLarge notes that a gang asks for more than all nodes have: reserving places for it would not help.
func (b *Book[K]) TooLarge(key K, rank Rank, now time.Time) {
	w := b.gang(key, rank)
	w.room.begin(false, now)
	b.leaveRoom(w)
	b.endQuotaTurn(w, now)
	b.decideFirst(rank.Queue, now)
}

// Attempts notes that a gang has got places, and whether these are certain. It leaves the lists, but keeps its reservation.
func (b *Book[K]) Attempts(key K, certain bool) {
	w := b.gangs[key]
	if w == nil {
		return
	}
	w.attempting = true
	if w.reserved.IsZero() {
		b.leaveQuota(w)
	} else {
		b.events.QuotaFreed = true // the gang may have assumed less than was reserved for it
	}
	if certain && b.ReservedFor(key) == nil {
		b.leaveRoom(w)
	}
}

// Failed notes that the attempt of a gang has been rolled back.
func (b *Book[K]) Failed(key K) {
	if w := b.gangs[key]; w != nil {
		w.attempting = false
	}
}

// Rerank gives a waiting gang another rank. A reservation for repair ends when the gang is under repair no more.
func (b *Book[K]) Rerank(key K, rank Rank) {
	w := b.gangs[key]
	if w == nil || w.rank == rank {
		return
	}
	repaired := w.rank.Repair && !rank.Repair
	b.setRank(w, rank)
	if repaired {
		b.dropNodes(w)
	}
}

// WaitsSince is when a gang was first found to lack room or quota since it waits. It is zero if it does not wait.
func (b *Book[K]) WaitsSince(key K) time.Time {
	w := b.gangs[key]
	switch {
	case w == nil:
		return time.Time{}
	case w.room.since.IsZero(), !w.quota.since.IsZero() && w.quota.since.Before(w.room.since):
		return w.quota.since
	}
	return w.room.since
}

// Suspend takes a gang off the lists while another reason keeps it from starting. It keeps its history.
func (b *Book[K]) Suspend(key K) {
	if w := b.gangs[key]; w != nil {
		w.attempting = false
		b.leaveRoom(w)
		b.leaveQuota(w)
	}
}

// Forget removes a gang with its history: it has started, or belongs to another PodGroup now.
func (b *Book[K]) Forget(key K) {
	b.Suspend(key)
	delete(b.gangs, key)
}

// ForgetQuota removes the part of a gang's history that is about quota.
func (b *Book[K]) ForgetQuota(key K) {
	if w := b.gangs[key]; w != nil {
		b.leaveQuota(w)
		w.quota, w.lacks, w.claim = history{}, nil, quota.Claim{}
	}
}

// Bypassed counts a start against the first gang of each queue that lacks room. It also counts against the first of each queue that lacks
// what the start uses. The start of a first that ranks after it is chosen anew.
func (b *Book[K]) Bypassed(start *Start, now time.Time) {
	for account, line := range b.quota {
		w := line.first()
		if w == nil || w.lacks == nil || !start.bypasses(w.rank) {
			continue
		}
		if slices.Contains(start.Path, w.lacks.Queue) && start.Amount[w.lacks.Resource] > 0 {
			w.quota.count(start.isOf(w.rank))
			b.settleQuota(account, now)
		}
	}
	for queue, line := range b.room {
		if w := line.first(); start.bypasses(w.rank) {
			w.room.count(start.isOf(w.rank))
			b.noteStarving(w, now)
			b.decideFirst(queue, now)
		} else {
			b.moved++ // it may have taken room in which the first was to start
		}
	}
	b.settleTurn(now)
}

// IsBackfill says whether a start passes a reservation with a start. Of other queues only the reservation that holds against all counts.
func (b *Book[K]) IsBackfill(start *Start) bool {
	return slices.ContainsFunc(b.NodesAgainst(start.Rank.Queue), func(n *Nodes[K]) bool { return hasStart(n) && start.bypasses(n.Rank) })
}

// Tick ends turns that are over, and has starving gangs decided.
func (b *Book[K]) Tick(now time.Time) {
	for queue, waiters := range b.quota {
		if w := waiters.reserved; w != nil && !w.attempting {
			if own, _ := quota.Turn(b.bounds.renewal(), w.quota.retries); now.Sub(w.reserved) >= own {
				b.endQuotaTurn(w, now)
			}
		}
		b.settleQuota(queue, now)
	}
	for _, w := range b.gangs {
		if at := w.room.retryAt; !at.IsZero() && !now.Before(at) {
			w.room.retryAt = time.Time{}
			b.events.Decide = append(b.events.Decide, w.key)
		}
	}
	for queue, line := range b.room {
		for w := range line.members {
			b.noteStarving(w, now)
		}
		b.decideFirst(queue, now)
	}
	for _, n := range b.nodes {
		if b.isOutdated(n, now) {
			b.events.Decide = append(b.events.Decide, n.Key)
		}
	}
	b.settleTurn(now)
}

// gang returns the record of a waiting gang.
func (b *Book[K]) gang(key K, rank Rank) *waiting[K] {
	w := b.gangs[key]
	if w == nil {
		w = &waiting[K]{key: key}
		b.gangs[key] = w
	}
	b.setRank(w, rank)
	w.attempting = false
	return w
}

func (b *Book[K]) setRank(w *waiting[K], rank Rank) {
	if w.rank == rank {
		return
	}
	if rank.Priority < w.rank.Priority {
		b.events.QuotaFreed = true // surplus need not leave quota to it any more
	}
	if rank.Queue != w.rank.Queue {
		b.dropNodes(w)
	}
	lacksRoom, ofQuota := leave(b.room, w.rank.Queue, w), b.quota[w.claim.Queue]
	lacksQuota := ofQuota != nil && ofQuota.remove(w)
	w.rank = rank
	if lacksRoom {
		listIn(b.room, rank.Queue).add(w)
	}
	if lacksQuota {
		ofQuota.add(w)
	}
}

// isStarving says whether a gang has waited for long enough, or was bypassed often enough.
func (b Bounds) isStarving(h *history, now time.Time) bool {
	return b.Bypasses > 0 && h.byOwn+h.byOther >= b.Bypasses || b.isOld(h.since, now)
}

// isStarvingByOthers says whether that holds without what its own queue did.
func (b Bounds) isStarvingByOthers(h *history, now time.Time) bool {
	return b.Bypasses > 0 && h.byOther >= b.Bypasses || b.isOld(h.foreign, now)
}

func (b Bounds) isOld(since, now time.Time) bool {
	return b.Age > 0 && !since.IsZero() && now.Sub(since) >= b.Age
}

// isStarvingFor says whether a gang that lacks room is starving in the eyes of a queue.
func (b *Book[K]) isStarvingFor(queue string, w *waiting[K], now time.Time) bool {
	if queue != "" && queue == w.rank.Queue {
		return b.bounds.isStarving(&w.room, now)
	}
	return b.bounds.isStarvingByOthers(&w.room, now)
}

// noteStarving raises an event when a gang that lacks room begins to starve. Surplus may use the room that it needed.
func (b *Book[K]) noteStarving(w *waiting[K], now time.Time) {
	starving, wide := b.bounds.isStarving(&w.room, now), b.bounds.isStarvingByOthers(&w.room, now)
	if starving && !w.room.starving || wide && !w.room.wide {
		b.events.HoldFreed = true
	}
	w.room.starving, w.room.wide = starving, wide
}

// renewal is how long a gang waits for the same reserved places.
func (b Bounds) renewal() time.Duration { return cmp.Or(b.Age, defaultRenewal) }

// retryAfter is how long a gang backs off, after the given number of times.
func (b Bounds) retryAfter(retries int) time.Duration {
	wait := firstRetry
	for range retries {
		wait = min(2*wait, b.renewal())
	}
	return wait
}

// list is a set of waiting gangs of which the first is asked for often.
type list[K comparable] struct {
	members sets.Set[*waiting[K]]
	head    *waiting[K] // the first, nil if it must be found
	// reserved is the member for which quota is reserved, nil if there is none.
	reserved *waiting[K]
}

// listIn returns a list by its name, an empty one if there is none.
func listIn[K comparable](lists map[string]*list[K], name string) *list[K] {
	l := lists[name]
	if l == nil {
		l = &list[K]{members: sets.New[*waiting[K]]()}
		lists[name] = l
	}
	return l
}

// leave takes a gang off a list. It says whether the gang was on it.
func leave[K comparable](lists map[string]*list[K], name string, w *waiting[K]) bool {
	l := lists[name]
	if l == nil || !l.remove(w) {
		return false
	}
	if l.members.Len() == 0 {
		delete(lists, name)
	}
	return true
}

func (l *list[K]) add(w *waiting[K]) {
	if l.members.Len() > 0 && l.head == nil {
		l.members.Insert(w)
		return
	}
	l.members.Insert(w)
	if l.head == nil || w.rank.Compare(l.head.rank) < 0 {
		l.head = w
	}
}

func (l *list[K]) remove(w *waiting[K]) bool {
	if !l.members.Has(w) {
		return false
	}
	l.members.Delete(w)
	if l.head == w {
		l.head = nil
	}
	return true
}

// first returns the first member, nil if there is none.
func (l *list[K]) first() *waiting[K] {
	if l.head == nil {
		for w := range l.members {
			if l.head == nil || w.rank.Compare(l.head.rank) < 0 {
				l.head = w
			}
		}
	}
	return l.head
}

// Standing is the book's input for a decision on a gang.
type Standing struct {
	// Places are reserved for the gang already, nil if there are none.
	Places map[types.UID]string
	// Avoid are nodes on which the gang has waited without success.
	Avoid sets.Set[string]
	// Renew: the gang has waited for its places without success.
	Renew bool
	// Choose: places are to be reserved if the gang does not fit.
	Choose bool
	// OnlyWithStart: they are to be reserved only if a start is known.
	OnlyWithStart bool
	// NoStart: they are to be reserved without one. All that comes free there is kept for the gang.
	NoStart bool
	// NoPlaces: there are no places to reserve, for now.
	NoPlaces bool
	// QuotaReserved: quota is reserved for the gang.
	QuotaReserved bool
	// RetryIn is when places may be chosen again; 0 if that is now, or would not help.
	RetryIn time.Duration
}

// StandingOf returns the standing of a gang.
func (b *Book[K]) StandingOf(key K, now time.Time) Standing {
	w := b.gangs[key]
	if w == nil {
		return Standing{}
	}
	s := Standing{NoPlaces: now.Before(w.room.retryAt), QuotaReserved: !w.reserved.IsZero()}
	s.OnlyWithStart = b.bounds.Starts && !w.mayHoldAll(b.bounds, now)
	s.NoStart = !s.OnlyWithStart && w.outlook.isWrong(b.bounds, now)
	n := b.ReservedFor(key)
	if n == nil {
		s.Choose = b.toChoose(w.rank.Queue, now) == w
		return s
	}
	s.Places, s.Avoid, s.Renew = n.Places, n.avoid, n.Start.IsZero() && now.Sub(n.since) >= b.bounds.renewal()
	left := n.pause() - now.Sub(n.chosenAt)
	if s.Choose = s.Renew || left <= 0; !s.Choose {
		s.RetryIn = left
	}
	return s
}
