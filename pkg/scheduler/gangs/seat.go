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

// seat is room that evictions make for a gang. Its attempt has begun, so that the room is assumed for it; the members come when all pods
// have gone that are in their way.
type seat struct {
	leaving sets.Set[types.UID] // pods that have not gone yet
	until   time.Time           // the attempt is rolled back if they have not gone by then
	within  time.Duration       // after one has gone the next must go
	message string              // what the members wait for
}

// goneWithin is how long after its grace period a pod may take to go until the gang is decided anew. Each pod that goes begins it again: the API
// server may need minutes for thousands of evictions.
const goneWithin = 30 * time.Second

// evict has pods evicted for a gang and begins its attempt. It returns false, and does nothing, if some other gang would be left below its
// minimum as things are now.
func (c *Decisions) evict(g *group, s *Snapshot, d *placement.Decision) bool {
	now := c.t.clock.Now()
	made := &seat{leaving: sets.New[types.UID](), until: now}
	var evictions []repair
	var victims []types.UID
	for _, v := range d.Seat.Victims {
		for _, pod := range v.AllPods() {
			made.leaving.Insert(pod.UID)
			if gone := now.Add(graceOf(pod)); gone.After(made.until) {
				made.until = gone
			}
			if v.Rule != quota.NotAllowed {
				victims = append(victims, pod.UID)
				evictions = append(evictions, evictionFor(g, v, pod))
			}
		}
	}
	made.until, made.message = made.until.Add(goneWithin), fmt.Sprintf("waiting until %d pods have gone that were evicted for the gang", len(victims))
	made.within = made.until.Sub(now)
	if !c.t.Victims.wholeWithout(g.podGroup.uid, victims) {
		return false
	}
	yes := *d
	yes.Feasibility, yes.Places, yes.Order = placement.Possible, d.Seat.Places, d.Seat.Order
	c.begin(g, s, &yes)
	g.attempt.seat, g.attempt.exact = made, true
	g.attempt.deadline = made.until.Add(c.t.settings.args.PermitTimeout.Duration)
	c.t.WaitList.seats[g.key] = g
	c.t.Victims.claimVictims(g.podGroup.uid, victims, made.until, false)
	for _, eviction := range evictions {
		c.t.repairs.Add(eviction)
	}
	c.observeDecision(s, levelNone, resultEvicting)
	c.t.lookAfter(g.key, made.until.Sub(now))
	c.t.Reports.report(g.key)
	return true
}

// evictionFor is the eviction of one of a victim's pods for a gang.
func evictionFor(g *group, v *placement.Victim, pod *corev1.Pod) repair {
	e := repair{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, kind: makeRoom, by: g.key, reason: Preempted}
	e.message = fmt.Sprintf("evicted to make room for PodGroup %s/%s, whose priority is higher", g.key.Namespace, g.key.Name)
	if v.Rule == quota.ByShare {
		e.reason = Reclaimed
		e.message = reclaimedFor(fmt.Sprintf("PodGroup %s/%s", g.key.Namespace, g.key.Name), v.Account, g.podGroup.account)
	}
	return e
}

// reclaimedFor says on a pod of one account why it is evicted for a gang or a pod of another.
func reclaimedFor(who, victim, claimant string) string {
	return fmt.Sprintf("evicted to make room for %s: queue %q is above its share, and queue %q is below its own", who, quota.QueueOf(victim), quota.QueueOf(claimant))
}

// graceOf is how long a pod may take to end.
func graceOf(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = *own
	}
	return time.Duration(seconds) * time.Second
}

// gone notes that a pod has left its node. The last one that was in the way of a gang, on nodes or in its queue, has its members come.
func (w *WaitList) gone(pod types.UID) {
	for _, g := range w.seats {
		if made := g.attempt.seat; made != nil && (made.leaving.Len() == 0 || made.leaving.Has(pod)) {
			made.leaving.Delete(pod)
			w.extendSeat(g)
			w.settleSeat(g)
		}
	}
}

// extendSeat gives the pods that have not gone yet more time.
func (w *WaitList) extendSeat(g *group) {
	made, now := g.attempt.seat, w.t.clock.Now()
	if now.Add(made.within).Sub(made.until) < made.within/2 {
		return // not for each of thousands
	}
	made.until = now.Add(made.within)
	g.attempt.deadline = made.until.Add(w.t.settings.args.PermitTimeout.Duration)
	for uid, c := range w.t.Victims.claims {
		if c.by == g.podGroup.uid {
			c.until = made.until
			w.t.Victims.claims[uid] = c
		}
	}
	w.t.lookAfter(g.key, made.within)
}

