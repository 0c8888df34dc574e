package reservations

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

var start = time.Unix(1000, 0)

// at is some seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// rankAt is the rank of a gang of priority 0 that was created some seconds after the start.
func rankAt(seconds int) Rank { return Rank{Since: at(seconds)} }

func cpu(cores int64) resources.List { return resources.List{corev1.ResourceCPU: cores * 1000} }

func claimOf(queue string, cores int64) quota.Claim {
	return quota.Claim{Queue: queue, Want: cpu(cores)}
}

var lacksCPU = &quota.Shortage{Queue: "org", Resource: corev1.ResourceCPU}

func newBook(bypasses int, age time.Duration) *Book[string] {
	b := New[string]()
	b.SetBounds(Bounds{Bypasses: bypasses, Age: age})
	return b
}

// isWaiting says whether a gang is on a list.
func isWaiting(b *Book[string], key string) bool {
	w := b.gangs[key]
	return w != nil && (lists(b.room, w.rank.Queue).Has(w) || lists(b.quota, w.claim.Queue).Has(w))
}

// lists are the gangs on a list.
func lists(of map[string]*list[string], name string) sets.Set[*waiting[string]] {
	if of[name] == nil {
		return nil
	}
	return of[name].members
}

// on is a place of one core on a node.
func on(node string) Choice {
	return Choice{Places: map[types.UID]string{"pod": node}, Amounts: map[string]resources.List{node: cpu(1)}}
}

// reserveOn reserves a place on a node for a gang, and says whether the amounts have changed.
func reserveOn(b *Book[string], key, node string, now time.Time) (changed bool) {
	before := b.version
	b.ReserveNodes(key, on(node), now)
	return b.version != before
}

func TestRanks(t *testing.T) {
	inOrder := []Rank{
		{Repair: true, Priority: 0, Since: at(9)},
		{Priority: 5, Since: at(9)},
		{Priority: 0, Since: at(1), Seen: 9},
		{Priority: 0, Since: at(2), Seen: 1},
		{Priority: 0, Since: at(2), Seen: 2},
		{Priority: -1, Since: at(0)},
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			switch order := a.Compare(b); {
			case i < j:
				assert.Negative(t, order, "%v, %v", a, b)
			case i > j:
				assert.Positive(t, order, "%v, %v", a, b)
			default:
				assert.Zero(t, order)
			}
		}
	}
}

func TestWhichStartsBypassAGang(t *testing.T) {
	waits := Rank{Priority: 5, Since: at(100), Seen: 7}
	for name, c := range map[string]struct {
		start     Start
		bypassing bool
	}{
		"a younger one":               {Start{Rank: Rank{Priority: 5, Since: at(101)}}, true},
		"one seen later":              {Start{Rank: Rank{Priority: 5, Since: at(100), Seen: 8}}, true},
		"one seen before":             {Start{Rank: Rank{Priority: 5, Since: at(100), Seen: 6}}, false},
		"surplus of one seen before":  {Start{Rank: Rank{Priority: 5, Since: at(100), Seen: 6}, Surplus: true}, true},
		"one under repair":            {Start{Rank: Rank{Priority: 5, Since: at(101), Repair: true}}, false},
		"an older one":                {Start{Rank: Rank{Priority: 5, Since: at(99)}}, false},
		"surplus of an older one":     {Start{Rank: Rank{Priority: 5, Since: at(99)}, Surplus: true}, true},
		"an older one, less priority": {Start{Rank: Rank{Priority: 4, Since: at(99)}}, true},
		"a higher priority":           {Start{Rank: Rank{Priority: 6, Since: at(101)}}, false},
		"surplus of higher priority":  {Start{Rank: Rank{Priority: 6, Since: at(101)}, Surplus: true}, false},
	} {
		assert.Equal(t, c.bypassing, c.start.bypasses(waits), name)
	}
}

