package gangs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
)

// group is a gang with what the scheduler knows of it.
type group struct {
	gang.Gang
	key      Key
	seen     int64 // numbers gangs in the order in which they are first seen
	podGroup podGroup
	priority *int32                    // of the whole gang, nil until it is fixed, because it orders the gang in a heap
	requests map[string]resources.List // task -> the requests of its last member
	named    map[string]int            // account -> how many members name it
	ranks    map[types.UID]int         // of the waiting members, from 0; nil if they must be counted anew
	waits    resources.List            // what the waiting members request; nil if it must be added up anew

	kept resources.List // what is kept for further members of a started gang; nil if it must be computed anew

	attempt  *attempt  // the scheduling attempt that is going on, nil if there is none
	decision *decision // the last decision, if it was no
	scout    scout
	retry    retry

	minimumBound bool      // the minimum of the current incarnation was bound once
	partialSince time.Time // bound below the minimum since then; zero if it is not
	underRepair  bool      // it is completed before others start, for a time: a crash left it in part, or it replaces lost members
	outcomeUntil time.Time // a bound member is gone: until this time the PodGroup's status may say how it ended
	surplusOpen  bool      // the waiting members were activated when the gang began to run
	turnedAway   bool      // the gate was closed to a member after that
	noRoomAt     int       // what sharing.freed was when surplus of the gang found no room
	inPermit     bool      // members may wait in Permit that were released, or are to give back their room
	timestamps   timestamps
	joined       time.Time // when the last member came
	reporting    bool      // the reporter is about to look
	conditions   int       // how often members' conditions may have changed
	changes      int       // how often the input of decisions has changed
}

// podGroup is the content of a PodGroup.
type podGroup struct {
	exists  bool
	uid     types.UID
	version string // resourceVersion
	created time.Time
	named   string // the account that the PodGroup names: its queue, or a user of it; "" for none
	account string // the charged account: the one that the PodGroup names, or else the one that its members name; "" for none
	class   string // priority class
	phase   schedulingv1beta1.PodGroupPhase
	failed  int32 // members that have failed
	// reserved is what the queue keeps for the members of a started gang in all; nil for gangs that ask for no more than their minimum.
	reserved resources.List
	bound    int64 // the last incarnation whose minimum was bound, as the status says; -1 if none was
}

// attempt is a scheduling attempt. It begins with the decision that gave the gang places. It ends when all members hold room, or is rolled
// back.
type attempt struct {
	toCome   map[types.UID]string      // the chosen members that hold no room yet, and the node of each ("" = any)
	assumed  map[string]resources.List // on each node, for members that are still to come
	quota    resources.List            // what these members request in all
	certain  bool                      // the decision had a place for each member
	exact    bool                      // each member must go to its node
	order    []types.UID               // the members to come in the order in which they must come; nil for any order
	failed   sets.Set[types.UID]       // members whose binding failed and that were not tried again yet
	deadline time.Time                 // when the attempt is rolled back
	startAt  time.Time                 // the attempt pauses until then
	leaves   sets.Set[int]             // the versions of the reservations that it leaves alone
	seat     *seat                     // the pods whose eviction makes its room; nil if there are none
	// patientUntil is a time before which a member without room has only come too early.
	patientUntil time.Time
}

// decision is a no: what is missing, and which events may help.
type decision struct {
	lacks     gang.WaitReason // Room or Quota
	message   string
	foundAt   time.Time // when this message was found first
	woken     bool      // something has happened that may help, or the gang has changed
	rejectors sets.Set[string]
	rejected  []*corev1.Pod        // the pod that was rejected most often, and one of each other demand class
	shortfall *placement.Shortfall // the least room that must come free; nil if that is not known
	nextAt    time.Time            // no decision is made before
	wakeAt    time.Time            // the gang is woken then; zero if only an event wakes it
}

// scout is the member whose scheduling cycle has the gang decided.
type scout struct {
	uid      types.UID // "" if there is none
	called   time.Time // since when its cycle is expected; zero if it is not
	replaced bool      // another member was the scout before, and may still come
}