// beginEviction is asked before a pod is evicted for a gang, and says whether it still should be. Of a gang that loses a member it needs all
// that were to go with it must go, too, whatever becomes of the seat.
func (w *WaitList) beginEviction(by Key, pod types.UID) bool {
	g := w.t.gangs[by]
	if g == nil {
		return false
	}
	stands := w.seats[by] != nil && g.attempt.seat != nil && g.attempt.seat.leaving.Has(pod)
	claims := w.t.Victims.claims
	if own := claims[pod]; own.by != g.podGroup.uid || !stands && !own.begun {
		return stands
	}
	for uid, c := range claims {
		if c.by == g.podGroup.uid && w.t.members[uid] == w.t.members[pod] {
			c.begun = true
			claims[uid] = c
		}
	}
	return true
}

// settleSeat has the members of a gang come if no pod is in their way any more, and ends its attempt if that has taken too long. The quota may
// be that of a pod that goes for another gang.
func (w *WaitList) settleSeat(g *group) {
	made, now := g.attempt.seat, w.t.clock.Now()
	switch {
	case made == nil:
	case !now.Before(made.until):
		w.t.rollBack(g, noUID)
	case made.leaving.Len() == 0 && !w.lacksQuota(g):
		g.attempt.seat, g.attempt.patientUntil = nil, now.Add(seatPatience)
		g.attempt.deadline = now.Add(w.t.settings.args.PermitTimeout.Duration)
		w.t.look(g.key)
	}
}

func (w *WaitList) lacksQuota(g *group) bool {
	return w.t.Quota.enforced && g.podGroup.account != "" && w.t.Quota.quotaFor(g, g.attempt.quota) != nil
}

// endSeat gives up a gang's seat when its attempt ends, and its claims. Claims on a gang that has lost members to it already stay: that gang
// goes whole.
func (w *WaitList) endSeat(g *group) {
	if w.seats[g.key] == nil {
		return
	}
	delete(w.seats, g.key)
	w.held.freed++
	if len(w.held.pods) > 0 {
		w.t.look(heldBackKey)
	}
	for uid, c := range w.t.Victims.claims {
		if c.by == g.podGroup.uid && !c.begun {
			w.t.Victims.dropClaim(uid)
		}
	}
}

// seatsAgainst is the room on each node that evictions make for other gangs than the given one, and for other pods; nil if there is none. Only
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

// WaitForSeat says whether a pod must have no other evicted on a node, because room is being made there for another gang: nominated to the
// node, the pod would keep the gang's members out until its own victims have gone. It is activated when the gang has its room.
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
	// firstSearchPause is how long after a search for victims in vain the next is made; the pause doubles up to longestSearchPause. A queue
	// may come above its share without any event that helps a waiting gang.
	firstSearchPause   = time.Second
	longestSearchPause = 30 * time.Second
	// askedAtOnce is for how many gangs a tick asks whether a search may find victims: thousands may wait.
	askedAtOnce = 200
)

// EvictPods lets gangs and pods have others evicted. The GangPreemption plugin calls it.
func (v *Victims) EvictPods() {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.enabled = true
}

// searchIn is when victims may be searched for a gang: 0 for now, never if that is negative.
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
	return max(0, wait)
}

// searched notes that victims were searched in vain for a gang that was refused, or that the search is owed to it.
func (v *Victims) searched(g *group, s *Snapshot, now time.Time) {
	g.retry.searchOwed = !s.MayEvict
	if s.MayEvict {
		v.pauseSearch(g, now)
	}
}

func (v *Victims) pauseSearch(g *group, now time.Time) {
	g.retry.searchAt = now.Add(min(longestSearchPause, firstSearchPause<<min(g.retry.searches, 10)))
	g.retry.searches++
}

