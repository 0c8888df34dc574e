package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Snapshot is what a decision on a gang is made on. It does not change; Commit refuses a decision if the gang has changed since.
type Snapshot struct {
	// Key names the gang.
	Key Key
	// Problem is what is to be solved.
	Problem placement.Problem
	// Lacks says which queue is short of quota, nil if none is or quota is not enforced.
	Lacks *quota.Shortage
	// ExceedsCapability: the gang asks for more than the whole capability of its queue, or of an ancestor.
	ExceedsCapability bool
	// QuotaReserved: quota is reserved for the gang.
	QuotaReserved bool

	scout    types.UID
	queue    string
	wants    resources.List // of its queue; nil where no quota is enforced
	changes  int            // of the gang
	released int            // how often room that was held had been given back
	begun    time.Time
	retryIn  time.Duration // when places to reserve may be chosen again
	unwoken  bool          // the gang is decided though nothing has happened that could help it
}

// Snapshot begins the decision on the gang of a scout. It returns nil when there is nothing to decide any more, or not yet.
func (t *Tracker) Snapshot(scoutPod *corev1.Pod) *Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, m := t.find(scoutPod.UID)
	if m == nil {
		return nil
	}
	phase := t.status(g).Phase
	members := g.Choose()
	if phase != gang.Ready && phase != gang.Unschedulable || len(members) == 0 {
		return nil
	}
	now := t.clock.Now()
	g.scout = scout{uid: m.UID, called: now} // it is not called again before the decision
	s := &Snapshot{
		Key: g.key, scout: m.UID, queue: g.podGroup.queue, changes: g.changes, released: t.held.returned, begun: now, unwoken: phase == gang.Unschedulable,
	}
	standing := t.book.StandingOf(g.key, now)
	s.QuotaReserved, s.retryIn = standing.QuotaReserved, standing.RetryIn
	s.Problem = placement.Problem{
		Members:  members,
		SameGang: func(pod *corev1.Pod) bool { key, ok := KeyOf(pod); return ok && key == s.Key },
		InGang:   IsMember,
		Priority: t.priorityOf(g),
		Held:     t.assumedByOthers(g),
		Exact:    g.retry.exact,
		Reserved: standing.Places, Reserve: standing.Choose, Renew: standing.Renew, Avoid: standing.Avoid, GivenUp: standing.GivenUp,
	}
	t.addReserved(g, &s.Problem)
	if t.quota.enforced && s.queue != "" {
		s.wants = requests(members)
		if s.Lacks = t.quotaFor(g, s.wants); s.Lacks != nil {
			s.ExceedsCapability = t.quota.ledger.Exceeds(s.queue, s.wants)
		}
	}
	if g.CountWaiting() > len(members) {
		t.addSpare(g, s)
	}
	return s
}

// addSpare adds the members that wait and need not start, and the rule by which they may start in place of others.
func (t *Tracker) addSpare(g *group, s *Snapshot) {
	starting := sets.New(uids(s.Problem.Members)...)
	for _, m := range g.Waiting() {
		if !starting.Has(m.UID) {
			s.Problem.Spare = append(s.Problem.Spare, m)
		}
	}
	rules, limited := g.Gang.Clone(), s.wants != nil
	s.Problem.Choose = func(waiting []*gang.Member) []*gang.Member {
		members := rules.ChooseFrom(waiting)
		if len(members) > 0 && limited && !t.hasQuota(s.Key, requests(members)) {
			return nil
		}
		return members
	}
}

func (t *Tracker) hasQuota(key Key, wants resources.List) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gangs[key]
	return g != nil && t.quotaFor(g, wants) == nil
}

// assumedByOthers is what the attempts of other gangs have assumed on each node.
func (t *Tracker) assumedByOthers(g *group) map[string]resources.List {
	held := map[string]resources.List{}
	for _, other := range t.attempting {
		if other != g {
			addAmounts(held, other.attempt.assumed)
		}
	}
	return held
}

// addReserved adds what is reserved against the gang.
func (t *Tracker) addReserved(g *group, problem *placement.Problem) {
	if reserved := t.book.Nodes(); reserved != nil && t.standsBack(g, reserved) {
		problem.HeldByReservation = true
		addAmounts(problem.Held, reserved.Amounts)
	}
}

func addAmounts(sums, amounts map[string]resources.List) {
	for node, amount := range amounts {
		sum := sums[node].Clone()
		sum.Add(amount)
		sums[node] = sum
	}
}

// Commit carries out a decision: a yes begins an attempt, and returns the pods to activate; a no makes the gang wait for an event that may
// help it. It returns false, and does nothing, when the gang has changed since the snapshot.
func (t *Tracker) Commit(s *Snapshot, d *placement.Decision) (activate []*corev1.Pod, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gangs[s.Key]
	if g == nil || g.attempt != nil || !g.podGroup.exists || !t.isAdmitted(g) || g.podGroup.queue != s.queue || g.Seated() {
		t.metrics.attempts.WithLabelValues(resultChanged).Inc()
		return nil, false
	}
	if d.Verdict == placement.Impossible {
		t.refuse(g, s, d)
		return nil, true
	}
	if g.changes != s.changes && !sameMembers(g.Choose(), d.Members) {
		t.metrics.attempts.WithLabelValues(resultChanged).Inc()
		t.look(g.key)
		return nil, false
	}
	if s.wants != nil && t.quotaFor(g, requests(d.Members)) != nil { // the queue has changed, or a pod was bound by another scheduler
		t.metrics.attempts.WithLabelValues(resultChanged).Inc()
		t.look(g.key)
		return nil, false
	}
	return t.begin(g, s, d), true
}

