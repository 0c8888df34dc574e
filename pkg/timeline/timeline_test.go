package timeline_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/assert"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/timeline"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func in(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }

func cpu(n int64) resources.List { return resources.List{corev1.ResourceCPU: n} }

// whole is a run that has a whole node of one CPU.
func whole(node, end int) timeline.Run {
	run := timeline.Run{On: []timeline.Amount{{Node: node, Of: cpu(1)}}}
	if end > 0 {
		run.End = in(end)
	}
	return run
}

func gangOf(count, seconds int) timeline.Gang {
	return timeline.Gang{Needs: []timeline.Need{{Count: count}}, For: time.Duration(seconds) * time.Second}
}

// eightNodes are full with Jobs of one node that end after 25, 50, ... 200 seconds.
func eightNodes() *timeline.Cluster {
	c := &timeline.Cluster{Now: now, Kinds: []timeline.Kind{{Requests: cpu(1)}}}
	for n := range 8 {
		c.Nodes = append(c.Nodes, cpu(0))
		c.Runs = append(c.Runs, whole(n, 25*(n+1)))
	}
	return c
}

func TestTheEightNodes(t *testing.T) {
	c := eightNodes()
	c.Gangs = []timeline.Gang{gangOf(8, 100)}
	for range 30 {
		c.Gangs = append(c.Gangs, gangOf(1, 10))
	}
	starts := timeline.Plan(c)
	assert.Equal(t, in(200), starts[0].At)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, starts[0].Runs)
	assert.Equal(t, in(25), starts[1].At, "small gangs start in the holes")
	assert.Equal(t, in(35), starts[2].At)
	assert.Equal(t, []int{1}, starts[2].Gangs, "it waits for the one before it, too")
	for i, start := range starts[1:] {
		assert.True(t, start.At.Before(in(191)), "%d starts at %s", i, start.At)
	}
}

func TestWhyThereIsNoStart(t *testing.T) {
	tests := map[string]struct {
		gangs []timeline.Gang
		want  timeline.Reason
	}{
		"it never fits":                         {[]timeline.Gang{gangOf(5, 10)}, timeline.TooLarge},
		"a pod without a known end":             {[]timeline.Gang{gangOf(4, 10)}, timeline.NoEnd},
		"a gang of unknown length is before it": {[]timeline.Gang{gangOf(1, 0), gangOf(3, 10)}, timeline.Behind},
		"more than its queue ever has":          {[]timeline.Gang{{Needs: []timeline.Need{{Count: 3}}, Queues: []int{0}}}, timeline.TooLarge},
		"what its queue has in use has no end":  {[]timeline.Gang{{Needs: []timeline.Need{{Count: 2}}, Queues: []int{0}}}, timeline.NoEnd},
		"a start":                               {[]timeline.Gang{gangOf(2, 0)}, timeline.Known},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &timeline.Cluster{Now: now, Kinds: []timeline.Kind{{Requests: cpu(1)}}, Gangs: test.gangs, Queues: []resources.List{cpu(1)}}
			c.Nodes = []resources.List{cpu(0), cpu(0), cpu(1), cpu(0)}
			c.Runs = []timeline.Run{whole(0, 10), whole(1, 0), whole(3, 20)}
			c.Runs[1].Queues = []int{0}
			starts := timeline.Plan(c)
			last := starts[len(starts)-1]
			assert.Equal(t, test.want, last.Why)
			assert.Equal(t, test.want == timeline.Known, !last.At.IsZero())
		})
	}
}

func TestQuotaComesFreeAsRunsEnd(t *testing.T) {
	c := &timeline.Cluster{Now: now, Kinds: []timeline.Kind{{Requests: cpu(1)}}, Queues: []resources.List{cpu(0), cpu(5)}}
	c.Nodes = []resources.List{cpu(0), cpu(8)}
	c.Runs = []timeline.Run{whole(0, 60)}
	c.Runs[0].Queues = []int{0, 1}
	first, second := gangOf(1, 30), gangOf(1, 30)
	first.Queues, second.Queues = []int{0, 1}, []int{0, 1}
	c.Gangs = []timeline.Gang{first, second, gangOf(1, 10)}
	starts := timeline.Plan(c)
	assert.Equal(t, in(60), starts[0].At, "a node is free, the queue is not")
	assert.Equal(t, []int{0}, starts[0].Runs)
	assert.Equal(t, in(90), starts[1].At)
	assert.Equal(t, now, starts[2].At, "another queue")
}

// TestAReservationHoldsAgainstGangsBehindIt that would still run then.
func TestAReservationHoldsAgainstGangsBehindIt(t *testing.T) {
	c := eightNodes()
	reserved := gangOf(2, 100)
	reserved.Line, reserved.Reserved = "a", &timeline.Reservation{Start: in(50), Places: []timeline.Place{{Node: 0, Count: 1}, {Node: 1, Count: 1}}}
	c.Gangs = []timeline.Gang{reserved, gangOf(1, 100), gangOf(1, 20)}
	starts := timeline.Plan(c)
	assert.Equal(t, in(50), starts[0].At)
	assert.Equal(t, []int{0, 1}, starts[0].Runs)
	assert.Equal(t, in(75), starts[1].At, "it would not have ended when the reservation begins")
	assert.Equal(t, in(25), starts[2].At)
	assert.Equal(t, []int{0}, starts[2].Runs, "which the reservation waits for, too")
}