// retry is the record of failed attempts.
type retry struct {
	exact    bool      // the next attempt goes exactly where its decision says
	failures int       // attempts in a row that failed although the decision was yes
	until    time.Time // the gang backs off until then
	binding  int       // attempts in a row that a failed binding has caused
	searches int       // searches for victims in a row that found none
	searchAt time.Time // the next search is not made before
	// searchOwed: the last decision was made when no victims might be searched yet.
	searchOwed bool
	searched   failedSearch // the last search that found none
}

// status computes the phase of the gang.
func (t *Tracker) status(g *group) gang.Status {
	facts := gang.Facts{
		Exists:       g.podGroup.exists,
		Admitted:     t.isAdmitted(g),
		Disputed:     g.isDisputed(),
		Attempting:   g.attempt != nil,
		Preempted:    g.Seated() && t.Victims.isPreempted(g),
		BackOffUntil: g.retry.until,
	}
	if g.attempt != nil {
		facts.BackOffUntil, facts.Evicting = g.attempt.startAt, g.attempt.seat != nil
	}
	if g.decision != nil && !g.decision.woken {
		facts.Lacks = g.decision.lacks
	}
	if g.minimumBound {
		facts.OutcomeUntil = g.outcomeUntil
	}
	return g.Status(facts, t.clock.Now())
}

// share has a member point to the same requests as other members of its task, which are usually equal: a list is larger than all else that
// is known of a member.
func (g *group) share(m *gang.Member) {
	if last := g.requests[m.Task]; last.Equal(m.Requests) {
		m.Requests = last
		return
	}
	if g.requests == nil {
		g.requests = map[string]resources.List{}
	}
	g.requests[m.Task] = m.Requests
}

// change notes that the gang differs from the input of its last decision.
func (g *group) change() gang.Effects {
	g.changes++
	g.conditions++
	g.membersChanged()
	g.retry.searches, g.retry.searchAt, g.retry.searchOwed, g.retry.searched = 0, time.Time{}, false, failedSearch{}
	if g.decision != nil {
		g.decision.woken = true
	}
	return gang.Only(gang.HasChanged)
}

// setState changes the state of a member.
func (g *group) setState(m *gang.Member, state gang.State) {
	g.SetState(m, state)
	g.membersChanged()
}

// membersChanged drops what is computed from the members once a change.
func (g *group) membersChanged() { g.ranks, g.waits, g.kept = nil, nil, nil }

// waitingRequests is what the waiting members request. It must not be changed.
func (g *group) waitingRequests() resources.List {
	if g.waits == nil {
		g.waits = resources.List{}
		for _, m := range g.Members() {
			if g.Counts(m) && m.State == gang.Waiting {
				g.waits.Add(m.Requests)
			}
		}
	}
	return g.waits
}

// rankOf is the position of a waiting member in the order in which members start.
func (g *group) rankOf(uid types.UID) int {
	if g.ranks == nil {
		g.ranks = map[types.UID]int{}
		for i, m := range g.Waiting() {
			g.ranks[m.UID] = i
		}
	}
	return g.ranks[uid]
}

// lagsBehind says whether the known PodGroup is older than the one that the pod was created for.
func (g *group) lagsBehind(pod *corev1.Pod) bool {
	want := pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation]
	if want == "" || g.key.Foreign {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(g.podGroup.version, want)
	return err == nil && order < 0
}

// countNamed adds a member to the counts of named accounts, or takes it out with -1.
func (g *group) countNamed(m *gang.Member, one int) {
	if m == nil || m.Account == "" {
		return
	}
	if g.named == nil {
		g.named = map[string]int{}
	}
	if g.named[m.Account] += one; g.named[m.Account] == 0 {
		delete(g.named, m.Account)
	}
}

// isDisputed says whether the members name different accounts, and the PodGroup names none.
func (g *group) isDisputed() bool {
	return g.podGroup.exists && g.podGroup.named == "" && len(g.named) > 1
}

// account is the account that the gang is checked against and charged to.
func (g *group) account() string {
	if g.podGroup.exists && g.podGroup.named == "" && len(g.named) == 1 {
		for account := range g.named {
			return account
		}
	}
	return g.podGroup.named
}

