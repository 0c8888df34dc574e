package coscheduling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// judge decides on the whole gang of a scout.
func (c *Coscheduling) judge(ctx context.Context, cycle fwk.CycleState, scout *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	round := c.store.Judge(scout)
	if round == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the gang has changed")
	}
	if round.Quota != nil {
		why := fmt.Sprintf("the gang's %d members wait for quota: %v%s", len(round.Members), round.Quota, quotaOutlook(round))
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.store.Park(round, scout, why, scout, "Capacity"))
	}
	cast, result := c.plan(ctx, round, nodes)
	if result.Verdict == plan.Impossible {
		other, found := c.planOthers(ctx, cast, result, nodes)
		if other == nil {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.park(scout, cast, result))
		}
		round, cast, result = other.round, other, found
	}
	if result.Verdict == plan.Possible {
		round.Turns = cast.turns
	}
	activate, ok := c.store.Admit(round, cast.places(result))
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the gang has changed")
	}
	activateWith(cycle, scout, activate)
	if entry := c.store.Enter(scout); entry.Role == state.Chosen {
		return c.send(cycle, scout, entry)
	}
	// The scout itself is not among those that start: it has done its work.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting until the minimum of the gang has started")
}

// park has the gang wait, and returns why.
func (c *Coscheduling) park(scout *corev1.Pod, cast *cast, result plan.Result) string {
	round := cast.round
	why, culprit := cast.explain(result)+cast.outlook(), cast.culprit(result)
	round.Others, round.Laborious = append(cast.others(culprit), cast.substitutes...), cast.apart || len(cast.substitutes) > 0
	if len(cast.substitutes) == 0 {
		round.Shortfall, round.Regardless = cast.shortfall() // else it is not known what comes free for whom
	}
	return c.store.Park(round, scout, why, culprit, sets.List(cast.rejectors)...)
}

// send has a chosen member go to its place, and calls the one that comes after it.
func (c *Coscheduling) send(cycle fwk.CycleState, pod *corev1.Pod, entry state.Entry) (*fwk.PreFilterResult, *fwk.Status) {
	if entry.Next != nil {
		activateWith(cycle, pod, []*corev1.Pod{entry.Next})
	}
	return c.limit(cycle, pod, entry.Node)
}

// A small gang in a large cluster is planned on a few nodes first: so many for each member, and at least firstNodes. If they
// do not do, moreNodes times as many are tried, and in the end all.
const (
	nodesPerMember = 4
	firstNodes     = 8
	moreNodes      = 8
)

// plan finds places for the gang, or says why there are none with regard to all nodes. The few nodes begin after those of
// the plan before, as the upstream scheduler goes around the nodes too.
func (c *Coscheduling) plan(ctx context.Context, round *state.Round, nodes []fwk.NodeInfo) (*cast, plan.Result) {
	simple := !round.Pinned && !round.Choose && round.Before == nil
	for few := max(firstNodes, nodesPerMember*len(round.Members)); simple && few < len(nodes)/2; few *= moreNodes {
		cast := c.newCast(ctx, round, c.next(nodes, few))
		if cast.ties != nil {
			break // what its members ask of each other's places is asked about all nodes
		}
		if result := cast.rehearse(plan.Make(cast.demands, cast.nodes, cast.fits)); result.Verdict == plan.Possible {
			return cast, result
		}
	}
	cast := c.newCast(ctx, round, nodes)
	return cast, cast.decide()
}

// next returns the next nodes, in a circle.
func (c *Coscheduling) next(nodes []fwk.NodeInfo, count int) []fwk.NodeInfo {
	from := int(c.nextNode.Add(int64(count))-int64(count)) % len(nodes)
	some := slices.Clone(nodes[from:min(len(nodes), from+count)])
	return append(some, nodes[:count-len(some)]...)
}

// activateWith hands pods to the scheduler, which moves them to the front when the cycle of a pod has succeeded.
func activateWith(cycle fwk.CycleState, from *corev1.Pod, pods []*corev1.Pod) {
	data, err := cycle.Read(framework.PodsToActivateKey)
	if err != nil {
		return // the Store's waker does it
	}
	toActivate, ok := data.(*framework.PodsToActivate)
	if !ok {
		return
	}
	toActivate.Lock()
	defer toActivate.Unlock()
	for _, pod := range pods {
		if pod.UID != from.UID {
			toActivate.Map[pod.Namespace+"/"+pod.Name] = pod
		}
	}
}

