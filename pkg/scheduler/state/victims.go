package state

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// beingPreempted is what the gate says to the members of a gang that is being evicted: a member that started now would be
// left alone.
const beingPreempted = "the gang is being preempted"

// claimFor is how long a claim on a victim stands when neither its end nor its failure is seen.
const claimFor = 30 * time.Second

// claim marks a member that a preemptor is about to have evicted.
type claim struct {
	by    types.UID
	since time.Time
	begun bool // an eviction of the preemptor's may have been carried out
}

// Standing is what preemption must know about a gang.
type Standing struct {
	// Spec of the gang.
	Spec gang.Spec
	// Floor is the priority that the PodGroup's class gives to the gang, the lowest there is if it names none. No member is
	// worth less.
	Floor int32
	// Holding are copies of the members that hold room, count for the gang, and are on nobody's list of victims.
	Holding map[types.UID]*gang.Member
}

// GangOf says which gang a pod names; false for a pod without one.
func GangOf(pod *corev1.Pod) (Key, bool) { return groupOf(pod) }

// Standing says how a gang stands now. It is false for a gang that needs no care: one without a PodGroup has no minimum, and
// its pods are like any others.
func (s *Store) Standing(key Key) (Standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[key]
	if g == nil || !g.known {
		return Standing{}, false
	}
	standing := Standing{Spec: g.Asks(), Floor: math.MinInt32, Holding: map[types.UID]*gang.Member{}}
	if value, ok := s.classValue(g.class); ok {
		standing.Floor = value
	}
	for _, m := range s.holding(g, "") {
		held := *m
		standing.Holding[m.UID] = &held
	}
	return standing, true
}

// holding are the members that hold room and are not about to be evicted for anyone but the given preemptor, "" for nobody.
func (s *Store) holding(g *group, but types.UID) []*gang.Member {
	var members []*gang.Member
	for _, m := range g.Members() {
		if g.Counts(m) && m.State != gang.Waiting && !s.claimed(m.UID, but) {
			members = append(members, m)
		}
	}
	return members
}

// claimed says whether someone else than the given preemptor is about to have a pod evicted.
func (s *Store) claimed(uid, but types.UID) bool {
	c, ok := s.claims[uid]
	return ok && c.by != but && s.clock.Since(c.since) < claimFor
}

// ClaimVictims puts pods on the list of those that are about to be evicted for a preemptor. Plans that are made from now on
// count them as gone, and the gate holds what would join a gang that goes whole.
func (s *Store) ClaimVictims(preemptor types.UID, victims []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimVictims(preemptor, victims, false)
}

func (s *Store) claimVictims(preemptor types.UID, victims []types.UID, begun bool) {
	for _, uid := range victims {
		if _, m := s.find(uid); m == nil || m.Terminating {
			continue
		}
		old := s.claims[uid]
		s.claims[uid] = claim{by: preemptor, since: s.clock.Now(), begun: begun || old.by == preemptor && old.begun}
	}
}

// BeginEviction is asked before each eviction of a plan, and says whether the plan may be carried out: no gang may be left
// between one member and its minimum, as things are now. Once begun, a plan is carried through, as half of it would be
// worse. With force it is never refused.
func (s *Store) BeginEviction(preemptor types.UID, victims []types.UID, force bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range victims {
		if c := s.claims[uid]; c.by == preemptor && c.begun {
			return true
		}
	}
	if !force && !s.atRestWithout(preemptor, victims) {
		return false
	}
	s.claimVictims(preemptor, victims, true)
	return true
}

// atRestWithout says whether each gang is whole or gone when a preemptor's victims are.
func (s *Store) atRestWithout(preemptor types.UID, victims []types.UID) bool {
	rolls := map[*group]*gang.Roll{}
	for _, uid := range victims {
		g, m := s.find(uid)
		if m == nil || !g.known || !g.Counts(m) || m.State == gang.Waiting || s.claimed(uid, preemptor) {
			continue
		}
		if rolls[g] == nil {
			rolls[g] = gang.Call(g.Asks(), s.holding(g, preemptor))
		}
		rolls[g].Strike(m)
	}
	for _, roll := range rolls {
		if !roll.AtRest() {
			return false
		}
	}
	return true
}

// DropClaims takes back what a preemptor has claimed: all of it if no pods are named. An eviction has failed, or was not
// needed.
func (s *Store) DropClaims(preemptor types.UID, victims ...types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, c := range s.claims {
		if c.by == preemptor && (len(victims) == 0 || slices.Contains(victims, uid)) {
			s.dropClaim(uid)
		}
	}
}

// sweepClaims forgets claims on pods that are gone or going, and those of which nothing has come.
func (s *Store) sweepClaims() {
	for uid := range s.claims {
		if _, m := s.find(uid); m == nil || m.Terminating || !s.claimed(uid, "") {
			s.dropClaim(uid)
		}
	}
}

// dropClaim lets members come that were held at the gate on account of a claim.
func (s *Store) dropClaim(uid types.UID) {
	delete(s.claims, uid)
	if g, _ := s.find(uid); g != nil {
		g.wasSeated = false // so that the waker calls the surplus anew
		s.waker.Add(g.key)
	}
}

// beingEvicted says whether so many members of a gang are about to be evicted that the rest is not seated.
func (s *Store) beingEvicted(g *group) bool {
	if len(s.claims) == 0 {
		return false
	}
	for uid := range s.claims {
		if s.podGang[uid] == g && s.claimed(uid, "") {
			return !gang.Call(g.Asks(), s.holding(g, "")).Seated()
		}
	}
	return false
}

// HoldsNothingInTheAPI says whether a pod has no node in the API, and will have none: it was let go, or is part of a gang that
// is still gathering. To take its room no API call is needed, and one member taken back takes the whole round back.
func (s *Store) HoldsNothingInTheAPI(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(uid)
	if m == nil || m.State == gang.Bound {
		return false
	}
	return m.State == gang.Waiting || !g.Seated() && !g.allowed.Has(uid)
}
