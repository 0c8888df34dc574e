package gangs

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
)

// effects are what follows for others from what happened to a gang, or to a pod. Verbs return them, and apply passes them on. Nothing else
// does: a new rule about what follows is written once, in this file.
type effects struct {
	what  effect
	again time.Duration // when the dispatcher looks at the gang, for lookLater
	tried time.Duration // when the pods are tried, for podsReady
}

// effect is a set of kinds of effects.
type effect uint16

// Of the gang.
const (
	// hasChanged: the gang differs from the input of its last decision. Its place among the waiting gangs, and whether it is under repair, are found
	// again. It is forgotten if nothing is left of it.
	hasChanged effect = 1 << iota
	// toSettle: whether the gang is under repair is found again.
	toSettle
	// toWake: the gang is decided again.
	toWake
	// toLook: the dispatcher looks at the gang.
	toLook
	// lookLater: the dispatcher looks at the gang after a while.
	lookLater
	// toReport: the reporter looks at the gang.
	toReport
)

// Of everything else.
const (
	// roomFreed: room was given back that was assumed or reserved.
	roomFreed effect = 1 << (iota + 6)
	// holdFreed: room on nodes is not kept for a waiting gang or a seat any more.
	holdFreed
	// heldTried: the pods are tried again that found no node because of what is kept.
	heldTried
	// nodeFreed: room may have come free on nodes.
	nodeFreed
	// quotaFreed: quota may have come free.
	quotaFreed
	// searchDiffers: a search for victims may have another result.
	searchDiffers
	// podsReady: the pods on the list of ready ones are tried after a while.
	podsReady
	// groupsChanged: the pods are tried again that were tried with node groups.
	groupsChanged
)

func only(what effect) effects { return effects{what: what} }

// lookIn has the dispatcher look at the gang after a while.
func lookIn(wait time.Duration) effects { return effects{what: lookLater, again: wait} }

// triedIn has the ready pods tried after a while.
func triedIn(wait time.Duration) effects { return effects{what: podsReady, tried: wait} }

// freed are the effects of a change of the ledger.
func freed(quota bool) effects {
	if quota {
		return only(quotaFreed)
	}
	return effects{}
}

func (e effects) has(what effect) bool { return e.what&what != 0 }

// add adds more effects. Of two times the earlier counts.
func (e *effects) add(more effects) {
	if more.has(lookLater) && (!e.has(lookLater) || more.again < e.again) {
		e.again = more.again
	}
	if more.has(podsReady) && (!e.has(podsReady) || more.tried < e.tried) {
		e.tried = more.tried
	}
	e.what |= more.what
}

// apply passes on what follows from a change of a gang (nil for none). It may be called more than once while the lock is held.
func (t *Tracker) apply(g *group, e effects) {
	if g != nil {
		t.applyTo(g, &e)
	}
	events := t.WaitList.book.TakeEvents()
	if events.RoomFreed {
		e.what |= roomFreed | holdFreed
	}
	if events.HoldFreed {
		e.what |= holdFreed
	}
	e.add(freed(events.QuotaFreed))
	t.applyToRoom(&e)
	if e.has(quotaFreed) {
		t.wakeAll(t.Quota.gangs)
		if len(t.Quota.pods) > 0 {
			t.dirty.Add(quotaKey)
		}
	}
	for _, key := range events.Decide {
		if decided := t.gangs[key]; decided != nil {
			t.wake(decided)
		}
	}
	if e.has(searchDiffers) {
		t.Victims.input.changes++
	}
	if e.has(podsReady) {
		t.dirty.AddAfter(readyKey, e.tried)
	}
	if e.has(groupsChanged) && len(t.Quota.grouped) > 0 {
		t.dirty.Add(nodeGroupsKey)
	}
}

// applyTo is the part of apply for the gang. It adds what follows in turn.
func (t *Tracker) applyTo(g *group, e *effects) {
	if e.has(hasChanged) {
		e.what |= searchDiffers | toLook | toReport
		switch t.status(g).Phase {
		case gang.Incomplete, gang.NotAdmitted, gang.Running:
			t.WaitList.book.Suspend(g.key)
		}
	}
	if e.has(hasChanged | toSettle) {
		e.add(t.settleRepair(g))
	}
	if e.has(toWake) {
		t.wake(g)
	}
	if e.has(toReport) && !g.reporting {
		g.reporting = true
		t.Reports.queue.AddAfter(g.key, reportDelay)
	}
	if e.has(toLook) {
		t.dirty.Add(g.key)
	}
	if e.has(lookLater) {
		t.dirty.AddAfter(g.key, e.again)
	}
	if e.has(hasChanged) {
		t.dropIfEmpty(g)
	}
}

// applyToRoom is the part of apply for those that wait for room.
func (t *Tracker) applyToRoom(e *effects) {
	held := &t.WaitList.held
	if e.has(roomFreed) {
		held.returned++
		e.what |= searchDiffers
		t.wakeAll(held.gangs)
	}
	if e.has(holdFreed) {
		held.freed++
	}
	if e.has(holdFreed|heldTried) && len(held.pods) > 0 {
		t.dirty.Add(heldBackKey)
	}
	if e.has(nodeFreed) {
		t.WaitList.sharing.roomFreed(t.clock.Now())
	}
}

// wake has an unschedulable gang decided again. It bypasses the back-off of the scheduling queue, where it would wait behind pods that have
// not been tried lately. A short delay gathers all gangs that one event may help, so that they are tried in order (woken).
func (t *Tracker) wake(g *group) {
	if g.decision == nil || g.decision.woken {
		return
	}
	g.decision.woken = true
	t.woken.Insert(g.key)
	t.dirty.AddAfter(g.key, max(wakeDelay, g.decision.nextAt.Sub(t.clock.Now())))
}

// wakeAll wakes the gangs of a set and empties it.
func (t *Tracker) wakeAll(keys sets.Set[Key]) {
	for key := range keys {
		if g := t.gangs[key]; g != nil {
			t.wake(g)
		}
	}
	keys.Clear()
}

// dropIfEmpty forgets a gang that has neither a PodGroup nor members.
func (t *Tracker) dropIfEmpty(g *group) {
	if g.podGroup.exists || g.Len() > 0 {
		return
	}
	t.WaitList.book.Forget(g.key)
	t.Quota.Ledger.DropAssumed(g.key.String())
	t.Quota.gangs.Delete(g.key)
	t.WaitList.held.gangs.Delete(g.key)
	delete(t.WaitList.sharing.gangs, g.key)
	delete(t.gangs, g.key)
}
