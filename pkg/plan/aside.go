package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/muster-sched/muster/pkg/resources"
)

// Drained is a node as it is now, and as it would be if the pods had ended that others may be asked to wait for.
type Drained struct {
	// Name of the node.
	Name string
	// Now is what is free.
	Now resources.List
	// Later is what would be free without the pods that will end; no less than Now.
	Later resources.List
}

// SetAside chooses the places that are set aside for a gang which does not fit now: all its pods find room there in the
// end, if only nothing else takes it. It says false when no such places were found, even though everything that will end
// has ended.
//
// What is free now is taken first, and what was chosen before second, so that repeated choices as pods end need no more
// pods to end than the choice before. The rest goes where most is free already. fits says whether a pod of a demand may
// go to a node when those pods have ended.
func SetAside(demands []Demand, nodes []Drained, fits Fits, before [][]Place) ([][]Place, bool) {
	fits = remember(fits, len(nodes))
	later := make([]Node, len(nodes))
	for n, node := range nodes {
		later[n] = Node{Name: node.Name, Free: node.Later}
	}
	c := newChoice(demands, nodes, fits)
	order := bySize(demands, later)
	for _, step := range []func(d int){
		func(d int) { c.takeEarlier(d, at(before, d), c.slotsNow) },
		func(d int) { c.takeFreest(d, c.slotsNow) },
		func(d int) { c.takeEarlier(d, at(before, d), c.slotsLater) },
		func(d int) { c.takeFreest(d, c.slotsLater) },
	} {
		for _, d := range order {
			step(d)
		}
	}
	if sum(c.missing) == 0 {
		return c.result(), true
	}
	// Pods of different sizes may stand in each other's way in this order and not in another.
	if result := Make(demands, later, fits); result.Verdict == Possible {
		return result.Places, true
	}
	return nil, false
}

// Keep seats all demands on what is free now, with regard to an earlier choice: the places of SetAside, when their room has
// come free, are a plan, also where Make finds none.
func Keep(demands []Demand, nodes []Node, fits Fits, before [][]Place) ([][]Place, bool) {
	drained := make([]Drained, len(nodes))
	for n, node := range nodes {
		drained[n] = Drained{Name: node.Name, Now: node.Free, Later: node.Free}
	}
	c := newChoice(demands, drained, remember(fits, len(nodes)))
	for d := range demands {
		c.takeEarlier(d, at(before, d), c.slotsNow)
	}
	for d := range demands {
		c.takeFreest(d, c.slotsNow)
	}
	return c.result(), sum(c.missing) == 0
}

func at(places [][]Place, d int) []Place {
	if d < len(places) {
		return places[d]
	}
	return nil
}

// choice is a set of places in the making.
type choice struct {
	demands    []Demand
	fits       Fits
	now, later []resources.List // what is left on each node
	counts     []map[int]int    // of each demand, the pods on each node
	missing    []int            // of each demand, the pods without a place
}

func newChoice(demands []Demand, nodes []Drained, fits Fits) *choice {
	c := &choice{demands: demands, fits: fits}
	for _, node := range nodes {
		c.now, c.later = append(c.now, node.Now), append(c.later, node.Later)
	}
	for _, demand := range demands {
		c.counts, c.missing = append(c.counts, map[int]int{}), append(c.missing, demand.Count)
	}
	return c
}

// slotsNow is how many more pods of a demand a node holds as it is.
func (c *choice) slotsNow(d, n int) int {
	return min(c.slots(d, n, c.now[n]), c.slots(d, n, c.later[n]))
}

// slotsLater is how many more pods of a demand a node would hold when what will end has ended.
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

// takeEarlier seats pods of a demand where they had a place before, as far as there are slots.
func (c *choice) takeEarlier(d int, before []Place, slots func(d, n int) int) {
	for _, place := range before {
		c.take(d, place.Node, min(place.Count-c.counts[d][place.Node], slots(d, place.Node)))
	}
}

// takeFreest seats the rest of a demand as far as there are slots, where most is free first.
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
			candidates = append(candidates, candidate{n, count, freeNow(c.demands[d], c.now[n])})
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

// freeNow is what is free, counted in pods of a demand; below 0 where more is in use than there is.
func freeNow(demand Demand, free resources.List) float64 {
	pods := math.Inf(1)
	for name, amount := range demand.Requests {
		if amount > 0 {
			pods = min(pods, float64(free[name])/float64(amount))
		}
	}
	return pods
}

// take seats up to count pods of a demand on a node.
func (c *choice) take(d, n, count int) {
	count = min(count, c.missing[d])
	if count <= 0 || !c.fits(d, n) {
		return
	}
	taken := c.demands[d].Requests.Scale(int64(count))
	for _, free := range [][]resources.List{c.now, c.later} {
		left := free[n].Clone()
		left.Sub(taken)
		free[n] = left
	}
	c.counts[d][n] += count
	c.missing[d] -= count
}

// result lists the places in the order of the nodes.
func (c *choice) result() [][]Place {
	places := make([][]Place, len(c.demands))
	for d, counts := range c.counts {
		for n, count := range counts {
			places[d] = append(places[d], Place{Node: n, Count: count})
		}
		slices.SortFunc(places[d], func(a, b Place) int { return cmp.Compare(a.Node, b.Node) })
	}
	return places
}
