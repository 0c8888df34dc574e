package timeline_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/timeline"
)

// horizon is longer than all times of the histories together, in seconds.
const horizon = 300

// naive looks at each second by itself. Nothing changes after the horizon.
type naive struct {
	*timeline.Cluster
	free, quota [][]int64 // [node or queue][second]
}

func newNaive(c *timeline.Cluster) *naive {
	n := &naive{Cluster: c}
	for _, free := range c.Nodes {
		n.free = append(n.free, slices.Repeat([]int64{free["cpu"]}, horizon+1))
	}
	for _, free := range c.Queues {
		n.quota = append(n.quota, slices.Repeat([]int64{free["cpu"]}, horizon+1))
	}
	for _, run := range c.Runs {
		if run.End.IsZero() {
			continue
		}
		from := max(1, int(run.End.Sub(c.Now)/time.Second))
		for _, on := range run.On {
			change(n.free[on.Node], from, horizon+1, on.Of["cpu"])
			for _, q := range run.Queues {
				change(n.quota[q], from, horizon+1, on.Of["cpu"])
			}
		}
	}
	return n
}

func change(amounts []int64, from, until int, by int64) {
	for s := from; s < min(until, len(amounts)); s++ {
		amounts[s] += by
	}
}

// end of a gang that starts at a second.
func (n *naive) end(g timeline.Gang, at int) int {
	if g.For <= 0 {
		return horizon + 1
	}
	return min(at+int(g.For/time.Second), horizon+1)
}

// fits says whether each need of a gang has room from a second on, by itself. For a single need that is exact.
func (n *naive) fits(g timeline.Gang, at int) bool {
	until, wants := max(n.end(g, at), min(at, horizon)+1), int64(0)
	for _, need := range g.Needs {
		k, count := n.Kinds[need.Kind], 0
		wants += k.Requests["cpu"] * int64(need.Count)
		for node := range n.free {
			if k.Takes != nil && !k.Takes(node) {
				continue
			}
			slots := int(max(slices.Min(n.free[node][at:until]), 0) / k.Requests["cpu"])
			if k.MaxPerNode > 0 {
				slots = min(slots, k.MaxPerNode)
			}
			count += slots
		}
		if count < need.Count {
			return false
		}
	}
	return !slices.ContainsFunc(g.Queues, func(q int) bool { return slices.Min(n.quota[q][at:until]) < wants })
}

// take takes the places of a start.
func (n *naive) take(g timeline.Gang, at int, places []timeline.Place) {
	until := n.end(g, at)
	for _, place := range places {
		amount := n.Kinds[place.Kind].Requests["cpu"] * int64(place.Count)
		change(n.free[place.Node], at, until, -amount)
		for _, q := range g.Queues {
			change(n.quota[q], at, until, -amount)
		}
	}
}

// isOverfull says whether a node or a queue of a gang has less than nothing while it runs.
func (n *naive) isOverfull(g timeline.Gang, at int, places []timeline.Place) bool {
	until := n.end(g, at)
	for _, place := range places {
		if slices.Min(n.free[place.Node][at:until]) < 0 {
			return true
		}
	}
	return slices.ContainsFunc(g.Queues, func(q int) bool { return slices.Min(n.quota[q][at:until]) < 0 })
}

// drawCluster draws a small cluster. Now and then more is in use than there is.
func drawCluster(t *rapid.T) *timeline.Cluster {
	draw := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	c := &timeline.Cluster{Now: now}
	for range draw(1, 4, "nodes") {
		c.Nodes = append(c.Nodes, cpu(int64(draw(-1, 4, "free"))))
	}
	queues := func() (path []int) {
		for q := range len(c.Queues) {
			if draw(0, 2, "in queue") == 0 {
				path = append(path, q)
			}
		}
		return path
	}
	for range draw(0, 2, "queues") {
		c.Queues = append(c.Queues, cpu(int64(draw(-1, 8, "quota"))))
	}
	for range draw(0, 6, "runs") {
		run := timeline.Run{Queues: queues()}
		if end := draw(-1, 20, "end"); end != 0 {
			run.End = in(end)
		}
		for range draw(1, 2, "pods") {
			run.On = append(run.On, timeline.Amount{Node: draw(0, len(c.Nodes)-1, "node"), Of: cpu(int64(draw(1, 3, "amount")))})
		}
		c.Runs = append(c.Runs, run)
	}
	for range draw(1, 3, "kinds") {
		kind := timeline.Kind{Requests: cpu(int64(draw(1, 3, "each"))), MaxPerNode: draw(0, 2, "most")}
		if avoid := draw(-1, len(c.Nodes)-1, "avoid"); avoid >= 0 {
			kind.Takes = func(node int) bool { return node != avoid }
		}
		c.Kinds = append(c.Kinds, kind)
	}
	for range draw(1, 10, "gangs") {
		g := timeline.Gang{For: time.Duration(draw(0, 15, "length")) * time.Second, Queues: queues()}
		for range max(1, draw(-3, 2, "needs")) {
			g.Needs = append(g.Needs, timeline.Need{Kind: draw(0, len(c.Kinds)-1, "kind"), Count: draw(1, 4, "count")})
		}
		if draw(0, 3, "reserved") == 0 {
			place := timeline.Place{Node: draw(0, len(c.Nodes)-1, "place"), Kind: g.Needs[0].Kind, Count: draw(1, g.Needs[0].Count, "pods")}
			g.Reserved = &timeline.Reservation{Places: []timeline.Place{place}}
		}
		c.Gangs = append(c.Gangs, g)
	}
	return c
}

