package gangs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Enter asks the gate again at the start of a pod's scheduling cycle. It says what the pod is held to there.
func (t *store) Enter(pod *corev1.Pod) state.Entry {
	t.Leadership.Lead()
	key, isMember := t.KeyOf(pod)
	t.Lock()
	defer t.Unlock()
	g, m := t.Find(pod.UID)
	if !isMember {
		delete(t.Detached, pod.UID)
	}
	if !isMember && m == nil { // the queue's pod may be older than the tracker's, and not name its gang yet
		return state.Entry{Reserved: t.WaitList.AgainstMember(nil, pod), Freed: t.WaitList.Held.Freed}
	}
	if m == nil {
		t.Unseen[pod.UID] = pod
		return state.Entry{Reason: NotSeen}
	}
	if g.Attempt != nil {
		g.Attempt.Failed.Delete(pod.UID) // it is tried again
	} else if g.Scout.Replaced {
		g.Scout.UID = state.NoUID // the first of the scouts that comes is it
	}
	reason, isScout := t.closedTo(key, m.Pod)
	wasProbe := t.Leadership.EndProbe(pod.UID)
	if isScout {
		t.CallScout(g, m)
		if wasProbe {
			reason = outOfTurn
		}
	}
	if reason != "" {
		t.Apply(g, g.TurnAway(m))
		return state.Entry{Reason: reason}
	}
	delete(t.WaitList.Ready, pod.UID) // it is tried now
	entry := state.Entry{Scout: isScout, Reserved: t.WaitList.AgainstMember(g, pod), Freed: t.WaitList.Held.Freed}
	if g.Attempt != nil || g.Seated() {
		entry.Near = t.Topology.limitFor(g, m)
	}
	switch {
	case g.Attempt != nil && (g.Attempt.Exact || g.Attempt.Order != nil):
		entry.Node = g.Attempt.ToCome[pod.UID]
	case g.Attempt == nil && g.Seated():
		entry.Holds, entry.Together = t.WaitList.HoldsAgainst(g, pod), t.groupOf(g, m)
		t.Apply(nil, t.Topology.surplusWaits(g, pod, entry.Near))
	}
	return entry
}

// LimitsOf is the room that is reserved against a single pod or surplus. It is empty for a member of a gang that is placed as a whole.
func (t *store) LimitsOf(pod *corev1.Pod) state.Entry {
	t.Lock()
	defer t.Unlock()
	g, m := t.Find(pod.UID)
	switch {
	case m == nil:
		return state.Entry{Reserved: t.WaitList.AgainstMember(nil, pod)}
	case !g.Seated():
		return state.Entry{}
	}
	return state.Entry{Reserved: t.WaitList.AgainstMember(g, pod), Holds: t.WaitList.HoldsAgainst(g, pod), Near: t.Topology.limitFor(g, m)}
}

// Reserve notes that a member has its room on a node. That ends the assumption for it. The caller charges the pod as well (Charge). It
// returns false for a pod that joined a gang when its cycle had begun. The gang must be decided first.
func (t *store) Reserve(pod *corev1.Pod) bool {
	t.Lock()
	defer t.Unlock()
	delete(t.WaitList.Held.Pods, pod.UID)
	t.WaitList.Held.Taken = true
	g, m := t.Find(pod.UID)
	if m == nil || m.State == gang.Bound {
		return true // bound by another scheduler; Permit rejects it
	}
	if key, _ := gang.KeyOf(pod); key != g.Key && !g.Seated() {
		t.Apply(g, g.TurnAway(m))
		return false
	}
	g.SetState(m, gang.Reserved)
	m.Node = pod.Spec.NodeName // the scheduler has set it on its copy
	e := t.took(g, m)
	if g.Attempt == nil && g.IsGroupToCome(m) {
		g.GroupUntil = t.Clock.Now().Add(t.Settings.Args.PermitTimeout.Duration)
		e.Add(gang.LookIn(t.Settings.Args.PermitTimeout.Duration))
	}
	t.Apply(g, e)
	return true
}

