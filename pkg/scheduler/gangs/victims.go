package gangs

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// claimFor is how long a pod's claim on its victims stands if neither their end nor a failure is seen.
const claimFor = 30 * time.Second

// claim marks a member that a preemptor is about to have evicted.
type claim struct {
	by    types.UID
	of    *group // that it is a member of
	until time.Time
	begun bool // an eviction of the preemptor's may have been carried out
}

// Victims is preemption's view of gangs.
type Victims struct {
	t       *Tracker
	claims  map[types.UID]claim // pods that are about to be evicted
	claimOn map[*group]int      // how many of them are of each gang
	enabled bool                // the GangPreemption plugin is part of a profile
	// sparesOutsiders: nothing that is in no queue is evicted for what is in one.
	sparesOutsiders bool
	total           resources.List // what all nodes have, as last searched; nil before

	searches podSearches
	budget   searchBudget
	input    searchInput
}

// Searched notes how long a search for victims took, and whether it found any.
func (v *Victims) Searched(took time.Duration, found bool) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.budget.spend(took, v.t.clock.Now())
	result := resultNothing
	if found {
		result = resultFound
	}
	v.t.metrics.searches.WithLabelValues(result).Observe(took.Seconds())
}

// Standing is what preemption must know about a gang.
type Standing struct {
	// Spec of the gang.
	Spec gang.Spec
	// Account that the members that hold room are charged to, "" for none.
	Account string
	// Floor is the priority that the PodGroup's class gives to the gang, the lowest there is if it names none. It is at most that of its
	// most important member. No member is worth less.
	Floor int32
	// Holding are copies of the members that hold room, count for the gang, and are no preemptor's victims.
	Holding map[types.UID]*gang.Member
}

// Standing says how a gang stands now. It is false for a gang that needs no care: a gang without a PodGroup has no minimum, and its pods
// are like any single pods.
func (v *Victims) Standing(key Key) (Standing, bool) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	g := v.t.gangs[key]
	if g == nil || !g.podGroup.exists {
		return Standing{}, false
	}
	standing := Standing{Spec: g.Asks(), Account: v.t.Quota.heldBy(g), Floor: math.MinInt32, Holding: map[types.UID]*gang.Member{}}
	if class := v.t.classValue(g.podGroup.class); class != nil {
		standing.Floor = g.Priority(class)
	}
	for _, m := range v.holding(g, "") {
		held := *m
		standing.Holding[m.UID] = &held
	}
	return standing, true
}

// holding are the members that hold room and that no preemptor but the given one is about to have evicted; "" for none.
func (v *Victims) holding(g *group, but types.UID) []*gang.Member {
	var members []*gang.Member
	for _, m := range g.Members() {
		if g.Counts(m) && m.State.Holds() && !v.claimed(m.UID, but) {
			members = append(members, m)
		}
	}
	return members
}

// claimed says whether another preemptor than the given one is about to have a pod evicted.
func (v *Victims) claimed(uid, but types.UID) bool {
	c, ok := v.claims[uid]
	return ok && c.by != but && v.t.clock.Now().Before(c.until)
}

// ClaimVictims notes that pods are about to be evicted for a preemptor. New plans count them as gone. The gate holds pods that would join a
// gang that is evicted whole.
func (v *Victims) ClaimVictims(preemptor types.UID, victims []types.UID) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.claimVictims(preemptor, victims, v.t.clock.Now().Add(claimFor), false)
}

func (v *Victims) claimVictims(preemptor types.UID, victims []types.UID, until time.Time, begun bool) {
	for _, uid := range victims {
		g, m := v.t.find(uid)
		if m == nil || m.Terminating {
			continue
		}
		old, known := v.claims[uid]
		if !known || old.of != g {
			v.countClaim(old.of, -1)
			v.countClaim(g, 1)
		}
		v.claims[uid] = claim{by: preemptor, of: g, until: until, begun: begun || old.by == preemptor && old.begun}
	}
}

// BeginEviction is asked before each eviction of a plan, and says whether the plan may be carried out: no gang may be left between one
// member and its minimum. Once begun, a plan is carried through, as half of it would be worse. With force it is never refused.
func (v *Victims) BeginEviction(preemptor types.UID, victims []types.UID, force bool) bool {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	for _, uid := range victims {
		if c := v.claims[uid]; c.by == preemptor && c.begun {
			return true
		}
	}
	if !force && !v.wholeWithout(preemptor, victims) {
		return false
	}
	v.claimVictims(preemptor, victims, v.t.clock.Now().Add(claimFor), true)
	return true
}