func TestAGangIsStarvingWhenItWasBypassedTooOften(t *testing.T) {
	b := newBook(2, 0)
	b.WaitForRoom("first", rankAt(0), nil, at(0))
	b.WaitForRoom("second", rankAt(1), nil, at(1))
	for i, want := range []bool{false, true} {
		b.Bypassed(&Start{Rank: rankAt(5)}, at(5))
		assert.Equal(t, want, b.StandingOf("first", at(5)).Choose, "bypassed %d times", i+1)
		assert.Equal(t, want, slices.Contains(b.TakeEvents().Decide, "first"))
	}
	assert.False(t, b.StandingOf("second", at(5)).Choose, "only the first counts")
	b.Forget("first")
	assert.False(t, b.StandingOf("second", at(500)).Choose, "it has its own count")
}

func TestAGangIsStarvingWhenItHasWaitedTooLong(t *testing.T) {
	b := newBook(0, time.Minute)
	b.WaitForRoom("g", rankAt(0), nil, at(10))
	b.Tick(at(69))
	assert.Empty(t, b.TakeEvents().Decide)
	b.Tick(at(70))
	assert.Equal(t, []string{"g"}, b.TakeEvents().Decide)
	b.Attempts("g", true)
	b.WaitForRoom("g", rankAt(0), nil, at(80))
	assert.True(t, b.StandingOf("g", at(80)).Choose, "what it has gone through is not forgotten")
	b.Suspend("g")
	assert.False(t, b.StandingOf("g", at(80)).Choose, "something else keeps it from starting")
}

// TestSurplusIsToldWhenAGangBeginsToStarve: only the clock says so, and from then on surplus may use room that the gang needs.
func TestSurplusIsToldWhenAGangBeginsToStarve(t *testing.T) {
	b := newBook(0, time.Minute)
	b.WaitForRoom("first", rankAt(0), namedNeed("first"), at(0))
	b.WaitForRoom("second", rankAt(1), namedNeed("second"), at(10))
	b.TakeEvents()
	for _, step := range []struct {
		at    int
		freed bool
		holds []Need
	}{{59, false, []Need{namedNeed("first"), namedNeed("second")}}, {60, true, []Need{namedNeed("second")}}, {61, false, []Need{namedNeed("second")}}, {70, true, nil}} {
		b.Tick(at(step.at))
		assert.Equal(t, step.freed, b.TakeEvents().HoldFreed, "after %d s", step.at)
		assert.ElementsMatch(t, step.holds, b.Holds("", 0, at(step.at), all), "after %d s", step.at)
	}
}

// TestEveryWaitingGangHoldsSurplusBack: however many wait before it. Of equal needs one stands for all.
func TestEveryWaitingGangHoldsSurplusBack(t *testing.T) {
	b := newBook(0, 0)
	for i := range 100 {
		b.WaitForRoom(fmt.Sprint("older", i), rankAt(i), namedNeed("gpu"), at(i))
	}
	b.WaitForRoom("last", rankAt(100), namedNeed("cpu"), at(100))
	assert.ElementsMatch(t, []Need{namedNeed("gpu"), namedNeed("cpu")}, b.Holds("", 0, at(100), all))
	b.Forget("older0")
	assert.Len(t, b.Holds("", 0, at(100), all), 2, "others have the same need")
	b.Forget("last")
	assert.Equal(t, []Need{namedNeed("gpu")}, b.Holds("", 0, at(100), all))
}

func TestSurplusIsToldWhenTheFirstOfAQueueAsksForLess(t *testing.T) {
	b := newBook(0, 0)
	b.WaitForQuota("g", rankAt(0), claimOf("a", 6), lacksCPU, false, at(0))
	b.TakeEvents()
	b.WaitForQuota("g", rankAt(0), claimOf("a", 4), lacksCPU, false, at(1))
	assert.True(t, b.TakeEvents().QuotaFreed)
}

func TestWithoutBoundsNothingIsReserved(t *testing.T) {
	b := newBook(0, 0)
	b.WaitForRoom("r", rankAt(0), nil, at(0))
	b.WaitForQuota("q", rankAt(0), claimOf("a", 1), lacksCPU, false, at(0))
	for range 100 {
		b.Bypassed(&Start{Rank: rankAt(5), Path: []string{"org"}, Amount: cpu(1)}, at(5))
	}
	b.Tick(at(1_000_000))
	assert.Empty(t, b.TakeEvents().Decide)
	assert.Empty(t, b.Claims("", 0, false))
}

