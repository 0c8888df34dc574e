package gangpreemption

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// attempt is one search for victims. What is not said here is as in the upstream DefaultPreemption.
type attempt struct {
	*defaultpreemption.DefaultPreemption
	handle    fwk.Handle
	store     *state.Store
	preemptor *corev1.Pod
	// breakGangs takes pods one by one, whatever gang they are of.
	breakGangs bool

	mu     sync.Mutex // nodes are looked at in parallel
	gangs  map[state.Key]*victimGang
	placed map[state.Key]map[types.UID]fwk.PodInfo // the pods of all gangs in the snapshot, made when first asked for
	plans  map[string]plan
}

// plan is what would go from a node, and from others along with it.
type plan struct {
	victims    []*corev1.Pod
	violations int
	gangs      int // how many gangs go whole
	ordinary   int // how many pods go that no gang needs and none can spare
	surplus    int // how many members go that their gangs can spare
	status     *fwk.Status
}

// victimGang is a gang as the attempt sees it: it does not change while nodes are compared.
type victimGang struct {
	state.Standing
	key      state.Key
	roll     *gang.Roll
	priority int32 // of the gang as a whole
}

var _ preemption.Interface = (*attempt)(nil)

// SelectVictimsOnNode finds the fewest victims whose going makes room for the preemptor on a node. Where no gang is
// concerned the upstream scheduler does it.
func (a *attempt) SelectVictimsOnNode(ctx context.Context, cycle fwk.CycleState, preemptor *corev1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, pdbs []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	if a.breakGangs || !slices.ContainsFunc(possible, a.concernsAGang) {
		pods, violations, status := a.DefaultPreemption.SelectVictimsOnNode(ctx, cycle, preemptor, node, possible, pdbs)
		a.keep(node, plan{victims: pods, violations: violations, ordinary: len(pods), status: status})
		return pods, violations, status
	}
	best := a.plan(ctx, cycle.Clone(), node.Snapshot(), possible, pdbs, leastImportantFirst)
	if !best.status.IsSuccess() || best.gangs > 0 {
		// To spare the small members of a gang instead of the important ones may leave more room.
		other := a.plan(ctx, cycle, node, possible, pdbs, largestFirst)
		if other.status.IsSuccess() && (!best.status.IsSuccess() || other.gangs < best.gangs) {
			best = other
		}
	}
	a.keep(node, best)
	return best.victims, best.violations, best.status
}

func (a *attempt) keep(node fwk.NodeInfo, p plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans[node.Node().Name] = p
}

func (a *attempt) concernsAGang(victim *preemption.DomainVictim) bool {
	return slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool {
		_, m := a.member(info.GetPod())
		return m != nil
	})
}

