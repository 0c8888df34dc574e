package gangs

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
)

// apply passes on what follows from a change of a gang (nil for none). It may be called more than once while the lock is held.
func (t *Tracker) apply(g *group, e gang.Effects) {
	if g != nil {
		t.applyTo(g, &e)
	}
	events := t.WaitList.book.TakeEvents()
	if events.RoomFreed {
		e.What |= gang.RoomFreed | gang.HoldFreed
	}
	if events.HoldFreed {
		e.What |= gang.HoldFreed
	}
	e.Add(gang.Freed(events.QuotaFreed))
	t.applyToRoom(&e)
	if e.Has(gang.QuotaFreed) {
		t.applyWake(t.Quota.gangs)
		if len(t.Quota.pods) > 0 {
			t.dirty.Add(quotaKey)
		}
	}
	for _, key := range events.Decide {
		if decided := t.gangs[key]; decided != nil {
			t.wake(decided)
		}
	}
	if e.Has(gang.SearchDiffers) {
		t.Victims.input.changes++
	}
	if e.Has(gang.PodsReady) {
		t.dirty.AddAfter(readyKey, e.Tried)
	}
	if e.Has(gang.GroupsChanged) && len(t.Quota.grouped) > 0 {
		t.dirty.Add(nodeGroupsKey)
	}
}

// applyTo is the part of apply for the gang. It adds what follows in turn.
func (t *Tracker) applyTo(g *group, e *gang.Effects) {
	if e.Has(gang.HasChanged) {
		e.What |= gang.SearchDiffers | gang.ToLook | gang.ToReport
		switch t.status(g).Phase {
		case gang.Incomplete, gang.NotAdmitted, gang.Running:
			t.WaitList.book.Suspend(g.key)
		}
	}
	if e.Has(gang.HasChanged | gang.ToSettle) {
		e.Add(t.settleRepair(g))
	}
	if e.Has(gang.ToWake) {
		t.wake(g)
	}
	if e.Has(gang.ToReport) && !g.reporting {
		g.reporting = true
		t.Reports.queue.AddAfter(g.key, reportDelay)
	}
	if e.Has(gang.ToOpen) {
		g.surplusOpen = false
	}
	if e.Has(gang.ToLook) {
		t.dirty.Add(g.key)
	}
	if e.Has(gang.LookLater) {
		t.dirty.AddAfter(g.key, e.Again)
	}
	if e.Has(gang.HasChanged) {
		t.dropIfEmpty(g)
	}
}

// applyToRoom passes effects on to pods and gangs that wait for room.
func (t *Tracker) applyToRoom(e *gang.Effects) {
	held := &t.WaitList.held
	if e.Has(gang.RoomFreed) {
		held.returned++
		e.What |= gang.SearchDiffers
		t.applyWake(held.gangs)
	}
	if e.Has(gang.HoldFreed) {
		held.freed++
	}
	if e.Has(gang.HoldFreed|gang.HeldTried) && len(held.pods) > 0 {
		t.dirty.Add(heldBackKey)
	}
	if e.Has(gang.NodeFreed) {
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

// applyWake wakes the gangs of a set and empties it.
func (t *Tracker) applyWake(keys sets.Set[Key]) {
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
