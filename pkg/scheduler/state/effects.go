package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
)

// Apply passes on what follows from a change of a gang (nil for none). It may be called more than once while the lock is held.
func (t *State) Apply(g *gang.Group, e gang.Effects) {
	if g != nil {
		t.applyTo(g, &e)
	}
	events := t.Waiting.Book.TakeEvents()
	if events.RoomFreed {
		e.What |= gang.RoomFreed | gang.HoldFreed
	}
	if events.HoldFreed {
		e.What |= gang.HoldFreed
	}
	e.Add(gang.Freed(events.QuotaFreed))
	t.applyToRoom(&e)
	if e.Has(gang.QuotaFreed) {
		t.applyWake(t.charges.Gangs)
		if len(t.charges.Pods) > 0 {
			t.Dirty.Add(QuotaKey)
		}
	}
	for _, key := range events.Decide {
		if decided := t.Gangs[key]; decided != nil {
			t.wake(decided)
		}
	}
	if e.Has(gang.SearchDiffers) {
		t.Changes++
	}
	if e.Has(gang.PodsReady) {
		t.Dirty.AddAfter(ReadyKey, e.Tried)
	}
	if e.Has(gang.GroupsChanged) && len(t.charges.Grouped) > 0 {
		t.Dirty.Add(NodeGroupsKey)
	}
}

// applyTo is the part of apply for the gang. It adds what follows in turn.
func (t *State) applyTo(g *gang.Group, e *gang.Effects) {
	if e.Has(gang.HasChanged) {
		e.What |= gang.SearchDiffers | gang.ToLook | gang.ToReport
		switch t.Status(g).Phase {
		case gang.Incomplete, gang.NotAdmitted, gang.Running:
			t.Waiting.Book.Suspend(g.Key)
		}
	}
	if e.Has(gang.HasChanged | gang.ToSettle) {
		e.Add(t.settleRepair(g))
	}
	if e.Has(gang.ToWake) {
		t.wake(g)
	}
	if e.Has(gang.ToReport) && !g.Reporting {
		g.Reporting = true
		t.Reports.AddAfter(g.Key, ReportDelay)
	}
	if e.Has(gang.ToOpen) {
		g.SurplusOpen = false
	}
	if e.Has(gang.ToLook) {
		t.Dirty.Add(g.Key)
	}
	if e.Has(gang.LookLater) {
		t.Dirty.AddAfter(g.Key, e.Again)
	}
	if e.Has(gang.HasChanged) {
		t.dropIfEmpty(g)
	}
}

// applyToRoom passes effects on to pods and gangs that wait for room.
func (t *State) applyToRoom(e *gang.Effects) {
	held := &t.Waiting.Held
	if e.Has(gang.RoomFreed) {
		held.Returned++
		e.What |= gang.SearchDiffers
		t.applyWake(held.Gangs)
	}
	if e.Has(gang.HoldFreed) {
		held.Freed++
	}
	if e.Has(gang.HoldFreed|gang.HeldTried) && len(held.Pods) > 0 {
		t.Dirty.Add(BlockedKey)
	}
	if e.Has(gang.NodeFreed) {
		t.Waiting.Sharing.roomFreed(t.Clock.Now())
		t.Waiting.Book.RoomMoved()
	}
}

// wake has an unschedulable gang decided again. It bypasses the back-off of the scheduling queue, where it would wait behind pods that have
// not been tried lately. A short delay gathers all gangs that one event may help, so that they are tried in order (woken).
func (t *State) wake(g *gang.Group) {
	if g.Refusal == nil || g.Refusal.Woken {
		return
	}
	g.Refusal.Woken = true
	t.Woken.Insert(g.Key)
	t.Dirty.AddAfter(g.Key, max(WakeDelay, g.Refusal.NextAt.Sub(t.Clock.Now())))
}

// applyWake wakes the gangs of a set and empties it.
func (t *State) applyWake(keys sets.Set[Key]) {
	for key := range keys {
		if g := t.Gangs[key]; g != nil {
			t.wake(g)
		}
	}
	keys.Clear()
}

// dropIfEmpty forgets a gang that has neither a PodGroup nor members.
func (t *State) dropIfEmpty(g *gang.Group) {
	if g.PodGroup.Exists || g.Len() > 0 {
		return
	}
	t.Waiting.Book.Forget(g.Key)
	t.charges.Gangs.Delete(g.Key)
	t.Waiting.Held.Gangs.Delete(g.Key)
	t.Waiting.ForDomain.Delete(g.Key)
	delete(t.Waiting.Sharing.Gangs, g.Key)
	delete(t.Gangs, g.Key)
}