// plan chooses victims on a node; spareFirst says which members a gang with surplus loses first.
func (a *attempt) plan(ctx context.Context, cycle fwk.CycleState, node fwk.NodeInfo, possible []*preemption.DomainVictim,
	pdbs []*policyv1.PodDisruptionBudget, spareFirst order) plan {
	units := rank(a.units(possible, spareFirst), pdbs)
	if len(units) == 0 {
		return plan{status: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")}
	}
	on := &nodeStage{ctx: ctx, handle: a.handle, cycle: cycle, preemptor: a.preemptor, node: node}
	victims, status := choose(units, on)
	p := plan{status: status}
	for _, u := range victims {
		p.victims = append(p.victims, u.pods()...)
		p.violations += u.violations
		switch u.kind {
		case core:
			p.gangs++
		case ordinary:
			p.ordinary++
		case surplus:
			p.surplus++
		}
	}
	// Nodes are compared by the first victim's priority, among other things.
	slices.SortStableFunc(p.victims, func(x, y *corev1.Pod) int {
		return cmp.Compare(corev1helpers.PodPriority(y), corev1helpers.PodPriority(x))
	})
	return p
}

// units are what may be evicted from a node for the preemptor.
func (a *attempt) units(possible []*preemption.DomainVictim, spareFirst order) []*unit {
	var units []*unit
	here := map[state.Key][]*gang.Member{}
	var gangs []*victimGang
	for _, victim := range possible {
		g, m := a.member(victim.Pods()[0].GetPod())
		switch {
		case m == nil:
			if a.above(victim.Priority()) {
				units = append(units, &unit{Victim: victim, kind: ordinary})
			}
		case g.key == a.ownGang():
			// A pod does not preempt its own gang.
		default:
			if len(here[g.key]) == 0 {
				gangs = append(gangs, g)
			}
			here[g.key] = append(here[g.key], m)
		}
	}
	for _, g := range gangs {
		units = append(units, a.unitsOf(g, here[g.key], spareFirst)...)
	}
	return units
}

// unitsOf splits a gang with members on a node: those that it can spare go one by one, the rest only with all of the gang.
func (a *attempt) unitsOf(g *victimGang, here []*gang.Member, spareFirst order) []*unit {
	var candidates []*gang.Member
	for _, m := range here {
		if a.above(max(m.Priority, g.Floor)) {
			candidates = append(candidates, m)
		}
	}
	slices.SortFunc(candidates, spareFirst)
	infos := a.podInfos(g.key)
	var units []*unit
	spare := map[types.UID]bool{}
	for _, m := range g.roll.Spare(candidates) {
		spare[m.UID] = true
		if victim, err := preemption.NewVictim([]fwk.PodInfo{infos[m.UID]}, max(m.Priority, g.Floor), fwk.PodKeyType); err == nil {
			units = append(units, &unit{Victim: victim, kind: surplus, gang: g.key})
		}
	}
	if len(spare) < len(here) && a.above(g.priority) {
		units = append(units, coreOf(g, infos, spare))
	}
	return units
}

// coreOf is the unit of all members of a gang but those it can spare.
func coreOf(g *victimGang, infos map[types.UID]fwk.PodInfo, spare map[types.UID]bool) *unit {
	var seen []fwk.PodInfo
	u := &unit{kind: core, gang: g.key}
	for uid, m := range g.Holding {
		switch info, ok := infos[uid]; {
		case spare[uid]:
		case ok:
			seen = append(seen, info)
		case m.Pod.Spec.NodeName != "":
			u.unseen = append(u.unseen, m.Pod)
		}
	}
	u.Victim, _ = preemption.NewVictim(seen, g.priority, fwk.PodKeyType) // fails only without pods, and one is on the node
	return u
}

// order says which of two members a gang loses first.
type order func(a, b *gang.Member) int

func leastImportantFirst(a, b *gang.Member) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Index, a.Index), cmp.Compare(b.Pod.Name, a.Pod.Name))
}

// largestFirst compares the requests for each resource in turn, so that it is an order even where neither is larger in all.
func largestFirst(a, b *gang.Member) int {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if order := cmp.Compare(b.Requests[name], a.Requests[name]); order != 0 {
			return order
		}
	}
	return leastImportantFirst(a, b)
}

// above says whether the preemptor's priority is above that of a victim.
func (a *attempt) above(priority int32) bool {
	return priority < corev1helpers.PodPriority(a.preemptor)
}

func (a *attempt) ownGang() state.Key {
	key, _ := state.GangOf(a.preemptor)
	return key
}