// took ends the assumption for a member that has its room now.
func (t *store) took(g *gang.Group, m *gang.Member) (e gang.Effects) {
	a := g.Attempt
	if a == nil || !a.Take(m) {
		return e
	}
	if more := t.Clock.Now().Add(t.Settings.Args.PermitTimeout.Duration); more.After(a.Deadline) {
		a.Deadline = more // the members come
	}
	if a.Order != nil {
		e = gang.Only(gang.ToLook) // the next may come now
	}
	t.AssumeQuota(g)
	return e
}

// Unreserve notes that a member has lost its room. If it was part of an attempt, the attempt is over for the whole gang. If its gang had
// been released already, the member alone is placed anew. It may be called for pods that hold no room.
func (t *store) Unreserve(pod *corev1.Pod) {
	t.Lock()
	defer t.Unlock()
	if !gang.IsMember(pod) { // else the queue may not know yet that the pod has left its gang
		delete(t.Detached, pod.UID)
	}
	t.Leaving.Delete(pod.UID)
	g, m := t.Find(pod.UID)
	if m == nil || m.State == gang.Bound || m.State == gang.Waiting {
		return // gone; or the API has bound it after all; or it held nothing
	}
	was, e := m.State, gang.Only(gang.NodeFreed)
	g.SetState(m, gang.Waiting)
	switch {
	case was == gang.Released && g.Counts(m) && g.PodGroup.Exists && t.IsAdmitted(g) && !g.Seated():
		if g.SeatedWith(append(g.ToCome(), m)) {
			e.Add(t.placeAnew(g, m, pod.Spec.NodeName))
			t.Apply(g, e)
			return
		}
		e.Add(t.RollBack(g, state.NoUID)) // the minimum was raised since the release: placing this one alone is not enough
	case was == gang.Reserved && g.Attempt != nil:
		e.Add(t.RollBack(g, pod.UID))
	case was == gang.Reserved:
		e.Add(returnGroup(g, m))
	}
	e.Add(g.Change())
	t.Apply(g, e)
}

// placeAnew takes a member whose binding has failed into an attempt. The others are bound, or about to be, so the gang is not decided
// again. The member's room stays assumed, so that no waiting gang takes it meanwhile. It ranks before everything but system-critical pods.
// The first time it is tried at once.
func (t *store) placeAnew(g *gang.Group, m *gang.Member, node string) (e gang.Effects) {
	now := t.Clock.Now()
	if g.Attempt == nil {
		a := gang.NewAttempt()
		a.StartAt = now
		if g.Retry.Binding > 0 {
			a.StartAt = now.Add(t.Backoff(g.Retry.Binding - 1))
		}
		g.Retry.Binding++
		a.Deadline = a.StartAt.Add(t.Settings.Args.PermitTimeout.Duration)
		g.Attempt, g.Scout, g.Refusal = a, gang.Scout{}, nil
		t.Attempting[g.Key] = g
		e = gang.LookIn(a.StartAt.Sub(now))
		e.Add(gang.LookIn(a.Deadline.Sub(now)))
	}
	g.Attempt.Assume(m, node)
	g.Attempt.Failed.Insert(m.UID)
	t.AssumeQuota(g)
	return e
}

// PermitResult is the answer of Permit.
type PermitResult int

// The answers of Permit.
const (
	// Allow: the pod may be bound.
	Allow PermitResult = iota
	// Wait: the rest of the minimum is still to come.
	Wait
	// Reject: the attempt is over.
	Reject
)

