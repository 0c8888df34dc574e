package gangs

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// seat is room that evictions make for a gang. Its attempt has begun, so that the room is assumed for it; the members come when its victims
// have gone.
type seat struct {
	leaving sets.Set[types.UID] // pods that have not gone yet
	until   time.Time           // the attempt is rolled back if the victims are still there then
	within  time.Duration       // after one has gone the next must go within this time
	message string              // what the members wait for
}

// goneWithin is added to the grace periods. If a pod is still there then, the gang is decided anew. Each pod that goes starts the time
// again: the API server may need minutes for thousands of evictions.
const goneWithin = 30 * time.Second

// evict has pods evicted for a gang and begins its attempt. It returns false, and does nothing, if some other gang would be left below its
// minimum.
func (c *Decisions) evict(g *group, s *Snapshot, d *placement.Decision) bool {
	now := c.t.clock.Now()
	claimant := s.Claimant()
	claimant.uid = g.podGroup.uid
	made, evictions := c.t.newSeat(d.Seat, claimant, now)
	victims := make([]types.UID, len(evictions))
	for i := range evictions {
		victims[i] = evictions[i].uid
	}
	made.message = waitingFor(len(victims), "gang")
	if !c.t.Victims.wholeWithout(g.podGroup.uid, victims) {
		return false
	}
	yes := *d
	yes.Feasibility, yes.Places, yes.Order = placement.Possible, d.Seat.Places, d.Seat.Order
	_, e := c.begin(g, s, &yes)
	g.attempt.seat, g.attempt.exact = made, true
	g.attempt.deadline = made.until.Add(c.t.settings.args.PermitTimeout.Duration)
	c.t.WaitList.seats[g.key] = g
	c.t.Victims.claimVictims(g.podGroup.uid, victims, made.until, false)
	for _, eviction := range evictions {
		c.t.repairs.Add(eviction.repair)
	}
	c.observeDecision(s, levelNone, resultEvicting)
	e.Add(gang.LookIn(made.until.Sub(now)))
	if made.leaving.Len() == 0 {
		e.Add(gang.Only(gang.ToLook))
	}
	e.Add(gang.Only(gang.ToReport))
	c.t.apply(g, e)
	return true
}

// podEviction is the repair that evicts a pod, and the pod.
type podEviction struct {
	repair
	pod *corev1.Pod
}

// newSeat is the seat that evictions make for a claimant, and the evictions. The seat does not wait for pods that have gone since the
// search.
func (t *Tracker) newSeat(found *placement.Seat, c *Claimant, now time.Time) (made *seat, evictions []podEviction) {
	made = &seat{leaving: sets.New[types.UID](), until: now}
	for _, v := range found.Victims {
		for _, pod := range v.AllPods() {
			if !t.isThere(pod) {
				continue
			}
			made.leaving.Insert(pod.UID)
			grace := gang.GraceOf(pod)
			if v.Rule == quota.ByShare {
				grace = min(grace, gang.LongestGrace)
			}
			if gone := now.Add(grace); gone.After(made.until) {
				made.until = gone
			}
			if v.Rule != quota.NotAllowed {
				evictions = append(evictions, podEviction{evictionFor(c, v, pod), pod})
			}
		}
	}
	made.until = made.until.Add(goneWithin)
	made.within = made.until.Sub(now)
	return made, evictions
}

// isThere says whether a pod exists as far as the informer knows. The end of a pod that does is still to be reported by DeletePod.
func (t *Tracker) isThere(pod *corev1.Pod) bool {
	if t.podLister == nil {
		return true
	}
	known, err := t.podLister.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && known.UID == pod.UID
}

// evictionFor is the eviction of one of a victim's pods for a claimant.
func evictionFor(c *Claimant, v *placement.Victim, pod *corev1.Pod) repair {
	e := repair{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, kind: makeRoom, by: c.uid, reason: Preempted}
	e.message = fmt.Sprintf("evicted to make room for %s, whose priority is higher", c.who)
	if v.Rule == quota.ByShare {
		e.reason = Reclaimed
		e.message = fmt.Sprintf("evicted to make room for %s: queue %q is above its share, and queue %q is below its own",
			c.who, quota.QueueOf(v.Account), quota.QueueOf(c.Account))
	}
	return e
}

// waitingFor says what a gang or a pod waits for.
func waitingFor(victims int, who string) string {
	if victims == 1 {
		return "waiting until 1 pod has gone that was evicted for the " + who
	}
	return fmt.Sprintf("waiting until %d pods have gone that were evicted for the %s", victims, who)
}