// needsRepair says whether a crash has left the gang bound below its minimum. It must be completed or evicted whole. A gang whose minimum was
// bound once need not be: its policies decide. The same holds for a gang without a queue, which is never evicted either.
func (g *group) needsRepair() bool {
	return g.podGroup.exists && !g.minimumBound && g.podGroup.account != "" && g.Partial()
}

// isRepairOver says whether the time is over in which a gang that is bound below its minimum goes first.
func (t *Tracker) isRepairOver(g *group, now time.Time) bool {
	return !g.partialSince.IsZero() && now.Sub(g.partialSince) > t.settings.args.PartialGangTimeout.Duration
}

// beginIncarnation drops facts about earlier incarnations of the gang: the new one has not been bound yet.
func (g *group) beginIncarnation() {
	g.minimumBound = g.podGroup.bound >= g.Version()
	g.partialSince, g.outcomeUntil = time.Time{}, time.Time{}
	g.surplusOpen = false // its waiting members are activated
}

// membersToCome are the chosen members that hold no room yet.
func (g *group) membersToCome() []*gang.Member {
	if g.attempt == nil {
		return nil
	}
	var members []*gang.Member
	for uid := range g.attempt.toCome {
		if m := g.Member(uid); m != nil {
			members = append(members, m)
		}
	}
	return members
}

// nextToCome are the chosen members that may be tried now, in the order in which they start.
func (g *group) nextToCome() []*gang.Member {
	if len(g.attempt.order) > 0 {
		if m := g.Member(g.attempt.order[0]); g.Counts(m) {
			return []*gang.Member{m}
		}
		return nil
	}
	return slices.DeleteFunc(g.Waiting(), func(m *gang.Member) bool {
		_, chosen := g.attempt.toCome[m.UID]
		return !chosen
	})
}

// isNeeded says whether an attempt fails without a member: it is part of it, or the minimum needs it.
func (g *group) isNeeded(m *gang.Member) bool {
	return g.isInAttempt(m) || !g.SeatedWith(g.membersToCome())
}

// isInAttempt says whether a member is part of the attempt that is going on: chosen, or reserved already.
func (g *group) isInAttempt(m *gang.Member) bool {
	if g.attempt == nil {
		return false
	}
	_, chosen := g.attempt.toCome[m.UID]
	return chosen || m.State == gang.Reserved
}

// isNext says whether a chosen member may be tried now, by the order of the attempt.
func (a *attempt) isNext(uid types.UID) bool { return len(a.order) == 0 || a.order[0] == uid }

// assume adds a member that is still to come, on a node ("" for any).
func (a *attempt) assume(m *gang.Member, node string) {
	a.toCome[m.UID] = node
	if node != "" {
		sum := a.assumed[node].Clone()
		sum.Add(m.Requests)
		a.assumed[node] = sum
	}
	a.quota.Add(m.Requests)
}

// take ends the assumption for a member that holds room now. It returns false for a member that was not to come.
func (a *attempt) take(m *gang.Member) bool {
	node, ok := a.toCome[m.UID]
	if !ok {
		return false
	}
	delete(a.toCome, m.UID)
	if i := slices.Index(a.order, m.UID); i == 0 {
		a.order = a.order[1:]
	} else if i > 0 { // another client has bound it before its turn
		a.order = slices.Delete(a.order, i, i+1)
	}
	if node != "" {
		rest := a.assumed[node].Clone()
		rest.Sub(m.Requests)
		a.assumed[node] = rest
		if rest.IsZero() {
			delete(a.assumed, node)
		}
	}
	a.quota.Sub(m.Requests)
	return true
}

func newAttempt() *attempt {
	return &attempt{toCome: map[types.UID]string{}, assumed: map[string]resources.List{}, quota: resources.List{}, failed: sets.New[types.UID]()}
}

func requests(members []*gang.Member) resources.List {
	sum := resources.List{}
	for _, m := range members {
		sum.Add(m.Requests)
	}
	return sum
}

func pods(members []*gang.Member) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		out = append(out, m.Pod)
	}
	return out
}
