package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Victim is a set of pods that are evicted or kept together.
type Victim struct {
	preemption.Victim
	// Kind of the victim.
	Kind gang.UnitKind
	// Gang is the key of the gang that the pods are of; "" for a SinglePod.
	Gang string
	// Account that the pods are charged to, what they request in all, and since when they run.
	Account  string
	Requests resources.List
	Since    time.Time
	// Rule by which the pods may be evicted; NotAllowed if they are about to go without an eviction.
	Rule quota.Rule
	// AsksToStay: one of the pods says itself that it must not be evicted. The rule knows when that counts.
	AsksToStay bool
	// OnlyOn is the only node that the victim is evicted for; "" for any.
	OnlyOn string
	// class is the rank that RankForRoom gave to all victims that it found equal but for their run time.
	class int
	// Unseen are pods of a WholeGang that are not in the scheduler's snapshot. They are evicted with it.
	Unseen []*corev1.Pod
	// Violations is the number of pods whose eviction would violate a disruption budget.
	Violations int
	// Protected: the eviction of the victim, or of surplus that would be evicted with it, violates a disruption budget.
	Protected bool
}

// AllPods are the pods of the victim, seen and unseen.
func (v *Victim) AllPods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(v.Pods())+len(v.Unseen))
	for _, info := range v.Pods() {
		pods = append(pods, info.GetPod())
	}
	return append(pods, v.Unseen...)
}

// Seat is the room that evictions make for a whole gang.
type Seat struct {
	// Victims are all needed: without any one of them the gang does not fit. A WholeGang and its surplus count as one.
	Victims []*Victim
	// Places has the node of each member when the victims are gone.
	Places map[types.UID]string
	// Order is that of the Decision: the members must be placed in it because they have inter-pod constraints. It is nil for any order.
	Order []types.UID
}

// RankVictims sorts candidates by how important it is to keep them, the most important first. Candidates under a disruption budget come
// first, then priority, then kind, and then the order of the upstream scheduler counts. It sets Violations and Protected.
func RankVictims(candidates []*Victim, budgets []*policyv1.PodDisruptionBudget) []*Victim {
	slices.SortStableFunc(candidates, byImportance)
	violating, _ := preemption.FilterVictimsWithPDBViolation(candidates, budgets)
	protected := sets.New[string]() // gangs with protected surplus
	for _, v := range violating {
		v.Victim.Violations, v.Victim.Protected = v.ViolateCount, true
		if v.Victim.Kind == gang.SurplusMember {
			protected.Insert(v.Victim.Gang)
		}
	}
	for _, v := range candidates {
		v.Protected = v.Protected || v.Kind == gang.WholeGang && protected.Has(v.Gang)
	}
	slices.SortStableFunc(candidates, func(a, b *Victim) int { return boolOrder(b.Protected, a.Protected) })
	return candidates
}

func byImportance(a, b *Victim) int {
	switch {
	case a.Priority() != b.Priority():
		return cmp.Compare(b.Priority(), a.Priority())
	case a.Kind != b.Kind:
		return cmp.Compare(b.Kind, a.Kind)
	case preemption.MoreImportantVictim(a, b):
		return -1
	case preemption.MoreImportantVictim(b, a):
		return 1
	}
	return 0
}