// cast is a gang as the planner wants it: members that are alike make one demand, nodes are what is free on them.
type cast struct {
	plugin    *Coscheduling
	ctx       context.Context
	round     *state.Round
	infos     []fwk.NodeInfo
	groups    [][]*gang.Member // the members of each demand
	trials    []*trialRun      // of each demand, made when first asked for
	demands   []plan.Demand
	nodes     []plan.Node
	rejectors sets.Set[string]
	refused   map[place]bool // where a filter that does not look at room keeps the pods of a demand off a node
	reasons   sets.Set[string]
	stuck     *corev1.Pod // the member that found no devices in the rehearsal
	ties      *ties       // what the members ask of each other's places; nil if they do not
	turns     []types.UID // the order in which members with ties find their places
	// substitutes are one of each kind of those who were judged in place of members that do not fit, and did not fit either
	substitutes []*corev1.Pod
	apart       bool                        // there is room, but not beside each other as the members ask
	onlyRoom    func(demand, node int) bool // lacksOnlyRoom; a field for the sake of tests

	drainedFits func(demand, node int, endless bool) bool // fitsDrained; a field for the sake of tests
}

// place is a node for a demand, by their indexes.
type place struct{ demand, node int }

// trialRun is the state in which the profile's filters are asked about the pods of a demand. It is marked, so that the plugin
// does not judge within its own judgement.
type trialRun struct {
	cycle  fwk.CycleState
	status *fwk.Status
	names  sets.Set[string] // the only nodes that PreFilter leaves, nil for all
	closed bool             // the others refuse the pods, whatever room they have
}

func (c *Coscheduling) newCast(ctx context.Context, round *state.Round, infos []fwk.NodeInfo) *cast {
	k := &cast{plugin: c, ctx: ctx, round: round, infos: infos, rejectors: sets.New[string](), refused: map[place]bool{}, reasons: sets.New[string]()}
	k.onlyRoom, k.drainedFits = k.lacksOnlyRoom, k.fitsDrained
	namespace := sync.OnceValue(k.namespaceOf)
	byShape, shapes := map[string]int{}, c.shapesOf(round.Members)
	for _, m := range round.Members {
		shape := shapes.of(m)
		i, ok := byShape[shape]
		if !ok {
			i = len(k.groups)
			byShape[shape] = i
			k.groups = append(k.groups, nil)
			k.demands = append(k.demands, plan.Demand{Requests: m.Requests, MaxPerNode: maxPerNode(m.Pod, namespace)})
		}
		k.groups[i] = append(k.groups[i], m)
		k.demands[i].Count++
	}
	wanted := advertised(k.demands, infos)
	for d := range k.demands {
		k.demands[d].Requests = known(k.demands[d].Requests, wanted)
	}
	k.nodes = make([]plan.Node, len(infos))
	for i, info := range infos {
		free := freeOn(info, wanted)
		free.Sub(round.Elsewhere[info.Node().Name])
		k.nodes[i] = plan.Node{Name: info.Node().Name, Free: free}
	}
	k.trials = make([]*trialRun, len(k.demands))
	k.ties = newTies(k.examples(), namespace)
	return k
}

// examples are a pod of each demand.
func (k *cast) examples() []*corev1.Pod {
	examples := make([]*corev1.Pod, len(k.groups))
	for d, members := range k.groups {
		examples[d] = members[0].Pod
	}
	return examples
}

// fits asks the profile's filters, with what other pods have been nominated for, whether a pod of a demand may go to a node, in the end:
// where that depends on the other members, their places must show it.
func (k *cast) fits(demand, node int) bool {
	run := k.trial(demand)
	if !run.status.IsSuccess() {
		return false
	}
	if run.names != nil && !run.names.Has(k.nodes[node].Name) {
		return false
	}
	status := k.plugin.handle.RunFilterPluginsWithNominatedPods(k.ctx, run.cycle, k.groups[demand][0].Pod, k.infos[node])
	if k.ties.mindsFellows(demand, status) {
		return true
	}
	k.note(status)
	if keepsOff(status) {
		k.refused[place{demand, node}] = true
	}
	return status.IsSuccess()
}

// lookAtNodes are the filters that look at nothing but what a node and a pod say of themselves: no pod that goes anywhere changes their
// minds, and when a node changes they ask for its events. Of others that is not certain, as of those that keep devices or volumes in
// memory and tell nobody when they let go of them.
var lookAtNodes = sets.New(names.NodeAffinity, names.NodeName, names.NodeUnschedulable, names.TaintToleration)

// keepsOff says whether a node refuses a pod, or all nodes do, whatever room they have.
func keepsOff(status *fwk.Status) bool {
	return status.IsRejected() && lookAtNodes.Has(status.Plugin())
}

// refuses says whether a node is known to keep off the pods of a demand, whatever room it has. The plugin in the way is one of the
// rejectors, whose own events wake the gang when that changes.
func (k *cast) refuses(demand, node int) bool {
	run := k.trials[demand]
	switch {
	case run == nil:
		return false // the filters were never asked: there is no room anywhere
	case run.status.IsRejected():
		return keepsOff(run.status)
	case run.closed && !run.names.Has(k.nodes[node].Name):
		return true
	}
	return k.refused[place{demand, node}]
}