// gone notes that a pod has left its node. When no victim of a gang is left, on nodes or in its queue, its members are activated.
func (w *WaitList) gone(pod types.UID) {
	for _, g := range w.seats {
		made := g.attempt.seat
		if made == nil || made.leaving.Len() > 0 && !made.leaving.Has(pod) {
			continue
		}
		var e gang.Effects
		made.leaving.Delete(pod)
		if w.extend(made, g.podGroup.uid) {
			g.attempt.deadline = made.until.Add(w.t.settings.args.PermitTimeout.Duration)
			e = gang.LookIn(made.within)
		}
		e.Add(w.settleSeat(g))
		w.t.apply(g, e)
	}
	w.t.apply(nil, w.podSeatFree(pod))
}

// extend gives the pods that have not gone yet more time, unless it has done so a moment ago: thousands may go at once.
func (w *WaitList) extend(made *seat, by types.UID) bool {
	now := w.t.clock.Now()
	if now.Add(made.within).Sub(made.until) < made.within/2 {
		return false
	}
	made.until = now.Add(made.within)
	for uid, c := range w.t.Victims.claims {
		if c.by == by {
			c.until = made.until
			w.t.Victims.claims[uid] = c
		}
	}
	return true
}

// beginEviction says whether a pod still should be evicted for a gang or a pod. It is asked before the eviction. Once one member of a gang
// is evicted, its other members in the plan must go, even without the plan.
func (w *WaitList) beginEviction(by, pod types.UID) bool {
	stands, claims := w.leavingFor(by).Has(pod), w.t.Victims.claims
	if own := claims[pod]; own.by != by || !stands && !own.begun {
		return stands
	}
	for uid, c := range claims {
		if c.by == by && w.t.members[uid] == w.t.members[pod] {
			c.begun = true
			claims[uid] = c
		}
	}
	return true
}

// leavingFor are the pods that have to go for a gang, or for a pod.
func (w *WaitList) leavingFor(by types.UID) sets.Set[types.UID] {
	if seat := w.podSeats[by]; seat != nil {
		return seat.leaving
	}
	for _, g := range w.seats {
		if g.podGroup.uid == by && g.attempt.seat != nil {
			return g.attempt.seat.leaving
		}
	}
	return nil
}

// settleSeat activates the members of a gang when all victims have gone. It ends the attempt if that has taken too long. The quota may be
// freed by a victim of another gang.
func (w *WaitList) settleSeat(g *group) (e gang.Effects) {
	made, now := g.attempt.seat, w.t.clock.Now()
	switch {
	case made == nil:
	case !now.Before(made.until):
		return w.t.rollBack(g, noUID)
	case made.leaving.Len() == 0 && !w.lacksQuota(g):
		g.attempt.seat, g.attempt.patientUntil = nil, now.Add(seatPatience)
		g.attempt.deadline = now.Add(w.t.settings.args.PermitTimeout.Duration)
		return gang.Only(gang.ToLook)
	}
	return e
}

func (w *WaitList) lacksQuota(g *group) bool {
	return w.t.Quota.enforced && g.podGroup.account != "" && w.t.Quota.quotaFor(g, g.attempt.quota) != nil
}

// endSeat gives up a gang's seat when its attempt ends, and its claims.
func (w *WaitList) endSeat(g *group) gang.Effects {
	if w.seats[g.key] == nil {
		return gang.Effects{}
	}
	delete(w.seats, g.key)
	w.t.Victims.dropUnbegun(g.podGroup.uid)
	return gang.Only(gang.HoldFreed)
}

// seatsAgainst is the room on each node that evictions make for other gangs and other pods than the given one; nil if there is none. Only
// system-critical pods may take it.
func (w *WaitList) seatsAgainst(g *group, pod types.UID, priority int32) map[string]resources.List {
	if len(w.seats)+len(w.podSeats) == 0 || upstream.IsCritical(priority) {
		return nil
	}
	amounts := map[string]resources.List{}
	for _, other := range w.seats {
		if other != g {
			addAmounts(amounts, other.attempt.assumed)
		}
	}
	w.addPodSeats(amounts, pod, priority)
	if len(amounts) == 0 {
		return nil
	}
	return amounts
}

// WaitForSeat says whether a pod must not preempt on a node, because room is being made there for another gang: nominated to the node, the
// pod would keep the gang's members out until its own victims have gone. It is activated when the gang has its room.
func (v *Victims) WaitForSeat(pod *corev1.Pod, node string) bool {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	own, _ := v.t.find(pod.UID)
	priority := corev1helpers.PodPriority(pod)
	for _, g := range v.t.WaitList.seats {
		_, there := g.attempt.assumed[node]
		if there && g != own && v.t.priorityOf(g) <= priority && !upstream.IsCritical(priority) {
			v.t.WaitList.held.pods[pod.UID] = pod
			return true
		}
	}
	return false
}

