package reservations

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// in is a rank in a queue.
func in(queue string, seconds int) Rank { return Rank{Since: at(seconds), Queue: queue} }

// startIn is a start in a queue that bypasses all gangs.
func startIn(queue string) *Start {
	return &Start{Rank: in(queue, 1000), Path: []string{queue, "org"}, Amount: cpu(1)}
}

// keepers are the gangs that keep room from a queue.
func keepers(b *Book[string], queue string) (keys []string) {
	for _, n := range b.NodesAgainst(queue) {
		keys = append(keys, n.Key)
	}
	slices.Sort(keys)
	return keys
}

// TestBypassesByTheOwnQueueCountWithinItOnly: a tenant starts many small pods beside its own gang.
func TestBypassesByTheOwnQueueCountWithinItOnly(t *testing.T) {
	t.Run("for room", func(t *testing.T) {
		b := newBook(2, 0)
		b.WaitForRoom("g", in("tiny", 0), namedNeed("g"), at(0))
		for range 110 {
			b.Bypassed(startIn("tiny"), at(1))
		}
		require.True(t, b.StandingOf("g", at(1)).Choose, "its own queue leaves it room")
		reserveOn(b, "g", "n", at(1))
		assert.Equal(t, []string{"g"}, keepers(b, "tiny"))
		assert.Empty(t, keepers(b, "big"))
		assert.Empty(t, keepers(b, ""))
		assert.Len(t, b.Holds("big", 0, at(1), all), 1, "surplus of others waits as before")
		assert.Empty(t, b.Holds("tiny", 0, at(1), all))
		older := in("tiny", -1)
		b.WaitForRoom("older", older, nil, at(1))
		for range 2 {
			b.Bypassed(startIn("tiny"), at(1))
		}
		b.TakeEvents()
		reserveOn(b, "older", "m", at(1))
		assert.Equal(t, []string{"older"}, keepers(b, "tiny"))
		assert.True(t, b.TakeEvents().RoomFreed, "the younger one keeps its queue from nothing more")
		b.Forget("older")
		reserveOn(b, "g", "n", at(1))
		b.Bypassed(startIn("big"), at(2))
		assert.Empty(t, keepers(b, "big"), "that was one")
		b.Bypassed(startIn(""), at(2))
		assert.Equal(t, []string{"g"}, keepers(b, "big"))
	})
	t.Run("for quota", func(t *testing.T) {
		b := newBook(2, 0)
		b.WaitForQuota("g", in("tiny", 0), claimOf("tiny", 6), lacksCPU, false, at(0))
		for range 110 {
			b.Bypassed(startIn("tiny"), at(1))
		}
		own := claimOf("tiny", 6)
		own.Own = true
		assert.Equal(t, []quota.Claim{own}, b.Claims("", 0, false))
		for range 2 {
			b.Bypassed(startIn("big"), at(1))
		}
		assert.Equal(t, []quota.Claim{claimOf("tiny", 6)}, b.Claims("", 0, false))
	})
}

// TestWhatAGangWaitsForOfItsOwnQueueReservesNothing of other queues, however long it waits.
func TestWhatAGangWaitsForOfItsOwnQueueReservesNothing(t *testing.T) {
	t.Run("pods of its queue on nodes", func(t *testing.T) {
		b := newBook(1, time.Minute)
		b.WaitForRoom("g", in("tiny", 0), nil, at(0))
		b.Bypassed(startIn("big"), at(1))
		choice := on("n")
		choice.AwaitsOwn = true
		b.ReserveNodes("g", choice, at(3600))
		assert.Equal(t, []string{"g"}, keepers(b, "tiny"))
		assert.Empty(t, keepers(b, "big"))
		b.TakeEvents()
		reserveOn(b, "g", "n", at(3601))
		assert.Equal(t, []string{"g"}, keepers(b, "big"), "they have ended")
		b.ReserveNodes("g", choice, at(3602))
		assert.Empty(t, keepers(b, "big"))
		assert.True(t, b.TakeEvents().RoomFreed)
	})
	t.Run("quota of its queue", func(t *testing.T) {
		b := newBook(1, time.Minute)
		for account, lacking := range map[string]string{"tiny": "tiny", quota.Account("tiny", "amy"): "tiny", quota.Account("tiny", "bob"): quota.Account("tiny", "bob")} {
			lacks := &quota.Shortage{Queue: lacking, Resource: corev1.ResourceCPU}
			b.WaitForQuota("g", in("tiny", 0), claimOf(account, 6), lacks, false, at(0))
			b.Tick(at(3600))
			for _, surplus := range []bool{false, true} {
				claims := b.Claims("", 0, surplus)
				require.Len(t, claims, 1)
				assert.True(t, claims[0].Own, "%s lacks quota of %s", account, lacking)
			}
			b.WaitForQuota("g", in("tiny", 0), claimOf(account, 6), lacksCPU, false, at(3601))
			b.Tick(at(3602))
			assert.True(t, b.Claims("", 0, false)[0].Own, "it waits for others since now")
			b.Tick(at(3661))
			assert.False(t, b.Claims("", 0, false)[0].Own)
			b.TakeEvents()
			b.WaitForQuota("g", in("tiny", 0), claimOf(account, 6), lacks, false, at(3662))
			assert.True(t, b.TakeEvents().QuotaFreed, "that of others is free again")
			b.Forget("g")
		}
	})
}

