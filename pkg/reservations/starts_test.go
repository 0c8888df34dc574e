package reservations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// withStarts is a book that gives the first gang of each queue a start, and has no other bounds.
func withStarts() *Book[string] {
	b := New[string]()
	b.SetBounds(Bounds{Starts: true})
	return b
}

// starting is a choice of places on a node with a start.
func starting(node string, seconds int) Choice {
	choice := on(node)
	choice.Start = at(seconds)
	return choice
}

// TestTheFirstGangOfAQueueGetsAStartAtOnce, though it is not starving.
func TestTheFirstGangOfAQueueGetsAStartAtOnce(t *testing.T) {
	b := withStarts()
	b.WaitForRoom("g", in("a", 0), nil, at(0))
	b.WaitForRoom("next", in("a", 1), nil, at(0))
	b.WaitForRoom("other", in("b", 2), nil, at(0))
	assert.ElementsMatch(t, []string{"g", "g", "other"}, b.TakeEvents().Decide)
	s := b.StandingOf("g", at(0))
	assert.True(t, s.Choose && s.OnlyWithStart)
	assert.False(t, b.StandingOf("next", at(0)).Choose)

	b.ReserveNodes("g", starting("n", 100), at(0))
	require.NotNil(t, b.ReservedFor("g"))
	assert.Equal(t, at(100), b.ReservedFor("g").Start)
	assert.Nil(t, b.ReservedFor("next"))
	assert.False(t, b.StandingOf("g", at(4)).Choose, "it was chosen a short time ago")
	assert.True(t, b.StandingOf("g", at(5)).Choose)

	b.SetBounds(Bounds{})
	assert.False(t, b.StandingOf("other", at(0)).Choose, "without starts only starving gangs get reservations")
}

// TestAStartThatIsNotKnownIsLookedForAgain, ever more seldom.
func TestAStartThatIsNotKnownIsLookedForAgain(t *testing.T) {
	b := withStarts()
	b.SetBounds(Bounds{Starts: true, Age: time.Hour})
	b.WaitForRoom("g", in("a", 0), nil, at(0))
	b.NoStart("g", at(0))
	assert.Empty(t, b.TakeEvents().Decide)
	b.Tick(at(9))
	assert.Empty(t, b.TakeEvents().Decide)
	assert.False(t, b.StandingOf("g", at(9)).Choose)
	b.Tick(at(10))
	assert.Equal(t, []string{"g"}, b.TakeEvents().Decide)
	b.NoStart("g", at(10))
	b.Tick(at(29))
	assert.Empty(t, b.TakeEvents().Decide)
	b.Tick(at(30))
	assert.Equal(t, []string{"g"}, b.TakeEvents().Decide)
	b.ReserveNodes("g", starting("n", 100), at(30))
	b.NoStart("g", at(40))
	assert.Nil(t, b.ReservedFor("g"))
	assert.True(t, b.TakeEvents().RoomFreed)
	s := b.StandingOf("g", at(3600))
	assert.True(t, s.Choose && !s.OnlyWithStart, "when it is starving it needs no start")
}

// TestAgainstWhomAStartHolds: who ranks behind and does not end before.
func TestAgainstWhomAStartHolds(t *testing.T) {
	b := withStarts()
	b.WaitForRoom("g", in("a", 10), nil, at(10))
	b.ReserveNodes("g", starting("n", 100), at(10))
	n := b.ReservedFor("g")
	high := in("b", 20)
	high.Priority = 1
	for name, c := range map[string]struct {
		start *Start
		end   time.Time
		known bool
		holds bool
	}{
		"a later gang that ends by then":    {&Start{Rank: in("b", 20)}, at(100), true, false},
		"a later one that ends after":       {&Start{Rank: in("b", 20)}, at(101), true, true},
		"a later one of an unknown length":  {&Start{Rank: in("b", 20)}, time.Time{}, false, true},
		"an older one":                      {&Start{Rank: in("b", 5)}, at(101), true, false},
		"one of a higher priority":          {&Start{Rank: high}, at(101), true, false},
		"surplus of an older gang":          {&Start{Rank: in("b", 5), Surplus: true}, at(101), true, true},
		"surplus that ends by then":         {&Start{Rank: in("b", 5), Surplus: true}, at(99), true, false},
		"a later one of the gang's queue":   {&Start{Rank: in("a", 20)}, at(101), true, true},
		"a later one of no queue, for ever": {&Start{Rank: Rank{Since: at(20)}}, time.Time{}, false, true},
	} {
		assert.Equal(t, c.holds, n.HoldsAgainst(c.start, c.end, c.known), name)
	}
	b.ReserveNodes("g", on("n"), at(20))
	assert.True(t, b.ReservedFor("g").HoldsAgainst(&Start{Rank: in("b", 5)}, at(21), true), "without a start it holds against all")
}

