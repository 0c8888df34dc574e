package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Role says what a pod is in the scheduling cycle that begins.
type Role int

// The roles.
const (
	// Outsider: the pod has no gang.
	Outsider Role = iota
	// Surplus: the minimum of its gang is seated; the pod goes its own way.
	Surplus
	// Chosen: the pod is one of those that were promised their room.
	Chosen
	// Scout: the gang is to be judged.
	Scout
	// Held: the pod must not be tried now. It came this far because its gang changed after it had passed the gate.
	Held
)

// Entry says what to do with a pod in PreFilter.
type Entry struct {
	// Role of the pod.
	Role Role
	// Node is where a chosen pod must go, "" for any.
	Node string
	// Next is the member whose turn comes when a chosen pod has its room, nil if they come in any order.
	Next *corev1.Pod
	// Reason says why a pod is held.
	Reason string
}

// Enter says what a pod is at the start of its scheduling cycle.
func (s *Store) Enter(pod *corev1.Pod) Entry {
	if _, ok := groupOf(pod); !ok {
		return Entry{Role: Outsider}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil {
		return Entry{Role: Held, Reason: noPodGroup}
	}
	g.rebinding.Delete(pod.UID)
	if g.relieved && g.phase == idle && !g.parked {
		g.scout = pod.UID // whoever of them comes first
	}
	if reason := s.gate(g, m.Pod); reason != "" {
		if g.scout == pod.UID {
			g.called = time.Time{} // it has come
		}
		return Entry{Role: Held, Reason: reason}
	}
	switch node, chosen := g.chosen[pod.UID]; {
	case chosen && (g.pin || g.turns != nil):
		return Entry{Role: Chosen, Node: node, Next: g.afterNext()}
	case chosen:
		return Entry{Role: Chosen}
	case g.Seated() && s.mustYield(g):
		s.yielded[pod.UID] = m.Pod
		s.waker.AddAfter(g.key, yieldFor) // should nothing wake it before
		return Entry{Role: Held, Reason: "waiting until the minimum of other gangs has been tried"}
	case g.Seated():
		return Entry{Role: Surplus}
	}
	return Entry{Role: Scout}
}

// yieldFor is how long surplus stands back for a gang that is about to be judged and is not.
const yieldFor = 200 * time.Millisecond

// mustYield says whether surplus of a gang stands back: another gang's minimum, which goes before it, is about to be tried.
func (s *Store) mustYield(g *group) bool {
	for key, since := range s.toJudge {
		other := s.gangs[key]
		if other != nil && other != g && s.clock.Since(since) < yieldFor && s.gangPriority(other) >= s.gangPriority(g) {
			return true
		}
	}
	return false
}

// Round is a gang that is to be judged: who would start, and what stands aside for others already.
type Round struct {
	// Key names the gang.
	Key Key
	// Members that would start.
	Members []*gang.Member
	// Elsewhere is, per node, what is promised to other gangs.
	Elsewhere map[string]resources.List
	// Pinned: each member must go exactly where the plan says.
	Pinned bool
	// Quota says which queue is short, nil if none is or quota is not enforced.
	Quota *quota.Shortage
	// Priority of the gang.
	Priority int32
	// Choose asks for places to be set aside if the gang does not fit.
	Choose bool
	// Before are the places that are set aside for the gang already, nil if none are.
	Before map[types.UID]string
	// Renew: the gang has waited for them in vain.
	Renew bool
	// Avoid are nodes on which it has waited in vain before.
	Avoid sets.Set[string]
	// Hopeless: the gang would not fit into a cluster in which all has ended that may end.
	Hopeless bool
	// Beyond: the gang was judged to need more than all nodes have.
	Beyond bool
	// Exceeds: the gang asks for more than the capability of its queue, or of an ancestor.
	Exceeds bool
	// Saved: quota is set aside for the gang.
	Saved bool
	// Behind: Elsewhere has what is set aside for another gang.
	Behind bool
	// Others are a member of each kind beside the one that was rejected most: what lets one of them go elsewhere makes room for that one.
	Others []*corev1.Pod
	// Shortfall is the room that the judgement found to be missing, nil if that is not known.
	Shortfall *plan.Shortfall
	// Regardless: the gang would lack room, too, if all that Elsewhere has were given back. Then the Shortfall is that.
	Regardless bool
	// Turns has all members in the order in which they must be tried, each where the plan says, because it depends on where the others
	// are whether they may go there; nil if it does not.
	Turns []types.UID
	// Laborious: there was room enough, and many ways to place the members beside each other were tried in vain.
	Laborious bool

	instead     bool // Members are others than the first choice
	scout       types.UID
	queue       string
	wants       resources.List // of its queue; nil where no quota is enforced
	roundsEnded int            // when the judgement began
	changes     int            // of the gang, then
	begun       time.Time      // then
}

// Judge begins the judgement of the gang of a scout. It returns nil when there is nothing to judge any more, or not yet: members that
// hold room from a round that was let go are about to lose it, and no part of the next.
func (s *Store) Judge(scout *corev1.Pod) *Round {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(scout.UID)
	if m == nil || g.phase != idle || g.Seated() || g.givesBack() {
		return nil
	}
	delete(s.toJudge, g.key)
	g.called, g.relieved = time.Time{}, false
	g.judged, g.retell = s.clock.Now(), time.Time{}
	if s.unasked[g.key] == nil {
		g.helped = g.judged
	}
	round := &Round{Key: g.key, Members: g.Choose(), Elsewhere: map[string]resources.List{}, Pinned: g.pin, scout: scout.UID, queue: g.queue, roundsEnded: s.roundsEnded, changes: g.changes, begun: g.judged}
	if len(round.Members) == 0 {
		return nil
	}
	for key, other := range s.admitted {
		if key == g.key {
			continue
		}
		for node, amount := range other.planned {
			sum := round.Elsewhere[node].Clone()
			sum.Add(amount)
			round.Elsewhere[node] = sum
		}
	}
	s.considerAside(g, round)
	if s.quotaOn && g.queue != "" {
		s.considerQuota(g, round)
	}
	return round
}

// Spare returns the members that wait and would not start.
func (s *Store) Spare(round *Round) []*gang.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[round.Key]
	if g == nil || g.changes != round.changes || g.CountWaiting() == len(round.Members) {
		return nil
	}
	start := sets.New(uids(round.Members)...)
	return slices.DeleteFunc(g.Waiting(), func(m *gang.Member) bool { return start.Has(m.UID) })
}