// TestAStreamOfSmallGangsStarvesNoLargeOneOfAnotherTenant: the oldest gang is stuck, and is of a third tenant.
func TestAStreamOfSmallGangsStarvesNoLargeOneOfAnotherTenant(t *testing.T) {
	b := newBook(3, 0)
	b.WaitForRoom("stuck", in("third", 0), nil, at(0))
	b.WaitForRoom("large", in("red", 5), nil, at(5))
	b.WaitForRoom("larger", in("red", 6), nil, at(6))
	for range 3 {
		b.Bypassed(startIn("blue"), at(10))
	}
	assert.Equal(t, []string{"large", "stuck"}, slices.Sorted(slices.Values(b.TakeEvents().Decide)), "the first of each queue is starving")
	reserveOn(b, "stuck", "n", at(10))
	reserveOn(b, "large", "m", at(10))
	assert.Equal(t, []string{"stuck"}, keepers(b, "blue"), "the older one has the first turn")
	assert.Equal(t, []string{"large", "stuck"}, keepers(b, "red"))
	own, _ := quota.Turn(defaultRenewal, 0)
	for i, holder := range []string{"large", "stuck", "large"} {
		now := at(10).Add(own << i) // a turn becomes twice as long each time
		b.Tick(now.Add(-1))
		assert.NotEqual(t, []string{holder}, keepers(b, "blue"))
		b.TakeEvents()
		b.Tick(now)
		assert.Equal(t, []string{holder}, keepers(b, "blue"))
		assert.True(t, b.TakeEvents().RoomFreed)
	}
}

func TestTurnsAmongQueues(t *testing.T) {
	used := map[string]int64{"a": 3, "b": 2, "c": 1}
	share := quota.NewTree()
	share.Set("org", quota.Terms{})
	shares := quota.Shares{}
	for queue, cores := range used {
		share.Set(queue, quota.Terms{Parent: "org"})
		share.Add(queue, cpu(cores))
		shares[queue] = cpu(4)
	}
	b := newBook(0, time.Minute)
	b.SetRatio(func(queue string) quota.Ratio { return share.Ratio(queue, shares) })
	now := at(100)
	wait := func(queue string, rank Rank) {
		b.WaitForRoom(queue, rank, nil, at(0))
		reserveOn(b, queue, "n", now)
	}
	next := func(over time.Duration) string {
		now = now.Add(over)
		b.Tick(now)
		require.NotNil(t, b.Nodes())
		return b.Nodes().Key
	}
	turn, _ := quota.Turn(time.Minute, 0)
	wait("a", in("a", 0))
	require.Equal(t, "a", next(0), "no other waits")
	require.Equal(t, "a", next(100*turn), "nor does it end then")
	wait("b", in("b", 1))
	assert.Equal(t, "b", b.Nodes().Key, "as soon as another waits")
	wait("c", in("c", 2))
	assert.Equal(t, "b", next(turn-1), "a turn goes on")
	assert.Equal(t, "c", next(1), "it had none yet")
	assert.Equal(t, "a", next(turn), "its last turn is the longest ago")
	b.Forget("a")
	assert.Equal(t, "b", next(0), "it has started")
	wait("d", in("d", 3))
	wait("e", in("e", 3))
	share.Add("d", cpu(1))
	shares["d"], shares["e"] = cpu(4), cpu(4)
	b.Forget("b")
	assert.Equal(t, "e", next(0), "of two that had no turn, the one that uses less of its share")
	high := in("c", 2)
	high.Priority = 1
	b.WaitForRoom("c", high, nil, now)
	b.Tick(now)
	assert.Equal(t, "c", b.Nodes().Key, "a higher priority does not wait for the end of a turn")
	b.Attempts("c", false)
	assert.Equal(t, "c", next(1000*turn))
}

// TestAReservationMovesWithItsQueue: a gang goes to another queue, and another gang becomes the first of a queue.
func TestAReservationMovesWithItsQueue(t *testing.T) {
	b := newBook(0, time.Minute)
	b.WaitForRoom("g", in("a", 5), nil, at(0))
	b.WaitForRoom("next", in("a", 6), nil, at(0))
	reserveOn(b, "g", "n", at(100))
	b.TakeEvents()
	b.Rerank("g", in("b", 5))
	assert.True(t, b.TakeEvents().RoomFreed)
	assert.Empty(t, b.NodesAgainst("a"))
	b.Tick(at(100))
	assert.ElementsMatch(t, []string{"g", "next"}, b.TakeEvents().Decide)
	reserveOn(b, "next", "n", at(100))
	b.WaitForRoom("older", in("a", 0), nil, at(0))
	b.Tick(at(101))
	assert.Contains(t, b.TakeEvents().Decide, "older")
	reserveOn(b, "older", "n", at(101))
	assert.Nil(t, b.ReservedFor("next"))
	assert.Equal(t, []string{"older"}, keepers(b, "b"))
	assert.True(t, b.TakeEvents().RoomFreed)
}