// TestWhatAStartKeeps: of each node what will not have come free by then.
func TestWhatAStartKeeps(t *testing.T) {
	n := &Nodes[string]{Amounts: map[string]resources.List{"n": cpu(4)}, Start: at(100)}
	ending := func(cores int64) func(time.Time) resources.List {
		return func(by time.Time) resources.List {
			assert.Equal(t, at(100), by)
			return cpu(cores)
		}
	}
	for cores, kept := range map[int64]int64{0: 4, 1: 3, 4: 0, 9: 0} {
		assert.Equal(t, 1000*kept, n.KeptOn("n", ending(cores))[corev1.ResourceCPU])
	}
	assert.Empty(t, n.KeptOn("other", ending(0)))
	both := Kept[string]{n, {Amounts: map[string]resources.List{"n": cpu(1)}}}
	assert.True(t, both.On("n"))
	assert.False(t, both.On("other"))
	assert.False(t, both.Bars("n", cpu(4), cpu(2), ending(3)), "3 of 4 come free, and 1 is kept for the other gang")
	assert.True(t, both.Bars("n", cpu(4), cpu(3), ending(3)))
	assert.False(t, both.Bars("other", cpu(4), cpu(4), ending(0)))
}

// TestWhatComesFreeDoesSoForOneStart: two reservations on a node do not both count on the same room.
func TestWhatComesFreeDoesSoForOneStart(t *testing.T) {
	reserved := func(cores int64, seconds int) *Nodes[string] {
		return &Nodes[string]{Amounts: map[string]resources.List{"n": cpu(cores)}, Start: at(seconds)}
	}
	const free, endsAt50, endsAt150 = 4, 6, 2
	ending := func(by time.Time) resources.List {
		if by.Before(at(150)) {
			return cpu(endsAt50)
		}
		return cpu(endsAt50 + endsAt150)
	}
	for name, c := range map[string]struct {
		kept Kept[string]
		left int64 // of what is free
	}{
		"one":                               {Kept[string]{reserved(5, 100)}, 4},
		"two that start together":           {Kept[string]{reserved(5, 100), reserved(5, 100)}, 0},
		"smaller ones":                      {Kept[string]{reserved(4, 100), reserved(3, 100)}, 3},
		"the second has more":               {Kept[string]{reserved(5, 100), reserved(5, 200)}, 2},
		"the later one first, to be safe":   {Kept[string]{reserved(5, 200), reserved(5, 100)}, 0},
		"one without a start uses none":     {Kept[string]{reserved(5, 100), {Amounts: map[string]resources.List{"n": cpu(3)}}}, 1},
		"the later one uses all that comes": {Kept[string]{reserved(8, 200), reserved(2, 100)}, 2},
	} {
		assert.False(t, c.kept.Bars("n", cpu(free), cpu(c.left), ending), name)
		assert.True(t, c.kept.Bars("n", cpu(free), cpu(c.left+1), ending), name)
	}
}