// trial returns the state in which the filters are asked about a demand.
func (k *cast) trial(demand int) *trialRun {
	if k.trials[demand] == nil {
		k.trials[demand] = k.newTrial(k.groups[demand][0].Pod)
	}
	return k.trials[demand]
}

func (k *cast) newTrial(pod *corev1.Pod) *trialRun {
	run := &trialRun{cycle: framework.NewCycleState()}
	state.MarkTrial(run.cycle)
	result, status, plugins := k.plugin.handle.RunPreFilterPlugins(k.ctx, run.cycle, pod)
	run.status = status
	k.note(status)
	if !result.AllNodes() {
		run.names, run.closed = result.NodeNames, lookAtNodes.IsSuperset(plugins)
		k.rejectors = k.rejectors.Union(plugins)
	}
	return run
}

// note remembers who stood in the way, and why.
func (k *cast) note(status *fwk.Status) {
	if status.IsSuccess() {
		return
	}
	if status.Plugin() != "" {
		k.rejectors.Insert(status.Plugin())
	}
	k.reasons.Insert(status.Reasons()...)
}

// culprit is a pod of the demand that was left short most.
func (k *cast) culprit(result plan.Result) *corev1.Pod {
	worst := k.worst(result)
	// Room alone is NodeResourcesFit's business; where the filters were never asked it must wake the gang.
	k.rejectors.Insert(names.NodeResourcesFit)
	if k.stuck != nil {
		return k.stuck
	}
	return k.groups[worst][0].Pod
}

// others are a pod of each demand but the culprit's own.
func (k *cast) others(culprit *corev1.Pod) []*corev1.Pod {
	var others []*corev1.Pod
	for _, members := range k.groups {
		if !slices.ContainsFunc(members, func(m *gang.Member) bool { return m.Pod == culprit }) {
			others = append(others, members[0].Pod)
		}
	}
	return others
}

// shortfall is what must come free before the gang can fit, on nodes that nothing else keeps it off; nil if there is room enough on
// these. Where that is so even if all that is promised to others were given back, it is regardless of that.
func (k *cast) shortfall() (short *plan.Shortfall, regardless bool) {
	index := plan.IndexOf(k.nodes, k.plugin.index.Load())
	k.plugin.index.Store(index)
	if len(k.round.Elsewhere) > 0 {
		if short := plan.Lacking(k.demands, k.withoutPromises(), index, k.refuses); short != nil {
			return short, true
		}
	}
	return plan.Lacking(k.demands, k.nodes, index, k.refuses), false
}

// withoutPromises are the nodes with what is free on them if nothing is promised to others.
func (k *cast) withoutPromises() []plan.Node {
	nodes := slices.Clone(k.nodes)
	for n := range nodes {
		if promised := k.round.Elsewhere[nodes[n].Name]; len(promised) > 0 {
			nodes[n].Free = nodes[n].Free.Clone()
			nodes[n].Free.Add(promised)
		}
	}
	return nodes
}

func (k *cast) worst(result plan.Result) int {
	worst, short := 0, -1
	for d := range k.demands {
		if missing := k.demands[d].Count - result.Seats[d]; missing > short {
			worst, short = d, missing
		}
	}
	return worst
}

// explain says in a sentence what is missing. It stays the same as long as nothing changes that matters.
func (k *cast) explain(result plan.Result) string {
	seated := 0
	for _, n := range result.Seats {
		seated += n
	}
	worst := k.worst(result)
	m := k.groups[worst][0]
	what := "more"
	if m.Task != "" {
		what = fmt.Sprintf("more of task %q", m.Task)
	}
	requests := m.Requests.Clone()
	delete(requests, corev1.ResourcePods)
	need := requests.InWords()
	if need == "" {
		need = "a place"
	}
	text := fmt.Sprintf("%d of %d members of the gang fit; %d %s need %s each", seated, len(k.round.Members),
		k.demands[worst].Count-result.Seats[worst], what, need)
	if k.apart {
		text += " where the rules of the gang's pods for each other let them go"
	}
	if near := k.nearest(worst, result.Left); near != "" {
		text += "; " + near
	}
	if k.reasons.Len() > 0 {
		text += " (" + strings.Join(sets.List(k.reasons), ", ") + ")"
	}
	return text
}

// nearestCandidates limits how many nodes are asked for the sake of a message.
const nearestCandidates = 64