const (
	// firstSearchPause is the pause after a search that found no victims; the pause doubles up to longestSearchPause. A queue may come
	// above its share without any event that helps a waiting gang.
	firstSearchPause   = time.Second
	longestSearchPause = 30 * time.Second
	// askedAtOnce is how many gangs a tick checks for possible victims: thousands may wait.
	askedAtOnce = 200
	// askedIfScarce is the same when searches have taken most of their time: the others would be tried for nothing.
	askedIfScarce = 10
)

// EvictPods allows evictions for gangs and pods. The GangPreemption plugin calls it.
func (v *Victims) EvictPods() {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.enabled = true
}

// SpareOutsiders has nothing evicted that is in no queue, for what is in one. The GangPreemption plugin of one profile says so for all.
func (v *Victims) SpareOutsiders() {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.sparesOutsiders = true
}

// searchIn is when victims may be searched for a gang: 0 for now, negative for never.
func (v *Victims) searchIn(g *group, now time.Time) time.Duration {
	if !v.enabled || slices.ContainsFunc(g.Members(), func(m *gang.Member) bool { return gang.NeverPreempts(m.Pod) }) {
		return -1
	}
	wait := g.retry.searchAt.Sub(now)
	if delay := v.t.Quota.termsOf(g.podGroup.account).preemptionDelay; delay > 0 {
		since := v.t.WaitList.book.WaitsSince(g.key)
		if since.IsZero() {
			since = now
		}
		wait = max(wait, since.Add(delay).Sub(now))
	}
	return max(0, wait, v.budget.restIn(now))
}

// searched notes the result of a search for a refused gang: there were no victims, or the search is still to be made.
func (v *Victims) searched(g *group, s *Snapshot, d *placement.Decision, now time.Time) {
	neverHelps := s.TooMuch != nil || s.ExceedsCapability
	g.retry.searchOwed = !s.MayEvict && !neverHelps || d.Seat != nil // a seat that could not be taken: a gang has changed meanwhile
	if s.MayEvict {
		g.retry.searched = failedSearch{begun: s.begun, again: d.SearchAgain}
		v.pauseSearch(g, now)
	}
}

func (v *Victims) pauseSearch(g *group, now time.Time) {
	g.retry.searchAt = now.Add(min(longestSearchPause, firstSearchPause<<min(g.retry.searches, 10)))
	g.retry.searches++
}

// searchAgain wakes gangs and pods whose search for victims is still to be made, or may find some now: no event tells that a queue has come
// above its share. While nothing changes, no search is repeated.
func (v *Victims) searchAgain(now time.Time) {
	v.noteChanges(now)
	if !v.enabled || v.total == nil || v.budget.restIn(now) > 0 {
		return
	}
	most := askedAtOnce
	if v.budget.isScarce(now) {
		most = askedIfScarce
	}
	var shares quota.Shares
	isOwed := func(account string, wants resources.List) bool {
		if shares == nil {
			shares = v.t.Quota.Ledger.ShareOut(v.total, v.t.Quota.waiting())
		}
		return v.t.Quota.Ledger.MayReclaim(shares, account, wants)
	}
	var e gang.Effects
	for _, pod := range v.searches.retryable(v.input.changedAt, now, most, isOwed) {
		e.Add(v.t.WaitList.tryAgain(pod, 0))
	}
	v.t.apply(nil, e)
	asked := 0
	for _, g := range v.t.gangs {
		if g.decision == nil || g.decision.woken || g.attempt != nil || v.searchIn(g, now) != 0 {
			continue
		}
		if !g.retry.searchOwed && !g.retry.searched.mayDiffer(v.input.changedAt, now) {
			continue
		}
		if asked++; asked > most {
			return // the rest is searched for in the next tick: the order is another one each time
		}
		switch {
		case g.retry.searchOwed || g.retry.searched.isDue(now):
			v.t.apply(g, gang.Only(gang.ToWake))
		case v.t.Quota.enforced && g.podGroup.account != "":
			if isOwed(g.podGroup.account, requests(g.Choose())) {
				v.t.apply(g, gang.Only(gang.ToWake))
			} else {
				g.retry.searched.begun = now
				v.pauseSearch(g, now)
			}
		}
	}
}

// Leaving are the pods that are about to be evicted.
func (v *Victims) Leaving() sets.Set[types.UID] {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	leaving := sets.New[types.UID]()
	for uid := range v.claims {
		if v.claimed(uid, "") {
			leaving.Insert(uid)
		}
	}
	for _, g := range v.t.WaitList.seats {
		if g.attempt.seat != nil {
			leaving = leaving.Union(g.attempt.seat.leaving)
		}
	}
	for _, seat := range v.t.WaitList.podSeats {
		leaving = leaving.Union(seat.leaving)
	}
	return leaving
}

