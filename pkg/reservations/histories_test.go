package reservations

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// namedNeed is the need of a gang, with a name to tell needs apart.
type namedNeed string

func (namedNeed) IsHurtBy(string, resources.List, resources.List) bool { return true }
func (n namedNeed) Kind() string                                       { return string(n) }

// model is the list of the gangs that lack room as one would keep it by hand. Each time everything is looked through.
type model struct {
	bounds Bounds
	gangs  map[string]*modelGang
}

type modelGang struct {
	rank     Rank
	onList   bool // while it lacks room
	bypassed int
	since    time.Time
	noPlaces bool
	retryAt  time.Time
}

func (m *model) gang(key string, rank Rank) *modelGang {
	g := m.gangs[key]
	if g == nil {
		g = &modelGang{}
		m.gangs[key] = g
	}
	g.rank = rank
	return g
}

// inOrder are the gangs on the list, the first first.
func (m *model) inOrder() (keys []string) {
	for key, g := range m.gangs {
		if g.onList {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return m.gangs[a].rank.Compare(m.gangs[b].rank) })
	return keys
}

// starving is the first on the list if it is starving, else "".
func (m *model) starving(now time.Time) string {
	keys := m.inOrder()
	if len(keys) == 0 {
		return ""
	}
	if m.gangs[keys[0]].rank.Repair || m.waitedEnough(keys[0], now) {
		return keys[0]
	}
	return ""
}

// waitedEnough says whether a gang has waited for as long, or was bypassed as often, as the bounds allow.
func (m *model) waitedEnough(key string, now time.Time) bool {
	g := m.gangs[key]
	return m.bounds.Bypasses > 0 && g.bypassed >= m.bounds.Bypasses || m.bounds.Age > 0 && now.Sub(g.since) >= m.bounds.Age
}

// TestTheListOfWaitingGangs compares the list of gangs that lack room with a naive one, through any changes. Both say which gang is first,
// when it is starving, and what room surplus must leave. When a gang loses its reservation, the other gangs are notified.
func TestTheListOfWaitingGangs(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		bounds := Bounds{Bypasses: rapid.IntRange(0, 3).Draw(t, "bypasses"), Age: time.Duration(rapid.IntRange(0, 30).Draw(t, "age")) * time.Second}
		b, m, now := New[string](), &model{bounds: bounds, gangs: map[string]*modelGang{}}, at(0)
		b.SetBounds(bounds)
		rank := func(key string) Rank {
			return Rank{Repair: rapid.IntRange(0, 9).Draw(t, "repair") == 9, Priority: int32(rapid.IntRange(0, 1).Draw(t, "priority")), Since: at(int(key[0]) % 3), Seen: int64(key[0])}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := string(rune('a' + rapid.IntRange(0, 5).Draw(t, "gang")))
			holder, starving := b.Nodes(), m.starving(now)
			known := m.gangs[key]
			b.TakeEvents()
			step := rapid.IntRange(0, 9).Draw(t, "step")
			switch step {
			case 0, 1, 2:
				r := rank(key)
				b.WaitForRoom(key, r, namedNeed(key), now)
				g := m.gang(key, r)
				if g.since.IsZero() {
					g.since = now
				}
				g.onList = !g.noPlaces
			case 3:
				r := rank(key)
				b.TooLarge(key, r, now)
				g := m.gang(key, r)
				if g.since.IsZero() {
					g.since = now
				}
				g.onList = false
			case 4:
				b.Suspend(key)
				if known != nil {
					known.onList = false
				}
			case 5:
				b.Forget(key)
				delete(m.gangs, key)
			case 6:
				certain := rapid.Bool().Draw(t, "certain")
				b.Attempts(key, certain)
				if known != nil && certain && (holder == nil || holder.Key != key) {
					known.onList = false
				}
			case 7:
				start := &Start{Rank: Rank{Priority: int32(rapid.IntRange(0, 1).Draw(t, "of")), Since: at(rapid.IntRange(0, 4).Draw(t, "since"))}, Surplus: rapid.Bool().Draw(t, "surplus")}
				b.Bypassed(start, now)
				if keys := m.inOrder(); len(keys) > 0 && start.bypasses(m.gangs[keys[0]].rank) {
					m.gangs[keys[0]].bypassed++
				}
			case 8:
				if starving == "" || holder != nil && holder.Key == starving {
					break
				}
				if rapid.Bool().Draw(t, "found") {
					reserveOn(b, starving, fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "node")), now)
				} else {
					b.BackOff(starving, now)
					g := m.gangs[starving]
					g.onList, g.noPlaces = false, true
					g.retryAt = now.Add(b.gangs[starving].room.retryAt.Sub(now))
				}
			case 9:
				now = now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
				b.Tick(now)
				for _, g := range m.gangs {
					g.noPlaces = g.noPlaces && now.Before(g.retryAt)
				}
			}
			events := b.TakeEvents()
			after := b.Nodes()
			if holder != nil && (after == nil || after.Key != holder.Key) {
				assert.True(t, events.RoomFreed, "what was reserved for %s is free", holder.Key)
			}
			if after != nil {
				assert.True(t, m.gangs[after.Key] != nil && m.gangs[after.Key].onList, "%s holds what is reserved and does not wait", after.Key)
			}
			want := m.starving(now)
			for _, key := range slices.Sorted(maps.Keys(m.gangs)) {
				isHolder := after != nil && after.Key == key
				assert.Equal(t, m.gangs[key].onList, isWaiting(b, key), "%s is on the list", key)
				if !isHolder {
					assert.Equal(t, key == want, b.StandingOf(key, now).Choose, "%s is the first and starving", key)
				}
			}
			leaves := step >= 4 && step <= 6 // when the first leaves the list, the next tick looks for its successor
			if want != "" && want != starving && !leaves && (after == nil || after.Key != want) {
				assert.Contains(t, events.Decide, want, "it is decided for which places are reserved")
			}
			for priority := range int32(2) {
				var needs []Need
				for _, key := range m.inOrder() {
					isHolder, rank := after != nil && after.Key == key, m.gangs[key].rank
					if rank.Priority >= priority && (rank.Repair || !isHolder) && !m.waitedEnough(key, now) {
						needs = append(needs, namedNeed(key))
					}
				}
				assert.ElementsMatch(t, needs, b.Holds("", priority, now, all))
			}
		}
	})
}

