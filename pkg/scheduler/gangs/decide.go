package gangs

import (
	"slices"
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

// Snapshot is the input of a decision on a gang. It does not change; Commit refuses a decision if the gang has changed since.
type Snapshot struct {
	// Key names the gang.
	Key Key
	// Problem is the placement problem.
	Problem placement.Problem
	// TooMuch says that the members ask for more than any cluster has; nil if they do not.
	TooMuch error
	// Lacks says which queue is short of quota, nil if none is or quota is not enforced.
	Lacks *quota.Shortage
	// ExceedsCapability: the gang asks for more than the whole capability of its queue, or of an ancestor.
	ExceedsCapability bool
	// QuotaReserved: quota is reserved for the gang.
	QuotaReserved bool
	// MayEvict: if the gang does not fit, pods may be evicted for it.
	MayEvict bool

	scout    types.UID
	account  string         // the charged account: a queue or a user of one; "" for none
	wants    resources.List // of its queue; nil where no quota is enforced
	changes  int            // of the gang
	released int            // how often held room had been given back then
	begun    time.Time
	retryIn  time.Duration // when places to reserve may be chosen again
	unwoken  bool          // the gang is decided without an event that could help it
	leaves   sets.Set[int] // the versions of the reservations on nodes that the gang leaves alone
}

// Decisions are the steps of a scout's cycle.
type Decisions struct{ t *Tracker }

// Snapshot begins the decision on the gang of a scout. It returns nil when there is nothing to decide any more, or not yet.
func (c *Decisions) Snapshot(scoutPod *corev1.Pod) *Snapshot {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	g, m := c.t.find(scoutPod.UID)
	if m == nil {
		return nil
	}
	phase := c.t.status(g).Phase
	members := g.Choose()
	if phase != gang.Ready && phase != gang.Unschedulable || len(members) == 0 {
		return nil
	}
	now := c.t.clock.Now()
	g.scout = scout{uid: m.UID, called: now} // it is not called again before the decision
	c.t.fixPriority(g)
	s := &Snapshot{
		Key: g.key, scout: m.UID, account: g.podGroup.account, changes: g.changes, released: c.t.WaitList.held.returned, begun: now, unwoken: phase == gang.Unschedulable,
	}
	standing := c.t.WaitList.book.StandingOf(g.key, now)
	s.QuotaReserved, s.retryIn = standing.QuotaReserved, standing.RetryIn
	s.Problem = placement.Problem{
		Members:  members,
		SameGang: func(pod *corev1.Pod) bool { key, ok := gang.KeyOf(pod); return ok && key == s.Key },
		InGang:   gang.IsMember,
		Priority: c.t.priorityOf(g),
		Held:     c.assumedByOthers(g, c.t.priorityOf(g)),
		Exact:    g.retry.exact,
		Reserved: standing.Places, Reserve: standing.Choose, Renew: standing.Renew, Avoid: standing.Avoid, GivenUp: standing.GivenUp,
	}
	if queue := c.t.Quota.queueOf(s.account); queue != "" {
		s.Problem.OwnQueue = func(pod *corev1.Pod) bool { return c.t.Quota.isChargedTo(pod, queue) }
	}
	c.addReserved(g, s)
	wants := requests(members)
	s.TooMuch = wants.Validate()
	if s.TooMuch == nil && c.t.Quota.enforced && s.account != "" {
		s.wants = wants
		if s.Lacks = c.t.Quota.quotaFor(g, s.wants); s.Lacks != nil {
			s.ExceedsCapability = c.t.Quota.Ledger.Exceeds(s.account, s.wants)
		}
	}
	s.MayEvict = s.TooMuch == nil && !s.ExceedsCapability && c.t.Victims.searchIn(g, now) == 0
	if g.CountWaiting() > len(members) {
		c.addSpare(g, s)
	}
	return s
}

// addSpare adds the members that wait and need not start, and the rule for exchanging members that do not fit.
func (c *Decisions) addSpare(g *group, s *Snapshot) {
	starting := sets.New(gang.UIDs(s.Problem.Members)...)
	for _, m := range g.Waiting() {
		if !starting.Has(m.UID) {
			s.Problem.Spare = append(s.Problem.Spare, m)
		}
	}
	s.Problem.Choose = func(waiting []*gang.Member) []*gang.Member { return c.choose(s, waiting) }
}

// choose returns the members that start if only the given ones wait. It returns nil if these are too few, the gang has changed, or quota is
// missing.
func (c *Decisions) choose(s *Snapshot, waiting []*gang.Member) []*gang.Member {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	g := c.t.gangs[s.Key]
	if g == nil || g.changes != s.changes {
		return nil
	}
	members := g.ChooseFrom(waiting)
	if len(members) == 0 || s.wants != nil && c.t.Quota.quotaFor(g, requests(members)) != nil {
		return nil
	}
	return members
}

// assumedByOthers is what the attempts of other gangs have assumed on each node. It includes what is kept for pods of at least the given
// priority. g is nil for a pod.
func (c *Decisions) assumedByOthers(g *group, priority int32) map[string]resources.List {
	held := map[string]resources.List{}
	for _, other := range c.t.attempting {
		if other != g {
			addAmounts(held, other.attempt.assumed)
		}
	}
	c.t.WaitList.addPodSeats(held, noUID, priority)
	return held
}

// addReserved adds the reservations against the gang.
func (c *Decisions) addReserved(g *group, s *Snapshot) {
	s.leaves = sets.New[int]()
	for _, reserved := range c.t.WaitList.reservedFrom(g, requests(s.Problem.Members)) {
		s.Problem.HeldByReservation = true
		s.leaves.Insert(reserved.Version)
		addAmounts(s.Problem.Held, reserved.Amounts)
	}
}

func addAmounts(sums, amounts map[string]resources.List) {
	for node, amount := range amounts {
		sum := sums[node].Clone()
		sum.Add(amount)
		sums[node] = sum
	}
}

// Commit carries out a decision. A yes begins an attempt, and returns the pods to activate. A no makes the gang wait for an event that may
// help it. Commit returns false, and does nothing, when the gang has changed since the snapshot.
func (c *Decisions) Commit(s *Snapshot, d *placement.Decision) (activate []*corev1.Pod, ok bool) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	g := c.t.gangs[s.Key]
	if g == nil || g.attempt != nil || !g.podGroup.exists || !c.t.isAdmitted(g) || g.podGroup.account != s.account || g.Seated() {
		c.discard(g, s)
		return nil, false
	}
	if d.Feasibility == placement.Impossible && (d.Seat == nil || g.changes != s.changes || !c.evict(g, s, d)) {
		c.refuse(g, s, d)
		return nil, true
	} else if d.Feasibility == placement.Impossible {
		return nil, true
	}
	if g.changes != s.changes && !slices.Equal(gang.UIDs(g.Choose()), gang.UIDs(d.Members)) {
		c.discard(g, s)
		return nil, false
	}
	if s.wants != nil && c.t.Quota.quotaFor(g, requests(d.Members)) != nil { // the queue has changed, or a pod was bound by another scheduler
		c.discard(g, s)
		return nil, false
	}
	c.noteYes(g, s, d.Feasibility == placement.Possible)
	activate, e := c.begin(g, s, d)
	c.t.apply(g, e)
	return activate, true
}