// Four keys are for single pods and surplus. These wait for quota, for reserved room, for node groups, or to be tried again.
var (
	QuotaKey   = Key{}
	BlockedKey = Key{Foreign: true}
	ReadyKey   = Key{Name: "ready"} // no gang is without a namespace

	NodeGroupsKey = Key{Name: "node groups"}
)

// ReportDelay gathers members that are held at the same time.
const ReportDelay = 100 * time.Millisecond

// AssumeQuota books in the ledger the requests of the members that are still to come.
func (t *State) AssumeQuota(g *gang.Group) {
	if g.PodGroup.Account != "" {
		t.charges.Ledger.Assume(g.Key.String(), g.PodGroup.Account, g.Attempt.Quota)
	}
}

// RollBack ends an attempt without success, for the whole gang and at once. The dispatcher has the members that hold room rejected. failed
// is the pod that could not be placed, or "" when the gang itself has changed.
//
// The decision had found places. So either the decision cannot see what keeps the pod out, or members have gone to other nodes than
// decided. After the first rollback, the next attempt goes exactly where its decision says; after that the gang backs off.
func (t *State) RollBack(g *gang.Group, failed types.UID) (e gang.Effects) {
	if g.Attempt == nil {
		return e
	}
	a := g.Attempt
	for _, m := range g.In(gang.Reserved) {
		g.SetState(m, gang.Returning)
	}
	g.Scout, g.SurplusOpen, g.InPermit = gang.Scout{}, false, true
	t.Metrics.Attempts.WithLabelValues(gangmetrics.ResultRolledBack).Inc()
	e = t.EndAttempt(g)
	e.Add(gang.Only(gang.ToSettle | gang.ToLook | gang.ToReport))
	t.Waiting.Book.Failed(g.Key)
	switch exact := a.Exact || a.Order != nil; {
	case failed == NoUID:
		g.Retry.Exact, g.Retry.Failures = false, 0
		return e
	case a.Certain && !exact:
		g.Retry.Exact = true
		g.Scout.UID = failed
		return e
	}
	g.Scout.UID = failed
	now := t.Clock.Now()
	wait := t.Backoff(g.Retry.Failures)
	g.Retry.Exact, g.Retry.Failures, g.Retry.Until = false, g.Retry.Failures+1, now.Add(wait)
	if g.Retry.Failures >= MaxFailuresReserved && t.Waiting.Book.ReservedFor(g.Key) != nil {
		t.Waiting.Book.BackOff(g.Key, now)
	}
	return e
}

// MaxFailuresReserved is how many attempts of a gang may fail before its reservation of nodes is dropped.
const MaxFailuresReserved = 10

// Backoff is the pause after a number of failures in a row.
func (t *State) Backoff(failures int) time.Duration {
	wait := t.Settings.Args.InitialBackoff.Duration
	for range failures {
		wait = min(2*wait, t.Settings.Args.MaxBackoff.Duration)
	}
	return wait
}

// EndAttempt ends the attempt of a gang, with its seat, and gives back what was assumed for its members.
func (t *State) EndAttempt(g *gang.Group) (e gang.Effects) {
	if g.Attempt.Seat != nil {
		t.DropUnbegun(g.PodGroup.UID)
		e = gang.Only(gang.HoldFreed)
	}
	g.Attempt = nil
	delete(t.Attempting, g.Key)
	e.Add(gang.Freed(t.charges.Ledger.DropAssumed(g.Key.String())))
	e.Add(gang.Only(gang.RoomFreed))
	return e
}

// DropUnbegun drops the claims of a preemptor whose seat ends. Claims on a gang that has lost members to it already stay: the whole gang
// goes.
func (t *State) DropUnbegun(preemptor types.UID) {
	for uid, c := range t.Claims.Of {
		if c.By == preemptor && !c.Begun {
			t.DropClaim(uid)
		}
	}
}

// SweepClaims drops claims on pods that are gone or going, and claims without an effect.
func (t *State) SweepClaims() {
	for uid := range t.Claims.Of {
		if _, m := t.Find(uid); m == nil || m.Terminating || !t.Claims.Claimed(uid, "") {
			t.DropClaim(uid)
		}
	}
}

// DropClaim lets members come that the gate held because of a claim.
func (t *State) DropClaim(uid types.UID) {
	t.Claims.CountClaim(t.Claims.Of[uid].Of, -1)
	delete(t.Claims.Of, uid)
	g, _ := t.Find(uid)
	t.Apply(g, gang.Only(gang.SearchDiffers|gang.ToLook|gang.ToOpen))
}