// TestTheFirstOfAllStartsHoldsAgainstAllQueues, the others within their own.
func TestTheFirstOfAllStartsHoldsAgainstAllQueues(t *testing.T) {
	b := withStarts()
	b.WaitForRoom("late", in("a", 5), namedNeed("late"), at(5))
	b.WaitForRoom("early", in("b", 1), namedNeed("early"), at(5))
	b.ReserveNodes("late", starting("n", 100), at(5))
	assert.Equal(t, []string{"late"}, keepers(b, "c"))
	assert.Empty(t, b.Nodes(), "no queue has a turn")
	b.TakeEvents()
	b.ReserveNodes("early", starting("m", 200), at(5))
	assert.Equal(t, []string{"early"}, keepers(b, "c"))
	assert.Equal(t, []string{"early", "late"}, keepers(b, "a"))
	assert.True(t, b.TakeEvents().RoomFreed, "other queues need not leave the later one its room any more")
	assert.Len(t, b.Holds("c", 0, at(5), all), 1, "surplus leaves the first its places alone, and the other what it needs")

	b.Forget("early")
	b.Bypassed(startIn("b"), at(6))
	assert.Equal(t, []string{"late"}, keepers(b, "c"))

	b.ReserveNodes("late", starting("n", 300), at(100))
	b.Tick(at(100).Add(defaultRenewal - time.Second))
	assert.Equal(t, []string{"late"}, keepers(b, "c"))
	b.TakeEvents()
	b.Tick(at(100).Add(defaultRenewal))
	assert.Empty(t, keepers(b, "c"), "its first start has passed for long: the estimates are wrong")
	assert.Equal(t, []string{"late"}, keepers(b, "a"))
	assert.True(t, b.TakeEvents().RoomFreed)
}

// TestAStartThatWaitsForItsOwnQueueHoldsWithinIt: other queues could not start the gang sooner, and their nodes would stand idle.
func TestAStartThatWaitsForItsOwnQueueHoldsWithinIt(t *testing.T) {
	b := withStarts()
	b.WaitForRoom("early", in("a", 1), namedNeed("early"), at(5))
	b.WaitForRoom("late", in("b", 5), namedNeed("late"), at(5))
	b.ReserveNodes("late", starting("m", 200), at(5))
	own := starting("n", 100)
	own.AwaitsOwn = true
	b.ReserveNodes("early", own, at(5))
	assert.Equal(t, []string{"late"}, keepers(b, "c"))
	assert.ElementsMatch(t, []string{"early", "late"}, keepers(b, "a"))

	b.ReserveNodes("early", starting("n", 100), at(50))
	assert.Equal(t, []string{"early"}, keepers(b, "c"), "now others end last")
	b.TakeEvents()
	b.ReserveNodes("early", own, at(60))
	assert.Equal(t, []string{"late"}, keepers(b, "c"))
	assert.True(t, b.TakeEvents().RoomFreed, "other queues may take what was kept for it")
}

// TestAFarStartHoldsWithinItsQueue until it is a day away.
func TestAFarStartHoldsWithinItsQueue(t *testing.T) {
	const day = 24 * 3600
	b := withStarts()
	b.WaitForRoom("far", in("a", 0), nil, at(0))
	b.WaitForRoom("near", in("b", 1), nil, at(0))
	b.ReserveNodes("far", starting("n", day+100), at(0))
	assert.Equal(t, []string{"far"}, keepers(b, "a"))
	assert.Empty(t, keepers(b, "other"))
	b.ReserveNodes("near", starting("m", 100), at(0))
	assert.Equal(t, []string{"near"}, keepers(b, "other"), "its start is the first within the window")
	b.Tick(at(99))
	assert.Equal(t, []string{"near"}, keepers(b, "other"))
	b.Tick(at(100))
	assert.Equal(t, []string{"far"}, keepers(b, "other"))
}

// TestWhenAStartIsFoundAnew: when something has ended, a gang before it has started, or it has passed. Not more often than every few seconds.
func TestWhenAStartIsFoundAnew(t *testing.T) {
	b := withStarts()
	b.WaitForRoom("g", in("a", 0), nil, at(0))
	b.ReserveNodes("g", starting("n", 100), at(0))
	decided := func(seconds int) bool {
		b.TakeEvents()
		b.Tick(at(seconds))
		return len(b.TakeEvents().Decide) > 0
	}
	assert.False(t, decided(50))
	b.RoomMoved()
	assert.True(t, decided(50))
	b.ReserveNodes("g", starting("n", 90), at(50))
	assert.False(t, decided(60))
	b.RoomMoved()
	assert.False(t, decided(54))
	assert.True(t, decided(55))
	b.ReserveNodes("g", starting("n", 90), at(55))
	b.Bypassed(startIn("a"), at(56))
	assert.False(t, decided(61), "it was let past, so it takes nothing")
	b.Bypassed(&Start{Rank: in("b", -1)}, at(62))
	assert.True(t, decided(62), "it ranks before, so it may have taken the room")
	b.ReserveNodes("g", starting("n", 90), at(62))
	assert.False(t, decided(89))
	assert.True(t, decided(90))
	version := b.ReservedFor("g").Version
	b.ReserveNodes("g", starting("n", 95), at(90))
	assert.True(t, b.TakeEvents().RoomFreed, "longer ones may start now")
	assert.NotEqual(t, version, b.ReservedFor("g").Version)
	b.ReserveNodes("g", starting("n", 92), at(90))
	assert.False(t, b.TakeEvents().RoomFreed)
	assert.False(t, b.StandingOf("g", at(5000)).Renew, "its places are chosen by time, none are avoided")
}