// secondOf is when a gang starts; after the horizon if no start is known.
func secondOf(start timeline.Start) int {
	if start.At.IsZero() {
		return horizon + 1
	}
	return int(start.At.Sub(now) / time.Second)
}

// startAt takes the places of the gangs that start at a second. They must fit.
func (n *naive) startAt(t *rapid.T, starts []timeline.Start, second int) {
	for i, g := range n.Gangs {
		if secondOf(starts[i]) != second {
			continue
		}
		n.take(g, second, starts[i].Places)
		if n.isOverfull(g, second, starts[i].Places) {
			t.Fatalf("gang %d has taken more than there is: %v", i, starts[i].Places)
		}
		for _, need := range g.Needs {
			if placed, wanted := placedOf(starts[i].Places, need.Kind), wantedOf(g, need.Kind); placed != wanted {
				t.Fatalf("gang %d has %d places for %d pods of kind %d", i, placed, wanted, need.Kind)
			}
		}
	}
}

// TestWithoutReservationsGangsStartWhenTheyFit: at each second, no gang is left that fits.
func TestWithoutReservationsGangsStartWhenTheyFit(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		c := drawCluster(t)
		c.NoReservations = true
		for i := range c.Gangs {
			c.Gangs[i].Reserved = nil
		}
		starts, n := timeline.Plan(c), newNaive(c)
		for second := range horizon {
			n.startAt(t, starts, second)
			for i, g := range c.Gangs {
				if secondOf(starts[i]) > second && len(g.Needs) == 1 && n.fits(g, second) {
					t.Fatalf("gang %d could start at %d, the plan says %d (%v)", i, second, secondOf(starts[i]), starts[i].Why)
				}
			}
		}
	})
}

// TestTheFirstGangStartsAsIfItWereAlone: when a gang has become the first that waits, no gang behind it delays it. All of these start that fit and
// end before.
func TestTheFirstGangStartsAsIfItWereAlone(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		c := drawCluster(t)
		for i := range c.Runs {
			c.Runs[i].Queues = nil
		}
		for i := range c.Gangs {
			c.Gangs[i].Queues, c.Gangs[i].Line, c.Gangs[i].Reserved = nil, "a", nil
		}
		starts, n := timeline.Plan(c), newNaive(c)
		for second, first, expected := 0, -1, 0; second < horizon; second++ {
			n.startAt(t, starts, second)
			waits := func(i int) bool { return secondOf(starts[i]) > second && starts[i].Why != timeline.TooLarge }
			head := 0
			for head < len(c.Gangs) && !waits(head) {
				head++
			}
			if head == len(c.Gangs) {
				return
			}
			if head != first {
				first, expected = head, second+1
				for expected <= horizon && !n.fits(c.Gangs[head], expected) {
					expected++
				}
				if len(c.Gangs[head].Needs) == 1 && secondOf(starts[head]) != expected {
					t.Fatalf("gang %d is the first from %d on, and could start at %d: the plan says %d", head, second, expected, secondOf(starts[head]))
				}
			}
			for i := head + 1; i < len(c.Gangs); i++ {
				g := c.Gangs[i]
				if waits(i) && len(g.Needs) == 1 && n.fits(g, second) && n.end(g, second) <= expected {
					t.Fatalf("gang %d fits at %d and ends before gang %d starts: the plan says %d", i, second, head, secondOf(starts[i]))
				}
			}
		}
	})
}

func placedOf(places []timeline.Place, kind int) (count int) {
	for _, place := range places {
		if place.Kind == kind {
			count += place.Count
		}
	}
	return count
}

func wantedOf(g timeline.Gang, kind int) (count int) {
	for _, need := range g.Needs {
		if need.Kind == kind {
			count += need.Count
		}
	}
	return count
}

func TestAPlanChangesNoInput(t *testing.T) {
	mustertesting.Histories(t, 200, func(t *rapid.T) {
		c := drawCluster(t)
		for i := range c.Kinds {
			c.Kinds[i].Takes = nil // functions cannot be compared
		}
		before := clone(c)
		first := timeline.Plan(c)
		if diff := cmp.Diff(before, c); diff != "" {
			t.Fatalf("the plan has changed its input: %s", diff)
		}
		if diff := cmp.Diff(first, timeline.Plan(c)); diff != "" {
			t.Fatalf("the same input has another plan: %s", diff)
		}
	})
}

func clone(c *timeline.Cluster) *timeline.Cluster {
	copied := *c
	lists := func(all []resources.List) []resources.List {
		all = slices.Clone(all)
		for i := range all {
			all[i] = all[i].Clone()
		}
		return all
	}
	copied.Nodes, copied.Queues = lists(c.Nodes), lists(c.Queues)
	copied.Runs, copied.Kinds, copied.Gangs = slices.Clone(c.Runs), slices.Clone(c.Kinds), slices.Clone(c.Gangs)
	for i := range copied.Runs {
		run := &copied.Runs[i]
		run.On, run.Queues = slices.Clone(run.On), slices.Clone(run.Queues)
		for j := range run.On {
			run.On[j].Of = run.On[j].Of.Clone()
		}
	}
	for i := range copied.Gangs {
		copied.Gangs[i].Needs, copied.Gangs[i].Queues = slices.Clone(copied.Gangs[i].Needs), slices.Clone(copied.Gangs[i].Queues)
	}
	return &copied
}
