package gang

import (
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/runtimes"
)

// Group is a gang with what the scheduler knows of it. It has no lock, no clock and no client: the scheduler's store has them.
type Group struct {
	Gang
	Key           Key
	Seen          int64    // numbers gangs in the order in which they are first seen
	PodGroup      PodGroup // as last seen
	FixedPriority *int32   // of the whole gang, nil until it is fixed, because it orders the gang in a heap
	derived       derived

	Attempt *Attempt // the scheduling attempt that is going on, nil if there is none
	Refusal *Refusal // the last decision, if it was no
	Scout   Scout    // the member whose cycle is expected
	Retry   Retry    // what failed

	MinimumBound bool       // the minimum of the current incarnation was bound once
	PartialSince time.Time  // bound below the minimum since then; zero if it is not
	UnderRepair  bool       // it is completed before others start, for a time: a crash left it in part, or it replaces lost members
	OutcomeUntil time.Time  // a bound member is gone: until this time the PodGroup's status may say how it ended
	SurplusOpen  bool       // the waiting members were activated since the gang began to run, and none was turned away after that
	GroupUntil   time.Time  // until when members of surplus groups wait in Permit for the rest
	NoRoomAt     int        // how often room had come free when surplus of the gang found none
	InPermit     bool       // members may wait in Permit that were released, or are to give back their room
	Timestamps   Timestamps // of its steps
	Joined       time.Time  // when the last member came
	Began        time.Time  // when the first member of the current incarnation was bound; zero while none is
	Reporting    bool       // the reporter is about to look
	Conditions   int        // how often members' conditions may have changed
	Changes      int        // how often the input of decisions has changed
}

// derived is computed from the members and the PodGroup, each part when it is asked for.
type derived struct {
	requests map[string]resources.List // task -> the requests of its last member
	named    map[string]int            // account -> how many members name it
	ranks    map[types.UID]int         // of the waiting members, from 0; nil if they must be counted anew
	waits    resources.List            // what the waiting members request; nil if it must be added up anew
	kept     resources.List            // what is kept for further members of a started gang; nil if it must be computed anew
}

// PodGroup is the content of a PodGroup.
type PodGroup struct {
	Exists  bool
	UID     types.UID
	Version string // resourceVersion
	Created time.Time
	Named   string // the account that the PodGroup names: its queue, or a user of it; "" for none
	Account string // the charged account: the one that the PodGroup names, or else the one that its members name; "" for none
	Class   string // priority class
	Phase   schedulingv1beta1.PodGroupPhase
	// reserved is what the queue keeps for the members of a started gang in all. It is nil for gangs that ask for no more than their
	// minimum.
	Reserved resources.List
	Bound    int64             // the last incarnation whose minimum was bound, as the status says; -1 if none was
	Topology *Topology         // how close the members must be in the network, nil if that does not matter
	Admitted time.Time         // since when it is known to be admitted
	Waits    time.Time         // since when its condition says that it waits, although it is admitted; zero if it does not
	Runtime  runtimes.Estimate // how long it is expected to run
	// Minimum is what the minimum needs in all, as the PodGroup says. It counts while no pod exists.
	Minimum resources.List
	// Plan is the expected start that was written last, nil if none is.
	Plan *schedulingv1beta1.PodGroupPlan
}

// Refusal is a no: what is missing, and which events may help.
type Refusal struct {
	Lacks     WaitReason // Room or Quota
	Message   string
	FoundAt   time.Time // when this message was found first
	Woken     bool      // something has happened that may help, or the gang has changed
	Rejectors sets.Set[string]
	Rejected  []*corev1.Pod // the pod that was rejected most often, and one of each other demand class
	Shortfall Shortfall     // the least room that must come free; nil if that is not known
	NextAt    time.Time     // no decision is made before
	WakeAt    time.Time     // the gang is woken then; zero if only an event wakes it
}