// RankForRoom sorts candidates for MakeRoom, the first to be evicted first. Rules decide first, so that what is lent goes first, and pods
// outside all queues last. Of the same rule, candidates under a disruption budget come last. Victims of other queues are sorted by kind, by
// how far their queue is above its share, and by priority. All other victims by priority and by kind. All in the end by how short they have run.
// It sets Violations and Protected.
func RankForRoom(candidates []*Victim, budgets []*policyv1.PodDisruptionBudget, excess func(*Victim) quota.Ratio) []*Victim {
	if len(budgets) > 0 {
		RankVictims(candidates, budgets)
	}
	above := map[string]quota.Ratio{}
	for _, v := range candidates {
		if _, known := above[v.Account]; !known {
			above[v.Account] = excess(v)
		}
	}
	class := func(a, b *Victim) int {
		byRule := cmp.Or(cmp.Compare(a.Rule, b.Rule), boolOrder(a.Protected, b.Protected))
		byPriority, byKind := cmp.Compare(a.Priority(), b.Priority()), cmp.Compare(a.Kind, b.Kind)
		if a.Rule == quota.ByShare {
			return cmp.Or(byRule, byKind, above[b.Account].Compare(above[a.Account]), byPriority)
		}
		return cmp.Or(byRule, byPriority, byKind)
	}
	for i, v := range candidates {
		v.class = i
	}
	slices.SortFunc(candidates, func(a, b *Victim) int {
		return cmp.Or(class(a, b), b.Since.Compare(a.Since), cmp.Compare(a.class, b.class))
	})
	for i, v := range candidates {
		v.class = 1
		if i > 0 {
			v.class = candidates[i-1].class
			if class(candidates[i-1], v) != 0 {
				v.class++
			}
		}
	}
	return candidates
}

// boolOrder puts false before true.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// EvictionOrder says which of two members a gang loses first.
type EvictionOrder func(a, b *gang.Member) int

// LargestFirst orders members by their requests for CPU, then for memory. So there is an order even where neither member is larger in both.
func LargestFirst(a, b *gang.Member) int {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if order := cmp.Compare(b.Requests[name], a.Requests[name]); order != 0 {
			return order
		}
	}
	return gang.LeastImportantFirst(a, b)
}

// GangVictims is a gang whose members may be evicted. It does not change during one search.
type GangVictims struct {
	// Key of the gang.
	Key string
	// Account that the gang is charged to, "" for none.
	Account string
	// Floor is the priority that the PodGroup's class gives to the gang, at most that of its most important member. It is math.MinInt32 if it
	// names none. No member counts for less.
	Floor int32
	// Holding are the members that hold room, count for the gang and are not about to be evicted.
	Holding map[types.UID]*gang.Member
	// Pods are the pods of the gang in the scheduler's snapshot.
	Pods map[types.UID]fwk.PodInfo
	// Spare returns the given members that the gang can lose and keep its minimum, in the given order.
	Spare func([]*gang.Member) []*gang.Member
}

// Candidates splits a gang with members on a node. Each surplus member is a candidate of its own, and the rest is one only as the whole
// gang. Only parts with a priority below the given one are candidates. order says which surplus is evicted first, asks which pods ask to stay.
func (g *GangVictims) Candidates(here []*gang.Member, below int32, order EvictionOrder, asks func(*corev1.Pod) bool) (candidates []*Victim) {
	evictable := slices.DeleteFunc(slices.Clone(here), func(m *gang.Member) bool { return max(m.Priority, g.Floor) >= below })
	slices.SortFunc(evictable, order)
	surplus, rest := gang.Units(slices.Collect(maps.Values(g.Holding)), g.Spare(evictable), g.Floor, asks)
	if rest != nil && rest.Priority < below && len(surplus) < len(here) {
		surplus = append(surplus, rest)
	}
	for _, unit := range surplus {
		candidates = append(candidates, g.victim(unit))
	}
	return candidates
}

// victim is a unit of the gang. Unseen are its pods that have a node and are not in the scheduler's snapshot.
func (g *GangVictims) victim(unit *gang.Unit) *Victim {
	v := &Victim{Kind: unit.Kind, Gang: g.Key, Account: g.Account, Requests: unit.Requests, Since: unit.Since, AsksToStay: unit.AsksToStay}
	var seen []fwk.PodInfo
	for _, m := range unit.Members {
		if info, ok := g.Pods[m.UID]; ok {
			seen = append(seen, info)
		} else if m.Pod.Spec.NodeName != "" {
			v.Unseen = append(v.Unseen, m.Pod)
		}
	}
	v.Victim, _ = preemption.NewVictim(seen, unit.Priority, fwk.PodKeyType) // it fails only without pods, and one is on the node
	return v
}
