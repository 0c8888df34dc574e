package eviction

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Preemptor is a pod without a queue: priority alone decides what may be evicted for it, and on one node.
type Preemptor struct {
	// Pod that found no node.
	Pod *corev1.Pod
	// Cycle of the pod, in which PreFilter has run.
	Cycle fwk.CycleState
	// Nodes on which evictions may help, in the order in which they are looked at. Enough is how many with room are compared.
	Nodes  []fwk.NodeInfo
	Enough int
	// MayUse says whether the pod may take a node at all.
	MayUse func(node string) bool
	// UnitsOn are upstream's units on a node: it may evict native pod groups only whole.
	UnitsOn func(node fwk.NodeInfo) []*preemption.DomainVictim
}

// ByPriority finds the node where the evictions for a pod cost least, and what is evicted. It returns "" if no evictions help. Pods that are
// being deleted are victims, too.
func (s *Search) ByPriority(ctx context.Context, p *Preemptor) (node string, victims []*placement.Victim) {
	member := gang.MemberOf(p.Pod, resources.PodRequests(p.Pod))
	own, _ := gang.KeyOf(p.Pod)
	l := &lower{
		Search: s, Preemptor: p, census: newCensus(s.victims, own), rules: byPriority(member.Priority), now: time.Now(), budgets: s.budgets(),
		leaving: s.victims.Leaving(),
	}
	l.census.byPriority = true
	problem := &placement.Problem{
		Members: []*gang.Member{member}, Priority: member.Priority, Cycle: p.Cycle,
		SameGang: func(other *corev1.Pod) bool { return other.UID == p.Pod.UID },
	}
	for rest := p.Nodes; len(rest) > 0; {
		var some []fwk.NodeInfo
		some, rest = p.sample(rest, member.Requests)
		if seat := l.seat(ctx, problem, some); seat != nil && len(seat.Victims) > 0 {
			return seat.Places[p.Pod.UID], seat.Victims
		}
	}
	return "", nil
}

// sample takes as many nodes as are compared, of those with room once pods of lower priority have gone. It also returns the nodes that it has not reached.
func (p *Preemptor) sample(nodes []fwk.NodeInfo, requests resources.List) (some, rest []fwk.NodeInfo) {
	below := corev1helpers.PodPriority(p.Pod)
	for i, node := range nodes {
		if placement.MayHold(node, requests, below) && p.MayUse(node.Node().Name) {
			some = append(some, node)
		}
		if len(some) == p.Enough {
			return some, nodes[i+1:]
		}
	}
	return some, nil
}

// lower is a search among the pods below the priority of a pod.
type lower struct {
	*Search
	*Preemptor
	census  *census
	rules   byPriority
	now     time.Time
	budgets []*policyv1.PodDisruptionBudget
	leaving sets.Set[types.UID]
}

// seat searches on some nodes. Where a gang would go whole, it tries to spare small members instead of important ones. That may leave
// more room.
func (l *lower) seat(ctx context.Context, problem *placement.Problem, nodes []fwk.NodeInfo) (best *placement.Seat) {
	noQueue := func(*placement.Victim) quota.Ratio { return quota.Ratio{} }
	for _, first := range []placement.EvictionOrder{gang.LeastImportantFirst, placement.LargestFirst} {
		var leaving, candidates []*placement.Victim
		for _, node := range nodes {
			gone, here := l.on(node, first)
			leaving, candidates = append(leaving, gone...), append(candidates, here...)
		}
		if len(leaving)+len(candidates) == 0 {
			return nil
		}
		seat := l.planner.MakeRoom(ctx, problem, nodes, append(leaving, placement.RankForRoom(candidates, nil, noQueue)...), l.rules)
		if best == nil || seat != nil && seat.WholeGangs() < best.WholeGangs() {
			best = seat
		}
		if len(l.census.gangs) == 0 || best != nil && best.WholeGangs() == 0 {
			return best
		}
	}
	return best
}

