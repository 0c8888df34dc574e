// Package evict makes room for gangs and single pods. It says when victims are searched for, and by which rule a pod may be evicted. It keeps
// the claims on victims and the seats that evictions make, and it has the writes. Package eviction finds the candidates.
package evict

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// ClaimFor is how long a pod's claim on its victims stands if neither their end nor a failure is seen.
const ClaimFor = 30 * time.Second

// Victims is preemption's view of gangs.
type Victims struct {
	t *state.State
	// Quota of the queues.
	Quota     *state.Quota
	waits     *state.WaitList
	claims    *state.Claims
	Evictions *Evictions
	leads     *state.Leadership
	Repairs   workqueue.TypedRateLimitingInterface[Repair] // writes that are due

	Enabled bool // the GangPreemption plugin is part of a profile
	// sparesOutsiders: nothing that is in no queue is evicted for what is in one.
	sparesOutsiders bool
	Total           resources.List // what all nodes have, as last searched; nil before
	Searches        podSearches
	budget          SearchBudget
	noted           int64     // how much that searches depend on had changed at the last tick
	changedAt       time.Time // when a tick noted the last change
}

// New makes the view on a state.
func New(t *state.State, q *state.Quota, w *state.WaitList, l *state.Leadership) *Victims {
	return &Victims{t: t, Quota: q, waits: w, claims: t.Claims, Evictions: &Evictions{clock: t.Clock, wasted: t.Metrics.Wasted, Made: map[types.UID]eviction{}}, leads: l, Repairs: NewRepairQueue(),
		Searches: podSearches{Backoffs: map[similarPods]*searchBackoff{}, Of: map[types.UID]*searchBackoff{}}}
}

// Searched notes how long a search for victims took, and whether it found any.
func (v *Victims) Searched(took time.Duration, found bool) {
	v.t.Lock()
	defer v.t.Unlock()
	v.budget.Spend(took, v.t.Clock.Now())
	result := gangmetrics.ResultNothing
	if found {
		result = gangmetrics.ResultFound
	}
	v.t.Metrics.Searches.WithLabelValues(result).Observe(took.Seconds())
}

// Standing is a gang as it stands now, with copies of its members. It is nil for a gang that needs no care. A gang without a PodGroup has no
// minimum, and its pods are like any single pods. The caller adds the pods of its snapshot.
func (v *Victims) Standing(key state.Key) *placement.GangVictims {
	v.t.Lock()
	defer v.t.Unlock()
	g := v.t.Gangs[key]
	if g == nil || !g.PodGroup.Exists {
		return nil
	}
	holding := v.claims.Holding(g, "")
	standing := &placement.GangVictims{
		Key: key.String(), Account: v.Quota.HeldBy(g), Floor: math.MinInt32, Holding: map[types.UID]*gang.Member{},
		Spare: gang.NewRemaining(g.Asks(), holding).Spare,
	}
	if class := v.t.ClassValue(g.PodGroup.Class); class != nil {
		standing.Floor = g.Priority(class)
	}
	for _, m := range holding {
		held := *m
		standing.Holding[m.UID] = &held
	}
	return standing
}

// NoneIsManaged says whether there are no gangs and no queues at all. Then upstream knows all that decides about a victim.
func (v *Victims) NoneIsManaged() bool {
	v.t.Lock()
	defer v.t.Unlock()
	return len(v.t.Gangs)+len(v.Quota.Queues) == 0
}

// ClaimVictims notes that pods are about to be evicted for a preemptor. New plans count them as gone. The gate holds pods that would join a
// gang that is evicted whole.
func (v *Victims) ClaimVictims(preemptor types.UID, victims []types.UID) {
	v.t.Lock()
	defer v.t.Unlock()
	v.Claim(preemptor, victims, v.t.Clock.Now().Add(ClaimFor), false)
}

// Claim is ClaimVictims under the lock, with its end. begun says that an eviction may have been carried out.
func (v *Victims) Claim(preemptor types.UID, victims []types.UID, until time.Time, begun bool) {
	for _, uid := range victims {
		g, m := v.t.Find(uid)
		old := v.claims.Of[uid]
		if m == nil || m.Terminating || old.Begun && v.claims.Claimed(uid, preemptor) {
			continue // it goes already, and must count as gone even if this preemptor gives its claims up
		}
		if old.Of != g {
			v.claims.CountClaim(old.Of, -1)
			v.claims.CountClaim(g, 1)
		}
		v.claims.Of[uid] = state.Claim{By: preemptor, Of: g, Until: until, Begun: begun || old.By == preemptor && old.Begun, Made: old.Made}
	}
}

// BeginEviction is asked before each eviction of a plan, and says whether it may be made. No gang may be left between one member and its
// minimum. A plan that has begun is carried through, as half of it would be worse. So other gangs are not checked again. A preemptor may have
// several plans at once. Upstream tries it again when the last victim of one is seen to go. So a victim whose eviction was made may be of an
// earlier plan, and says nothing about this one. With force no eviction is refused.
func (v *Victims) BeginEviction(preemptor, victim types.UID, plan []types.UID, force bool) bool {
	v.t.Lock()
	defer v.t.Unlock()
	g, checked := v.t.Members[victim], plan
	hasBegun := slices.ContainsFunc(plan, func(uid types.UID) bool {
		return v.claims.Of[uid].Begun && !v.claims.Of[uid].Made && v.claims.Of[uid].By == preemptor
	})
	if hasBegun {
		checked = slices.DeleteFunc(slices.Clone(plan), func(uid types.UID) bool { return v.t.Members[uid] != g })
	}
	if !force && !v.WholeWithout(preemptor, checked) {
		return false
	}
	isNew := force && g != nil && !hasBegun // not all plans that are forced were claimed
	v.Claim(preemptor, slices.DeleteFunc(slices.Clone(plan), func(uid types.UID) bool {
		return uid != victim && v.claims.Of[uid].By != preemptor && !isNew // it was given back, is of no gang, or another's
	}), v.t.Clock.Now().Add(ClaimFor), true)
	v.claims.Make(victim)
	return true
}