// nearest names the node on which one more pod of the demand lacks least, and what it lacks there: of those nodes where
// room is all that it lacks.
func (k *cast) nearest(demand int, left []resources.List) string {
	type candidate struct {
		node  int
		share float64 // of what a pod takes that is missing, added up over the resources
	}
	requests := k.demands[demand].Requests
	candidates := make([]candidate, 0, len(left))
	for n, free := range left {
		share := 0.0
		for name, amount := range requests {
			if missing := lacks(amount, free[name]); missing > 0 {
				share += float64(missing) / float64(amount)
			}
		}
		if share > 0 {
			candidates = append(candidates, candidate{n, share})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(k.nodes[a.node].Name, k.nodes[b.node].Name))
	})
	for _, c := range candidates[:min(len(candidates), nearestCandidates)] {
		if !k.onlyRoom(demand, c.node) {
			continue
		}
		missing := resources.List{}
		for name, amount := range requests {
			missing[name] = lacks(amount, left[c.node][name])
		}
		return fmt.Sprintf("nearest: %s lacks %s", k.nodes[c.node].Name, missing.InWords())
	}
	return ""
}

// lacks is how much of a request is missing where so much is free. A node may be overcommitted: that is not the pod's.
func lacks(request, free int64) int64 { return max(0, request-max(0, free)) }

// lacksOnlyRoom says whether the first filter that keeps a pod of the demand off a node is the one that looks at room, or none
// does: room may be promised to others.
func (k *cast) lacksOnlyRoom(demand, node int) bool {
	run := k.trial(demand)
	if !run.status.IsSuccess() || run.names != nil && !run.names.Has(k.nodes[node].Name) {
		return false
	}
	status := k.plugin.handle.RunFilterPluginsWithNominatedPods(k.ctx, run.cycle, k.groups[demand][0].Pod, k.infos[node])
	return status.IsSuccess() || status.Plugin() == names.NodeResourcesFit
}

// places assigns the members of each demand to the places of the plan, nil if there is no complete plan.
func (k *cast) places(result plan.Result) map[types.UID]string {
	if result.Verdict != plan.Possible {
		return nil
	}
	return k.placesOf(result.Places)
}

// placesOf assigns members of each demand to places.
func (k *cast) placesOf(found [][]plan.Place) map[types.UID]string {
	places := make(map[types.UID]string, len(k.round.Members))
	for d, members := range k.groups {
		next := 0
		for _, place := range found[d] {
			for range place.Count {
				places[members[next].UID] = k.nodes[place.Node].Name
				next++
			}
		}
	}
	return places
}

// freeOn is what is left of some resources on a node. To count all that it has takes twice as long, for each judgement on each node.
func freeOn(info fwk.NodeInfo, names []corev1.ResourceName) resources.List {
	has, used := info.GetAllocatable(), info.GetRequested()
	free := make(resources.List, len(names))
	for _, name := range names {
		switch name {
		case corev1.ResourcePods:
			free[name] = int64(has.GetAllowedPodNumber() - len(info.GetPods()))
		default:
			free[name] = amountIn(has, name) - amountIn(used, name)
		}
	}
	return free
}

// amountIn is the amount of a resource in what the scheduler counts.
func amountIn(counted fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return counted.GetMilliCPU()
	case corev1.ResourceMemory:
		return counted.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return counted.GetEphemeralStorage()
	case corev1.ResourcePods:
		return int64(counted.GetAllowedPodNumber())
	}
	return counted.GetScalarResources()[name]
}

// advertised are the resources that the demands request and some node has, sorted.
func advertised(demands []plan.Demand, infos []fwk.NodeInfo) []corev1.ResourceName {
	names := sets.New[corev1.ResourceName]()
	for _, demand := range demands {
		for name := range demand.Requests {
			if !names.Has(name) && slices.ContainsFunc(infos, func(info fwk.NodeInfo) bool { return isOn(info, name) }) {
				names.Insert(name)
			}
		}
	}
	return sets.List(names)
}

// isOn says whether a node has a resource at all. What each is made of it has.
func isOn(info fwk.NodeInfo, name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	}
	_, has := info.GetAllocatable().GetScalarResources()[name]
	return has
}

// known drops the requests for resources that no node has: whether they can be had at all (from a device class, say, or
// not) is for the filters to tell.
func known(requests resources.List, advertised []corev1.ResourceName) resources.List {
	out := make(resources.List, len(requests))
	for _, name := range advertised {
		if amount, requested := requests[name]; requested {
			out[name] = amount
		}
	}
	return out
}

// maxPerNode is 1 for pods that keep others of their kind off their node: by a host port, or by an anti-affinity to
// themselves. 0 means any number. The labels are those of the pod's namespace. What terms say of the values of labels (matchLabelKeys)
// the API server has made part of their selectors.
func maxPerNode(pod *corev1.Pod, namespace func() labels.Set) int {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort > 0 {
				return 1
			}
		}
	}
	if affinity := pod.Spec.Affinity; affinity == nil || affinity.PodAntiAffinity == nil {
		return 0
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return 0 // the filters say so
	}
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		if term.TopologyKey == corev1.LabelHostname && term.Matches(pod, namespace()) {
			return 1
		}
	}
	return 0
}