// on are the pods on a node that go anyway, and what may be evicted there. first says which surplus of a gang goes first.
func (l *lower) on(node fwk.NodeInfo, first placement.EvictionOrder) (leaving, candidates []*placement.Victim) {
	var singles []fwk.PodInfo
	var concerned []*placement.GangVictims
	members, native := map[*placement.GangVictims][]*gang.Member{}, false
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		switch {
		case pod.Spec.SchedulingGroup != nil && pod.DeletionTimestamp == nil:
			native = true // the group has a priority of its own
		case corev1helpers.PodPriority(pod) >= int32(l.rules):
		case pod.DeletionTimestamp != nil || l.leaving.Has(pod.UID):
			leaving = append(leaving, leaver(info))
		default:
			g, m := l.member(pod)
			switch {
			case m == nil:
				singles = append(singles, info)
			case g.Key != l.census.own.String(): // a pod does not preempt its own gang
				if len(members[g]) == 0 {
					concerned = append(concerned, g)
				}
				members[g] = append(members[g], m)
			}
		}
	}
	candidates = l.singles(singles, l.census, l.rules, l.now)
	for _, g := range concerned {
		candidates = append(candidates, l.partsOn(node.Node().Name, g, members[g], first)...)
	}
	if native {
		candidates = append(candidates, l.native(l.UnitsOn(node), node.Node().Name)...)
	}
	if len(l.budgets) > 0 {
		placement.RankVictims(candidates, l.budgets) // for each node anew, as only one is used
	}
	return leaving, candidates
}

// partsOn are what may be evicted of a gang with members on a node.
func (l *lower) partsOn(node string, g *placement.GangVictims, here []*gang.Member, first placement.EvictionOrder) (parts []*placement.Victim) {
	asks := func(pod *corev1.Pod) bool { return l.census.asksToStay(pod, l.now) }
	isNew := func(m *gang.Member) bool { return l.census.isNew(m.Pod, g.Account, l.now) }
	here = slices.DeleteFunc(here, func(m *gang.Member) bool { return isNew(m) || asks(m.Pod) })
	for _, v := range g.Candidates(here, int32(l.rules), first, asks) {
		if l.rules.Judged(v) == nil || v.Kind == gang.WholeGang && slices.ContainsFunc(slices.Collect(maps.Values(g.Holding)), isNew) {
			continue
		}
		v.Gang, v.OnlyOn = v.Gang+"@"+node, node
		parts = append(parts, v)
	}
	return parts
}

// native are the native pod groups, and single pods of such groups, among upstream's units on a node.
func (l *lower) native(units []*preemption.DomainVictim, node string) (candidates []*placement.Victim) {
	for _, unit := range units {
		pod := unit.Pods()[0].GetPod()
		v := &placement.Victim{Victim: unit, Kind: gang.SinglePod, Since: gang.StartOf(pod).Time, OnlyOn: node, AsksToStay: l.census.asksToStay(pod, l.now)}
		if len(unit.Pods()) > 1 {
			v.Kind = gang.WholeGang
		}
		if pod.Spec.SchedulingGroup != nil && l.rules.Judged(v) != nil {
			candidates = append(candidates, v)
		}
	}
	return candidates
}

// member returns the gang of a pod and its member there; nil if no gang needs the pod.
func (l *lower) member(pod *corev1.Pod) (*placement.GangVictims, *gang.Member) {
	key, ok := gang.KeyOf(pod)
	if !ok {
		return nil, nil
	}
	_, known := l.census.gangs[key]
	g := l.census.gang(key)
	if g == nil {
		return nil, nil
	}
	if !known {
		g.Pods = l.podsOf(g.Holding)
	}
	return g, g.Holding[pod.UID]
}

// podsOf are the pods of some members in the snapshot. A member that waits in Permit has no node in the API: it may be on any.
func (l *lower) podsOf(members map[types.UID]*gang.Member) map[types.UID]fwk.PodInfo {
	pods, lister := map[types.UID]fwk.PodInfo{}, l.handle.SnapshotSharedLister().NodeInfos()
	names := sets.New[string]()
	for _, m := range members {
		names.Insert(m.Pod.Spec.NodeName)
	}
	var nodes []fwk.NodeInfo
	if names.Has("") {
		nodes, _ = lister.List() // the snapshot is in memory and does not fail
	} else {
		for name := range names {
			if node, err := lister.Get(name); err == nil {
				nodes = append(nodes, node)
			}
		}
	}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if uid := info.GetPod().UID; members[uid] != nil {
				pods[uid] = info
			}
		}
	}
	return pods
}

// byPriority are the rules for a pod of a priority without a queue. All pods below it may go together, unless they ask to stay.
type byPriority int32

// Judged says by which rule a candidate may go.
func (r byPriority) Judged(v *placement.Victim) *placement.Victim {
	if v.Priority() >= int32(r) || v.AsksToStay {
		return nil
	}
	v.Rule = quota.ByPriority
	return v
}

// Below is the priority.
func (r byPriority) Below(string) int32 { return int32(r) }

// Take takes any victim.
func (byPriority) Take(*placement.Victim) bool { return true }

// GiveBack undoes Take.
func (byPriority) GiveBack(*placement.Victim) {}

// HasQuota says that no quota is needed.
func (byPriority) HasQuota() bool { return true }
