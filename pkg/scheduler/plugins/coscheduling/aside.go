package coscheduling

import (
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// isSetAside is what a gang says that has waited long enough.
const isSetAside = "; what comes free is being set aside for it"

// behindAside is why a node has no room for a pod that stands back.
const behindAside = "room is set aside for a gang that has waited longer"

const bounds fwk.StateKey = "Bounds" + Name

// limits are what Filter holds a pod to in a cycle. Pods that are held to nothing have none, and skip Filter.
type limits struct {
	node     string         // the node that the plan has for the pod, "" for any
	aside    *state.Aside   // what is set aside against the pod, nil if nothing is
	requests resources.List // with aside: what the pod takes
	takes    []corev1.ResourceName
	barred   atomic.Bool // a node was refused because of aside
}

// Clone returns the limits themselves: they hold for the cycle and all copies of its state.
func (l *limits) Clone() fwk.StateData { return l }

func limitsOf(cycle fwk.CycleState) *limits {
	data, err := cycle.Read(bounds)
	if err != nil {
		return nil
	}
	l, _ := data.(*limits)
	return l
}

// limit holds a pod to a node ("" for any) and off what is set aside. The result of PreFilter is not enough: a nominated node or
// a hint is tried before and regardless of it, so Filter checks again.
func (c *Coscheduling) limit(cycle fwk.CycleState, pod *corev1.Pod, node string) (*fwk.PreFilterResult, *fwk.Status) {
	l := &limits{node: node, aside: c.store.AsideFrom(pod)}
	if l.node == "" && l.aside == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if l.aside != nil {
		l.requests = resources.PodRequests(pod)
		l.takes = slices.Collect(maps.Keys(l.requests))
	}
	cycle.Write(bounds, l)
	if node == "" {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// refuses says why a pod may not go to a node, or nil.
func (l *limits) refuses(node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if l.node != "" && l.node != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the gang's plan has another node for the pod")
	}
	if l.aside == nil || !l.aside.On(name) {
		return nil
	}
	if l.aside.Bars(name, freeOn(node, l.takes), l.requests) {
		l.barred.Store(true)
		return fwk.NewStatus(fwk.Unschedulable, behindAside)
	}
	return nil
}

// setAside chooses the places that are set aside for a gang that does not fit, and says on which nodes it has waited in vain.
// It returns no places when there are none even in a cluster that has run empty.
//
// Where it can, it waits neither for pods that never end by themselves nor on nodes where waiting was in vain.
func (k *cast) setAside() (places map[types.UID]string, avoid sets.Set[string]) {
	before := k.earlier()
	avoid = k.round.Avoid.Clone()
	if k.round.Renew {
		before = k.withoutVain(before, avoid)
	}
	type way struct {
		avoid   sets.Set[string]
		endless bool // pods that never end by themselves stay
	}
	ways := []way{{nil, true}, {nil, false}}
	if avoid.Len() > 0 {
		ways = append([]way{{avoid, true}, {avoid, false}}, ways...)
	}
	for _, way := range ways {
		if k.ties != nil {
			if places := k.togetherLater(way.endless, way.avoid, before); places != nil {
				return places, way.avoid
			}
			continue
		}
		fits := func(demand, node int) bool {
			return !way.avoid.Has(k.nodes[node].Name) && k.drainedFits(demand, node, way.endless)
		}
		if chosen, ok := plan.SetAside(k.demands, k.drain(way.endless), fits, before); ok {
			return k.places(plan.Result{Verdict: plan.Possible, Places: chosen}), way.avoid
		}
	}
	return nil, nil
}

// earlier is what is set aside for the gang already, as places of the demands.
func (k *cast) earlier() [][]plan.Place {
	index := make(map[string]int, len(k.nodes))
	for n, node := range k.nodes {
		index[node.Name] = n
	}
	before := make([][]plan.Place, len(k.demands))
	for d, members := range k.groups {
		counts := map[int]int{}
		for _, m := range members {
			if n, ok := index[k.round.Before[m.UID]]; ok {
				counts[n]++
			}
		}
		for n := range k.nodes {
			if counts[n] > 0 {
				before[d] = append(before[d], plan.Place{Node: n, Count: counts[n]})
			}
		}
	}
	return before
}

// withoutVain drops the places whose room has not come free, and adds their nodes to those to avoid.
func (k *cast) withoutVain(before [][]plan.Place, avoid sets.Set[string]) [][]plan.Place {
	wanted := make([]resources.List, len(k.nodes))
	for d := range before {
		for _, place := range before[d] {
			sum := wanted[place.Node].Clone()
			sum.Add(k.demands[d].Requests.Scale(int64(place.Count)))
			wanted[place.Node] = sum
		}
	}
	for n, amount := range wanted {
		if plan.Slots(plan.Demand{Requests: amount, MaxPerNode: 1}, k.nodes[n].Free) == 0 {
			avoid.Insert(k.nodes[n].Name)
		}
	}
	kept := make([][]plan.Place, len(before))
	for d := range before {
		for _, place := range before[d] {
			if !avoid.Has(k.nodes[place.Node].Name) {
				kept[d] = append(kept[d], place)
			}
		}
	}
	return kept
}

// drain says what is free on each node, and what will be.
func (k *cast) drain(endless bool) []plan.Drained {
	drained := make([]plan.Drained, len(k.nodes))
	for n, node := range k.nodes {
		later := node.Free.Clone()
		later.Add(k.round.Elsewhere[node.Name])
		for _, pod := range k.leaving(n, endless) {
			addAll(later, pod.CalculateResource().Resource)
			later[corev1.ResourcePods]++
		}
		drained[n] = plan.Drained{Name: node.Name, Now: node.Free, Later: later}
	}
	return drained
}

// addAll adds what the scheduler counts for a pod, as it has done when the pod came to its node.
func addAll(sum resources.List, taken fwk.Resource) {
	sum.Add(resources.List{
		corev1.ResourceCPU:              taken.GetMilliCPU(),
		corev1.ResourceMemory:           taken.GetMemory(),
		corev1.ResourceEphemeralStorage: taken.GetEphemeralStorage(),
	})
	for name, amount := range taken.GetScalarResources() {
		sum.Add(resources.List{name: amount})
	}
}

// isBeyond says whether some demand asks for more than all nodes have that do not refuse its pods, whatever runs there. It costs next to
// nothing beside the search for places.
func (k *cast) isBeyond() bool {
	for d, demand := range k.demands {
		left := demand.Count
		for n := 0; n < len(k.infos) && left > 0; n++ {
			if !k.refuses(d, n) {
				left -= slotsIn(demand, k.infos[n].GetAllocatable())
			}
		}
		if left > 0 {
			return true
		}
	}
	return false
}

// slotsIn is the number of pods of a demand that a node holds when it is empty.
func slotsIn(demand plan.Demand, has fwk.Resource) int {
	slots := int64(demand.Count)
	if demand.MaxPerNode > 0 {
		slots = min(slots, int64(demand.MaxPerNode))
	}
	for name, amount := range demand.Requests {
		if amount > 0 {
			slots = min(slots, amountIn(has, name)/amount)
		}
	}
	return int(max(0, slots))
}

// leaving are the pods on a node that will end.
func (k *cast) leaving(node int, endless bool) []fwk.PodInfo {
	var leaving []fwk.PodInfo
	for _, pod := range k.infos[node].GetPods() {
		if !k.round.Stays(pod.GetPod(), endless) {
			leaving = append(leaving, pod)
		}
	}
	return leaving
}

// fitsDrained asks the profile's filters whether a pod of a demand may go to a node when what will end there has ended.
func (k *cast) fitsDrained(demand, node int, endless bool) bool {
	run := k.trial(demand)
	if !run.status.IsSuccess() || run.names != nil && !run.names.Has(k.nodes[node].Name) {
		return false
	}
	pod, profile, logger := k.groups[demand][0].Pod, k.plugin.handle, klog.FromContext(k.ctx)
	cycle, info := run.cycle, k.infos[node]
	if leaving := k.leaving(node, endless); len(leaving) > 0 {
		cycle, info = cycle.Clone(), info.Snapshot()
		for _, gone := range leaving {
			if err := info.RemovePod(logger, gone.GetPod()); err != nil {
				return false
			}
			if !profile.RunPreFilterExtensionRemovePod(k.ctx, cycle, pod, gone, info).IsSuccess() {
				return false
			}
		}
	}
	return profile.RunFilterPlugins(k.ctx, cycle, pod, info).IsSuccess()
}

// decide plans the gang's places, with regard to what is set aside for it, and has places set aside for it if that is due.
func (k *cast) decide() plan.Result {
	result := k.rehearse(plan.Make(k.demands, k.nodes, k.fits))
	if k.ties != nil && result.Verdict != plan.Impossible {
		result = k.placeTogether(result)
	}
	if result.Verdict == plan.Possible {
		return result
	}
	if k.round.Before != nil && k.ties == nil {
		if kept, ok := plan.Keep(k.demands, k.nodes, k.fits, k.earlier()); ok {
			result.Verdict, result.Places = plan.Possible, kept
			return k.rehearse(result)
		}
	}
	if k.round.Beyond = k.isBeyond(); k.round.Choose && !k.round.Beyond {
		places, avoid := k.setAside()
		k.plugin.store.SetAside(k.round, places, avoid)
	}
	if k.round.Before != nil {
		result.Verdict = plan.Impossible // its places will come free: there is no need to try its luck elsewhere
	}
	return result
}

// outlook says what will become of a gang that does not fit.
func (k *cast) outlook() string {
	switch {
	case k.round.Beyond && len(k.substitutes) == 0:
		return "; it would not fit into an empty cluster either"
	case k.round.Before != nil && !k.round.Beyond:
		return isSetAside
	case k.round.Hopeless || k.round.Beyond:
		return "; nothing is set aside for it: it would not fit either if everything of its priority and below had ended"
	case k.round.Behind:
		return "; " + behindAside
	}
	return ""
}

// quotaOutlook says what will become of a gang that lacks quota.
func quotaOutlook(round *state.Round) string {
	switch {
	case round.Exceeds:
		return "; nothing is set aside for it: it asks for more than the whole capability"
	case round.Saved:
		return isSetAside
	}
	return ""
}