// TestWhichStartsAreBackfill: they pass a reservation with a start. Of other queues it is that of the gang that ranks first.
func TestWhichStartsAreBackfill(t *testing.T) {
	b := withStarts()
	assert.False(t, b.IsBackfill(startIn("a")), "nothing waits")
	for i, queue := range []string{"a", "b"} {
		b.WaitForRoom(queue, in(queue, i), nil, at(0))
		b.ReserveNodes(queue, starting("n-"+queue, 100), at(0))
	}
	for queue, want := range map[string]bool{"a": true, "b": true, "c": true, "": true} {
		assert.Equal(t, want, b.IsBackfill(startIn(queue)), queue)
	}
	assert.False(t, b.IsBackfill(&Start{Rank: in("a", -1)}), "it ranks before")
	b.Forget("a")
	b.Tick(at(1))
	assert.True(t, b.IsBackfill(startIn("a")), "that of the other queue is the first now")
	b.ReserveNodes("b", on("n-b"), at(2))
	assert.False(t, b.IsBackfill(startIn("b")), "it has no start")
	assert.False(t, b.IsBackfill(startIn("a")))

	own := starting("n", 100)
	own.AwaitsOwn = true
	b.ReserveNodes("b", own, at(3))
	assert.True(t, b.IsBackfill(startIn("b")))
	assert.False(t, b.IsBackfill(startIn("a")), "it holds within its queue")
}

// TestAStarvingGangWhoseStartIsWrongNeedsNone: gangs whose users say less than they run are let past it. In the end all that comes free is kept for it.
func TestAStarvingGangWhoseStartIsWrongNeedsNone(t *testing.T) {
	b := withStarts()
	b.SetBounds(Bounds{Starts: true, Age: time.Minute})
	b.WaitForRoom("g", in("a", 0), nil, at(0))
	b.ReserveNodes("g", starting("n", 100), at(0))
	b.ReserveNodes("g", starting("n", 150), at(100))
	for seconds, noStart := range map[int]bool{130: false, 199: false, 200: true, 1000: true} {
		assert.Equal(t, noStart, b.StandingOf("g", at(seconds)).NoStart, "after %d s", seconds)
	}
	b.ReserveNodes("g", starting("n", 500), at(195))
	b.TakeEvents()
	b.Tick(at(200))
	assert.Equal(t, []string{"g"}, b.TakeEvents().Decide, "though its start has not come")
	b.ReserveNodes("g", on("n"), at(200))
	assert.True(t, b.ReservedFor("g").HoldsAgainst(startIn("b"), at(201), true))
	assert.Equal(t, []string{"g"}, keepers(b, "b"), "it has its turn against all queues")
}

// TestWhichStartsAreMissed: a start is missed when it passes. It is also missed when it moves to later although it holds against all queues.
func TestWhichStartsAreMissed(t *testing.T) {
	for name, c := range map[string]struct {
		own, behind bool // it waits for its own queue; another gang with a start ranks before
		next        int  // its next start, in place of 100
		at          int  // when that is chosen
		missed      bool
	}{
		"it has passed": {next: 150, at: 100, missed: true},
		"it has passed, of a gang of its own queue":  {own: true, next: 150, at: 100, missed: true},
		"it moves to later":                          {next: 150, at: 90, missed: true},
		"it moves to earlier":                        {next: 95, at: 90},
		"it moves, and other queues may move it":     {own: true, next: 150, at: 90},
		"it moves, and a gang that ranks before may": {behind: true, next: 150, at: 90},
	} {
		b := withStarts()
		b.SetBounds(Bounds{Starts: true, Age: time.Minute})
		if c.behind {
			b.WaitForRoom("before", in("b", 0), nil, at(0))
			b.ReserveNodes("before", starting("m", 100), at(0))
		}
		b.WaitForRoom("g", in("a", 1), nil, at(0))
		first := starting("n", 100)
		first.AwaitsOwn = c.own
		b.ReserveNodes("g", first, at(0))
		b.ReserveNodes("g", starting("n", c.next), at(c.at))
		assert.Equal(t, c.missed, b.StandingOf("g", at(5000)).NoStart, name)
	}
}

