// Package timeline says when waiting gangs can start, from what runs and when that is expected to end. It goes from end to end, and does what
// the scheduler will do then. It decides on the waiting gangs in order, and each starts if it fits. The first gang of each queue that lacks room or
// quota gets a reservation, which gangs behind it leave alone. The rules are those of package reservations. It is pure: no lock, no client, no clock. It
// changes nothing of its input.
//
// Where pods go is a guess: kube-scheduler chooses among equal nodes at random.
package timeline

import (
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
	// Gangs that wait, the first in order first.
	Gangs []Gang
	// Patience is how long a gang may lack quota, or room that others use. After that it is kept for the gang. It is 0 for any time.
	Patience time.Duration
	// NoReservations: no gang gets a start that is kept.
	NoReservations bool
}

// Run is a gang or a single pod that holds room.
type Run struct {
	// End is when it is expected to give its room back, zero for never.
	End time.Time
	// On are the amounts that come free on nodes.
	On []Amount
	// Queues that it is charged to: its own and the ancestors.
	Queues []int
	// Line is the queue in which it has waited, "" for none.
	Line string
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
	// Line is the queue in which it waits, "" for none. The first gang of each that lacks room gets a start that is kept.
	Line string
	// Since is when it was found to lack room or quota, zero for now.
	Since time.Time
	// Reserved is the room that is kept for it now, nil for none.
	Reserved *Reservation
	// Asks: it does not wait, and takes no room. It is planned as if it did, and the others as if it were not there.
	Asks bool
}

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
	// Delays are the gangs that would start later if this one waited, by index, where it asks.
	Delays []int
}

// A plan ends after some work, for which an entry of a node costs one. So the same cluster has the same plan on each machine.
const (
	// mostWork is the work of a plan. A thousand gangs on 5,000 nodes take a third of it, or somewhat more if they are of many queues. The plan
	// of each gang that asks may take as much.
	mostWork = 10_000_000
	// mostWorkOfOne is how many entries the nodes may have in all for the kinds of one gang.
	mostWorkOfOne = 2_000_000
	// mostRenewing is after how much work reservations keep their places while nothing takes these. In a small cluster they may move whenever
	// something ends.
	mostRenewing = 1_000_000
	// mostReserving is after how much work only the reservation is planned that holds against all.
	mostReserving = 2_500_000
)

// Plan says for each gang when it is expected to start.
func Plan(c *Cluster) []Start {
	starts := newSimulation(c, -1).run()
	for i := range c.Gangs {
		if c.Gangs[i].Asks {
			with := newSimulation(c, i).run()
			starts[i] = with[i]
			starts[i].Delays = delays(c, starts, with, i)
		}
	}
	return starts
}

// delays are the gangs that start later if a gang that asks waits.
func delays(c *Cluster, starts, with []Start, asks int) (later []int) {
	if with[asks].Why != Known {
		return nil
	}
	for i, start := range with {
		if c.Gangs[i].Asks || starts[i].Why != Known || start.Why == TooMuch {
			continue
		}
		if start.Why != Known || start.At.After(starts[i].At) {
			later = append(later, i)
		}
	}
	return later
}