func TestAReservationHoldsInItsLine(t *testing.T) {
	for name, test := range map[string]struct {
		runs, other    string // lines
		first, another int
		none           bool
	}{
		"it waits for another line, and holds against all":     {"b", "b", 50, 150, false},
		"it waits for its own line, and others may delay it":   {"a", "b", 125, 25, false},
		"it waits for its own line, which may not":             {"a", "a", 50, 150, false},
		"without reservations each starts when it fits":        {"b", "b", 125, 25, true},
		"without reservations this holds in the line, as well": {"a", "a", 125, 25, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &timeline.Cluster{Now: now, Kinds: []timeline.Kind{{Requests: cpu(1)}}, Nodes: []resources.List{cpu(0), cpu(0)}, NoReservations: test.none}
			c.Runs = []timeline.Run{whole(0, 25), whole(1, 50)}
			c.Runs[0].Line, c.Runs[1].Line = test.runs, test.runs
			first, another := gangOf(2, 100), gangOf(1, 100)
			first.Line, another.Line = "a", test.other
			c.Gangs = []timeline.Gang{first, another}
			starts := timeline.Plan(c)
			assert.Equal(t, in(test.first), starts[0].At)
			assert.Equal(t, in(test.another), starts[1].At)
		})
	}
}

// TestAGangPassesOneWithoutAReservation: only the first has one.
func TestAGangPassesOneWithoutAReservation(t *testing.T) {
	c := eightNodes()
	c.Kinds = append(c.Kinds, timeline.Kind{Requests: cpu(1), Takes: func(node int) bool { return node >= 4 }})
	first := timeline.Gang{Needs: []timeline.Need{{Kind: 1, Count: 4}}, For: 10 * time.Second}
	c.Gangs = []timeline.Gang{first, gangOf(8, 10), gangOf(1, 500)}
	starts := timeline.Plan(c)
	assert.Equal(t, in(200), starts[0].At)
	assert.Equal(t, in(25), starts[2].At, "the first does not need its node")
	assert.Equal(t, in(525), starts[1].At, "nothing was kept for it")
}

// lacksQuota is a gang of two cores that lacks one of its queue until a minute has passed. A gang of one core is behind it, for some seconds.
func lacksQuota(seconds int) *timeline.Cluster {
	c := &timeline.Cluster{Now: now, Kinds: []timeline.Kind{{Requests: cpu(1)}}, Queues: []resources.List{cpu(1)}, Nodes: []resources.List{cpu(8), cpu(0)}}
	c.Runs = []timeline.Run{whole(1, 60)}
	c.Runs[0].Queues = []int{0}
	c.Gangs = []timeline.Gang{gangOf(2, 10), gangOf(1, seconds)}
	c.Gangs[0].Queues, c.Gangs[0].Since, c.Gangs[1].Queues = []int{0}, in(-20), []int{0}
	return c
}

// TestQuotaIsKeptForWhatLacksItForLong where no reservation has a start.
func TestQuotaIsKeptForWhatLacksItForLong(t *testing.T) {
	for patience, second := range map[time.Duration]int{0: 0, 20 * time.Second: 70, time.Hour: 0} {
		c := lacksQuota(100)
		c.Patience, c.NoReservations = patience, true
		starts := timeline.Plan(c)
		assert.Equal(t, in(second), starts[1].At, patience)
		assert.Equal(t, second > 0, starts[0].At.Equal(in(60)), patience)
	}
}

// TestQuotaIsKeptForAStart from what would still run then, however short the gang has waited.
func TestQuotaIsKeptForAStart(t *testing.T) {
	for length, second := range map[int]int{60: 0, 61: 70} {
		starts := timeline.Plan(lacksQuota(length))
		assert.Equal(t, in(60), starts[0].At, length)
		assert.Equal(t, in(second), starts[1].At, length)
	}
	c := lacksQuota(61)
	c.Runs[0].End = time.Time{}
	assert.Equal(t, now, timeline.Plan(c)[1].At, "no start is known")
	c = lacksQuota(61)
	c.Queues = append(c.Queues, cpu(8))
	c.Gangs[1].Queues, c.Gangs[1].Line = []int{1}, "other"
	assert.Equal(t, now, timeline.Plan(c)[1].At, "another queue")
}