// Shortfall counts down how much room must come free before a decision is worth making again.
type Shortfall interface {
	// Free notes that an amount came free on a node, or that a node has come or changed ("").
	Free(node string, amount resources.List)
	// Covered says whether enough has come free.
	Covered() bool
}

// Scout is the member whose scheduling cycle has the gang decided.
type Scout struct {
	UID      types.UID // "" if there is none
	Called   time.Time // since when its cycle is expected; zero if it is not
	Replaced bool      // another member was the scout before, and may still come
}

// Retry is the record of failed attempts.
type Retry struct {
	Exact    bool      // the next attempt goes exactly where its decision says
	Failures int       // attempts in a row that failed although the decision was yes
	Until    time.Time // the gang backs off until then
	Binding  int       // attempts in a row that a failed binding has caused
	Search   FailedSearch
}

// Timestamps are the times of a gang's steps.
type Timestamps struct {
	Complete, Admitted time.Time
	Started            bool // it was bound as a whole before
}

// Take copies the content of a PodGroup that names an account. It says whether that differs in anything a decision depends on.
func (g *Group) Take(pg *schedulingv1beta1.PodGroup, named string) (differs bool) {
	before, spec := g.PodGroup, g.Spec
	g.PodGroup = PodGroup{
		Exists: true, UID: pg.UID, Version: pg.ResourceVersion, Created: g.PodGroup.Created, Admitted: g.PodGroup.Admitted, Named: named,
		Account: g.PodGroup.Account, Class: pg.Spec.PriorityClassName, Phase: pg.Status.Phase, Bound: lastBound(pg),
		Reserved: resources.FromResourceList(pg.Status.Reserved), Topology: TopologyOf(pg),
		Runtime: runtimes.OfGroup(pg), Waits: waitsSince(pg),
		Minimum: resources.FromResourceList(ptr.Deref(pg.Spec.MinResources, nil)), Plan: pg.Status.Plan,
	}
	g.BelongTo(pg.UID)
	if IsRunOver(pg) { // the minimum of the next run was never bound
		g.PodGroup.Bound, g.MinimumBound = -1, false
	}
	g.Spec = SpecOf(pg)
	g.derived.kept = nil
	before.Version, before.Waits, before.Plan = g.PodGroup.Version, g.PodGroup.Waits, g.PodGroup.Plan
	same := reflect.DeepEqual //nolint:forbidigo // of values of this package, with fields that are not exported
	if !same(spec.Groups, g.Groups) {
		g.recount()
	}
	return !same(before, g.PodGroup) || !same(spec, g.Spec)
}

// lastBound is the last incarnation of a gang whose minimum was bound at some time, -1 if none was. While a Job restarts, the phase is
// still that of the old pods. Phase Unknown does not say that the minimum was bound: a crash may have left the gang in part.
func lastBound(pg *schedulingv1beta1.PodGroup) int64 {
	version, restarted := IncarnationOf(pg), ptr.Deref(pg.Status.JobVersion, 0) > 0
	switch pg.Status.Phase {
	case schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupCompleted:
		if !restarted {
			return version
		}
	}
	for _, condition := range pg.Status.Conditions {
		if condition.Type == schedulingv1beta1.PodGroupScheduled {
			return version
		}
	}
	return -1
}