func TestAGangUnderRepairIsFirstAndStarvingAtOnce(t *testing.T) {
	b := newBook(0, 0)
	b.WaitForRoom("older", Rank{Priority: 100, Since: at(0)}, nil, at(0))
	repair := Rank{Repair: true, Since: at(5)}
	b.WaitForRoom("broken", repair, nil, at(5))
	require.Equal(t, []string{"broken"}, b.TakeEvents().Decide)
	require.True(t, reserveOn(b, "broken", "n", at(5)))
	assert.Equal(t, int32(repairPriority), b.Nodes().Priority)
	b.Rerank("broken", Rank{Since: at(5)})
	assert.Nil(t, b.Nodes(), "it is under repair no more")
	assert.True(t, b.TakeEvents().RoomFreed)
}

func TestReservedNodes(t *testing.T) {
	b := newBook(1, 0)
	b.WaitForRoom("g", Rank{Priority: 7, Since: at(0)}, nil, at(0))
	assert.True(t, reserveOn(b, "g", "n", at(1)))
	nodes := b.Nodes()
	assert.Equal(t, int32(7), nodes.Priority)
	assert.True(t, nodes.On("n"))
	assert.False(t, nodes.On("other"))
	for name, c := range map[string]struct {
		node           string
		free, requests resources.List
		barred         bool
	}{
		"room beside it":            {"n", cpu(2), cpu(1), false},
		"no room beside it":         {"n", cpu(2), cpu(2), true},
		"none at all":               {"n", cpu(0), cpu(1), true},
		"nothing of that resource":  {"n", cpu(0), resources.List{corev1.ResourceMemory: 0}, false},
		"on another node":           {"other", cpu(1), cpu(1), false},
		"another resource in short": {"n", resources.List{corev1.ResourceCPU: 2000}, resources.List{corev1.ResourceMemory: 1}, true},
	} {
		assert.Equal(t, c.barred, Kept[string]{nodes}.Bars(c.node, c.free, c.requests, nil), name)
	}
	assert.False(t, reserveOn(b, "g", "n", at(2)), "the same amounts")
	assert.Equal(t, nodes.Version, b.Nodes().Version)
	b.TakeEvents()
	assert.True(t, reserveOn(b, "g", "m", at(3)))
	assert.NotEqual(t, nodes.Version, b.Nodes().Version)
	assert.True(t, b.TakeEvents().RoomFreed, "what was reserved before is free")
	assert.False(t, reserveOn(b, "unknown", "n", at(3)))
}

