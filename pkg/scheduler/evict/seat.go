package evict

import (
	"fmt"
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
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// GoneWithin is added to the grace periods. If a pod is still there then, the gang is decided anew. Each pod that goes starts the time
// again: the API server may need minutes for thousands of evictions.
const GoneWithin = 30 * time.Second

// MakeSeat has pods evicted for a claimant, which is a gang or a pod. It returns the seat that this makes, and the victims. The seat does not wait
// for pods that have gone since the search. It returns nil, and evicts nothing, if some gang would be left below its minimum.
func (v *Victims) MakeSeat(found *placement.Seat, c *Claimant, kind string, now time.Time) (made *gang.Seat, victims []*corev1.Pod) {
	made = &gang.Seat{Leaving: sets.New[types.UID]()}
	var uids []types.UID
	var evictions []Repair
	for _, victim := range found.Victims {
		for _, pod := range victim.AllPods() {
			if v.t.Known(pod) == nil {
				continue
			}
			made.Leaving.Insert(pod.UID)
			grace := gang.GraceOf(pod)
			if victim.Rule == quota.ByShare {
				grace = min(grace, gang.LongestGrace)
			}
			made.Within = max(made.Within, grace)
			if victim.Rule != quota.NotAllowed {
				victims, uids, evictions = append(victims, pod), append(uids, pod.UID), append(evictions, evictionFor(c, victim, pod))
			}
		}
	}
	if !v.WholeWithout(c.UID, uids) {
		return nil, nil
	}
	made.Within += GoneWithin
	made.Until, made.Message = now.Add(made.Within), waitingFor(len(victims), kind)
	v.Claim(c.UID, uids, made.Until, false)
	for _, eviction := range evictions {
		v.Repairs.Add(eviction)
	}
	return made, victims
}

// waitingFor says what a gang or a pod waits for.
func waitingFor(victims int, who string) string {
	if victims == 1 {
		return "waiting until 1 pod has gone that was evicted for the " + who
	}
	return fmt.Sprintf("waiting until %d pods have gone that were evicted for the %s", victims, who)
}

// extend gives the pods that have not gone yet more time, unless it has done so a moment ago. Thousands may go at once.
func (v *Victims) extend(made *gang.Seat, by types.UID) bool {
	now := v.t.Clock.Now()
	if now.Add(made.Within).Sub(made.Until) < made.Within/2 {
		return false
	}
	made.Until = now.Add(made.Within)
	for uid, c := range v.claims.Of {
		if c.By == by {
			c.Until = made.Until
			v.claims.Of[uid] = c
		}
	}
	return true
}

// BeginOne says whether a pod still should be evicted for a gang or a pod. It is asked before the eviction. Once one member of a gang
// is evicted, its other members in the plan must go, even without the plan.
func (v *Victims) BeginOne(by, pod types.UID) bool {
	stands, claims := v.waits.LeavingFor(by).Has(pod), v.claims.Of
	if own := claims[pod]; own.By != by || !stands && !own.Begun {
		return stands
	}
	for uid, c := range claims {
		if c.By == by && v.t.Members[uid] == v.t.Members[pod] {
			c.Begun = true
			claims[uid] = c
		}
	}
	return true
}

// SettleSeat activates the members of a gang when all victims have gone. It ends the attempt if that has taken too long. The quota may be
// freed by a victim of another gang.
func (v *Victims) SettleSeat(g *gang.Group) (e gang.Effects) {
	made, now := g.Attempt.Seat, v.t.Clock.Now()
	switch {
	case !g.Attempt.Evicts():
	case !now.Before(made.Until):
		return v.t.RollBack(g, state.NoUID)
	case made.Leaving.Len() == 0 && !v.lacksQuota(g):
		made.RetryUntil = now.Add(CacheLag)
		g.Attempt.Deadline = now.Add(v.t.Settings.Args.PermitTimeout.Duration)
		return gang.Only(gang.ToLook)
	}
	return e
}

func (v *Victims) lacksQuota(g *gang.Group) bool {
	return v.Quota.Enforced && g.PodGroup.Account != "" && v.Quota.QuotaFor(g, g.Attempt.Quota) != nil
}

// WaitForSeat says whether a pod must not preempt on a node, because room is being made there for another gang. If it were nominated to the
// node, it would keep the gang's members out until its own victims have gone. It is activated when the gang has its room.
func (v *Victims) WaitForSeat(pod *corev1.Pod, node string) bool {
	v.t.Lock()
	defer v.t.Unlock()
	own, _ := v.t.Find(pod.UID)
	priority := corev1helpers.PodPriority(pod)
	for _, g := range v.t.Attempting {
		_, there := g.Attempt.Assumed[node]
		if there && g.Attempt.Seat != nil && g != own && v.t.PriorityOf(g) <= priority && !upstream.IsCritical(priority) {
			v.waits.Held.Pods[pod.UID] = pod
			return true
		}
	}
	return false
}

// EvictPods allows evictions for gangs and pods. The GangPreemption plugin calls it.
func (v *Victims) EvictPods() {
	v.t.Lock()
	defer v.t.Unlock()
	v.Enabled = true
}

// SpareOutsiders has nothing evicted that is in no queue, for what is in one. The GangPreemption plugin of one profile says so for all.
func (v *Victims) SpareOutsiders() {
	v.t.Lock()
	defer v.t.Unlock()
	v.sparesOutsiders = true
}

// SearchIn is when victims may be searched for a gang: 0 for now, negative for never.
func (v *Victims) SearchIn(g *gang.Group, now time.Time) time.Duration {
	if !v.Enabled || slices.ContainsFunc(g.Members(), func(m *gang.Member) bool { return gang.NeverPreempts(m.Pod) }) {
		return -1
	}
	wait := g.Retry.Search.At.Sub(now)
	if delay := v.Quota.TermsOf(g.PodGroup.Account).PreemptionDelay; delay > 0 {
		since := v.waits.Book.WaitsSince(g.Key)
		if since.IsZero() {
			since = now
		}
		wait = max(wait, since.Add(delay).Sub(now))
	}
	return max(0, wait, v.budget.RestIn(now))
}

// SearchAgain wakes gangs and pods whose search for victims is still to be made, or may find some now. No event tells that a queue has come
// above its share. While nothing changes, no search is repeated.
func (v *Victims) SearchAgain(now time.Time) {
	v.noteChanges(now)
	if !v.Enabled || v.Total == nil || v.budget.RestIn(now) > 0 {
		return
	}
	most := AskedAtOnce
	if v.budget.isScarce(now) {
		most = askedIfScarce
	}
	var shares quota.Shares
	mayReclaim := func(account string, wants resources.List) bool {
		if shares == nil {
			shares = v.Quota.Ledger.ShareOut(v.Total, v.Quota.Waiting())
		}
		return v.Quota.Ledger.MayReclaim(shares, account, wants)
	}
	var e gang.Effects
	for _, pod := range v.Searches.retryable(v.changedAt, now, most, mayReclaim) {
		e.Add(v.t.TryAgain(pod, 0))
	}
	v.t.Apply(nil, e)
	asked := 0
	for _, g := range v.t.Gangs {
		search := &g.Retry.Search
		if g.Refusal == nil || g.Refusal.Woken || g.Attempt != nil || !search.MayDiffer(v.changedAt, now) {
			continue
		}
		if v.SearchIn(g, now) != 0 { // which looks at all members
			continue
		}
		if asked++; asked > most {
			return // the rest is searched for in the next tick: the order is another one each time
		}
		switch {
		case search.IsDue(now):
			v.t.Apply(g, gang.Only(gang.ToWake))
		case !v.Quota.Enforced || g.PodGroup.Account == "":
		case mayReclaim(g.PodGroup.Account, gang.Requests(g.Choose())):
			v.t.Apply(g, gang.Only(gang.ToWake))
		default:
			search.Failed(now, search.Again, now)
		}
	}
}

// Leaving are the pods that are about to be evicted.
func (v *Victims) Leaving() sets.Set[types.UID] {
	v.t.Lock()
	defer v.t.Unlock()
	leaving := sets.New[types.UID]()
	for uid := range v.claims.Of {
		if v.claims.Claimed(uid, "") {
			leaving.Insert(uid)
		}
	}
	for _, g := range v.t.Attempting {
		if g.Attempt.Seat != nil {
			leaving = leaving.Union(g.Attempt.Seat.Leaving)
		}
	}
	for _, seat := range v.waits.PodSeats {
		leaving = leaving.Union(seat.Leaving)
	}
	return leaving
}

// Rules are the queues' present rules for a claimant. total is what all nodes have. leaving are pods that go by themselves, or for another
// gang. Their charges count as free.
func (v *Victims) Rules(claimant *Claimant, total resources.List, leaving []types.UID) *EvictionRules {
	v.t.Lock()
	defer v.t.Unlock()
	v.Total = total
	c := *claimant
	if !v.Quota.Enforced {
		c.Account = ""
	}
	waiting := v.Quota.Waiting()
	if queue := quota.QueueOf(c.Account); queue != "" && c.uncounted {
		resources.AddTo(waiting, queue, c.Wants)
	}
	shares := v.Quota.Ledger.ShareOut(total, waiting)
	reclaim := v.Quota.Ledger.Reclaim(c.LedgerKey, shares, c.Account, c.Priority, c.Wants, leaving)
	return &EvictionRules{reclaim, c, v.sparesOutsiders || c.surplus}
}

// MinRuntime is how long the pods of an account's queue run before they may be evicted.
func (v *Victims) MinRuntime(account string) time.Duration {
	v.t.Lock()
	defer v.t.Unlock()
	return v.Quota.TermsOf(account).MinRuntime
}

const (
	// CacheLag is how long the scheduler's cache may take to learn that the gang's victims have gone.
	CacheLag = time.Second
	// TooEarlyPause is the pause before a member that came too early is tried again.
	TooEarlyPause = 10 * time.Millisecond
)