// discard ends a decision on a gang that has changed. The cycle of its scout is over, so a scout is called again.
func (c *Decisions) discard(g *group, s *Snapshot) {
	c.t.metrics.attempts.WithLabelValues(resultChanged).Inc()
	if g == nil {
		return
	}
	if g.scout.uid == s.scout {
		g.scout.called = time.Time{}
	}
	c.t.apply(g, gang.Only(gang.ToLook))
}

// begin starts the attempt: the members' requests are assumed, on nodes and in the queue.
func (c *Decisions) begin(g *group, s *Snapshot, d *placement.Decision) (activate []*corev1.Pod, e gang.Effects) {
	a := newAttempt()
	a.certain, a.exact, a.order = d.Feasibility == placement.Possible, s.Problem.Exact, d.Order
	a.deadline = c.t.clock.Now().Add(c.t.settings.args.PermitTimeout.Duration)
	a.leaves = s.leaves
	for _, m := range d.Members {
		a.assume(m, d.Places[m.UID])
		activate = append(activate, m.Pod)
	}
	if a.order != nil {
		activate = nil // one after the other
	}
	g.attempt, g.scout, g.decision = a, scout{}, nil
	c.t.attempting[g.key] = g
	c.t.WaitList.book.Attempts(g.key, a.certain)
	c.t.assumeQuota(g)
	e = gang.LookIn(c.t.settings.args.PermitTimeout.Duration)
	if _, chosen := a.toCome[s.scout]; !chosen || !a.isNext(s.scout) {
		e.Add(gang.Only(gang.ToLook)) // only the success of a cycle activates, and the scout's will have none
	}
	return activate, e
}