// Instead begins the judgement of other members than those that do not fit, chosen from some of those that wait. It returns nil if they
// are too few, if the quota has no room for them, or if the gang has changed.
func (s *Store) Instead(round *Round, from []*gang.Member) *Round {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[round.Key]
	if g == nil || g.changes != round.changes {
		return nil
	}
	other := *round
	other.instead, other.Members = true, g.ChooseFrom(from)
	other.Choose, other.Before, other.Renew = false, nil, false // nothing is set aside for these
	if len(other.Members) == 0 || sameMembers(other.Members, round.Members) {
		return nil
	}
	if s.quotaOn && g.queue != "" {
		s.considerQuota(g, &other)
	}
	if other.Quota != nil {
		return nil
	}
	return &other
}

// mayStart says whether the members that were judged may start: they are those that the gang chooses, or at least seat it.
func (s *Store) mayStart(g *group, round *Round) bool {
	if round.instead {
		return g.changes == round.changes
	}
	return sameMembers(g.Choose(), round.Members)
}

// Admit promises a gang its room: the quota, and the places of its members (nil where no plan could be made). It returns
// the pods to activate, or false when the gang has changed since Judge.
func (s *Store) Admit(round *Round, places map[types.UID]string) (activate []*corev1.Pod, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[round.Key]
	if g == nil || g.phase != idle || !g.known || s.mustBeAdmitted(g) || g.queue != round.queue || !s.mayStart(g, round) {
		s.metrics.attempts.WithLabelValues(resultChanged).Inc()
		return nil, false
	}
	s.noteAdmission(g, round, places != nil)
	if g.isSavedFor() {
		s.wakeQuotaWaiters() // its promise may be less than what was set aside for it
	}
	s.setPhase(g, admitted)
	g.parked, g.scout, g.called, g.relieved = false, "", time.Time{}, false
	g.told = "" // whatever stood in the way does so no more
	if g.sure = places != nil; g.sure {
		s.foundRoom(g)
	}
	g.asideVersion = s.asideVersion()
	g.deadline = s.clock.Now().Add(s.args.PermitTimeout.Duration)
	g.chosen = map[types.UID]string{}
	g.planned = map[string]resources.List{}
	for _, m := range round.Members {
		node := places[m.UID]
		g.chosen[m.UID] = node
		if node != "" {
			sum := g.planned[node].Clone()
			sum.Add(m.Requests)
			g.planned[node] = sum
		}
		activate = append(activate, m.Pod)
	}
	if g.turns = round.Turns; g.turns != nil {
		activate = nil // each calls the next
	}
	g.rest = requests(round.Members)
	s.promiseRest(g)
	s.waker.AddAfter(g.key, s.args.PermitTimeout.Duration)
	if _, chosen := g.chosen[round.scout]; !chosen || !g.hasTurn(round.scout) {
		s.waker.Add(g.key) // only the success of a cycle activates, and the scout's will have none
	}
	return activate, true
}