// TestALateGangIsWrongInProportion: it may be late by as long as it has waited, or as it is to run.
func TestALateGangIsWrongInProportion(t *testing.T) {
	for name, c := range map[string]struct {
		length  time.Duration
		wrongAt int // seconds; it misses its start at 7200, and began to wait at 0
	}{
		"it has waited for two hours": {0, 2 * 7200},
		"it runs for three hours":     {3 * time.Hour, 7200 + 3*3600},
		"it runs for a minute":        {time.Minute, 2 * 7200},
	} {
		b := withStarts()
		b.SetBounds(Bounds{Starts: true, Age: time.Minute})
		b.WaitForRoom("g", in("a", 0), nil, at(0))
		next := starting("n", 9000)
		next.Length = c.length
		b.ReserveNodes("g", starting("n", 7200), at(0))
		b.ReserveNodes("g", next, at(7000))
		b.ReserveNodes("g", starting("n", 20000), at(8000))
		assert.False(t, b.StandingOf("g", at(c.wrongAt-1)).NoStart, name)
		assert.True(t, b.StandingOf("g", at(c.wrongAt)).NoStart, name)
	}
}

// TestAStartKeepsQuota from what would still run then, until the reservation goes or moves.
func TestAStartKeepsQuota(t *testing.T) {
	want := func(cores int64) quota.Claim { return quota.Claim{Queue: "a", Want: cpu(cores)} }
	begin := func(t *testing.T) (*Book[string], func(key string, end int) []quota.Claim) {
		b := withStarts()
		b.WaitForRoom("g", in("a", 10), nil, at(10))
		choice := starting("n", 100)
		choice.Claim = want(4)
		b.ReserveNodes("g", choice, at(10))
		b.TakeEvents()
		return b, func(key string, end int) []quota.Claim {
			return b.ClaimsOfStarts(key, &Start{Rank: in("a", 20)}, at(end), end > 0)
		}
	}
	b, claims := begin(t)
	assert.Empty(t, claims("later", 100), "it ends by then")
	assert.Equal(t, []quota.Claim{want(4)}, claims("later", 101))
	assert.Equal(t, []quota.Claim{want(4)}, claims("later", 0), "its end is not known")
	assert.Empty(t, claims("g", 101), "it is its own")
	assert.Empty(t, b.ClaimsOfStarts("earlier", &Start{Rank: in("a", 5)}, at(101), true))
	b.Attempts("g", true)
	assert.Empty(t, claims("later", 101), "the attempt has it assumed")

	t.Run("one that does not rank first keeps it within its queue", func(t *testing.T) {
		b, claims := begin(t)
		b.WaitForRoom("first", in("b", 5), nil, at(11))
		b.ReserveNodes("first", starting("m", 90), at(11))
		assert.True(t, b.TakeEvents().QuotaFreed, "other queues may take it")
		own := want(4)
		own.Own = true
		assert.Equal(t, []quota.Claim{own}, claims("later", 101))
	})
	for name, c := range map[string]struct {
		change func(b *Book[string])
		freed  bool
	}{
		"its gang starts":   {func(b *Book[string]) { b.Forget("g") }, true},
		"no start is known": {func(b *Book[string]) { b.NoStart("g", at(20)) }, true},
		"it is later": {func(b *Book[string]) {
			b.ReserveNodes("g", Choice{Amounts: on("n").Amounts, Start: at(200), Claim: want(4)}, at(20))
		}, true},
		"the gang asks for less": {func(b *Book[string]) {
			b.ReserveNodes("g", Choice{Amounts: on("n").Amounts, Start: at(90), Claim: want(3)}, at(20))
		}, true},
		"it is earlier": {func(b *Book[string]) {
			b.ReserveNodes("g", Choice{Amounts: on("n").Amounts, Start: at(90), Claim: want(4)}, at(20))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := begin(t)
			c.change(b)
			assert.Equal(t, c.freed, b.TakeEvents().QuotaFreed)
		})
	}
}