// searchAgain wakes the gangs for which a search for victims is owed, or may find some now: no event tells that a queue has come above its
// share.
func (v *Victims) searchAgain(now time.Time) {
	if !v.enabled || v.total == nil {
		return
	}
	var shares quota.Shares
	asked := 0
	for _, g := range v.t.gangs {
		if g.decision == nil || g.decision.woken || g.attempt != nil || v.searchIn(g, now) != 0 {
			continue
		}
		if asked++; asked > askedAtOnce {
			return // the others have their turn in the next tick: the order is another one each time
		}
		switch {
		case g.retry.searchOwed:
			v.t.wake(g)
		case v.t.Quota.enforced && g.podGroup.account != "":
			if shares == nil {
				shares = v.t.Quota.Ledger.ShareOut(v.total, v.t.Quota.waiting())
			}
			if v.t.Quota.Ledger.MayReclaim(shares, g.podGroup.account, requests(g.Choose())) {
				v.t.wake(g)
			} else {
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
	return leaving
}

// EvictionRules say which pods may be evicted together for a gang, by the shares of queues and by priority.
type EvictionRules struct {
	reclaim  *quota.Reclaim
	claimant Claimant
	queues   bool // quota is enforced, so queues count
}

// Claimant is for whom pods may be evicted: a gang, or a pod that stands for itself.
type Claimant struct {
	// Key of the gang, or something else that no gang has.
	Key string
	// Account that it is charged to, "" for none.
	Account string
	// Priority of it.
	Priority int32
	// Wants is what it requests.
	Wants resources.List

	uncounted bool // it is not among what is known to wait
}

// Claimant is the gang of the snapshot.
func (s *Snapshot) Claimant() Claimant {
	return Claimant{Key: s.Key.String(), Account: s.account, Priority: s.Problem.Priority, Wants: requests(s.Problem.Members)}
}

// ClaimantOf is a pod that stands for itself: one without a gang, or surplus.
func (v *Victims) ClaimantOf(pod *corev1.Pod) Claimant {
	c := Claimant{Key: string(pod.UID), Account: v.t.Quota.Groups.AccountOf(pod), Priority: corev1helpers.PodPriority(pod), Wants: resources.PodRequests(pod)}
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if g, _ := v.t.find(pod.UID); g != nil {
		c.Account = g.podGroup.account
	} else if _, waits := v.t.Quota.pods[pod.UID]; !waits {
		c.uncounted = true
	}
	return c
}

// Rules are those for a claimant as the queues are now. total is what all nodes have, leaving are pods that go by themselves, or for another
// gang: what they are charged counts as free.
func (v *Victims) Rules(c Claimant, total resources.List, leaving []types.UID) *EvictionRules {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.total = total
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
	return &EvictionRules{v.t.Quota.Ledger.Reclaim(c.Key, shares, c.Account, c.Priority, c.Wants, leaving), c, v.t.Quota.enforced}
}

// Below is the priority below which units of an account may go, as far as priority counts.
func (r *EvictionRules) Below(account string) int32 {
	if !r.queues || r.claimant.Account == "" || account == "" || quota.QueueOf(account) == quota.QueueOf(r.claimant.Account) {
		return r.claimant.Priority
	}
	return math.MaxInt32
}

// Judged returns a candidate with the rule by which it may go if nothing else does, nil if there is none.
func (r *EvictionRules) Judged(v *placement.Victim) *placement.Victim {
	if v.Rule = r.reclaim.Rule(r.unit(v)); v.Rule == quota.NotAllowed {
		return nil
	}
	return v
}

// Take notes that a victim goes, unless it must not go beside those that were taken before. Pods that go by themselves are gone already.
func (r *EvictionRules) Take(v *placement.Victim) bool {
	return v.Rule == quota.NotAllowed || r.reclaim.Take(r.unit(v))
}

// GiveBack undoes Take.
func (r *EvictionRules) GiveBack(v *placement.Victim) {
	if v.Rule != quota.NotAllowed {
		r.reclaim.GiveBack(r.unit(v))
	}
}

// HasQuota says whether the gang has quota when those are gone that were taken.
func (r *EvictionRules) HasQuota() bool { return !r.queues || r.reclaim.Shortage() == nil }

// Excess is how far the queue of a victim is above its share.
func (r *EvictionRules) Excess(v *placement.Victim) quota.Ratio { return r.reclaim.Excess(r.unit(v)) }

// unit is a victim as the queues see it. Where no quota is enforced there are no queues.
func (r *EvictionRules) unit(v *placement.Victim) quota.Unit {
	u := quota.Unit{Account: v.Account, Priority: v.Priority(), Requests: v.Requests}
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
