package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/resources"
)

// outcome is the result for one choice of members.
type outcome struct {
	*view
	problem *Problem
	Packing
	order    []types.UID // in which the members must be placed, nil for any
	apart    bool        // there is room, but not where the inter-pod constraints let the members go
	tooLarge bool
	reserve  *Places
	noPlaces bool
	noStart  bool
}

// solveOn finds places for the members on the nodes of a view, reserved places included. It chooses places to reserve if that is asked for.
func (p *Problem) solveOn(v *view) *outcome {
	o := &outcome{view: v, problem: p, Packing: v.dryRunReserve(Pack(v.demands, v.nodes, v.fits))}
	if v.constraints != nil && o.Feasibility != Impossible {
		o.search()
	}
	if o.Feasibility == Possible {
		return o
	}
	if p.Reserved != nil && v.constraints == nil {
		if places, ok := PackLater(v.demands, v.nodes, freeOf(v.nodes), v.fits, v.reservedPlaces(p.Reserved)); ok {
			o.Feasibility, o.Places = Possible, places
			o.Packing = v.dryRunReserve(o.Packing)
		}
		if o.Feasibility == Possible {
			return o
		}
	}
	o.tooLarge = v.isTooLarge()
	if p.Reserve && !o.tooLarge {
		o.reserve = v.chooseReservation(p)
		o.noPlaces, o.noStart = o.reserve == nil && !p.OnlyWithStart, o.reserve == nil && p.OnlyWithStart
	}
	if p.Reserved != nil || o.reserve != nil {
		o.Feasibility = Impossible // its reserved places will come free: it need not be tried on other nodes
	}
	return o
}

// search finds places for members with inter-pod constraints, after the packing has found that there may be room enough.
func (o *outcome) search() {
	s, prefer := o.newSearch(), o.problem.Reserved
	if prefer == nil && o.Feasibility == Possible {
		prefer = o.nodesOf(o.Places)
	}
	packed := o.Feasibility
	o.Packing, o.order = s.run(prefer)
	switch {
	case o.Feasibility == Possible:
	case packed == Uncertain || s.calls <= 0:
		o.Feasibility = Uncertain
	default:
		o.apart = true
	}
}

// shortfall is the room that the gang lacks on nodes that do not refuse its pods. It is nil if there is enough. Room that is kept for nominated
// pods counts as free: no event tells when a nomination ends. If the gang lacks room even without what is held for other gangs, the
// shortfall is counted without it.
func (o *outcome) shortfall(index *Index) (short *Shortfall, withoutHeld bool) {
	if len(o.problem.Held)+len(o.problem.Kept) > 0 {
		if short := Lacking(o.demands, o.nodesWithout(true), index, o.refuses); short != nil {
			return short, true
		}
	}
	return Lacking(o.demands, o.nodesWithout(false), index, o.refuses), false
}

// nodesWithout are the nodes with what is free when nothing is kept for nominated pods. If asked for, nothing is held for other gangs
// either.
func (v *view) nodesWithout(held bool) []Node {
	nodes := slices.Clone(v.nodes)
	for n := range nodes {
		var kept resources.List
		if held {
			kept = v.held[n]
		}
		if len(kept)+len(v.nominated[n]) > 0 {
			nodes[n].Free = nodes[n].Free.Clone()
			nodes[n].Free.Add(kept)
			nodes[n].Free.Add(v.nominated[n])
		}
	}
	return nodes
}