// Evicted counts a pod that was evicted for a reason.
func (v *Victims) Evicted(pod *corev1.Pod, reason string) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.t.metrics.evictions.WithLabelValues(v.t.metrics.queueOf(v.accountOf(pod)), reason).Inc()
}

// accountOf is the account that a pod is charged to, with or without a gang; "" for none.
func (v *Victims) accountOf(pod *corev1.Pod) string {
	if g, _ := v.t.find(pod.UID); g != nil && pod.Spec.NodeName == "" && g.podGroup.account != "" {
		return g.podGroup.account
	}
	return v.t.Quota.AccountOf(pod)
}

// wholeWithout says whether each gang is whole or gone without a preemptor's victims.
func (v *Victims) wholeWithout(preemptor types.UID, victims []types.UID) bool {
	remaining := map[*group]*gang.Remaining{}
	for _, uid := range victims {
		g, m := v.t.find(uid)
		if m == nil || !g.podGroup.exists || !g.Counts(m) || !m.State.Holds() || v.claimed(uid, preemptor) {
			continue
		}
		if remaining[g] == nil {
			remaining[g] = gang.NewRemaining(g.Asks(), v.holding(g, preemptor))
		}
		remaining[g].Remove(m)
	}
	for _, rest := range remaining {
		if !rest.IsWholeOrGone() {
			return false
		}
	}
	return true
}

// DropClaims takes back what a preemptor has claimed: all of it if no pods are named. An eviction has failed, or was not
// needed.
func (v *Victims) DropClaims(preemptor types.UID, victims ...types.UID) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	for uid, c := range v.claims {
		if c.by == preemptor && (len(victims) == 0 || slices.Contains(victims, uid)) {
			v.dropClaim(uid)
		}
	}
}

// dropUnbegun drops the claims of a preemptor whose seat ends. Claims on a gang that has lost members to it already stay: the whole gang
// goes.
func (v *Victims) dropUnbegun(preemptor types.UID) {
	for uid, c := range v.claims {
		if c.by == preemptor && !c.begun {
			v.dropClaim(uid)
		}
	}
}

// sweepClaims drops claims on pods that are gone or going, and claims without an effect.
func (v *Victims) sweepClaims() {
	for uid := range v.claims {
		if _, m := v.t.find(uid); m == nil || m.Terminating || !v.claimed(uid, "") {
			v.dropClaim(uid)
		}
	}
}

// dropClaim lets members come that the gate held because of a claim.
func (v *Victims) dropClaim(uid types.UID) {
	v.countClaim(v.claims[uid].of, -1)
	delete(v.claims, uid)
	g, _ := v.t.find(uid)
	v.t.apply(g, gang.Only(gang.SearchDiffers|gang.ToLook|gang.ToOpen))
}

// countClaim counts the claims on members of a gang; nil for none.
func (v *Victims) countClaim(g *group, n int) {
	if g == nil {
		return
	}
	if v.claimOn[g] += n; v.claimOn[g] == 0 {
		delete(v.claimOn, g)
	}
}

// isPreempted says whether the evictions that are about to be made leave a gang below its minimum. A member that started now would be left
// alone.
func (v *Victims) isPreempted(g *group) bool {
	if v.claimOn[g] == 0 {
		return false // asked for each gang in each tick
	}
	for uid := range v.claims {
		if v.t.members[uid] == g && v.claimed(uid, "") {
			return !gang.NewRemaining(g.Asks(), v.holding(g, "")).Seated()
		}
	}
	return false
}

// HoldsNothingInTheAPI says whether a pod has no node in the API, and will have none: it was rolled back, or its gang's attempt goes on.
// Its room can be taken without an API call, and the rejection of one member rolls the whole gang back.
func (v *Victims) HoldsNothingInTheAPI(uid types.UID) bool {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	g, m := v.t.find(uid)
	if m == nil || m.State == gang.Bound {
		return false
	}
	return !m.State.Holds() || !g.Seated() && m.State == gang.Reserved
}