// busyNode is a node that pods of several tenants use, with its book. Amounts are cores.
type busyNode struct {
	*rapid.T
	book  *Book[string]
	now   time.Time
	pods  []busyPod
	waits map[string]busyGang
	made  int
}

type busyPod struct {
	queue string
	size  int64
	ends  time.Time // zero for never
}

type busyGang struct {
	rank  Rank
	size  int64
	stuck bool // it can never start
}

const busySize = 10

var busyQueues = []string{"", "a", "b", "c"}

// used is the use of the pods that count.
func (c *busyNode) used(counts func(busyPod) bool) (sum int64) {
	for _, pod := range c.pods {
		if counts(pod) {
			sum += pod.size
		}
	}
	return sum
}

// free is the room for a queue beside what is reserved against it. For a gang, its own reservation does not count.
func (c *busyNode) free(queue, key string) int64 {
	free := busySize - c.used(func(busyPod) bool { return true })
	for _, n := range c.book.NodesAgainst(queue) {
		if n.Key != key {
			free -= n.Amounts["n"][corev1.ResourceCPU] / 1000
		}
	}
	return free
}

func (c *busyNode) starts(queue string, size int64, rank Rank) {
	c.pods = append(c.pods, busyPod{queue, size, c.now.Add(time.Duration(rapid.IntRange(1, 15).Draw(c.T, "runs")) * time.Second)})
	c.book.Bypassed(&Start{Rank: rank}, c.now)
}

func (c *busyNode) any(is func(busyGang) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.waits)), is)
}

// comes has small pods come, which start at once or go.
func (c *busyNode) comes() {
	for range rapid.IntRange(0, 6).Draw(c.T, "small") {
		queue, size := rapid.SampledFrom(busyQueues).Draw(c.T, "queue"), int64(rapid.IntRange(1, 2).Draw(c.T, "size"))
		if c.free(queue, "") >= size {
			c.made++
			c.starts(queue, size, Rank{Since: c.now, Seen: int64(c.made), Queue: queue})
		}
	}
}

// decides decides on the waiting gangs.
func (c *busyNode) decides() {
	for _, key := range slices.Sorted(maps.Keys(c.waits)) {
		g := c.waits[key]
		queue := g.rank.Queue
		if c.free(queue, key) >= g.size {
			delete(c.waits, key)
			c.book.Forget(key)
			c.starts(queue, g.size, g.rank)
			continue
		}
		c.book.WaitForRoom(key, g.rank, nil, c.now)
		if !c.book.StandingOf(key, c.now).Choose {
			continue
		}
		own := c.used(func(pod busyPod) bool { return queue != "" && pod.queue == queue })
		c.book.ReserveNodes(key, Choice{Amounts: map[string]resources.List{"n": cpu(g.size)}, AwaitsOwn: own+g.size > busySize}, c.now)
	}
}

// TestNoGangStarvesOnABusyNode: each gang that fits starts in the end. Small pods of all queues come all the time. Gangs of other queues wait for
// a pod that never ends. A gang that waits for its own queue keeps no room from others.
func TestNoGangStarvesOnABusyNode(t *testing.T) {
	mustertesting.Histories(t, 300, func(t *rapid.T) {
		bounds := Bounds{Bypasses: rapid.IntRange(0, 5).Draw(t, "bypasses")}
		bounds.Age = time.Duration(rapid.IntRange(10, 30).Draw(t, "age")) * time.Second
		c := &busyNode{T: t, book: newBook(bounds.Bypasses, bounds.Age), now: at(0), waits: map[string]busyGang{}}
		lasts := busyPod{queue: rapid.SampledFrom(busyQueues).Draw(t, "lasts"), size: 1}
		c.pods = append(c.pods, lasts)
		for i := range rapid.IntRange(1, 5).Draw(t, "gangs") {
			key, size := fmt.Sprint("g", i), int64(rapid.IntRange(4, busySize).Draw(t, "size"))
			queue := rapid.SampledFrom(busyQueues[1:]).Draw(t, "queue")
			g := busyGang{in(queue, -10+i), size, size == busySize}
			if !c.any(func(other busyGang) bool { return other.rank.Queue == queue && (other.stuck || g.stuck) }) {
				c.waits[key] = g // within a queue a gang that never starts may block those behind it
			}
		}
		for range 1500 {
			if !c.any(func(g busyGang) bool { return !g.stuck }) {
				return
			}
			c.now = c.now.Add(time.Second)
			c.pods = slices.DeleteFunc(c.pods, func(pod busyPod) bool { return !pod.ends.IsZero() && !c.now.Before(pod.ends) })
			c.decides()
			c.comes()
			c.book.Tick(c.now)
			if n := c.book.Nodes(); n != nil && c.waits[n.Key].stuck {
				assert.NotEqual(t, lasts.queue, n.Queue, "%s waits for a pod of its own queue, and keeps room from others", n.Key)
			}
		}
		assert.Fail(t, "a gang that fits has not started", "%v", c.waits)
	})
}
