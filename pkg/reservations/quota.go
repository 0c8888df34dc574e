package reservations

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/quota"
)

// lacksOwn says whether the gang lacks quota of its own queue, which no other queue beside or above may use.
func (w *waiting[K]) lacksOwn() bool {
	return w.lacks != nil && quota.QueueOf(w.lacks.Queue) == quota.QueueOf(w.claim.Queue)
}

// claimed is what gangs and pods leave to the gang, or surplus. Other queues leave it nothing while it lacks quota of its own queue. Where it
// is reserved, they do so only if they have bypassed the gang, or it has waited too long.
func (w *waiting[K]) claimed(surplus bool) quota.Claim {
	claim := w.claim
	claim.Own = w.lacksOwn() || !surplus && !w.quota.wide
	return claim
}

// leaveQuota takes a gang off the list of gangs that lack quota. Its reservation ends.
func (b *Book[K]) leaveQuota(w *waiting[K]) {
	waiters := b.quota[w.claim.Queue]
	if !leave(b.quota, w.claim.Queue, w) {
		return
	}
	w.reserved, b.events.QuotaFreed = time.Time{}, true
	if waiters.reserved == w {
		waiters.reserved = nil
	}
}

// settleQuota reserves quota for the first gang of a queue if it is starving.
func (b *Book[K]) settleQuota(queue string, now time.Time) {
	waiters := b.quota[queue]
	if waiters == nil {
		return
	}
	w := waiters.first()
	w.quota.wide = b.bounds.isStarvingByOthers(&w.quota, now)
	starts := hasStart(b.ReservedFor(w.key))
	if !w.reserved.IsZero() || !starts && !b.bounds.isStarving(&w.quota, now) {
		return
	}
	if other := waiters.reserved; other != nil { // one at a time
		waiters.reserved, other.reserved, b.events.QuotaFreed = nil, time.Time{}, true
	}
	if !starts {
		waiters.reserved, w.reserved = w, now
		b.events.Decide = append(b.events.Decide, w.key)
	}
}

// hasStart says whether there is a reservation, and it has a start.
func hasStart[K comparable](n *Nodes[K]) bool { return n != nil && !n.Start.IsZero() }

// endQuotaTurn releases a reservation that has not helped. The gang is on no list until its pause is over.
func (b *Book[K]) endQuotaTurn(w *waiting[K], now time.Time) {
	if w.reserved.IsZero() {
		return
	}
	queue := w.claim.Queue
	_, others := quota.Turn(b.bounds.renewal(), w.quota.retries)
	w.quota.retryAt = now.Add(others)
	w.quota.retries++
	b.leaveQuota(w)
	b.events.Decide = append(b.events.Decide, w.key)
	b.settleQuota(queue, now)
}

// QuotaRetryIn is how long a gang stays off the list after a failed turn; 0 if it does not.
func (b *Book[K]) QuotaRetryIn(key K, now time.Time) time.Duration {
	if w := b.gangs[key]; w != nil {
		return max(0, w.quota.retryAt.Sub(now))
	}
	return 0
}

// Claims returns the quota that is reserved against a gang, in the order of the claims. For a pod without a gang, key is its zero value.
// Surplus pods leave quota to all waiting gangs even before it is reserved for them. They leave it to the first of each queue together, and
// to each other one.
func (b *Book[K]) Claims(key K, priority int32, surplus bool) []quota.Claim {
	var before []*waiting[K]
	own, starts := b.gangs[key], hasStart(b.ReservedFor(key))
	for _, waiters := range b.quota {
		claimants := []*waiting[K]{waiters.reserved}
		if first := waiters.first(); surplus && first != waiters.reserved {
			claimants = append(claimants, first)
		}
		for _, w := range claimants {
			if w != nil && !w.attempting && w.rank.Priority >= priority && (!starts || own.rank.Compare(w.rank) >= 0) {
				before = append(before, w)
			}
		}
	}
	slices.SortFunc(before, func(a, b *waiting[K]) int { return a.rank.Compare(b.rank) })
	var claims []quota.Claim
	for _, w := range before {
		if w.key == key {
			break
		}
		claims = append(claims, w.claimed(surplus))
	}
	if surplus {
		claims = append(claims, b.claimsBeside(priority)...)
	}
	return claims
}

// ClaimsOfStarts is the quota of gangs with a start that another start must leave to them. It does if it would still run then. key and end are those
// of the gang or pod that starts. The gang that ranks first keeps its quota from all queues, others within their own.
func (b *Book[K]) ClaimsOfStarts(key K, start *Start, end time.Time, known bool) (claims []quota.Claim) {
	for _, n := range b.nodes {
		w := b.gangs[n.Key]
		if n.Claim.Queue != "" && n.Key != key && !w.attempting && w.reserved.IsZero() && n.HoldsAgainst(start, end, known) {
			claim := n.Claim
			claim.Own = w != b.turns.first
			claims = append(claims, claim)
		}
	}
	return claims
}

// claimsBeside are the claims of gangs behind the first of their queue. Of equal claims it returns one, so that thousands of gangs that are
// alike cost no more than one.
func (b *Book[K]) claimsBeside(priority int32) (claims []quota.Claim) {
	kinds := sets.New[string]()
	for _, waiters := range b.quota {
		first := waiters.first()
		for w := range waiters.members {
			if w == first || w == waiters.reserved || w.attempting || w.rank.Priority < priority || kinds.Has(w.kind) {
				continue
			}
			kinds.Insert(w.kind)
			claim := w.claimed(true)
			claim.Beside = true
			claims = append(claims, claim)
		}
	}
	return claims
}