func TestReservedNodesAreGivenBack(t *testing.T) {
	for name, end := range map[string]func(b *Book[string]){
		"it starts":             func(b *Book[string]) { b.Forget("g") },
		"it changes":            func(b *Book[string]) { b.Suspend("g") },
		"it lacks quota":        func(b *Book[string]) { b.WaitForQuota("g", rankAt(0), claimOf("a", 1), lacksCPU, false, at(1)) },
		"no nodes are as large": func(b *Book[string]) { b.TooLarge("g", rankAt(0), at(1)) },
		"there are no places":   func(b *Book[string]) { b.BackOff("g", at(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(1, 0)
			b.WaitForRoom("g", rankAt(0), nil, at(0))
			reserveOn(b, "g", "n", at(0))
			b.TakeEvents()
			end(b)
			assert.Nil(t, b.Nodes())
			assert.Nil(t, b.ReservedFor("g"))
			assert.True(t, b.TakeEvents().RoomFreed)
		})
	}
	b := newBook(1, 0)
	b.WaitForRoom("g", rankAt(0), nil, at(0))
	reserveOn(b, "g", "n", at(0))
	b.Attempts("g", true)
	assert.NotNil(t, b.ReservedFor("g"), "an attempt keeps them: it may fail")
	b.Failed("g")
	assert.NotNil(t, b.ReservedFor("g"))
}

func TestPlacesAreChosenOnceASecondAndRenewed(t *testing.T) {
	b := newBook(1, time.Minute)
	b.WaitForRoom("g", rankAt(0), nil, at(0))
	choice := on("n")
	choice.Avoid = sets.New("avoided")
	b.ReserveNodes("g", choice, at(0))
	s := b.StandingOf("g", at(0).Add(400*time.Millisecond))
	assert.Equal(t, Standing{Places: map[types.UID]string{"pod": "n"}, Avoid: sets.New("avoided"), RetryIn: 600 * time.Millisecond}, s)
	assert.True(t, b.StandingOf("g", at(1)).Choose)
	reserveOn(b, "g", "n", at(30))
	assert.False(t, b.StandingOf("g", at(59)).Renew)
	assert.True(t, b.StandingOf("g", at(60)).Renew, "the clock runs since the first choice")
	b.TakeEvents()
	b.Tick(at(60))
	assert.Contains(t, b.TakeEvents().Decide, "g")
	reserveOn(b, "g", "m", at(60))
	assert.False(t, b.StandingOf("g", at(119)).Renew)
}

// TestAnotherGangWaitsForPlacesFromTheBeginning: an older gang gets the very places that were reserved. How long the other one has waited for
// them does not count for it.
func TestAnotherGangWaitsForPlacesFromTheBeginning(t *testing.T) {
	b := newBook(1, time.Minute)
	b.WaitForRoom("younger", rankAt(1), nil, at(0))
	reserveOn(b, "younger", "n", at(0))
	b.WaitForRoom("older", rankAt(0), nil, at(30))
	b.TakeEvents()
	reserveOn(b, "older", "n", at(30))
	assert.True(t, b.TakeEvents().RoomFreed)
	assert.Nil(t, b.ReservedFor("younger"))
	assert.False(t, b.StandingOf("older", at(89)).Renew)
	assert.True(t, b.StandingOf("older", at(90)).Renew)
}

func TestAGangThatBacksOffIsTriedLessAndLessOften(t *testing.T) {
	b := newBook(1, time.Minute)
	b.WaitForRoom("next", rankAt(1), nil, at(0))
	now := at(0)
	for _, pause := range []int{10, 20, 40, 60, 60} {
		b.WaitForRoom("g", rankAt(0), nil, now)
		b.BackOff("g", now)
		b.WaitForRoom("g", rankAt(0), nil, now)
		assert.True(t, b.StandingOf("g", now).NoPlaces)
		assert.False(t, isWaiting(b, "g"), "the next in order has its turn")
		b.Tick(now.Add(time.Duration(pause)*time.Second - 1))
		assert.NotContains(t, b.TakeEvents().Decide, "g")
		now = now.Add(time.Duration(pause) * time.Second)
		b.Tick(now)
		assert.Contains(t, b.TakeEvents().Decide, "g")
		assert.False(t, b.StandingOf("g", now).NoPlaces)
	}
}

func TestQuotaIsReservedForTheFirstOfAQueueThatIsStarving(t *testing.T) {
	b := newBook(1, 0)
	b.WaitForQuota("first", rankAt(0), claimOf("a", 6), lacksCPU, false, at(0))
	b.WaitForQuota("second", rankAt(1), claimOf("a", 5), lacksCPU, false, at(1))
	b.WaitForQuota("beside", rankAt(2), claimOf("b", 4), lacksCPU, false, at(2))
	for name, start := range map[string]*Start{
		"another branch":   {Rank: rankAt(9), Path: []string{"c", "root"}, Amount: cpu(1)},
		"another resource": {Rank: rankAt(9), Path: []string{"a", "org"}, Amount: resources.List{corev1.ResourceMemory: 1}},
		"an older gang":    {Rank: rankAt(-1), Path: []string{"a", "org"}, Amount: cpu(1)},
		"no queue":         {Rank: rankAt(9)},
	} {
		b.Bypassed(start, at(3))
		assert.Empty(t, b.Claims("", 0, false), name)
	}
	b.Bypassed(&Start{Rank: rankAt(9), Path: []string{"c", "org"}, Amount: cpu(1)}, at(3))
	assert.Equal(t, []quota.Claim{claimOf("a", 6), claimOf("b", 4)}, b.Claims("", 0, false), "one for each queue, in order")
	assert.Empty(t, b.Claims("", 1, false), "a higher priority waits for none of them")
	assert.Empty(t, b.Claims("first", 0, false), "nor a gang for those behind it")
	assert.Equal(t, []quota.Claim{claimOf("a", 6)}, b.Claims("beside", 0, false))
	assert.True(t, b.StandingOf("first", at(3)).QuotaReserved)
	b.Attempts("first", true)
	assert.Equal(t, []quota.Claim{claimOf("b", 4)}, b.Claims("", 0, false), "its part is assumed")
	b.Failed("first")
	assert.Len(t, b.Claims("", 0, false), 2)
	b.Forget("first")
	assert.Equal(t, []quota.Claim{claimOf("b", 4)}, b.Claims("", 0, false), "the next has its own count")
	assert.True(t, b.TakeEvents().QuotaFreed)
}

// TestSurplusLeavesQuotaToEveryWaitingGang: to the first of each queue, and to each other one beside it. Equal claims count once.
func TestSurplusLeavesQuotaToEveryWaitingGang(t *testing.T) {
	b := newBook(0, 0)
	b.WaitForQuota("first", Rank{Priority: 5, Since: at(0)}, claimOf("a", 6), lacksCPU, false, at(0))
	b.WaitForQuota("second", Rank{Priority: 5, Since: at(1)}, claimOf("a", 5), lacksCPU, false, at(1))
	b.WaitForQuota("third", Rank{Priority: 5, Since: at(2)}, claimOf("a", 5), lacksCPU, false, at(2))
	beside := claimOf("a", 5)
	beside.Beside = true
	assert.Equal(t, []quota.Claim{claimOf("a", 6), beside}, b.Claims("", 5, true))
	assert.Empty(t, b.Claims("", 6, true))
	b.TakeEvents()
	b.Rerank("second", Rank{Priority: 1, Since: at(1)})
	assert.True(t, b.TakeEvents().QuotaFreed)
	b.Forget("third")
	assert.Equal(t, []quota.Claim{claimOf("a", 6)}, b.Claims("", 5, true))
	assert.Empty(t, b.Claims("", 5, false))
}

// TestSurplusCountsAReservationOnce: quota stays reserved for a gang when an older one comes. Surplus leaves quota to both together.
func TestSurplusCountsAReservationOnce(t *testing.T) {
	b := newBook(1, 0)
	b.WaitForQuota("younger", rankAt(1), claimOf("a", 6), lacksCPU, false, at(1))
	b.Bypassed(&Start{Rank: rankAt(2), Path: []string{"a", "org"}, Amount: cpu(1)}, at(2))
	b.WaitForQuota("older", rankAt(0), claimOf("a", 4), lacksCPU, false, at(3))
	claims := b.Claims("", 0, true)
	require.Len(t, claims, 2)
	for i, want := range []resources.List{cpu(4), cpu(6)} {
		assert.Equal(t, want, claims[i].Want)
		assert.False(t, claims[i].Beside)
	}
}

func TestAGangThatAsksForTooMuchOfAQueueIsOnNoList(t *testing.T) {
	b := newBook(1, time.Minute)
	b.WaitForQuota("huge", rankAt(0), claimOf("a", 100), lacksCPU, true, at(0))
	b.WaitForQuota("next", rankAt(1), claimOf("a", 5), lacksCPU, false, at(0))
	b.Tick(at(60))
	assert.Equal(t, []quota.Claim{claimOf("a", 5)}, b.Claims("", 0, false))
	b.WaitForQuota("huge", rankAt(0), claimOf("a", 100), lacksCPU, false, at(61))
	assert.Equal(t, []quota.Claim{claimOf("a", 100)}, b.Claims("", 0, false), "the capability was raised: one at a time")
}

func TestTurnsAtQuota(t *testing.T) {
	b := newBook(0, time.Minute)
	now := at(0)
	wait := func() { b.WaitForQuota("g", rankAt(0), claimOf("a", 6), lacksCPU, false, now) }
	wait()
	now = at(60)
	b.Tick(now)
	for retries := range quota.LongestTurn + 2 {
		own, others := quota.Turn(time.Minute, retries)
		require.Len(t, b.Claims("", 0, false), 1)
		b.TakeEvents()
		b.Tick(now.Add(own - 1))
		require.Len(t, b.Claims("", 0, false), 1)
		now = now.Add(own)
		b.Tick(now)
		events := b.TakeEvents()
		assert.True(t, events.QuotaFreed)
		assert.Contains(t, events.Decide, "g")
		wait()
		assert.Empty(t, b.Claims("", 0, true), "others have their turn")
		assert.Equal(t, others, b.QuotaRetryIn("g", now))
		now = now.Add(others)
		wait()
	}
}

// TestATurnAtQuotaDoesNotEndDuringAnAttempt: an attempt that fails late costs the gang no turn.
func TestATurnAtQuotaDoesNotEndDuringAnAttempt(t *testing.T) {
	b := newBook(0, time.Minute)
	b.WaitForQuota("g", rankAt(0), claimOf("a", 6), lacksCPU, false, at(0))
	b.Tick(at(60))
	require.True(t, b.StandingOf("g", at(60)).QuotaReserved)
	b.HasQuota("g", claimOf("a", 6))
	b.Attempts("g", true)
	b.TakeEvents()
	own, _ := quota.Turn(time.Minute, 0)
	late := at(60).Add(2 * own)
	b.Tick(late)
	assert.True(t, b.StandingOf("g", late).QuotaReserved)
	assert.False(t, b.TakeEvents().QuotaFreed)
	assert.Empty(t, b.Claims("", 0, false), "the attempt has assumed the quota")
	b.Failed("g")
	assert.Len(t, b.Claims("", 0, false), 1)
	b.Tick(late)
	assert.False(t, b.StandingOf("g", late).QuotaReserved)
	assert.True(t, b.TakeEvents().QuotaFreed)
}

func TestQuotaStaysReservedWhileRoomIsLacking(t *testing.T) {
	b := newBook(0, time.Minute)
	b.WaitForQuota("g", rankAt(0), claimOf("a", 6), lacksCPU, false, at(0))
	b.Tick(at(60))
	b.HasQuota("g", claimOf("a", 5))
	b.WaitForRoom("g", rankAt(0), nil, at(61))
	assert.Equal(t, []quota.Claim{claimOf("a", 5)}, b.Claims("", 0, false), "as much as it asks for now")
	assert.True(t, b.StandingOf("g", at(61)).Choose, "it is starving for room, too")
	reserveOn(b, "g", "n", at(61))
	b.Tick(at(60 + 4*60))
	assert.Empty(t, b.Claims("", 0, false), "not for ever")
	b.WaitForRoom("other", rankAt(1), nil, at(0))
	b.HasQuota("other", claimOf("a", 1))
	assert.Empty(t, b.Claims("", 0, true), "one for which nothing is reserved is off the list")
}

func TestReservedQuotaEndsWithTheHopeForRoom(t *testing.T) {
	for name, end := range map[string]func(b *Book[string]){
		"no nodes are as large": func(b *Book[string]) { b.TooLarge("g", rankAt(0), at(61)) },
		"there are no places":   func(b *Book[string]) { b.BackOff("g", at(61)) },
		"it goes to another queue": func(b *Book[string]) {
			b.ForgetQuota("g")
			b.WaitForQuota("g", rankAt(0), claimOf("b", 6), lacksCPU, false, at(61))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(0, time.Minute)
			b.WaitForQuota("g", rankAt(0), claimOf("a", 6), lacksCPU, false, at(0))
			b.Tick(at(60))
			require.Len(t, b.Claims("", 0, false), 1)
			b.HasQuota("g", claimOf("a", 6))
			b.WaitForRoom("g", rankAt(0), nil, at(61))
			b.TakeEvents()
			end(b)
			assert.Empty(t, b.Claims("", 0, false))
			assert.True(t, b.TakeEvents().QuotaFreed)
		})
	}
}

// all counts every gang.
func all(string) bool { return true }

// TestAReservationForRepairEndsWithTheRepair: the gang waits on, and what was kept for it is free at once.
func TestAReservationForRepairEndsWithTheRepair(t *testing.T) {
	b := newBook(0, 0)
	repair, after := rankAt(0), rankAt(0)
	repair.Repair = true
	b.WaitForRoom("g", repair, nil, at(0))
	reserveOn(b, "g", "n", at(0))
	require.NotNil(t, b.ReservedFor("g"))
	b.TakeEvents()
	b.Rerank("g", after)
	assert.Nil(t, b.ReservedFor("g"))
	assert.True(t, b.TakeEvents().RoomFreed)
	assert.False(t, b.WaitsSince("g").IsZero())
	assert.True(t, isWaiting(b, "g"))
}
