package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
)

// Role says what a pod is in the scheduling cycle that begins.
type Role int

// The roles.
const (
	// Single: the pod has no gang, or its gang runs and it is surplus. It "stands for itself".
	Single Role = iota
	// Chosen: the pod starts together with others; a decision has found places for them.
	Chosen
	// Scout: the gang is to be decided.
	Scout
	// Held: the pod must not be tried now. Its gang has changed after it had passed the gate.
	Held
)

// Entry says what to do with a pod at the start of its scheduling cycle.
type Entry struct {
	// Role of the pod.
	Role Role
	// Node is where a chosen pod must go, "" for any.
	Node string
	// Reason says why a pod is held.
	Reason string
	// Reserved is the room on nodes that is reserved against the pod, nil if there is none.
	Reserved *Reserved
	// Holds are the needs of waiting gangs on nodes; a surplus pod must not take it.
	Holds []reservations.Need

	freed int // held.freed at that time
}

// Reserved is the room on nodes that is reserved for a gang.
type Reserved = reservations.Nodes[Key]

// Enter says what a pod is at the start of its scheduling cycle.
func (t *Tracker) Enter(pod *corev1.Pod) Entry {
	t.Leadership.Lead()
	key, isMember := t.keyOf(pod)
	t.mu.Lock()
	defer t.mu.Unlock()
	g, m := t.find(pod.UID)
	if !isMember {
		delete(t.detached, pod.UID)
	}
	if !isMember && m == nil { // the queue's pod may be older than the tracker's, and not name its gang yet
		return Entry{Role: Single, Reserved: t.WaitList.reservedAgainst(nil, pod), freed: t.WaitList.held.freed}
	}
	if m == nil {
		t.unseen[pod.UID] = pod
		return Entry{Role: Held, Reason: notSeen}
	}
	if g.attempt != nil {
		g.attempt.failed.Delete(pod.UID) // it is tried again
	} else if g.scout.replaced {
		g.scout.uid = noUID // the first of the scouts that comes is it
	}
	reason, isScout := t.closedTo(key, m.Pod)
	if reason != "" {
		t.apply(g, g.turnAway(m))
		return Entry{Role: Held, Reason: reason}
	}
	if isScout {
		t.callScout(g, m)
	}
	entry := Entry{Reserved: t.WaitList.reservedAgainst(g, pod), freed: t.WaitList.held.freed}
	switch {
	case g.attempt != nil:
		entry.Role = Chosen
		if g.attempt.exact || g.attempt.order != nil {
			entry.Node = g.attempt.toCome[pod.UID]
		}
	case g.Seated():
		entry.Role, entry.Holds = Single, t.WaitList.holdsAgainst(g, pod)
	default:
		entry.Role = Scout
	}
	return entry
}

// turnAway notes that the scheduling cycle of a member ends without a decision on it.
func (g *group) turnAway(m *gang.Member) gang.Effects {
	g.turnedAway = true
	if g.scout.uid != m.UID {
		return gang.Effects{}
	}
	g.scout.called = time.Time{} // it has come
	return gang.Only(gang.ToLook)
}

// LimitsOf is the room that is reserved against a single pod or surplus. It is empty for a member of a gang that is placed as a whole.
func (t *Tracker) LimitsOf(pod *corev1.Pod) Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, m := t.find(pod.UID)
	switch {
	case m == nil:
		return Entry{Reserved: t.WaitList.reservedAgainst(nil, pod)}
	case !g.Seated():
		return Entry{}
	}
	return Entry{Reserved: t.WaitList.reservedAgainst(g, pod), Holds: t.WaitList.holdsAgainst(g, pod)}
}

// Reserve notes that a member has its room on a node. That ends the assumption for it. The caller charges the pod as well (Charge). It returns
// false for a pod that joined a gang when its cycle had begun: the gang must be decided first.
func (t *Tracker) Reserve(pod *corev1.Pod) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.WaitList.held.pods, pod.UID)
	t.WaitList.held.taken = true
	g, m := t.find(pod.UID)
	if m == nil || m.State == gang.Bound {
		return true // bound by another scheduler; Permit rejects it
	}
	if key, _ := gang.KeyOf(pod); key != g.key && !g.Seated() {
		t.apply(g, g.turnAway(m))
		return false
	}
	g.setState(m, gang.Reserved)
	t.apply(g, t.took(g, m))
	return true
}

