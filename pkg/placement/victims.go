package placement

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// VictimKind is the part of a gang that a victim is. At the same priority, a lower kind is evicted first.
type VictimKind int

// The kinds of victims.
const (
	// SurplusMember is a member without which its gang keeps its minimum.
	SurplusMember VictimKind = iota
	// SinglePod is a pod that no gang needs.
	SinglePod
	// WholeGang is all members of a gang but the surplus, on all nodes. If it is evicted the surplus is evicted with it.
	WholeGang
)

// Victim is a set of pods that are evicted or kept together.
type Victim struct {
	preemption.Victim
	// Kind of the victim.
	Kind VictimKind
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

// ChooseVictims returns a minimal set of victims: without any one of them, the pods of the simulation do not fit. The candidates come in
// the order of RankVictims. It removes all, and adds the most important first; if a WholeGang cannot stay, its surplus is not added. If
// the pods do not fit even when all candidates are removed, the status says why.
func ChooseVictims(candidates []*Victim, on *Simulation) ([]*Victim, *fwk.Status) {
	for _, v := range candidates {
		if err := on.Remove(v); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	if status := on.Fits(); !status.IsSuccess() {
		return nil, status
	}
	var victims []*Victim
	evicted := sets.New[string]() // gangs
	for _, v := range candidates {
		if v.Kind == SurplusMember && evicted.Has(v.Gang) {
			victims = append(victims, v)
			continue
		}
		if err := on.Add(v); err != nil {
			return nil, fwk.AsStatus(err)
		}
		if on.Fits().IsSuccess() {
			continue
		}
		if err := on.Remove(v); err != nil {
			return nil, fwk.AsStatus(err)
		}
		victims = append(victims, v)
		if v.Kind == WholeGang {
			evicted.Insert(v.Gang)
		}
	}
	return victims, nil
}

// RankVictims sorts candidates by how important it is to keep them, the most important first. Candidates under a disruption budget come
// first, then priority, then kind, and then the order of the upstream scheduler counts. It sets Violations and Protected.
func RankVictims(candidates []*Victim, budgets []*policyv1.PodDisruptionBudget) []*Victim {
	slices.SortStableFunc(candidates, byImportance)
	violating, _ := preemption.FilterVictimsWithPDBViolation(candidates, budgets)
	protected := sets.New[string]() // gangs with protected surplus
	for _, v := range violating {
		v.Victim.Violations, v.Victim.Protected = v.ViolateCount, true
		if v.Victim.Kind == SurplusMember {
			protected.Insert(v.Victim.Gang)
		}
	}
	for _, v := range candidates {
		v.Protected = v.Protected || v.Kind == WholeGang && protected.Has(v.Gang)
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
	ranked := RankVictims(candidates, budgets)
	above := map[string]quota.Ratio{}
	for _, v := range ranked {
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
	slices.SortStableFunc(ranked, func(a, b *Victim) int { return cmp.Or(class(a, b), b.Since.Compare(a.Since)) })
	for i, v := range ranked {
		v.class = 1
		if i > 0 {
			v.class = ranked[i-1].class
			if class(ranked[i-1], v) != 0 {
				v.class++
			}
		}
	}
	return ranked
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

// Priority of the gang as a whole: the priority of its most important member.
func (g *GangVictims) Priority() int32 {
	priority := max(g.Floor, math.MinInt32)
	for _, m := range g.Holding {
		priority = max(priority, m.Priority)
	}
	return priority
}

// Candidates splits a gang with members on a node. Each surplus member is a candidate of its own, and the rest is one only as the whole
// gang. Only parts with a priority below the given one are candidates. order says which surplus is evicted first.
func (g *GangVictims) Candidates(here []*gang.Member, below int32, order EvictionOrder) []*Victim {
	var evictable []*gang.Member
	for _, m := range here {
		if max(m.Priority, g.Floor) < below {
			evictable = append(evictable, m)
		}
	}
	slices.SortFunc(evictable, order)
	var candidates []*Victim
	spare := sets.New[types.UID]()
	for _, m := range g.Spare(evictable) {
		spare.Insert(m.UID)
		if victim, err := preemption.NewVictim([]fwk.PodInfo{g.Pods[m.UID]}, max(m.Priority, g.Floor), fwk.PodKeyType); err == nil {
			candidates = append(candidates, &Victim{Victim: victim, Kind: SurplusMember, Gang: g.Key})
		}
	}
	if priority := g.Priority(); len(spare) < len(here) && priority < below {
		candidates = append(candidates, g.whole(priority, spare))
	}
	return candidates
}

// whole is the victim of all members of a gang but some.
func (g *GangVictims) whole(priority int32, but sets.Set[types.UID]) *Victim {
	var seen []fwk.PodInfo
	v := &Victim{Kind: WholeGang, Gang: g.Key}
	for uid, m := range g.Holding {
		switch info, ok := g.Pods[uid]; {
		case but.Has(uid):
		case ok:
			seen = append(seen, info)
		case m.Pod.Spec.NodeName != "":
			v.Unseen = append(v.Unseen, m.Pod)
		}
	}
	v.Victim, _ = preemption.NewVictim(seen, priority, fwk.PodKeyType) // it fails only without pods, and one is on the node
	return v
}

// Simulation is a copy of a node and of the state of a scheduling cycle. Victims are removed and added again, to see whether the filters
// then let the preemptor onto the node. Victims may have pods on other nodes: there only the plugins' part of the cycle state changes.
// After an error it must not be used any more.
type Simulation struct {
	ctx     context.Context
	filters Filters
	cycle   fwk.CycleState
	pod     *corev1.Pod
	node    fwk.NodeInfo
}

// SimulateOnNode makes a simulation for a pod on a node. It changes the cycle state and the node info, so both must be copies.
func SimulateOnNode(ctx context.Context, filters Filters, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *Simulation {
	return &Simulation{ctx: ctx, filters: filters, cycle: cycle, pod: pod, node: node}
}

// Remove takes a victim's pods off their nodes.
func (s *Simulation) Remove(v *Victim) error {
	return s.forEach(v, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == s.node {
			if err := node.RemovePod(klog.FromContext(s.ctx), info.GetPod()); err != nil {
				return err
			}
		}
		return s.filters.RunPreFilterExtensionRemovePod(s.ctx, s.cycle, s.pod, info, node).AsError()
	})
}

// Add undoes Remove.
func (s *Simulation) Add(v *Victim) error {
	return s.forEach(v, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == s.node {
			node.AddPodInfo(info)
		}
		return s.filters.RunPreFilterExtensionAddPod(s.ctx, s.cycle, s.pod, info, node).AsError()
	})
}

// forEach calls do for each pod of a victim with its node.
func (s *Simulation) forEach(v *Victim, do func(fwk.PodInfo, fwk.NodeInfo) error) error {
	for _, info := range v.Pods() {
		node := s.node
		if name := info.GetPod().Spec.NodeName; name != node.Node().Name {
			var err error
			if node, err = s.filters.SnapshotSharedLister().NodeInfos().Get(name); err != nil {
				return err
			}
		}
		if err := do(info, node); err != nil {
			return err
		}
	}
	return nil
}

// Fits asks the filters whether the pod may go to the node.
func (s *Simulation) Fits() *fwk.Status {
	return s.filters.RunFilterPluginsWithNominatedPods(s.ctx, s.cycle, s.pod, s.node)
}