// hasTurn says whether a chosen member may be tried now, as far as the order of the round goes.
func (g *group) hasTurn(uid types.UID) bool { return len(g.turns) == 0 || g.turns[0] == uid }

// afterNext is the member that comes after the one whose turn it is, nil if there is none.
func (g *group) afterNext() *corev1.Pod {
	if len(g.turns) < 2 {
		return nil
	}
	if m := g.Member(g.turns[1]); m != nil {
		return m.Pod
	}
	return nil
}

func sameMembers(a, b []*gang.Member) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UID != b[i].UID {
			return false
		}
	}
	return true
}

// promiseRest sets aside the quota of the chosen members that have not reserved yet.
func (s *Store) promiseRest(g *group) {
	if g.queue != "" {
		s.ledger.Promise(g.key.String(), g.queue, g.rest)
	}
}

// Park keeps a gang that was judged and does not fit until something happens that could help it: an event that one of
// the plugins in the way answers to for the pod that they rejected, or a change of the gang itself. It returns what to
// report: why is what stands in the way now, yet as long as the last report is young it is not changed, because on a busy
// cluster the numbers in it change with every pod that goes.
func (s *Store) Park(round *Round, scout *corev1.Pod, why string, rejected *corev1.Pod, rejectors ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[round.Key]
	if g == nil || g.phase != idle {
		return why
	}
	g.parked, g.scout, g.rejected = true, scout.UID, append([]*corev1.Pod{rejected}, round.Others...)
	g.turnedAway = true
	g.called, g.relieved = time.Time{}, false
	g.labour = 0
	if round.Laborious {
		g.labour = s.clock.Since(round.begun)
	}
	g.rejectors, g.shortfall = sets.New(rejectors...), round.Shortfall
	s.judgedForQuota(g, round)
	reason, level, result := ReasonUnschedulable, levelNone, resultNoRoom
	switch {
	case round.Quota != nil:
		reason, level, result = ReasonWaitingForQuota, levelQuota, resultNoQuota
		s.notShort(g)
	case round.Beyond:
		s.isBeyond(g)
	default:
		s.fellShort(g)
	}
	s.observeJudgement(round, level, result)
	delete(s.unasked, g.key)
	defer s.reportLater(g)
	if s.hasChanged(g, round) {
		s.unpark(g)
		s.judgeSoon(g)
		return s.tell(g, reason, why)
	}
	if round.Quota != nil {
		s.quotaParked.Insert(g.key)
	}
	switch {
	case round.mayWaitForPromises():
		s.promiseParked.Insert(g.key)
	case len(round.Elsewhere) > 0:
		s.judgeAgainIn(g, max(refreshPause, s.rewordPause())) // its text counts what is promised as taken
	}
	if s.asleep.queue != nil {
		s.waker.AddAfter(g.key, sleepAfter)
	}
	return s.tell(g, reason, why)
}

// mayWaitForPromises says whether the gang may fit when what is promised to others is given back, or set aside for nobody any more. Each
// round that ends has these judged again, and while many gangs start, one comes after the other.
func (r *Round) mayWaitForPromises() bool {
	return len(r.Elsewhere) > 0 && (r.Behind || !r.Regardless)
}

// tell returns the report that stands: the new one, or the last while it is young. Then the gang is judged again when it is
// old enough, so that what stands in the end is true.
func (s *Store) tell(g *group, reason, why string) string {
	now := s.clock.Now()
	switch left := s.rewordPause() - now.Sub(g.toldAt); {
	case g.told == why:
	case g.told == "" || left <= 0 || reason != g.toldReason:
		g.told, g.toldReason, g.toldAt = why, reason, now
	default:
		s.judgeAgainIn(g, left)
	}
	return g.told
}