// begin starts the attempt: what the members need is assumed, on nodes and in the queue.
func (t *Tracker) begin(g *group, s *Snapshot, d *placement.Decision) (activate []*corev1.Pod) {
	a := newAttempt()
	a.certain, a.exact, a.order = d.Verdict == placement.Possible, s.Problem.Exact, d.Order
	a.deadline = t.clock.Now().Add(t.settings.args.PermitTimeout.Duration)
	a.version = t.reservedVersion()
	for _, m := range d.Members {
		a.assume(m, d.Places[m.UID])
		activate = append(activate, m.Pod)
	}
	if a.order != nil {
		activate = nil // each activates the next
	}
	t.noteYes(g, s, a.certain)
	g.attempt, g.scout, g.decision = a, scout{}, nil
	t.attempting[g.key] = g
	t.book.Attempts(g.key, a.certain)
	t.applyReservations()
	t.assumeQuota(g)
	t.lookAfter(g.key, t.settings.args.PermitTimeout.Duration)
	if _, chosen := a.toCome[s.scout]; !chosen || !a.isNext(s.scout) {
		t.look(g.key) // only the success of a cycle activates, and the scout's will have none
	}
	return activate
}

// refuse has a gang wait until something happens that could help it: an event that one of the rejecting plugins answers to for the pod that
// it rejected, or a change of the gang itself.
func (t *Tracker) refuse(g *group, s *Snapshot, d *placement.Decision) {
	now := t.clock.Now()
	no := &decision{
		lacks: gang.Room, message: d.Message, foundAt: s.begun, rejectors: d.Rejectors, rejected: d.Rejected, shortfall: d.Shortfall,
		nextAt: s.begun.Add(max(decisionPause, now.Sub(s.begun)+searchPause*d.SearchTime)),
	}
	if g.decision != nil && g.decision.message == d.Message {
		no.foundAt = g.decision.foundAt
	}
	level, result := levelNone, resultNoRoom
	if s.Lacks != nil {
		no.lacks, level, result = gang.Quota, levelQuota, resultNoQuota
	}
	t.observeDecision(s, level, result)
	g.decision, g.turnedAway, g.scout = no, true, scout{uid: s.scout}
	stale := t.isStale(g, s, d)
	t.waitInBook(g, s, d, now)
	switch {
	case stale:
		t.wake(g)
	case s.Lacks != nil:
		t.quota.gangs.Insert(g.key)
	case mayFitWithHeld(s, d):
		t.held.gangs.Insert(g.key)
	}
	t.report(g.key)
}

// waitInBook puts the gang on the lists of those that wait, and reserves the places that were found for it.
func (t *Tracker) waitInBook(g *group, s *Snapshot, d *placement.Decision, now time.Time) {
	rank, claim, again := t.rank(g), quota.Claim{Queue: s.queue, Want: s.wants}, s.retryIn
	switch {
	case s.Lacks != nil:
		t.book.WaitForQuota(g.key, rank, claim, s.Lacks, s.ExceedsCapability, now)
		again = t.book.QuotaRetryIn(g.key, now)
	case d.TooLarge:
		t.book.TooLarge(g.key, rank, now)
	default:
		t.book.HasQuota(g.key, claim)
		t.book.WaitForRoom(g.key, rank, needOf(d.Shortfall), now)
		t.reserveNodes(g, d, now)
	}
	if again > 0 {
		g.decision.wakeAt = now.Add(again)
		t.lookAfter(g.key, again)
	}
	t.applyReservations()
}

// mayFitWithHeld says whether the gang may fit when what others hold is given back.
func mayFitWithHeld(s *Snapshot, d *placement.Decision) bool {
	return len(s.Problem.Held) > 0 && (s.Problem.HeldByReservation || !d.ShortWithoutHeld)
}

// isStale says whether the gang, or what it was found to lack and of which no event tells, has changed since the snapshot.
func (t *Tracker) isStale(g *group, s *Snapshot, d *placement.Decision) bool {
	switch {
	case g.changes != s.changes:
		return true
	case s.Lacks != nil:
		return t.quotaFor(g, s.wants) == nil
	case d.Reserve != nil && s.Problem.HeldByReservation:
		return true // its own reservation takes the place of the one that was in its way
	}
	return mayFitWithHeld(s, d) && t.held.returned != s.released
}

// noteYes notes that a gang was found to fit. If nothing had woken it, a wake-up was lost.
func (t *Tracker) noteYes(g *group, s *Snapshot, certain bool) {
	level := levelSome
	if certain {
		level = levelPlan
	}
	t.observeDecision(s, level, resultAdmitted)
	t.reachAdmission(g)
	if s.unwoken && s.Problem.Reserved == nil && !s.Problem.Reserve { // else time alone decides about what is reserved for it
		klog.Background().Info("A gang fits that no event has woken", "podGroup", klog.KRef(g.key.Namespace, g.key.Name))
		t.metrics.lostWakeups.Inc()
		t.metrics.lost++
	}
}