// Evicted counts a pod that was evicted for a reason. It holds no more room, although the informer may show that later.
func (v *Victims) Evicted(pod *corev1.Pod, reason string) {
	v.t.Lock()
	defer v.t.Unlock()
	v.claims.Make(pod.UID)
	v.t.Metrics.Evictions.WithLabelValues(v.t.Metrics.QueueOf(v.Quota.AccountOfPod(pod)), reason).Inc()
}

// WholeWithout says whether each gang is whole or gone without a preemptor's victims. A gang is not gone if another preemptor may still give one
// of its members up.
func (v *Victims) WholeWithout(preemptor types.UID, victims []types.UID) bool {
	remaining := map[*gang.Group]*gang.Remaining{}
	for _, uid := range victims {
		g, m := v.t.Find(uid)
		if m == nil || !g.PodGroup.Exists || !g.Counts(m) || !m.State.Holds() || v.claims.Claimed(uid, preemptor) {
			continue
		}
		if remaining[g] == nil {
			remaining[g] = gang.NewRemaining(g.Asks(), v.claims.Holding(g, preemptor))
		}
		remaining[g].Remove(m)
	}
	for g, rest := range remaining {
		if !rest.IsWholeOrGone() || !rest.Seated() && v.claims.MayStay(g, preemptor) {
			return false
		}
	}
	return true
}

// DropClaims takes back what a preemptor has claimed. An eviction has failed, or was not needed. If no pods are named it is all but what is
// being evicted or was. Such a pod counts as gone until the informer shows it, as otherwise another member would go in its place.
func (v *Victims) DropClaims(preemptor types.UID, victims ...types.UID) {
	v.t.Lock()
	defer v.t.Unlock()
	for uid, c := range v.claims.Of {
		if c.By == preemptor && (len(victims) == 0 && !c.Made || slices.Contains(victims, uid)) {
			v.t.DropClaim(uid)
		}
	}
}

// HoldsNothingInTheAPI says whether a pod has no node in the API, and will have none. It was rolled back, or its gang's attempt goes on.
// Its room can be taken without an API call, and the rejection of one member rolls the whole gang back.
func (v *Victims) HoldsNothingInTheAPI(uid types.UID) bool {
	v.t.Lock()
	defer v.t.Unlock()
	g, m := v.t.Find(uid)
	return m != nil && m.State != gang.Bound && (!m.State.Holds() || !g.Seated() && m.State == gang.Reserved)
}

// noteChanges compares the counts with those of the last tick.
func (v *Victims) noteChanges(now time.Time) {
	if changes := v.t.Changes + v.Quota.Ledger.Changes(); changes != v.noted {
		v.noted, v.changedAt = changes, now
	}
}

// Overused lists the accounts whose pods, without the leaving ones, use more than their limit. It lists none where no quota is enforced, or
// nothing may be evicted, as in a standby.
func (v *Victims) Overused(leaving []types.UID) []quota.Overuse {
	v.t.Lock()
	defer v.t.Unlock()
	if !v.Enabled || !v.Quota.Enforced || !v.leads.Leads() {
		return nil
	}
	return v.Quota.Ledger.Overused(leaving)
}

// AboveCapability chooses which units to evict until an account uses no more than it may without the pods that leave.
func (v *Victims) AboveCapability(account string, units []quota.Unit, leaving []types.UID) []int {
	v.t.Lock()
	defer v.t.Unlock()
	return v.Quota.Ledger.AboveCapability(account, v.Quota.Waiting(), units, leaving)
}

// EvictFor has pods evicted because an account uses more than it may. It does nothing if some gang would be left below its minimum. The API
// server may refuse an eviction for a disruption budget.
func (v *Victims) EvictFor(overuse quota.Overuse, pods []*corev1.Pod) {
	v.t.Lock()
	defer v.t.Unlock()
	by, grace := types.UID("capability of "+overuse.Account), time.Duration(0)
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
		grace = max(grace, min(gang.GraceOf(pod), gang.LongestGrace))
	}
	if !v.WholeWithout(by, uids) {
		return
	}
	v.Claim(by, uids, v.t.Clock.Now().Add(grace+GoneWithin), true)
	for _, pod := range pods {
		v.Repairs.Add(Repair{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Kind: LowerUsage,
			Reason: gangmetrics.AboveCapability, Message: "evicted because " + overuse.Error(),
		})
	}
}

// Lowers says whether a pod is still to be evicted because its account uses more than it may. Pods without a gang have no claims, nor have
// pods that are being deleted.
func (v *Victims) Lowers(pod types.UID) bool {
	_, m := v.t.Find(pod)
	return m == nil || m.Terminating || v.claims.Claimed(pod, state.NoUID)
}