// TestRoomIsKeptForAGangUntilItStarts: its reservation has no start. Small gangs behind it do not start where it waits.
func TestRoomIsKeptForAGangUntilItStarts(t *testing.T) {
	c := eightNodes()
	c.Nodes[0], c.Runs[0].On = cpu(1), nil // free
	wide, small := gangOf(3, 100), gangOf(1, 10)
	wide.Reserved = &timeline.Reservation{Places: []timeline.Place{{Node: 0, Count: 1}, {Node: 1, Count: 1}, {Node: 2, Count: 1}}}
	c.Gangs = []timeline.Gang{gangOf(1, 5), wide, small}
	starts := timeline.Plan(c)
	assert.Equal(t, now, starts[0].At, "it ranks before")
	assert.Equal(t, in(75), starts[1].At)
	assert.Equal(t, in(100), starts[2].At, "a place that is not reserved")
	assert.Equal(t, []int{3}, starts[2].Runs)

	c.Runs[2].End = time.Time{}
	c.Gangs = []timeline.Gang{wide, gangOf(8, 10)}
	starts = timeline.Plan(c)
	assert.Equal(t, in(100), starts[0].At, "it starts elsewhere")
	assert.Equal(t, timeline.NoEnd, starts[1].Why)

	wide = gangOf(8, 10)
	wide.Reserved = &timeline.Reservation{Places: []timeline.Place{{Node: 0, Count: 1}}}
	c.Gangs = []timeline.Gang{wide, small}
	starts = timeline.Plan(c)
	assert.Equal(t, timeline.NoEnd, starts[0].Why)
	assert.Equal(t, in(50), starts[1].At, "not on the node that is kept")
}

func TestNeedsShareNodes(t *testing.T) {
	c := &timeline.Cluster{Now: now, Nodes: []resources.List{cpu(4), cpu(3)}, Kinds: []timeline.Kind{{Requests: cpu(3)}, {Requests: cpu(1)}}}
	c.Runs = []timeline.Run{{End: in(10), On: []timeline.Amount{{Node: 1, Of: cpu(1)}}}}
	two := timeline.Gang{Needs: []timeline.Need{{Kind: 0, Count: 2}, {Kind: 1, Count: 1}}}
	three := timeline.Gang{Needs: []timeline.Need{{Kind: 0, Count: 2}, {Kind: 1, Count: 2}}}
	c.Gangs = []timeline.Gang{two}
	assert.Equal(t, now, timeline.Plan(c)[0].At)
	c.Gangs = []timeline.Gang{three}
	assert.Equal(t, in(10), timeline.Plan(c)[0].At)
}

// manyKinds is an empty cluster with kinds of pods that differ, and needs of one pod of each.
func manyKinds(nodes, kinds int) (c *timeline.Cluster, needs []timeline.Need) {
	c = &timeline.Cluster{Now: now}
	for range nodes {
		c.Nodes = append(c.Nodes, cpu(1000))
	}
	for i := range kinds {
		c.Kinds = append(c.Kinds, timeline.Kind{Requests: cpu(int64(500 + i))})
		needs = append(needs, timeline.Need{Kind: i, Count: 1})
	}
	return c, needs
}

// TestAGangOfTooMuchWorkHoldsUpNoOther, whether it waits or asks.
func TestAGangOfTooMuchWorkHoldsUpNoOther(t *testing.T) {
	for _, asks := range []bool{false, true} {
		c, needs := manyKinds(5000, 450)
		c.Gangs = []timeline.Gang{{Needs: needs, Asks: asks}, {Needs: needs[:1]}}
		starts := timeline.Plan(c)
		assert.Equal(t, timeline.TooMuch, starts[0].Why)
		assert.Equal(t, now, starts[1].At)
	}
}

// TestAPlanEnds: gangs beyond its work have no start, and gangs that ask take none of it.
func TestAPlanEnds(t *testing.T) {
	for _, asks := range []bool{false, true} {
		c, needs := manyKinds(5000, 250)
		for i := range 10 {
			c.Gangs = append(c.Gangs, timeline.Gang{Needs: needs, For: time.Second << i, Asks: asks})
		}
		c.Gangs = append(c.Gangs, timeline.Gang{Needs: needs[:1], For: time.Second})
		starts := timeline.Plan(c)
		assert.Equal(t, timeline.Known, starts[0].Why)
		assert.Equal(t, timeline.Known, starts[1].Why)
		want := timeline.TooMuch
		if asks {
			want = timeline.Known
		}
		assert.Equal(t, want, starts[9].Why)
		assert.Equal(t, want, starts[10].Why, "it may wait for the others")
	}
}

func TestKindsHaveTheirNodes(t *testing.T) {
	c := &timeline.Cluster{Now: now, Nodes: []resources.List{cpu(8), cpu(8)}}
	c.Kinds = []timeline.Kind{{Requests: cpu(1), MaxPerNode: 1}, {Requests: cpu(1), Takes: func(node int) bool { return node == 1 }}}
	c.Gangs = []timeline.Gang{gangOf(3, 1), {Needs: []timeline.Need{{Kind: 1, Count: 8}}}, {Needs: []timeline.Need{{Kind: 1, Count: 9}}}}
	starts := timeline.Plan(c)
	assert.Equal(t, timeline.TooLarge, starts[0].Why)
	assert.Equal(t, []timeline.Place{{Node: 1, Kind: 1, Count: 8}}, starts[1].Places)
	assert.Equal(t, timeline.TooLarge, starts[2].Why)
}