// TestReservedQuotaInHistories: in each queue quota is reserved for one gang at most, in order, and for none that attempts. Waiting gangs
// learn of released quota. Without a bound none is reserved.
func TestReservedQuotaInHistories(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		bounds := Bounds{Bypasses: rapid.IntRange(0, 2).Draw(t, "bypasses"), Age: time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * time.Second}
		b, now := New[string](), at(0)
		b.SetBounds(bounds)
		attempting, exceeds, queueOf := map[string]bool{}, map[string]bool{}, map[string]string{}
		claimed := func() map[string]quota.Claim {
			claims := map[string]quota.Claim{}
			for key := range queueOf {
				if b.StandingOf(key, now).QuotaReserved && !attempting[key] {
					claims[key] = claimOf(queueOf[key], int64(key[0]))
				}
			}
			return claims
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := string(rune('a' + rapid.IntRange(0, 5).Draw(t, "gang")))
			rank := Rank{Priority: int32(key[0]) % 2, Since: at(int(key[0]) % 3), Seen: int64(key[0])}
			before := claimed()
			b.TakeEvents()
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				queue := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue")
				exceeds[key] = rapid.IntRange(0, 4).Draw(t, "exceeds") == 4
				b.WaitForQuota(key, rank, claimOf(queue, int64(key[0])), lacksCPU, exceeds[key], now)
				attempting[key], queueOf[key] = false, queue
			case 2:
				b.Forget(key)
				delete(attempting, key)
				delete(queueOf, key)
			case 3:
				if queueOf[key] != "" {
					b.Attempts(key, true)
					attempting[key] = true
				}
			case 4:
				b.Failed(key)
				attempting[key] = false
			case 5:
				b.Bypassed(&Start{Rank: rankAt(9), Path: []string{"org"}, Amount: cpu(1)}, now)
			case 6:
				now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
				b.Tick(now)
			}
			after, events := claimed(), b.TakeEvents()
			for key, claim := range before {
				if _, still := after[key]; !still {
					assert.True(t, events.QuotaFreed, "%v of %s is free", claim, key)
				}
			}
			ofQueue := map[string]int{}
			for key := range after {
				ofQueue[queueOf[key]]++
				assert.False(t, exceeds[key], "%s can never have it", key)
				if _, had := before[key]; !had && !attempting[key] {
					assert.NotEqual(t, Bounds{}, bounds, "nothing bounds the waiting")
				}
			}
			for queue, n := range ofQueue {
				assert.LessOrEqual(t, n, 1, "quota of %s is reserved for more than one", queue)
			}
			claims := b.Claims("", 0, false)
			assert.Len(t, claims, len(after))
			for _, claim := range claims {
				assert.Contains(t, slices.Collect(maps.Values(after)), claim)
			}
		}
	})
}
