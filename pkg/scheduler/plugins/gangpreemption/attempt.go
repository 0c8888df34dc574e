package gangpreemption

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// attempt is one search for victims. Everything that is not said here is as in the upstream DefaultPreemption.
type attempt struct {
	*defaultpreemption.DefaultPreemption
	handle    fwk.Handle
	tracker   *gangs.Tracker
	preemptor *corev1.Pod
	// breakGangs takes pods one by one, whatever gang they are of.
	breakGangs bool

	mu     sync.Mutex // nodes are looked at in parallel
	gangs  map[gangs.Key]*placement.GangVictims
	placed map[gangs.Key]map[types.UID]fwk.PodInfo // the pods of all gangs in the snapshot, collected when first asked for
	plans  map[string]plan
}

// plan is the set of pods that would be evicted from a node, and from other nodes with them.
type plan struct {
	victims    []*corev1.Pod
	violations int
	wholeGangs int // gangs that are evicted whole
	singlePods int // pods that no gang needs and that are no surplus
	surplus    int // members that their gangs can spare
	status     *fwk.Status
}

var _ preemption.Interface = (*attempt)(nil)

// SelectVictimsOnNode finds the fewest victims without which the preemptor fits on a node. Where no gang is concerned, and no pod or queue says
// something about its eviction, the upstream scheduler does it.
func (a *attempt) SelectVictimsOnNode(ctx context.Context, cycle fwk.CycleState, preemptor *corev1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, pdbs []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	if a.tracker.Victims.WaitForSeat(preemptor, node.Node().Name) {
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "room is being made for a gang there")
	}
	if a.breakGangs || !slices.ContainsFunc(possible, a.isOurs) {
		pods, violations, status := a.DefaultPreemption.SelectVictimsOnNode(ctx, cycle, preemptor, node, possible, pdbs)
		a.keep(node, plan{victims: pods, violations: violations, singlePods: len(pods), status: status})
		return pods, violations, status
	}
	best := a.plan(ctx, cycle.Clone(), node.Snapshot(), possible, pdbs, gang.LeastImportantFirst)
	if !best.status.IsSuccess() || best.wholeGangs > 0 {
		// Sparing small members of a gang instead of important ones may leave more room.
		other := a.plan(ctx, cycle, node, possible, pdbs, placement.LargestFirst)
		if other.status.IsSuccess() && (!best.status.IsSuccess() || other.wholeGangs < best.wholeGangs) {
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

// isOurs says whether the upstream scheduler does not know all that decides about a victim.
func (a *attempt) isOurs(victim *preemption.DomainVictim) bool {
	return slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool {
		pod := info.GetPod()
		_, m := a.member(pod)
		return m != nil || a.tracker.Quota.AccountOf(pod) != "" || eviction.HasSay(pod)
	})
}

// plan chooses victims on a node; order says which surplus members are evicted first.
func (a *attempt) plan(ctx context.Context, cycle fwk.CycleState, node fwk.NodeInfo, possible []*preemption.DomainVictim,
	pdbs []*policyv1.PodDisruptionBudget, order placement.EvictionOrder) plan {
	candidates := placement.RankVictims(a.candidates(possible, order), pdbs)
	if len(candidates) == 0 {
		return plan{status: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")}
	}
	victims, status := placement.ChooseVictims(candidates, placement.SimulateOnNode(ctx, a.handle, cycle, a.preemptor, node))
	p := plan{status: status}
	for _, v := range victims {
		p.victims = append(p.victims, v.AllPods()...)
		p.violations += v.Violations
		switch v.Kind {
		case placement.WholeGang:
			p.wholeGangs++
		case placement.SinglePod:
			p.singlePods++
		case placement.SurplusMember:
			p.surplus++
		}
	}
	// Nodes are compared by the first victim's priority, among other things.
	slices.SortStableFunc(p.victims, func(x, y *corev1.Pod) int {
		return cmp.Compare(corev1helpers.PodPriority(y), corev1helpers.PodPriority(x))
	})
	return p
}

// candidates are what may be evicted from a node for the preemptor. They have a lower priority, as the preemptor has no queue.
func (a *attempt) candidates(possible []*preemption.DomainVictim, order placement.EvictionOrder) []*placement.Victim {
	var candidates []*placement.Victim
	here := map[*placement.GangVictims][]*gang.Member{}
	var concerned []*placement.GangVictims
	own, below, now := ownGang(a.preemptor), corev1helpers.PodPriority(a.preemptor), time.Now()
	for _, victim := range possible {
		g, m := a.member(victim.Pods()[0].GetPod())
		switch {
		case m == nil:
			pod := victim.Pods()[0].GetPod()
			isSpared := eviction.IsSpared(a.tracker, pod, a.tracker.Quota.AccountOf(pod), now)
			if v := (&placement.Victim{Victim: victim, Kind: placement.SinglePod}); !isSpared && v.Priority() < below {
				candidates = append(candidates, v)
			}
		case g.Key == own: // a pod does not preempt its own gang
		default:
			if len(here[g]) == 0 {
				concerned = append(concerned, g)
			}
			here[g] = append(here[g], m)
		}
	}
	for _, g := range concerned {
		movable := slices.DeleteFunc(slices.Clone(here[g]), func(m *gang.Member) bool { return eviction.IsSpared(a.tracker, m.Pod, g.Account, now) })
		for _, v := range g.Candidates(movable, below, order) {
			if v.Kind != placement.WholeGang || !a.anySpared(g, now) {
				candidates = append(candidates, v)
			}
		}
	}
	return candidates
}

// anySpared says whether a member of a gang must stay, so that the gang cannot go as a whole.
func (a *attempt) anySpared(g *placement.GangVictims, now time.Time) bool {
	for _, m := range g.Holding {
		if eviction.IsSpared(a.tracker, m.Pod, g.Account, now) {
			return true
		}
	}
	return false
}

// ownGang is the gang of a pod as victims name it, "" for a pod without one.
func ownGang(pod *corev1.Pod) string {
	if key, ok := gang.KeyOf(pod); ok {
		return key.String()
	}
	return ""
}

// member returns the gang of a pod and its member there; nil if no gang needs the pod.
func (a *attempt) member(pod *corev1.Pod) (*placement.GangVictims, *gang.Member) {
	key, ok := gang.KeyOf(pod)
	if !ok {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, known := a.gangs[key]
	if !known {
		g = a.read(key)
		a.gangs[key] = g
	}
	if g == nil {
		return nil, nil
	}
	return g, g.Holding[pod.UID]
}

// read takes a gang as the tracker has it now. The lock is held.
func (a *attempt) read(key gangs.Key) *placement.GangVictims {
	standing, ok := a.tracker.Victims.Standing(key)
	if !ok {
		return nil
	}
	members := make([]*gang.Member, 0, len(standing.Holding))
	for _, m := range standing.Holding {
		members = append(members, m)
	}
	return &placement.GangVictims{
		Key: key.String(), Account: standing.Account, Floor: standing.Floor, Holding: standing.Holding, Pods: a.podInfos(key), Spare: gang.NewRemaining(standing.Spec, members).Spare,
	}
}

// podInfos are the pods of a gang in the scheduler's snapshot. The lock is held.
func (a *attempt) podInfos(key gangs.Key) map[types.UID]fwk.PodInfo {
	if a.placed != nil {
		return a.placed[key]
	}
	a.placed = map[gangs.Key]map[types.UID]fwk.PodInfo{}
	nodes, err := a.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		nodes = nil // the snapshot is in memory and does not fail
	}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if key, ok := gang.KeyOf(info.GetPod()); ok {
				if a.placed[key] == nil {
					a.placed[key] = map[types.UID]fwk.PodInfo{}
				}
				a.placed[key][info.GetPod().UID] = info
			}
		}
	}
	return a.placed[key]
}

// OrderedScoreFuncs compares nodes as the upstream scheduler does. Among nodes whose most important victim is alike, it prefers fewer
// evicted gangs, and then surplus victims.
func (a *attempt) OrderedScoreFuncs(ctx context.Context, victims map[string]*extenderv1.Victims) []func(node string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	plans, concerned := map[string]plan{}, false
	for node := range victims {
		plans[node] = a.plans[node]
		concerned = concerned || plans[node].wholeGangs > 0 || plans[node].surplus > 0
	}
	if !concerned {
		return a.DefaultPreemption.OrderedScoreFuncs(ctx, victims)
	}
	return []func(node string) int64{
		func(node string) int64 { return -victims[node].NumPDBViolations },
		func(node string) int64 { return -int64(corev1helpers.PodPriority(victims[node].Pods[0])) },
		func(node string) int64 { return -int64(plans[node].wholeGangs) },
		func(node string) int64 { return -int64(plans[node].singlePods) },
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
			if earliest := upstream.EarliestStart(victims[node]); earliest != nil {
				return earliest.UnixNano()
			}
			return math.MinInt64
		},
	}
}