// took ends the assumption for a member that has its room now.
func (t *Tracker) took(g *group, m *gang.Member) (e gang.Effects) {
	a := g.attempt
	if a == nil || !a.take(m) {
		return e
	}
	if more := t.clock.Now().Add(t.settings.args.PermitTimeout.Duration); more.After(a.deadline) {
		a.deadline = more // the members come
	}
	if a.order != nil {
		e = gang.Only(gang.ToLook) // the next may come now
	}
	t.assumeQuota(g)
	return e
}

// assumeQuota books in the ledger the requests of the members that are still to come.
func (t *Tracker) assumeQuota(g *group) {
	if g.podGroup.account != "" {
		t.Quota.Ledger.Assume(g.key.String(), g.podGroup.account, g.attempt.quota)
	}
}

// Unreserve notes that a member has lost its room. If it was part of an attempt, the attempt is over for the whole gang; if its gang had been
// released already, the member alone is placed anew. It may be called for pods that hold no room.
func (t *Tracker) Unreserve(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !gang.IsMember(pod) { // else the queue may not know yet that the pod has left its gang
		delete(t.detached, pod.UID)
	}
	t.leaving.Delete(pod.UID)
	g, m := t.find(pod.UID)
	if m == nil || m.State == gang.Bound || m.State == gang.Waiting {
		return // gone; or the API has bound it after all; or it held nothing
	}
	was, e := m.State, gang.Only(gang.NodeFreed)
	g.setState(m, gang.Waiting)
	switch {
	case was == gang.Released && g.Counts(m) && g.podGroup.exists && t.isAdmitted(g) && !g.Seated():
		if g.SeatedWith(append(g.membersToCome(), m)) {
			e.Add(t.placeAnew(g, m, pod.Spec.NodeName))
			t.apply(g, e)
			return
		}
		e.Add(t.rollBack(g, noUID)) // the minimum was raised since the release: placing this one alone is not enough
	case was == gang.Reserved && g.attempt != nil:
		e.Add(t.rollBack(g, pod.UID))
	}
	e.Add(g.change())
	t.apply(g, e)
}

