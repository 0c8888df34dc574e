package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/muster-sched/muster/pkg/resources"
)

// PackLater finds places that a gang can have later. nodes have the room that is free now. later is the room of each when the pods that a
// reservation may wait for have ended. It returns false when it finds none, even with all that is free later.
//
// It takes room that is free now first and earlier places second. So repeated choices never wait for more pods than the choice before. The
// rest goes where most room is free already. fits says whether a pod may go to a node when the pods have ended.
func PackLater(demands []Demand, nodes []Node, later []resources.List, fits Fits, before [][]Place) ([][]Place, bool) {
	fits = cached(fits, len(nodes))
	empty := make([]Node, len(nodes))
	for n, node := range nodes {
		empty[n] = Node{Name: node.Name, Free: later[n]}
	}
	c := newChoice(demands, nodes, later, fits)
	order := bySize(demands, empty)
	for _, slots := range []func(d, n int) int{c.slotsNow, c.slotsLater} {
		for _, d := range order {
			c.takeEarlier(d, earlier(before, d), slots)
		}
		for _, d := range order {
			c.takeFreest(d, slots)
		}
	}
	if sum(c.missing) == 0 {
		return c.places(), true
	}
	// Pods of different sizes may block each other in this order and not in another.
	if packing := Pack(demands, empty, fits); packing.Feasibility == Possible {
		return packing.Places, true
	}
	return nil, false
}

func earlier(places [][]Place, d int) []Place {
	if d < len(places) {
		return places[d]
	}
	return nil
}

// choice is a set of places under construction.
type choice struct {
	demands    []Demand
	fits       Fits
	now, later []resources.List // what is left on each node
	counts     []map[int]int    // of each demand, the pods on each node
	missing    []int            // of each demand, the pods without a place
}

func newChoice(demands []Demand, nodes []Node, later []resources.List, fits Fits) *choice {
	c := &choice{demands: demands, fits: fits, now: freeOf(nodes), later: slices.Clone(later)}
	for _, demand := range demands {
		c.counts, c.missing = append(c.counts, map[int]int{}), append(c.missing, demand.Count)
	}
	return c
}

// slotsNow is how many more pods of a demand a node holds now.
func (c *choice) slotsNow(d, n int) int {
	return min(c.slots(d, n, c.now[n]), c.slots(d, n, c.later[n]))
}

// slotsLater is how many more pods of a demand a node will hold.
func (c *choice) slotsLater(d, n int) int { return c.slots(d, n, c.later[n]) }

func (c *choice) slots(d, n int, free resources.List) int {
	demand := c.demands[d]
	if demand.MaxPerNode == 0 {
		return Slots(demand, free)
	}
	left := demand.MaxPerNode - c.counts[d][n]
	demand.MaxPerNode = 0
	return max(0, min(left, Slots(demand, free)))
}

// takeEarlier places pods of a demand where they had places before, while there are slots.
func (c *choice) takeEarlier(d int, before []Place, slots func(d, n int) int) {
	for _, place := range before {
		c.take(d, place.Node, min(place.Count-c.counts[d][place.Node], slots(d, place.Node)))
	}
}

// takeFreest takes slots for the rest of a demand, first on the nodes on which most is free.
func (c *choice) takeFreest(d int, slots func(d, n int) int) {
	if c.missing[d] == 0 {
		return
	}
	type candidate struct {
		node, slots int
		free        float64
	}
	var candidates []candidate
	for n := range c.now {
		if count := slots(d, n); count > 0 {
			candidates = append(candidates, candidate{n, count, freeInPods(c.demands[d], c.now[n])})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(b.slots, a.slots), cmp.Compare(a.node, b.node))
	})
	for _, candidate := range candidates {
		if c.missing[d] == 0 {
			return
		}
		c.take(d, candidate.node, candidate.slots)
	}
}

// freeInPods is a free amount, counted in pods of a demand. Below 0 where more is in use than the node has.
func freeInPods(demand Demand, free resources.List) float64 {
	pods := math.Inf(1)
	for name, amount := range demand.Requests {
		if amount > 0 {
			pods = min(pods, float64(free[name])/float64(amount))
		}
	}
	return pods
}

// take places up to count pods of a demand on a node.
func (c *choice) take(d, n, count int) {
	count = min(count, c.missing[d])
	if count <= 0 || !c.fits(d, n) {
		return
	}
	take(c.now, n, c.demands[d].Requests, count)
	take(c.later, n, c.demands[d].Requests, count)
	c.counts[d][n] += count
	c.missing[d] -= count
}

// places lists the places in the order of the nodes.
func (c *choice) places() [][]Place {
	places := make([][]Place, len(c.demands))
	for d, counts := range c.counts {
		for n, count := range counts {
			places[d] = append(places[d], Place{Node: n, Count: count})
		}
		slices.SortFunc(places[d], func(a, b Place) int { return cmp.Compare(a.Node, b.Node) })
	}
	return places
}