// TestAStartOfAGangThatLacksQuota takes the place of a turn. No quota is reserved without a start, neither for the gang nor for one
// behind it.
func TestAStartOfAGangThatLacksQuota(t *testing.T) {
	b := New[string]()
	b.SetBounds(Bounds{Starts: true, Age: time.Minute})
	isReserved := func(key string, now int) bool { return b.StandingOf(key, at(now)).QuotaReserved }
	b.WaitForQuota("later", in("a", 20), claimOf("a", 2), lacksCPU, false, at(0))
	b.Tick(at(60))
	require.True(t, isReserved("later", 60))
	b.WaitForQuota("g", in("a", 10), claimOf("a", 4), lacksCPU, false, at(60))
	require.Len(t, b.Claims("g", 0, false), 1)
	choice := starting("n", 300)
	choice.Claim = claimOf("a", 4)
	b.ReserveNodes("g", choice, at(60))
	assert.Empty(t, b.Claims("g", 0, false), "it leaves nothing to a gang behind it")
	b.TakeEvents()
	b.Tick(at(61))
	assert.False(t, isReserved("later", 61))
	assert.True(t, b.TakeEvents().QuotaFreed)
	b.Tick(at(200))
	assert.False(t, isReserved("g", 200) || isReserved("later", 200), "the start is known")
	assert.Equal(t, []quota.Claim{claimOf("a", 4)}, b.ClaimsOfStarts("later", &Start{Rank: in("a", 20)}, at(301), true))
	assert.Len(t, b.Claims("", 0, true), 2, "surplus leaves them what they lack")

	b.WaitForQuota("g", in("a", 10), claimOf("a", 4), lacksCPU, false, at(250))
	assert.NotNil(t, b.ReservedFor("g"), "the start stays")
	b.NoStart("g", at(300))
	assert.Nil(t, b.ReservedFor("g"))
	b.Tick(at(300))
	assert.True(t, isReserved("g", 300), "it has waited for long")
	assert.False(t, b.BecomesFirst("g", in("a", 10), at(301)), "a start is not looked for again at once")
	b.HasQuota("g", claimOf("a", 4))
	assert.True(t, b.BecomesFirst("g", in("a", 10), at(301)), "but with quota")
	b.Forget("g")
	b.WaitForQuota("g", in("a", 10), claimOf("a", 4), lacksCPU, false, at(301))
	b.ReserveNodes("g", starting("n", 400), at(301))
	b.HasQuota("g", claimOf("a", 4))
	b.WaitForRoom("g", in("a", 10), nil, at(302))
	assert.NotNil(t, b.ReservedFor("g"), "it lacks room only")
	assert.Len(t, b.Claims("", 0, true), 1)
	b.Forget("g")
	assert.Nil(t, b.ReservedFor("g"))
}

// TestNoStartIsLookedForBehindAGangWithoutOne: thousands of gangs may lack the same quota.
func TestNoStartIsLookedForBehindAGangWithoutOne(t *testing.T) {
	b := withStarts()
	b.WaitForQuota("first", in("a", 10), claimOf("a", 4), lacksCPU, false, at(10))
	assert.True(t, b.BecomesFirst("first", in("a", 10), at(10)))
	assert.False(t, b.BecomesFirst("behind", in("a", 20), at(20)))
	b.WaitForQuota("behind", in("a", 20), claimOf("a", 4), lacksCPU, false, at(20))
	assert.False(t, b.BecomesFirst("behind", in("a", 20), at(20)))
	assert.True(t, b.BecomesFirst("before", in("a", 5), at(20)))
	assert.True(t, b.BecomesFirst("other", in("b", 20), at(20)))
	b.WaitForQuota("user", in("c", 5), claimOf(quota.Account("c", "anna"), 1), lacksCPU, false, at(20))
	assert.False(t, b.BecomesFirst("of another user", in("c", 20), at(20)))
	b.WaitForRoom("behind", in("a", 20), nil, at(21))
	assert.True(t, b.StandingOf("behind", at(21)).Choose, "it lacks room, and no gang before it does")
}