// placeAnew takes a member whose binding has failed into an attempt: the others are bound, or about to be, so the gang is not decided
// again. The member's room stays assumed, so that no waiting gang takes it meanwhile; it ranks before everything but system-critical pods;
// and the first time it is tried at once.
func (t *Tracker) placeAnew(g *group, m *gang.Member, node string) (e gang.Effects) {
	now := t.clock.Now()
	if g.attempt == nil {
		a := newAttempt()
		a.startAt = now
		if g.retry.binding > 0 {
			a.startAt = now.Add(t.backoff(g.retry.binding - 1))
		}
		g.retry.binding++
		a.deadline = a.startAt.Add(t.settings.args.PermitTimeout.Duration)
		g.attempt, g.scout, g.decision = a, scout{}, nil
		t.attempting[g.key] = g
		e = gang.LookIn(a.startAt.Sub(now))
		e.Add(gang.LookIn(a.deadline.Sub(now)))
	}
	g.attempt.assume(m, node)
	g.attempt.failed.Insert(m.UID)
	t.assumeQuota(g)
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
func (t *Tracker) Permit(pod *corev1.Pod) (result PermitResult, release []types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, m := t.find(pod.UID)
	if m == nil {
		if gang.IsMember(pod) {
			return Reject, nil // deleted in the meantime
		}
		t.WaitList.book.Bypassed(t.Quota.startOf(pod), t.clock.Now())
		t.apply(nil, gang.Effects{})
		return Allow, nil
	}
	switch {
	case !g.podGroup.exists || !g.Counts(m) || m.State != gang.Reserved:
		g.turnedAway = true
		return Reject, nil
	case g.Seated() && g.attempt != nil:
		release, e := t.release(g)
		t.apply(g, e)
		return Allow, release
	case g.Seated():
		g.setState(m, gang.Released)
		t.WaitList.book.Bypassed(t.Quota.startOfGang(g, []*gang.Member{m}, true), t.clock.Now())
		t.apply(nil, gang.Effects{})
		return Allow, nil
	case g.attempt != nil:
		return Wait, nil
	}
	g.turnedAway = true // surplus, if other members of the minimum are about to lose their room
	return Reject, nil
}

// release ends the attempt of a gang whose minimum has its room, and returns the members that may be bound.
func (t *Tracker) release(g *group) ([]types.UID, gang.Effects) {
	reserved := g.In(gang.Reserved)
	for _, m := range reserved {
		g.setState(m, gang.Released)
	}
	t.metrics.attempts.WithLabelValues(resultSeated).Inc()
	g.scout, g.retry.exact, g.retry.failures, g.retry.until = scout{}, false, 0, time.Time{}
	g.decision = nil
	g.surplusOpen = false // members that were kept out during the attempt must be let in
	t.WaitList.sharing.runs(g)
	e := t.endAttempt(g)
	t.WaitList.book.Forget(g.key)
	t.WaitList.book.Bypassed(t.Quota.startOfGang(g, reserved, false), t.clock.Now())
	e.Add(gang.Only(gang.ToLook))
	return gang.UIDs(reserved), e
}

// endIfSeated ends the attempt of a gang whose minimum got its room without a cycle of its own. Its members wait in Permit.
func (t *Tracker) endIfSeated(g *group) (e gang.Effects) {
	if g.attempt != nil && g.Seated() {
		_, e = t.release(g)
		g.inPermit = true // the dispatcher allows them
	}
	return e
}

// rollBack ends an attempt without success, for the whole gang and at once. The dispatcher has the members that hold room rejected. failed
// is the pod that could not be placed, or "" when the gang itself has changed.
//
// The decision had found places. So either the decision cannot see what keeps the pod out, or members have gone to other nodes than
// decided. After the first rollback, the next attempt goes exactly where its decision says; after that the gang backs off.
func (t *Tracker) rollBack(g *group, failed types.UID) (e gang.Effects) {
	if g.attempt == nil {
		return e
	}
	a := g.attempt
	for _, m := range g.In(gang.Reserved) {
		g.setState(m, gang.Returning)
	}
	g.scout, g.turnedAway, g.inPermit = scout{}, true, true
	t.metrics.attempts.WithLabelValues(resultRolledBack).Inc()
	e = t.endAttempt(g)
	e.Add(gang.Only(gang.ToSettle | gang.ToLook | gang.ToReport))
	t.WaitList.book.Failed(g.key)
	switch exact := a.exact || a.order != nil; {
	case failed == noUID:
		g.retry.exact, g.retry.failures = false, 0
		return e
	case a.certain && !exact:
		g.retry.exact = true
		g.scout.uid = failed
		return e
	}
	g.scout.uid = failed
	now := t.clock.Now()
	wait := t.backoff(g.retry.failures)
	g.retry.exact, g.retry.failures, g.retry.until = false, g.retry.failures+1, now.Add(wait)
	e.Add(gang.LookIn(wait))
	if g.retry.failures >= maxFailuresReserved && t.WaitList.book.IsHolder(g.key) {
		t.WaitList.book.GiveUp(g.key, now)
	}
	return e
}

// maxFailuresReserved is how many attempts of a gang may fail before its reservation of nodes is dropped.
const maxFailuresReserved = 10

func (t *Tracker) backoff(failures int) time.Duration {
	wait := t.settings.args.InitialBackoff.Duration
	for range failures {
		wait = min(2*wait, t.settings.args.MaxBackoff.Duration)
	}
	return wait
}

// Fail ends the attempt of a chosen pod that found no node. The attempt goes on if the pod came before its turn, or before its gang's
// victims have gone. It says whether the pod belongs to a gang whose minimum has no room yet: until then the pod must not preempt other
// pods by itself.
func (t *Tracker) Fail(pod *corev1.Pod) (inGang bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, m := t.find(pod.UID)
	if m == nil {
		return false
	}
	if g.Seated() {
		t.WaitList.sharing.foundNoRoom(g, t.clock.Now())
		delete(t.WaitList.sharing.turnedBack, pod.UID)
		return false
	}
	if g.attempt != nil && g.attempt.seat == nil {
		_, chosen := g.attempt.toCome[pod.UID]
		switch {
		case !chosen || !g.attempt.isNext(pod.UID):
		case t.clock.Now().Before(g.attempt.patientUntil):
			t.apply(g, gang.LookIn(tooEarlyPause))
		default:
			t.apply(g, t.rollBack(g, pod.UID))
		}
	}
	return true
}

const (
	// seatPatience is how long the scheduler's cache may take to learn that the gang's victims have gone.
	seatPatience = time.Second
	// tooEarlyPause is the pause before a member that came too early is tried again.
	tooEarlyPause = 10 * time.Millisecond
)

// amountsOf adds up the members' requests on each node.
func amountsOf(members []*gang.Member, places map[types.UID]string) map[string]resources.List {
	amounts := map[string]resources.List{}
	for _, m := range members {
		sum := amounts[places[m.UID]].Clone()
		sum.Add(m.Requests)
		amounts[places[m.UID]] = sum
	}
	return amounts
}