// EvictionRules say which pods may be evicted together for a gang, by the shares of queues and by priority.
type EvictionRules struct {
	reclaim  *quota.Reclaim
	claimant Claimant
	queues   bool // quota is enforced, so queues count
	// sparesOutsiders: what is in no queue stays.
	sparesOutsiders bool
}

// Claimant is the gang or pod that pods may be evicted for: a gang, or a pod that stands for itself.
type Claimant struct {
	// Gang that it is, or is a member of; the zero value for none.
	Gang Key
	// Account that it is charged to, "" for none.
	Account string
	// Priority of it.
	Priority int32
	// Wants is what it requests.
	Wants resources.List

	uid       types.UID // of the PodGroup, or of the pod
	who       string    // as messages name it
	ledgerKey string    // under which it assumes quota
	uncounted bool      // it is not among what is known to wait
	surplus   bool      // it is a member beyond the minimum: nothing outside all queues goes for it
}

// Claimant is the gang of the snapshot.
func (s *Snapshot) Claimant() *Claimant {
	return &Claimant{
		Gang: s.Key, Account: s.account, Priority: s.Problem.Priority, Wants: requests(s.Problem.Members),
		who: fmt.Sprintf("PodGroup %s/%s", s.Key.Namespace, s.Key.Name), ledgerKey: s.Key.String(),
	}
}

// Rules are the queues' present rules for a claimant. total is what all nodes have, leaving are pods that go by themselves, or for another
// gang: their charges count as free.
func (v *Victims) Rules(claimant *Claimant, total resources.List, leaving []types.UID) *EvictionRules {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.total = total
	c := *claimant
	if !v.t.Quota.enforced {
		c.Account = ""
	}
	waiting := v.t.Quota.waiting()
	if queue := quota.QueueOf(c.Account); queue != "" && c.uncounted {
		if waiting[queue] == nil {
			waiting[queue] = resources.Sums{}
		}
		waiting[queue].Add(c.Wants)
	}
	shares := v.t.Quota.Ledger.ShareOut(total, waiting)
	reclaim := v.t.Quota.Ledger.Reclaim(c.ledgerKey, shares, c.Account, c.Priority, c.Wants, leaving)
	return &EvictionRules{reclaim, c, v.t.Quota.enforced, v.sparesOutsiders || c.surplus}
}

// Below is the priority below which units of an account may be evicted, where priority counts.
func (r *EvictionRules) Below(account string) int32 {
	if !r.queues || r.claimant.Account == "" || account == "" || quota.QueueOf(account) == quota.QueueOf(r.claimant.Account) {
		return r.claimant.Priority
	}
	return math.MaxInt32
}

// Judged returns a candidate with the rule that allows its eviction, or nil if no rule does.
func (r *EvictionRules) Judged(v *placement.Victim) *placement.Victim {
	v.Rule = r.reclaim.Rule(r.unit(v))
	if v.Rule == quota.NotAllowed || v.Rule == quota.FromOutside && r.sparesOutsiders {
		return nil
	}
	return v
}

// Take notes that a victim is evicted. It refuses one that must not go beside the taken ones. Pods that go by themselves are gone already.
func (r *EvictionRules) Take(v *placement.Victim) bool {
	return v.Rule == quota.NotAllowed || r.reclaim.Take(r.unit(v))
}

// GiveBack undoes Take.
func (r *EvictionRules) GiveBack(v *placement.Victim) {
	if v.Rule != quota.NotAllowed {
		r.reclaim.GiveBack(r.unit(v))
	}
}

// HasQuota says whether the gang has quota without the taken victims.
func (r *EvictionRules) HasQuota() bool { return !r.queues || r.reclaim.Shortage() == nil }

// Excess is how far the queue of a victim is above its share.
func (r *EvictionRules) Excess(v *placement.Victim) quota.Ratio { return r.reclaim.Excess(r.unit(v)) }

// unit is a victim as the queues see it. Where no quota is enforced there are no queues.
func (r *EvictionRules) unit(v *placement.Victim) quota.Unit {
	u := quota.Unit{Account: v.Account, Priority: v.Priority(), Requests: v.Requests, AsksToStay: v.AsksToStay}
	if !r.queues {
		u.Account = ""
	}
	return u
}

// MinRuntime is how long the pods of an account's queue run before they may be evicted.
func (v *Victims) MinRuntime(account string) time.Duration {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.t.Quota.termsOf(account).minRuntime
}