// hasChanged says whether the gang, or what stood in its way and of which no event tells, is another since it was judged.
func (s *Store) hasChanged(g *group, round *Round) bool {
	if g.changes != round.changes {
		return true
	}
	if round.Quota != nil {
		return s.quotaFor(g, requests(round.Members)) == nil
	}
	return round.mayWaitForPromises() && round.roundsEnded != s.roundsEnded
}

// QuotaShortage says which queue has no room for a single pod: one without a gang, or beyond the minimum of its gang. A
// chosen pod has its promise. The pod is woken when room may have come free.
func (s *Store) QuotaShortage(pod *corev1.Pod) *quota.Shortage {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, priority := pod.Annotations[queueNameAnnotation], corev1helpers.PodPriority(pod)
	g, m := s.find(pod.UID)
	if m != nil {
		if !g.Seated() {
			return nil
		}
		queue, priority = g.queue, s.gangPriority(g)
	}
	if queue == "" {
		return nil
	}
	shortage := s.ledger.RoomBehind(s.savedBefore(g, priority), queue, resources.PodRequests(pod))
	if shortage != nil {
		s.quotaWaiters[pod.UID] = pod
	}
	return shortage
}

// Reserve books a pod's room on a node: its charge, in place of its part of the promise.
func (s *Store) Reserve(pod *corev1.Pod, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.quotaWaiters, pod.UID)
	delete(s.asides.waiters, pod.UID)
	queue, requests := pod.Annotations[queueNameAnnotation], resources.List(nil)
	if g, m := s.find(pod.UID); m != nil {
		if m.State == gang.Bound {
			return // it is charged; Permit rejects it
		}
		if requests = m.Requests; m.State == gang.Waiting {
			g.doomed.Delete(m.UID) // this is another try
		}
		g.SetState(m, gang.Reserved)
		s.takePlace(g, m)
		if g.queue != "" {
			queue = g.queue
		}
	}
	if queue == "" {
		return
	}
	if requests == nil {
		requests = resources.PodRequests(pod)
	}
	s.ledger.Charge(pod.UID, queue, requests)
}

// takePlace ends the promise to a member that has its room now.
func (s *Store) takePlace(g *group, m *gang.Member) {
	node, ok := g.chosen[m.UID]
	if !ok {
		return
	}
	delete(g.chosen, m.UID)
	if more := s.clock.Now().Add(s.args.PermitTimeout.Duration); more.After(g.deadline) {
		g.deadline = more // they come
	}
	if len(g.turns) > 0 && g.hasTurn(m.UID) {
		if g.turns = g.turns[1:]; len(g.turns) == 0 {
			s.waker.Add(g.key) // somebody whose binding has failed may come now
		}
	}
	if node != "" {
		rest := g.planned[node].Clone()
		rest.Sub(m.Requests)
		g.planned[node] = rest
	}
	g.rest.Sub(m.Requests)
	s.promiseRest(g)
}

// Unreserve takes a pod's room back. If the pod was part of a round, the round is over for the whole gang. It may be called
// for pods that hold no room.
func (s *Store) Unreserve(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strays, pod.UID)
	g, m := s.find(pod.UID)
	if m != nil && m.State == gang.Bound || s.settled.Has(pod.UID) {
		return // the API has bound it after all
	}
	if s.ledger.Release(pod.UID) {
		s.wakeQuotaWaiters()
	}
	if m == nil {
		return
	}
	defer g.allowed.Delete(pod.UID)
	switch {
	case g.rebinding.Has(pod.UID):
		return // every plugin that reserves says so
	case s.bindingFailed(g, m):
		if g.SetState(m, gang.Waiting); g.Seated() {
			break
		}
		if !g.SeatedWith(append(s.toCome(g), m)) {
			s.letGo(g, "") // the minimum was raised since the release: to place this one is not enough
			break
		}
		s.rebind(g, m, pod.Spec.NodeName)
		return
	case s.comes(g, m):
		g.SetState(m, gang.Waiting)
		s.letGo(g, pod.UID)
	case m.State == gang.Reserved:
		g.SetState(m, gang.Waiting)
	}
	s.changed(g)
	s.promiseBroken(g)
	s.waker.Add(g.key)
}

// Verdict of Permit.
type Verdict int

// The verdicts.
const (
	// Allow: the pod may be bound.
	Allow Verdict = iota
	// Wait: the rest of the minimum is on its way.
	Wait
	// Reject: the round is over.
	Reject
)

