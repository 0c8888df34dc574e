package gang

import "time"

// Effects are what follows for others from what happened to a gang, or to a pod. Verbs return them, and the store passes them on.
type Effects struct {
	// Kinds of effects that follow.
	What Effect
	// Again is when the dispatcher looks at the gang, for LookLater.
	Again time.Duration
	// Tried is when the pods are tried, for PodsReady.
	Tried time.Duration
}

// Effect is a set of kinds of effects.
type Effect uint16

// Effects on the gang.
const (
	// HasChanged: the gang differs from the input of its last decision. Its place among the waiting gangs is found again, and whether it is under
	// repair. It is forgotten if nothing is left of it.
	HasChanged Effect = 1 << iota
	// ToSettle: it is found again whether the gang is under repair.
	ToSettle
	// ToWake: the gang is decided again.
	ToWake
	// ToLook: the dispatcher looks at the gang.
	ToLook
	// LookLater: the dispatcher looks at the gang after a while.
	LookLater
	// ToReport: the reporter looks at the gang.
	ToReport
	// ToOpen: surplus of the gang is activated anew.
	ToOpen
)

// Effects on everything else.
const (
	// RoomFreed: room was given back that was assumed or reserved.
	RoomFreed Effect = 1 << (iota + 7)
	// HoldFreed: room on nodes is not kept for a waiting gang or a seat any more.
	HoldFreed
	// HeldTried: the pods are tried again that found no node because of what is kept.
	HeldTried
	// NodeFreed: room may have come free on nodes.
	NodeFreed
	// QuotaFreed: quota may have come free.
	QuotaFreed
	// SearchDiffers: a search for victims may have another result.
	SearchDiffers
	// PodsReady: the pods on the list of ready ones are tried after a while.
	PodsReady
	// GroupsChanged: the pods are tried again that were tried with node groups.
	GroupsChanged
)

// Only has effects without a time.
func Only(what Effect) Effects { return Effects{What: what} }

// LookIn has the dispatcher look at the gang after a while.
func LookIn(wait time.Duration) Effects { return Effects{What: LookLater, Again: wait} }

// TriedIn has the ready pods tried after a while.
func TriedIn(wait time.Duration) Effects { return Effects{What: PodsReady, Tried: wait} }

// Freed are the effects of a change of the ledger.
func Freed(quota bool) Effects {
	if quota {
		return Only(QuotaFreed)
	}
	return Effects{}
}

// Has says whether any of some effects is among these.
func (e Effects) Has(what Effect) bool { return e.What&what != 0 }

// Add adds more effects. Of two times the earlier counts.
func (e *Effects) Add(more Effects) {
	if more.Has(LookLater) && (!e.Has(LookLater) || more.Again < e.Again) {
		e.Again = more.Again
	}
	if more.Has(PodsReady) && (!e.Has(PodsReady) || more.Tried < e.Tried) {
		e.Tried = more.Tried
	}
	e.What |= more.What
}