// waitsSince is since when an admitted PodGroup is said to wait. The controller keeps the time while it waits, so it outlives the scheduler.
func waitsSince(pg *schedulingv1beta1.PodGroup) time.Time {
	c := schedulingv1beta1.CurrentCondition(pg.Status.Conditions)
	if pg.Status.Phase != schedulingv1beta1.PodGroupInqueue || c == nil || c.Type != schedulingv1beta1.PodGroupUnschedulableType {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// WaitedFor is how long a gang has waited for room since its queue admitted it.
func (g *Group) WaitedFor(now time.Time) time.Duration {
	since := g.PodGroup.Admitted
	if !g.PodGroup.Waits.IsZero() {
		since = g.PodGroup.Waits
	}
	return now.Sub(since)
}

// Renew forgets what is known of an earlier PodGroup, but the account.
func (g *Group) Renew(created time.Time) {
	g.PodGroup = PodGroup{Account: g.PodGroup.Account, Created: created}
	g.FixedPriority, g.Refusal = nil, nil
	g.MinimumBound, g.Timestamps, g.OutcomeUntil = false, Timestamps{}, time.Time{}
}

// LosePodGroup notes that the PodGroup is gone. Its members are expected to run as long as before.
func (g *Group) LosePodGroup() {
	g.PodGroup = PodGroup{Created: g.PodGroup.Created, Runtime: g.PodGroup.Runtime, Bound: -1}
	g.MinimumBound, g.FixedPriority, g.derived.kept = false, nil, nil
	g.BelongTo("")
}

// Join adds a member, or replaces its earlier state; nil if it is new.
func (g *Group) Join(old, m *Member) {
	incarnation := g.Version()
	g.share(m)
	g.countNamed(old, -1)
	g.countNamed(m, 1)
	g.Put(m)
	g.membersChanged()
	if g.Version() != incarnation {
		g.beginIncarnation()
	}
	if m.State == Bound && g.Counts(m) {
		if at := BoundAt(m.Pod); g.Began.IsZero() || at.Before(g.Began) {
			g.Began = at
		}
	}
}

// Leave takes a member out.
func (g *Group) Leave(m *Member) {
	incarnation := g.Version()
	switch g.Remove(m.UID); {
	case g.Len() == 0:
		g.derived.requests = nil
	case g.Version() != incarnation:
		g.beginIncarnation() // an earlier one: nothing is known of it any more
	}
	g.countNamed(m, -1)
	g.membersChanged()
	if g.CountIn(Bound) == 0 {
		g.Began = time.Time{} // what comes is another run
	}
	if g.Scout.UID == m.UID {
		g.Scout = Scout{}
	}
}

// share has a member point to the same requests as other members of its task, which are usually equal. A list is larger than all else that
// is known of a member.
func (g *Group) share(m *Member) {
	if last := g.derived.requests[m.Task]; last.Equal(m.Requests) {
		m.Requests = last
		return
	}
	if g.derived.requests == nil {
		g.derived.requests = map[string]resources.List{}
	}
	g.derived.requests[m.Task] = m.Requests
}

// Change notes that the gang differs from the input of its last decision.
func (g *Group) Change() Effects {
	g.Changes++
	g.Conditions++
	g.membersChanged()
	g.Retry.Search = FailedSearch{}
	if g.Refusal != nil {
		g.Refusal.Woken = true
	}
	return Only(HasChanged)
}

// SetState changes the state of a member.
func (g *Group) SetState(m *Member, state State) {
	g.Gang.SetState(m, state)
	g.membersChanged()
}

// membersChanged drops what is computed from the members once a change.
func (g *Group) membersChanged() { g.derived.ranks, g.derived.waits, g.derived.kept = nil, nil, nil }

// beginIncarnation drops facts about earlier incarnations of the gang: the new one has not been bound yet.
func (g *Group) beginIncarnation() {
	g.MinimumBound = g.PodGroup.Bound >= g.Version()
	g.PartialSince, g.OutcomeUntil, g.Began = time.Time{}, time.Time{}, time.Time{}
	g.SurplusOpen = false // its waiting members are activated
}

// WaitingRequests is what the waiting members request. It must not be changed.
func (g *Group) WaitingRequests() resources.List {
	if g.derived.waits == nil {
		g.derived.waits = resources.List{}
		for _, m := range g.Members() {
			if g.Counts(m) && m.State == Waiting {
				g.derived.waits.Add(m.Requests)
			}
		}
	}
	return g.derived.waits
}

// RankOf is the position of a waiting member in the order in which members start.
func (g *Group) RankOf(uid types.UID) int {
	if g.derived.ranks == nil {
		g.derived.ranks = map[types.UID]int{}
		for i, m := range g.Waiting() {
			g.derived.ranks[m.UID] = i
		}
	}
	return g.derived.ranks[uid]
}

// KeptForOthers is the part of what is reserved for a gang that its members do not use.
func (g *Group) KeptForOthers() resources.List {
	if g.derived.kept == nil {
		used := resources.Sums{}
		for _, m := range g.Members() {
			if m.State.Holds() {
				used.Add(m.Requests)
			}
		}
		g.derived.kept = used.Rest(g.PodGroup.Reserved)
	}
	return g.derived.kept
}

// LagsBehind says whether the known PodGroup is older than the one that the pod was created for.
func (g *Group) LagsBehind(pod *corev1.Pod) bool {
	want := pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation]
	if want == "" || g.Key.Foreign {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(g.PodGroup.Version, want)
	return err == nil && order < 0
}

// Names notes that a member names another account.
func (g *Group) Names(m *Member, account string) {
	g.countNamed(m, -1)
	m.Account = account
	g.countNamed(m, 1)
}

// countNamed adds a member to the counts of named accounts, or takes it out with -1.
func (g *Group) countNamed(m *Member, one int) {
	if m == nil || m.Account == "" {
		return
	}
	if g.derived.named == nil {
		g.derived.named = map[string]int{}
	}
	if g.derived.named[m.Account] += one; g.derived.named[m.Account] == 0 {
		delete(g.derived.named, m.Account)
	}
}

// NamedAccounts are the accounts that members name, in the order of the alphabet.
func (g *Group) NamedAccounts() []string { return slices.Sorted(maps.Keys(g.derived.named)) }

// IsDisputed says whether the members name different accounts, and the PodGroup names none.
func (g *Group) IsDisputed() bool {
	return g.PodGroup.Exists && g.PodGroup.Named == "" && len(g.derived.named) > 1
}

// Account is the account that the gang is checked against and charged to.
func (g *Group) Account() string {
	if g.PodGroup.Exists && g.PodGroup.Named == "" && len(g.derived.named) == 1 {
		for account := range g.derived.named {
			return account
		}
	}
	return g.PodGroup.Named
}

// NeedsRepair says whether a crash has left the gang bound below its minimum. It must be completed or evicted whole. A gang whose minimum was
// bound once need not be: its policies decide. The same holds for a gang without a queue, which is never evicted either.
func (g *Group) NeedsRepair() bool {
	return g.PodGroup.Exists && !g.MinimumBound && g.PodGroup.Account != "" && g.Partial()
}

// TurnAway notes that the scheduling cycle of a member ends without a decision on it.
func (g *Group) TurnAway(m *Member) Effects {
	g.SurplusOpen = false
	if g.Scout.UID != m.UID {
		return Effects{}
	}
	g.Scout.Called = time.Time{} // it has come
	return Only(ToLook)
}

// ToCome are the chosen members that hold no room yet.
func (g *Group) ToCome() []*Member {
	if g.Attempt == nil {
		return nil
	}
	var members []*Member
	for uid := range g.Attempt.ToCome {
		if m := g.Member(uid); m != nil {
			members = append(members, m)
		}
	}
	return members
}

// NextToCome are the chosen members that may be tried now, in the order in which they start.
func (g *Group) NextToCome() []*Member {
	if len(g.Attempt.Order) > 0 {
		if m := g.Member(g.Attempt.Order[0]); g.Counts(m) {
			return []*Member{m}
		}
		return nil
	}
	return slices.DeleteFunc(g.Waiting(), func(m *Member) bool {
		_, chosen := g.Attempt.ToCome[m.UID]
		return !chosen
	})
}

// IsInAttempt says whether a member is part of the attempt that is going on: chosen, or reserved already.
func (g *Group) IsInAttempt(m *Member) bool {
	if g.Attempt == nil {
		return false
	}
	_, chosen := g.Attempt.ToCome[m.UID]
	return chosen || m.State == Reserved
}