// Permit says whether a pod that holds its room may be bound. For the pod that completes the minimum it returns the UIDs of the pods that
// wait in Permit.
func (t *store) Permit(pod *corev1.Pod) (result PermitResult, release []types.UID) {
	t.Lock()
	defer t.Unlock()
	g, m := t.Find(pod.UID)
	if m == nil {
		if gang.IsMember(pod) {
			return Reject, nil // deleted in the meantime
		}
		t.WaitList.Book.Bypassed(t.Quota.StartOf(pod), t.Clock.Now())
		t.Apply(nil, gang.Effects{})
		return Allow, nil
	}
	switch {
	case !g.PodGroup.Exists || !g.Counts(m) || m.State != gang.Reserved:
		g.SurplusOpen = false
		return Reject, nil
	case g.Seated() && g.Attempt != nil:
		release, e := t.release(g)
		t.Apply(g, e)
		return Allow, release
	case g.Seated() && g.IsGroupToCome(m):
		return Wait, nil
	case g.Seated():
		start := g.ReservedWith(m)
		for _, with := range start {
			g.SetState(with, gang.Released)
		}
		g.InPermit = g.InPermit || len(start) > 1
		t.WaitList.Book.Bypassed(t.Quota.StartOfGang(g, start, true), t.Clock.Now())
		t.Apply(nil, gang.Effects{})
		return Allow, gang.UIDs(start)
	case g.Attempt != nil:
		return Wait, nil
	}
	g.SurplusOpen = false // surplus, if other members of the minimum are about to lose their room
	return Reject, nil
}

// release ends the attempt of a gang whose minimum has its room, and returns the members that may be bound.
func (t *store) release(g *gang.Group) ([]types.UID, gang.Effects) {
	reserved := slices.DeleteFunc(g.In(gang.Reserved), g.IsGroupToCome)
	for _, m := range reserved {
		g.SetState(m, gang.Released)
	}
	t.Metrics.Attempts.WithLabelValues(gangmetrics.ResultSeated).Inc()
	t.Topology.started(g)
	g.Scout, g.Retry.Exact, g.Retry.Failures, g.Retry.Until = gang.Scout{}, false, 0, time.Time{}
	g.Refusal = nil
	g.SurplusOpen = false // members that were kept out during the attempt must be let in
	t.WaitList.Sharing.Runs(g)
	e := t.EndAttempt(g)
	t.WaitList.Book.Forget(g.Key)
	start := t.Quota.StartOfGang(g, reserved, false)
	if t.WaitList.Book.IsBackfill(start) {
		t.Metrics.Backfilled.Inc()
	}
	t.WaitList.Book.Bypassed(start, t.Clock.Now())
	e.Add(gang.Only(gang.ToLook))
	return gang.UIDs(reserved), e
}

// endIfSeated ends the attempt of a gang whose minimum got its room without a cycle of its own. Its members wait in Permit.
func (t *store) endIfSeated(g *gang.Group) (e gang.Effects) {
	if g.Attempt != nil && g.Seated() {
		_, e = t.release(g)
		g.InPermit = true // the dispatcher allows them
	}
	return e
}

// Fail ends the attempt of a chosen pod that found no node. The attempt goes on if the pod came before its turn, or before its gang's
// victims have gone. It says whether the pod belongs to a gang whose minimum has no room yet. Until then the pod must not preempt other
// pods by itself.
func (t *store) Fail(pod *corev1.Pod) (inGang bool) {
	t.Lock()
	defer t.Unlock()
	g, m := t.Find(pod.UID)
	if m == nil {
		return false
	}
	if g.Seated() {
		t.WaitList.Sharing.FoundNoRoom(g, t.Clock.Now())
		delete(t.WaitList.Sharing.TurnedBack, pod.UID)
		if g.Attempt == nil {
			t.Apply(g, returnGroup(g, m))
		}
		return false
	}
	if g.Attempt != nil && !g.Attempt.Evicts() {
		_, chosen := g.Attempt.ToCome[pod.UID]
		switch {
		case !chosen || !g.Attempt.IsNext(pod.UID):
		case g.Attempt.Seat != nil && t.Clock.Now().Before(g.Attempt.Seat.RetryUntil):
			t.Apply(g, gang.LookIn(evict.TooEarlyPause))
		default:
			t.Apply(g, t.RollBack(g, pod.UID))
		}
	}
	return true
}
