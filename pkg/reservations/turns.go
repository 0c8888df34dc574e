package reservations

import (
	"cmp"
	"time"

	"github.com/muster-sched/muster/pkg/quota"
)

// turns say for which gang places are reserved against all queues. The queues with places reserved take turns, so that a gang that never
// starts keeps no queue waiting for ever.
type turns[K comparable] struct {
	holder *waiting[K] // whose turn it is, nil for none
	first  *waiting[K] // the gang that ranks first of those with a start that waits for other queues; nil for none
	since  time.Time
	count  int
	ended  map[string]int // queue -> number of its last turn
	ratio  func(queue string) quota.Ratio
}

// SetRatio says how much of its share a queue uses. Of queues that had no turn yet, that with the smallest part goes first.
func (b *Book[K]) SetRatio(ratio func(queue string) quota.Ratio) { b.turns.ratio = ratio }

// end ends the turn.
func (t *turns[K]) end() {
	t.count++
	t.ended[t.holder.rank.Queue], t.holder = t.count, nil
}

// compare is negative if the turn of a comes before that of b. A turn goes on until it ends, but for a higher priority.
func (t *turns[K]) compare(a, b *waiting[K]) int {
	inTurn := func(w *waiting[K]) int {
		if w == t.holder {
			return 0
		}
		return 1
	}
	order := cmp.Or(a.rank.compareClass(b.rank), cmp.Compare(inTurn(a), inTurn(b)), cmp.Compare(t.ended[a.rank.Queue], t.ended[b.rank.Queue]))
	if order == 0 && t.ratio != nil {
		order = t.ratio(a.rank.Queue).Compare(t.ratio(b.rank.Queue))
	}
	return cmp.Or(order, a.rank.Compare(b.rank))
}

// isWide says whether the places of a gang may be reserved against all queues.
func (w *waiting[K]) isWide(n *Nodes[K]) bool {
	return n.Queue == "" || w.rank.Repair || !n.awaitsOwn && (w.room.wide || !w.reserved.IsZero() && w.quota.wide)
}

// settleTurn ends a turn that is over, and begins the next. A turn goes on as long as no other queue has places reserved.
func (b *Book[K]) settleTurn(now time.Time) {
	t, before := &b.turns, b.turns.holder
	b.settleFirst(now)
	if before != nil && b.isTurnOver(before, now) {
		t.end()
	}
	var best *waiting[K]
	for _, n := range b.nodes {
		if w := b.gangs[n.Key]; w.isWide(n) && (best == nil || t.compare(w, best) < 0) {
			best = w
		}
	}
	switch {
	case best == before:
		t.holder = before
		return
	case before != nil:
		before.turns++
		b.events.RoomFreed = true
	}
	if t.holder != nil {
		t.end()
	}
	t.holder, t.since = best, now
}

// isTurnOver says whether a turn has been long enough, or its gang waits no more for what other queues use.
func (b *Book[K]) isTurnOver(w *waiting[K], now time.Time) bool {
	own, _ := quota.Turn(b.bounds.renewal(), w.turns)
	return !w.attempting && now.Sub(b.turns.since) >= own || !w.isWide(b.nodes[w.rank.Queue])
}

// window is how far ahead a start may be to hold against all queues. A later start changes often until then.
const window = 24 * time.Hour

// settleFirst finds the first gang with a start, by rank. Its reservation holds against all queues. Three kinds of reservations hold within their own
// queue only. One waits for a pod of its own queue last, so other queues do not delay it. The start of another has proved wrong, or is beyond
// the window.
func (b *Book[K]) settleFirst(now time.Time) {
	t, before := &b.turns, b.turns.first
	t.first = nil
	for _, n := range b.nodes {
		w := b.gangs[n.Key]
		if !n.Start.IsZero() && !n.awaitsOwn && n.Start.Sub(now) <= window && !w.outlook.isWrong(b.bounds, now) && (t.first == nil || w.rank.Compare(t.first.rank) < 0) {
			t.first = w
		}
	}
	if before != t.first {
		b.events.HoldFreed, b.events.RoomFreed = true, b.events.RoomFreed || before != nil
		b.events.QuotaFreed = b.events.QuotaFreed || before != nil // it is kept within the queue of that gang only
	}
}