// refuse has a gang wait until something happens that could help it: an event that may help the pod that a plugin rejected, or a change of
// the gang itself.
func (c *Decisions) refuse(g *group, s *Snapshot, d *placement.Decision) {
	now := c.t.clock.Now()
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
	c.observeDecision(s, level, result)
	g.decision, g.turnedAway, g.scout = no, true, scout{uid: s.scout}
	stale := c.isStale(g, s, d)
	c.t.apply(g, c.waitInBook(g, s, d, now)) // freed room wakes only those that waited before this decision
	stale = stale || s.Lacks == nil && c.isReservedLess(g, s)
	c.t.Victims.searched(g, s, d, now)
	e := gang.Only(gang.ToReport)
	switch {
	case stale:
		e.Add(gang.Only(gang.ToWake))
	case s.Lacks != nil:
		c.t.Quota.gangs.Insert(g.key)
	case mayFitWithHeld(s, d):
		c.t.WaitList.held.gangs.Insert(g.key)
	}
	c.t.apply(g, e)
}

// waitInBook puts the gang on the waiting lists, and reserves the places that were found for it.
func (c *Decisions) waitInBook(g *group, s *Snapshot, d *placement.Decision, now time.Time) (e gang.Effects) {
	rank, claim, again := c.t.rank(g), quota.Claim{Queue: s.account, Want: s.wants}, s.retryIn
	switch {
	case s.Lacks != nil:
		c.t.WaitList.book.WaitForQuota(g.key, rank, claim, s.Lacks, s.ExceedsCapability, now)
		again = c.t.WaitList.book.QuotaRetryIn(g.key, now)
	case d.TooLarge:
		c.t.WaitList.book.TooLarge(g.key, rank, now)
	default:
		c.t.WaitList.book.HasQuota(g.key, claim)
		c.t.WaitList.held.taken = true // it may need less of nodes than before
		c.t.WaitList.book.WaitForRoom(g.key, rank, needOf(d.Shortfall), now)
		c.t.WaitList.reserveNodes(g, d, now)
	}
	if again > 0 {
		g.decision.wakeAt = now.Add(again)
		e = gang.LookIn(again)
	}
	return e
}

// mayFitWithHeld says whether the gang may fit when room that other gangs hold is given back.
func mayFitWithHeld(s *Snapshot, d *placement.Decision) bool {
	return len(s.Problem.Held) > 0 && (s.Problem.HeldByReservation || !d.ShortWithoutHeld)
}

// isStale says whether the snapshot is out of date. The gang has changed, or a shortage whose end no event reports.
func (c *Decisions) isStale(g *group, s *Snapshot, d *placement.Decision) bool {
	switch {
	case g.changes != s.changes:
		return true
	case s.Lacks != nil:
		return c.t.Quota.quotaFor(g, s.wants) == nil
	}
	return mayFitWithHeld(s, d) && c.t.WaitList.held.returned != s.released
}

// isReservedLess says whether a reservation ended that was held against the gang. Its own may have replaced it, or has its turn.
func (c *Decisions) isReservedLess(g *group, s *Snapshot) bool {
	left := sets.New[int]()
	for _, reserved := range c.t.WaitList.reservedFrom(g, requests(s.Problem.Members)) {
		left.Insert(reserved.Version)
	}
	return !left.IsSuperset(s.leaves)
}

// noteYes notes that a gang was found to fit. If nothing had woken it, a wake-up was lost.
func (c *Decisions) noteYes(g *group, s *Snapshot, certain bool) {
	level := levelSome
	if certain {
		level = levelPlan
	}
	c.observeDecision(s, level, resultAdmitted)
	c.t.metrics.reachAdmission(g, c.t.clock.Now())
	if s.unwoken && s.Problem.Reserved == nil && !s.Problem.Reserve { // without it, only time decides about the gang's reservation
		klog.Background().Info("A gang fits that no event has woken", "podGroup", klog.KRef(g.key.Namespace, g.key.Name))
		c.t.metrics.lostWakeups.Inc()
		c.t.metrics.lost++
	}
}
