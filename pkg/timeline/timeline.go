// Package timeline says when waiting gangs can start, from what runs and when that is expected to end. It plans one gang after the other, in
// the order in which they wait. Each starts at the earliest time at which all of it fits until it ends. A planned gang keeps its room, and
// gangs that rank after it start in the gaps. It is pure: no lock, no client, no clock. It changes nothing of its input.
//
// Mu'alem and Feitelson (2001) call this conservative backfilling.
package timeline

import (
	"slices"
	"time"

	"github.com/muster-sched/muster/pkg/resources"
)

// Cluster is what a plan is made of. Nodes, runs, queues and kinds are named by their index.
type Cluster struct {
	// Now is the time of all amounts.
	Now time.Time
	// Nodes by what is free on each now. A node does not have a resource that is missing. An amount below 0 is room that is overcommitted.
	Nodes []resources.List
	// Queues by what is free of each limit now. A resource that is missing has no limit.
	Queues []resources.List
	// Runs are gangs and single pods that hold room.
	Runs []Run
	// Kinds of pods that wait.
	Kinds []Kind
	// Gangs that wait, the first in line first.
	Gangs []Gang
}

// Run is a gang or a single pod that holds room.
type Run struct {
	// End is when it is expected to give its room back, zero for never.
	End time.Time
	// On are the amounts that come free on nodes.
	On []Amount
	// Queues that it is charged to: its own and the ancestors.
	Queues []int
}

// Amount is an amount on a node.
type Amount struct {
	// Node by index.
	Node int
	// Of what.
	Of resources.List
}

// Kind is what pods are that cannot be told apart.
type Kind struct {
	// Requests of each pod.
	Requests resources.List
	// MaxPerNode is how many of a gang a node may hold, 0 for any number.
	MaxPerNode int
	// Takes says whether a node with room takes pods of this kind. It is nil if all nodes do.
	Takes func(node int) bool
}

// Gang is a gang that waits, or a single pod.
type Gang struct {
	// Needs are the pods that start together.
	Needs []Need
	// For is how long it is expected to run, 0 if that is not known.
	For time.Duration
	// Queues that it will be charged to: its own and the ancestors.
	Queues []int
	// Reserved is the room that is kept for it, nil for none.
	Reserved *Reservation
	// Asks: it does not wait, and takes no room. It is planned as if it did, and the others as if it were not there.
	Asks bool
}

// isDated says whether the start of a gang is decided.
func (g *Gang) isDated() bool { return g.Reserved != nil && !g.Reserved.Start.IsZero() }

// Need is a number of pods of a kind.
type Need struct {
	// Kind by index.
	Kind int
	// Count of pods.
	Count int
}

// Reservation is room that is kept for a gang.
type Reservation struct {
	// Start of the gang, if that is decided. Zero: all that comes free in the places is kept for it, until it fits somewhere.
	Start time.Time
	// Places of the pods.
	Places []Place
}

// Place is a number of pods of a kind on a node.
type Place struct {
	// Node by index.
	Node int
	// Kind by index.
	Kind int
	// Count of pods.
	Count int
}

// Reason says why no start is known.
type Reason int

// The reasons.
const (
	// Known: there is a start.
	Known Reason = iota
	// TooLarge: it asks for more than the nodes that take it, or its queues, ever have.
	TooLarge
	// NoEnd: it waits for pods that run and have no known end.
	NoEnd
	// Behind: it waits for gangs before it whose start, or whose run time, is not known.
	Behind
	// TooMuch: planning it takes too long, or planning the gangs before it did.
	TooMuch
)

// Start is when and where a gang is expected to start.
type Start struct {
	// At is the time; zero if none is known.
	At time.Time
	// Why no start is known.
	Why Reason
	// Places of its pods.
	Places []Place
	// Runs whose end it waits for, by index, sorted.
	Runs []int
	// Gangs that start before it and whose end it waits for, by index, sorted.
	Gangs []int
}

// A plan ends after some work, for which an entry of a node costs one. So the same cluster has the same plan on each machine.
const (
	// mostWork is the work for all gangs that wait. A thousand gangs on 5,000 nodes take about a tenth of it.
	mostWork = 10_000_000
	// mostWorkOfOne is the work for one gang. Each gang that asks may take as much, and takes none from others.
	mostWorkOfOne = 2_000_000
)

// Plan says for each gang when it is expected to start. A gang that takes too much work takes no room from others.
func Plan(c *Cluster) []Start {
	p := newPlan(c)
	starts := make([]Start, len(c.Gangs))
	for i := range c.Gangs { // what is decided holds against all
		if reserved := c.Gangs[i].Reserved; c.Gangs[i].isDated() {
			p.take(i, p.ticks(reserved.Start), reserved.Places)
			starts[i] = p.start(i, p.ticks(reserved.Start), reserved.Places)
		}
	}
	left := mostWork
	for i := range c.Gangs {
		switch {
		case c.Gangs[i].isDated():
		case left <= 0:
			starts[i].Why = TooMuch
		default:
			p.left = mostWorkOfOne
			starts[i] = p.next(i)
			if !c.Gangs[i].Asks {
				left -= mostWorkOfOne - p.left
			}
		}
	}
	return starts
}

// Delays are the gangs that start later if a gang that asks is in their plan, by index. starts are those of the plan without it.
func Delays(c *Cluster, starts []Start, asks int) (later []int) {
	isPlanned := func(g Gang) bool { return !g.Asks && !g.isDated() }
	if starts[asks].Why != Known || !slices.ContainsFunc(c.Gangs[asks+1:], isPlanned) {
		return nil
	}
	with := *c
	with.Gangs = slices.Clone(c.Gangs)
	for i := range with.Gangs {
		if g := &with.Gangs[i]; i == asks {
			g.Asks = false
		} else if g.Asks {
			g.Needs = nil // it costs nothing
		}
	}
	for i, start := range Plan(&with) {
		if i > asks && isPlanned(c.Gangs[i]) && starts[i].Why == Known && start.Why != TooMuch && (start.Why != Known || start.At.After(starts[i].At)) {
			later = append(later, i)
		}
	}
	return later
}

// next plans the next gang.
func (p *plan) next(g int) Start {
	at, places := p.earliest(g)
	if at == never && p.left <= 0 {
		return Start{Why: TooMuch}
	}
	defer p.keep(g, at)
	switch {
	case at == never:
		return Start{Why: p.whyNever(g)}
	case !p.Gangs[g].Asks:
		p.take(g, at, places)
	}
	return p.start(g, at, places)
}

// keep keeps the reserved room of a gang until it starts.
func (p *plan) keep(g int, start tick) {
	if p.Gangs[g].Reserved == nil {
		return
	}
	for _, place := range p.Gangs[g].Reserved.Places {
		p.nodes[place.Node].add(0, start, p.kinds[place.Kind].each, -int64(place.Count))
		p.ends[place.Node] = append(p.ends[place.Node], ending{start, -1, g})
	}
}