// longestWait is how long a member may wait in Permit, the most that the framework allows. The Store ends the round long before if the
// others do not come.
const longestWait = 15 * time.Minute

// Permit says whether a pod that holds its room may be bound, and for how long it may wait for the others. The pod that
// completes the minimum gets the UIDs of those that wait for it.
func (s *Store) Permit(pod *corev1.Pod) (verdict Verdict, wait time.Duration, release []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil {
		if _, ok := groupOf(pod); ok {
			return Reject, 0, nil // deleted in the meantime
		}
		s.passed(startOf(pod))
		return Allow, 0, nil
	}
	switch {
	case !g.known || !g.Counts(m) || m.State != gang.Reserved:
		g.turnedAway = true
		return Reject, 0, nil
	case g.staysSeated():
		if g.phase == admitted {
			reserved := g.Reserved()
			release = uids(reserved)
			g.allowed.Insert(release...)
			s.endRound(g)
			s.waker.Add(g.key) // the surplus may come now
			s.passed(s.startOfGang(g, reserved, false))
		} else {
			g.allowed.Insert(m.UID)
			s.passed(s.startOfGang(g, []*gang.Member{m}, true))
		}
		return Allow, 0, release
	case g.phase == admitted:
		return Wait, longestWait, nil
	}
	g.turnedAway = true // surplus, if the others of the minimum are about to lose their room
	return Reject, 0, nil
}

// endRound closes a round that has seated its gang.
func (s *Store) endRound(g *group) {
	s.setPhase(g, idle)
	g.chosen, g.planned, g.turns, g.scout, g.rebinding = nil, nil, nil, "", nil
	if g.pin {
		s.metrics.planHits.Inc()
	}
	g.pin, g.failures, g.notBefore = false, 0, time.Time{}
	g.told = ""
	s.metrics.attempts.WithLabelValues(resultSeated).Inc()
	g.wasSeated = false // whoever was kept out during the round must be let in, though the gang may have been seated before it
	s.endShortage(g)
	s.dropPromise(g)
}

// dropPromise gives back what was promised to a gang and not taken, and wakes those who stood back for it.
func (s *Store) dropPromise(g *group) {
	s.roundsEnded++
	s.ledger.DropPromise(g.key.String())
	s.wakeQuotaWaiters()
	s.wakeParked(s.promiseParked)
}

// letGo ends a round without success, for the whole gang and at once: the promise is dropped, and the waker takes back what
// is reserved. failed is the pod that could not be placed, or "" when the gang itself has changed.
//
// The judgement said yes, so something is there that it could not see, or the members went to other places than those
// it had found. The first time, the next round goes exactly where the plan says; after that the gang backs off.
func (s *Store) letGo(g *group, failed types.UID) {
	if g.phase != admitted {
		return
	}
	s.setPhase(g, idle)
	pinned := g.pin || g.turns != nil
	g.chosen, g.planned, g.turns, g.scout = nil, nil, nil, ""
	g.rebinding = nil
	g.turnedAway = true // its members lie where only the waker finds them, even if the gang is seated before that has looked
	s.metrics.attempts.WithLabelValues(resultLetGo).Inc()
	s.dropPromise(g)
	s.promiseBroken(g)
	s.waker.Add(g.key)
	g.reportWhole = false // the scheduler may have said something else about those that it tried
	s.reportLater(g)
	if failed == "" {
		g.pin, g.failures = false, 0
		return
	}
	g.scout = failed
	if g.sure && !pinned {
		g.pin = true
		return
	}
	g.pin = false
	wait := s.backoff(g.failures)
	g.failures++
	g.notBefore = s.clock.Now().Add(wait)
	s.waker.AddAfter(g.key, wait)
	if g.failures >= maxFailuresAside && s.isAsideFor(g) {
		s.giveUpOn(g)
	}
}

func (s *Store) backoff(failures int) time.Duration {
	wait := s.args.InitialBackoff.Duration
	for range failures {
		wait = min(2*wait, s.args.MaxBackoff.Duration)
	}
	return wait
}

// Fail ends the round of a chosen pod that found no node; one whose turn has not come was only too early. It says whether the pod belongs
// to a gang whose minimum is not seated: such a pod must not preempt others by itself.
func (s *Store) Fail(pod *corev1.Pod) (inGang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil || g.Seated() {
		return false
	}
	if _, chosen := g.chosen[pod.UID]; chosen && g.hasTurn(pod.UID) {
		s.letGo(g, pod.UID)
	}
	return true
}
