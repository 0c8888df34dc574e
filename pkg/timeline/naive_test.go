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

// keep keeps the reserved room of a gang until it starts.
func (n *naive) keep(g timeline.Gang, until int) {
	if g.Reserved == nil {
		return
	}
	for _, place := range g.Reserved.Places {
		change(n.free[place.Node], 0, until, -n.Kinds[place.Kind].Requests["cpu"]*int64(place.Count))
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

func TestAPlanIsWhatASimulatorFinds(t *testing.T) {
	mustertesting.Histories(t, 2000, func(t *rapid.T) {
		c := drawCluster(t)
		starts, n := timeline.Plan(c), newNaive(c)
		for i, g := range c.Gangs {
			at := int(starts[i].At.Sub(now) / time.Second)
			if starts[i].At.IsZero() {
				at = horizon + 1
			}
			for earlier := range min(at, horizon) {
				if len(g.Needs) == 1 && n.fits(g, earlier) {
					t.Fatalf("gang %d could start at %d, the plan says %d (%v)", i, earlier, at, starts[i].Why)
				}
			}
			if starts[i].At.IsZero() {
				n.keep(g, horizon+1)
				continue
			}
			if !n.fits(g, at) {
				t.Fatalf("gang %d does not fit at %d", i, at)
			}
			n.take(g, at, starts[i].Places)
			if n.isOverfull(g, at, starts[i].Places) {
				t.Fatalf("gang %d has taken more than there is: %v", i, starts[i].Places)
			}
			for _, need := range g.Needs {
				if placed, wanted := placedOf(starts[i].Places, need.Kind), wantedOf(g, need.Kind); placed != wanted {
					t.Fatalf("gang %d has %d places for %d pods of kind %d", i, placed, wanted, need.Kind)
				}
			}
			n.keep(g, at)
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
