package gangs

import (
	"fmt"
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
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Snapshot is the input of a decision on a gang. It does not change; Commit refuses a decision if the gang has changed since.
type Snapshot struct {
	// Key names the gang.
	Key state.Key
	// Problem is the placement problem.
	Problem placement.Problem
	// NoTopology says why it is not known where the gang may go in the network, "" if it is.
	NoTopology string
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
	network  int            // how often the topology of the network had changed then
	begun    time.Time
	retryIn  time.Duration // when places to reserve may be chosen again
	unwoken  bool          // the gang is decided without an event that could help it
	leaves   sets.Set[int] // the versions of the reservations on nodes that the gang leaves alone
}

// Decisions are the steps of a scout's cycle.
type Decisions struct{ t *store }

// Snapshot begins the decision on the gang of a scout. It returns nil when there is nothing to decide any more, or not yet.
func (c *Decisions) Snapshot(scoutPod *corev1.Pod) *Snapshot {
	c.t.Lock()
	defer c.t.Unlock()
	g, m := c.t.Find(scoutPod.UID)
	if m == nil {
		return nil
	}
	phase := c.t.Status(g).Phase
	members := g.Choose()
	if phase != gang.Ready && phase != gang.Unschedulable || len(members) == 0 {
		return nil
	}
	now := c.t.Clock.Now()
	g.Scout = gang.Scout{UID: m.UID, Called: now} // it is not called again before the decision
	c.t.FixPriority(g)
	s := &Snapshot{
		Key: g.Key, scout: m.UID, account: g.PodGroup.Account, changes: g.Changes, released: c.t.WaitList.Held.Returned, begun: now, unwoken: phase == gang.Unschedulable,
	}
	standing := c.t.WaitList.StandingOf(g, now)
	s.QuotaReserved, s.retryIn = standing.QuotaReserved, standing.RetryIn
	s.Problem, s.leaves = c.t.problemOf(g, members)
	p := &s.Problem
	p.HeldByReservation, p.Exact = s.leaves.Len() > 0, g.Retry.Exact
	p.Reserved, p.Reserve, p.Renew, p.Avoid, p.NoPlaces = standing.Places, standing.Choose, standing.Renew, standing.Avoid, standing.NoPlaces
	p.OnlyWithStart, p.NoStart = standing.OnlyWithStart, standing.NoStart || c.t.Settings.Args.ReservationDepth == 0
	if queue := c.t.Quota.QueueOf(s.account); queue != "" {
		p.OwnQueue = func(pod *corev1.Pod) bool { return c.t.Quota.IsChargedTo(pod, queue) }
	}
	p.Topology, s.NoTopology = c.t.Topology.of(g)
	s.network = c.t.Topology.changes
	wants := gang.Requests(members)
	s.TooMuch = wants.Validate()
	if s.TooMuch == nil && c.t.Quota.Enforced && s.account != "" {
		s.wants = wants
		if s.Lacks = c.t.Quota.QuotaFor(g, s.wants); s.Lacks != nil {
			c.addQuota(g, s)
		}
	}
	s.MayEvict = s.TooMuch == nil && s.NoTopology == "" && !s.ExceedsCapability && c.t.Victims.SearchIn(g, now) == 0
	if g.CountWaiting() > len(members) {
		c.addSpare(g, s)
	}
	return s
}

// addSpare adds the members that wait and need not start, and the rule for exchanging members that do not fit.
func (c *Decisions) addSpare(g *gang.Group, s *Snapshot) {
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
	c.t.Lock()
	defer c.t.Unlock()
	g := c.t.Gangs[s.Key]
	if g == nil || g.Changes != s.changes {
		return nil
	}
	members := g.ChooseFrom(waiting)
	if len(members) == 0 || s.wants != nil && c.t.Quota.QuotaFor(g, gang.Requests(members)) != nil {
		return nil
	}
	return members
}

// addQuota adds how the gang's quota comes free, if it may have a start then.
func (c *Decisions) addQuota(g *gang.Group, s *Snapshot) {
	s.ExceedsCapability = c.t.Quota.Ledger.Exceeds(s.account, s.wants)
	p := &s.Problem
	if p.Reserve && !p.NoStart && p.Topology == nil && s.NoTopology == "" && !s.ExceedsCapability && !s.QuotaReserved {
		p.Quota = c.t.Quota.Later(g, s.wants, s.Lacks)
	}
}

// problemOf is the placement of members of a gang, beside what others hold and what is reserved against it. leaves are the versions of these
// reservations.
func (t *store) problemOf(g *gang.Group, members []*gang.Member) (p placement.Problem, leaves sets.Set[int]) {
	key, priority := g.Key, t.PriorityOf(g)
	leaves = sets.New[int]()
	p = placement.Problem{
		Members:  members,
		SameGang: func(pod *corev1.Pod) bool { of, ok := gang.KeyOf(pod); return ok && of == key },
		InGang:   gang.IsMember,
		Priority: priority,
		Held:     t.WaitList.AssumedByOthers(g, priority),
		EndOf:    t.EndOf,
		Now:      t.Clock.Now(),
	}
	for _, reserved := range t.WaitList.ReservedFrom(g, gang.Requests(members)) {
		leaves.Insert(reserved.Version)
		if !reserved.Start.IsZero() {
			p.Kept = append(p.Kept, t.WaitList.KeptFrom(reserved))
			continue
		}
		state.AddAmounts(p.Held, reserved.Amounts)
	}
	return p, leaves
}

// Commit carries out a decision. A yes begins an attempt, and returns the pods to activate. A no makes the gang wait for an event that may
// help it. Commit returns false, and does nothing, when the gang has changed since the snapshot.
func (c *Decisions) Commit(s *Snapshot, d *placement.Decision) (activate []*corev1.Pod, ok bool) {
	c.t.Lock()
	defer c.t.Unlock()
	g := c.t.Gangs[s.Key]
	if g == nil || g.Attempt != nil || !g.PodGroup.Exists || !c.t.IsAdmitted(g) || g.PodGroup.Account != s.account || g.Seated() {
		c.discard(g, s)
		return nil, false
	}
	if d.Feasibility == placement.Impossible {
		if d.Seat == nil || g.Changes != s.changes || !c.evict(g, s, d) {
			c.refuse(g, s, d)
		}
		return nil, true
	}
	if g.Changes != s.changes && !slices.Equal(gang.UIDs(g.Choose()), gang.UIDs(d.Members)) || s.Problem.Topology != nil && !c.isSameTree(s) ||
		s.wants != nil && c.t.Quota.QuotaFor(g, gang.Requests(d.Members)) != nil { // the queue has changed, or a pod was bound by another scheduler
		c.discard(g, s)
		return nil, false
	}
	c.noteYes(g, s, d.Feasibility == placement.Possible)
	activate, e := c.begin(g, s, d)
	c.t.Apply(g, e)
	return activate, true
}

// isSameTree says whether the domains are still those of the decision.
func (c *Decisions) isSameTree(s *Snapshot) bool {
	now := c.t.Topology.current()
	return now != nil && now.Generation == s.Problem.Topology.Tree.Generation
}

// discard ends a decision on a gang that has changed. The cycle of its scout is over, so a scout is called again.
func (c *Decisions) discard(g *gang.Group, s *Snapshot) {
	c.t.Metrics.Attempts.WithLabelValues(gangmetrics.ResultChanged).Inc()
	if g == nil {
		return
	}
	if g.Scout.UID == s.scout {
		g.Scout.Called = time.Time{}
	}
	c.t.Apply(g, gang.Only(gang.ToLook))
}

// begin starts the attempt: the members' requests are assumed, on nodes and in the queue.
func (c *Decisions) begin(g *gang.Group, s *Snapshot, d *placement.Decision) (activate []*corev1.Pod, e gang.Effects) {
	a := gang.NewAttempt()
	a.Certain, a.Exact, a.Order = d.Feasibility == placement.Possible, s.Problem.Exact || s.Problem.Topology != nil, d.Order
	a.Deadline = c.t.Clock.Now().Add(c.t.Settings.Args.PermitTimeout.Duration)
	a.Leaves = s.leaves
	for _, m := range d.Members {
		a.Assume(m, d.Places[m.UID])
		activate = append(activate, m.Pod)
	}
	if a.Order != nil {
		activate = nil // one after the other
	}
	g.Attempt, g.Scout, g.Refusal = a, gang.Scout{}, nil
	c.t.WaitList.ForDomain.Delete(g.Key)
	c.t.Attempting[g.Key] = g
	c.t.WaitList.Book.Attempts(g.Key, a.Certain)
	c.t.AssumeQuota(g)
	e = gang.LookIn(c.t.Settings.Args.PermitTimeout.Duration)
	if _, chosen := a.ToCome[s.scout]; !chosen || !a.IsNext(s.scout) {
		e.Add(gang.Only(gang.ToLook)) // only the success of a cycle activates, and the scout's will have none
	}
	return activate, e
}

// refuse has a gang wait until something happens that could help it. An event may help the pod that a plugin rejected, or the gang itself
// changes.
func (c *Decisions) refuse(g *gang.Group, s *Snapshot, d *placement.Decision) {
	now := c.t.Clock.Now()
	no := &gang.Refusal{
		Lacks: gang.Room, Message: d.Message, FoundAt: s.begun, Rejectors: d.Rejectors, Rejected: d.Rejected,
		NextAt: s.begun.Add(max(state.DecisionPause, now.Sub(s.begun)+state.SearchPause*d.SearchTime)),
	}
	if d.Shortfall != nil {
		no.Shortfall = d.Shortfall
	}
	if g.Refusal != nil && g.Refusal.Message == d.Message {
		no.FoundAt = g.Refusal.FoundAt
	}
	level, result := gangmetrics.LevelNone, gangmetrics.ResultNoRoom
	if s.Lacks != nil {
		no.Lacks, level, result = gang.Quota, gangmetrics.LevelQuota, gangmetrics.ResultNoQuota
	}
	c.observeDecision(s, level, result)
	g.Refusal, g.SurplusOpen, g.Scout = no, false, gang.Scout{UID: s.scout}
	if s.Problem.Topology != nil || s.NoTopology != "" {
		c.t.WaitList.ForDomain.Insert(g.Key)
	}
	stale := c.isStale(g, s, d)
	c.t.Apply(g, c.waitInBook(g, s, d, now)) // first, so that the room it frees wakes only gangs that waited before
	stale = stale || s.Lacks == nil && c.isReservedLess(g, s)
	if s.MayEvict {
		g.Retry.Search.Failed(s.begun, d.SearchAgain, now)
	}
	g.Retry.Search.Pending = d.Seat != nil || !s.MayEvict && s.TooMuch == nil && !s.ExceedsCapability // it was not made, or its seat was not taken
	e := gang.Only(gang.ToReport)
	switch {
	case stale:
		e.Add(gang.Only(gang.ToWake))
	case s.Lacks != nil:
		c.t.Quota.Gangs.Insert(g.Key)
	case mayFitWithHeld(s, d):
		c.t.WaitList.Held.Gangs.Insert(g.Key)
	}
	c.t.Apply(g, e)
}

// waitInBook puts the gang on the waiting lists, and reserves the places that were found for it.
func (c *Decisions) waitInBook(g *gang.Group, s *Snapshot, d *placement.Decision, now time.Time) (e gang.Effects) {
	rank, claim, again := c.t.Rank(g), quota.Claim{Queue: s.account, Want: s.wants}, s.retryIn
	switch {
	case s.Lacks != nil:
		c.t.WaitList.Book.WaitForQuota(g.Key, rank, claim, s.Lacks, s.ExceedsCapability, now)
		if pause := c.t.WaitList.Book.QuotaRetryIn(g.Key, now); pause > 0 {
			again = pause
		}
		d.NoStart = s.Problem.Reserve && d.Reserve == nil
		c.t.WaitList.ReserveNodes(g, d, now)
	case d.TooLarge:
		c.t.WaitList.Book.TooLarge(g.Key, rank, now)
	default:
		c.t.WaitList.Book.HasQuota(g.Key, claim)
		c.t.WaitList.Held.Taken = true // it may need less of nodes than before
		c.t.WaitList.Book.WaitForRoom(g.Key, rank, state.NeedOf(d.Shortfall), now)
		if s.Problem.Reserve && d.Reserve == nil { // else it would be asked for again and again
			d.NoStart, d.NoPlaces = s.Problem.OnlyWithStart, !s.Problem.OnlyWithStart
		}
		c.t.WaitList.ReserveNodes(g, d, now)
	}
	if pause := c.t.Topology.retryIn(g); pause > 0 && (again <= 0 || pause < again) {
		again = pause
	}
	if again > 0 {
		g.Refusal.WakeAt = now.Add(again)
		e = gang.LookIn(again)
	}
	return e
}

// mayFitWithHeld says whether the gang may fit when room that other gangs hold is given back.
func mayFitWithHeld(s *Snapshot, d *placement.Decision) bool {
	return len(s.Problem.Held)+len(s.Problem.Kept) > 0 && (s.Problem.HeldByReservation || !d.ShortWithoutHeld)
}

// isStale says whether the snapshot is out of date. The gang has changed, or a shortage whose end no event reports.
func (c *Decisions) isStale(g *gang.Group, s *Snapshot, d *placement.Decision) bool {
	switch {
	case g.Changes != s.changes, c.t.WaitList.ForDomain.Has(g.Key) && s.network != c.t.Topology.changes:
		return true
	case s.Lacks != nil:
		return c.t.Quota.QuotaFor(g, s.wants) == nil
	}
	return mayFitWithHeld(s, d) && c.t.WaitList.Held.Returned != s.released
}

// isReservedLess says whether a reservation ended that was held against the gang. Its own may have replaced it, or has its turn.
func (c *Decisions) isReservedLess(g *gang.Group, s *Snapshot) bool {
	left := sets.New[int]()
	for _, reserved := range c.t.WaitList.ReservedFrom(g, gang.Requests(s.Problem.Members)) {
		left.Insert(reserved.Version)
	}
	return !left.IsSuperset(s.leaves)
}

// noteYes notes that a gang was found to fit. If nothing had woken it, a wake-up was lost.
func (c *Decisions) noteYes(g *gang.Group, s *Snapshot, certain bool) {
	level := gangmetrics.LevelSome
	if certain {
		level = gangmetrics.LevelPlan
	}
	c.observeDecision(s, level, gangmetrics.ResultAdmitted)
	c.t.Metrics.ReachAdmission(g, c.t.Clock.Now())
	if s.unwoken && s.Problem.Reserved == nil && !s.Problem.Reserve { // without it, only time decides about the gang's reservation
		klog.Background().Info("A gang fits that no event has woken", "podGroup", klog.KRef(g.Key.Namespace, g.Key.Name))
		c.t.Metrics.LostWakeups.Inc()
		c.t.Metrics.Lost++
	}
}

// observeDecision records the time and level of a decision.
func (c *Decisions) observeDecision(s *Snapshot, level, result string) {
	c.t.Metrics.Decisions.WithLabelValues(level).Observe(c.t.Clock.Since(s.begun).Seconds())
	c.t.Metrics.Attempts.WithLabelValues(result).Inc()
}

// evict has pods evicted for a gang and begins its attempt. It returns false, and does nothing, if some other gang would be left below its
// minimum.
func (c *Decisions) evict(g *gang.Group, s *Snapshot, d *placement.Decision) bool {
	claimant := s.Claimant()
	claimant.UID = g.PodGroup.UID
	made, _ := c.t.Victims.MakeSeat(d.Seat, claimant, "gang", c.t.Clock.Now())
	if made == nil {
		return false
	}
	yes := *d
	yes.Feasibility, yes.Places, yes.Order = placement.Possible, d.Seat.Places, d.Seat.Order
	_, e := c.begin(g, s, &yes)
	g.Attempt.Seat, g.Attempt.Exact = made, true
	g.Attempt.Deadline = made.Until.Add(c.t.Settings.Args.PermitTimeout.Duration)
	c.observeDecision(s, gangmetrics.LevelNone, gangmetrics.ResultEvicting)
	e.Add(gang.LookIn(made.Within))
	if made.Leaving.Len() == 0 {
		e.Add(gang.Only(gang.ToLook))
	}
	e.Add(gang.Only(gang.ToReport))
	c.t.Apply(g, e)
	return true
}

// Claimant is the gang of the snapshot.
func (s *Snapshot) Claimant() *evict.Claimant {
	return &evict.Claimant{
		Gang: s.Key, Account: s.account, Priority: s.Problem.Priority, Wants: gang.Requests(s.Problem.Members),
		Who: fmt.Sprintf("PodGroup %s/%s", s.Key.Namespace, s.Key.Name), LedgerKey: s.Key.String(),
	}
}