// member returns the gang of a pod and its member there; nil if no gang needs the pod.
func (a *attempt) member(pod *corev1.Pod) (*victimGang, *gang.Member) {
	key, ok := state.GangOf(pod)
	if !ok {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, known := a.gangs[key]
	if !known {
		g = a.look(key)
		a.gangs[key] = g
	}
	if g == nil {
		return nil, nil
	}
	return g, g.Holding[pod.UID]
}

func (a *attempt) look(key state.Key) *victimGang {
	standing, ok := a.store.Standing(key)
	if !ok {
		return nil
	}
	g := &victimGang{Standing: standing, key: key, priority: standing.Floor}
	members := make([]*gang.Member, 0, len(standing.Holding))
	for _, m := range standing.Holding {
		members = append(members, m)
		g.priority = max(g.priority, m.Priority)
	}
	g.roll = gang.Call(standing.Spec, members)
	return g
}

// podInfos are the pods of a gang in the scheduler's snapshot.
func (a *attempt) podInfos(key state.Key) map[types.UID]fwk.PodInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.placed == nil {
		a.placed = map[state.Key]map[types.UID]fwk.PodInfo{}
		nodes, err := a.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			nodes = nil // the snapshot is in memory and does not fail
		}
		for _, node := range nodes {
			for _, info := range node.GetPods() {
				if key, ok := state.GangOf(info.GetPod()); ok {
					if a.placed[key] == nil {
						a.placed[key] = map[types.UID]fwk.PodInfo{}
					}
					a.placed[key][info.GetPod().UID] = info
				}
			}
		}
	}
	return a.placed[key]
}

// OrderedScoreFuncs compares nodes as the upstream scheduler does, and, among nodes whose most important victim is alike,
// prefers those where fewer gangs go, and then those where members go that their gangs can spare.
func (a *attempt) OrderedScoreFuncs(ctx context.Context, victims map[string]*extenderv1.Victims) []func(node string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	plans, concerned := map[string]plan{}, false
	for node := range victims {
		plans[node] = a.plans[node]
		concerned = concerned || plans[node].gangs > 0 || plans[node].surplus > 0
	}
	if !concerned {
		return a.DefaultPreemption.OrderedScoreFuncs(ctx, victims)
	}
	return []func(node string) int64{
		func(node string) int64 { return -victims[node].NumPDBViolations },
		func(node string) int64 { return -int64(corev1helpers.PodPriority(victims[node].Pods[0])) },
		func(node string) int64 { return -int64(plans[node].gangs) },
		func(node string) int64 { return -int64(plans[node].ordinary) },
		func(node string) int64 {
			sum := int64(0)
			for _, pod := range victims[node].Pods {
				// Above 0, so that a victim with a negative priority is not better than none.
				sum += int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
			}
			return -sum
		},
		func(node string) int64 { return -int64(len(victims[node].Pods)) },
		func(node string) int64 {
			if earliest := util.GetEarliestPodStartTime(victims[node]); earliest != nil {
				return earliest.UnixNano()
			}
			return math.MinInt64
		},
	}
}

// nodeStage tries the profile's filters on copies of a node and of the cycle's state. Of other nodes, whose pods go along,
// the node infos stay as they are: only what plugins keep of those pods in the state changes.
type nodeStage struct {
	ctx       context.Context
	handle    fwk.Handle
	cycle     fwk.CycleState
	preemptor *corev1.Pod
	node      fwk.NodeInfo
}

func (s *nodeStage) remove(u *unit) error {
	return s.each(u, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == s.node {
			if err := node.RemovePod(klog.FromContext(s.ctx), info.GetPod()); err != nil {
				return err
			}
		}
		return s.handle.RunPreFilterExtensionRemovePod(s.ctx, s.cycle, s.preemptor, info, node).AsError()
	})
}

func (s *nodeStage) add(u *unit) error {
	return s.each(u, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == s.node {
			node.AddPodInfo(info)
		}
		return s.handle.RunPreFilterExtensionAddPod(s.ctx, s.cycle, s.preemptor, info, node).AsError()
	})
}

// each calls do for each pod of a unit with its node.
func (s *nodeStage) each(u *unit, do func(fwk.PodInfo, fwk.NodeInfo) error) error {
	for _, info := range u.Pods() {
		node := s.node
		if name := info.GetPod().Spec.NodeName; name != node.Node().Name {
			var err error
			if node, err = s.handle.SnapshotSharedLister().NodeInfos().Get(name); err != nil {
				return err
			}
		}
		if err := do(info, node); err != nil {
			return err
		}
	}
	return nil
}

func (s *nodeStage) fits() *fwk.Status {
	return s.handle.RunFilterPluginsWithNominatedPods(s.ctx, s.cycle, s.preemptor, s.node)
}
