package placement

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// members are the members that are to start, by demand class. They are the same on whatever nodes places are searched.
type members struct {
	classes     [][]*gang.Member
	demands     []Demand     // of each class
	constraints *constraints // nil if there are none
}

// membersOf sorts members into their demand classes.
func membersOf(profile Profile, all []*gang.Member) *members {
	m := &members{}
	namespace := func() labels.Set { return namespaceLabels(profile, all[0].Pod.Namespace) }
	indexes, classifier := map[string]int{}, classifierFor(profile, all)
	for _, member := range all {
		class := classifier.classOf(member)
		d, known := indexes[class]
		if !known {
			d = len(m.classes)
			indexes[class] = d
			m.classes = append(m.classes, nil)
			m.demands = append(m.demands, Demand{Requests: member.Requests, MaxPerNode: maxPerNode(member.Pod, namespace)})
		}
		m.classes[d] = append(m.classes[d], member)
		m.demands[d].Count++
	}
	if len(all) > 1 {
		m.constraints = newConstraints(m.examples(), namespace)
	}
	return m
}

// namespaceLabels returns the labels of a namespace, by which terms of pods in other namespaces may select its pods. It is empty if it is not
// known.
func namespaceLabels(profile Profile, name string) labels.Set {
	namespace, err := profile.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}

// count is the number of members.
func (m *members) count() (all int) {
	for _, class := range m.classes {
		all += len(class)
	}
	return all
}

// example is a pod of a demand.
func (m *members) example(demand int) *corev1.Pod { return m.classes[demand][0].Pod }

// examples are a pod of each demand.
func (m *members) examples() []*corev1.Pod {
	examples := make([]*corev1.Pod, len(m.classes))
	for d := range m.classes {
		examples[d] = m.example(d)
	}
	return examples
}

// view is some of the nodes of the snapshot, as members see them that are to be placed there.
type view struct {
	*members
	ctx     context.Context
	profile Profile
	demands []Demand       // without the resources that no node has
	infos   []fwk.NodeInfo // see info
	nodes   []Node
	names   []corev1.ResourceName // the resources that count
	ended   *ended                // nil in a view of the cluster as it is
	heldOn  func(fwk.NodeInfo) resources.List
	isKept  func(*corev1.Pod) bool // of nominated pods
	held    []resources.List       // on each node; the free room is without it
	// apart finds places in the cluster as it will be for groups with bounds of their own. It is nil for other members.
	apart func(later *view, avoid sets.Set[string], before [][]Place) ([][]Place, bool)
	// nominated is what is kept on each node for pods that are nominated to it. The free room is without it.
	nominated []resources.List

	filters   []*filterState // of each demand, made when first asked for
	refused   map[pair]bool  // nodes that refuse the pods of a demand, whatever room they have
	rejectors sets.Set[string]
	reasons   sets.Set[string]
	unplaced  *corev1.Pod // the member that found no node in the dry-run reserve
}

// pair is a node for a demand, by their indexes.
type pair struct{ demand, node int }

// filterState is the state in which the filters are asked about the pods of a demand. It is marked as a dry-run.
type filterState struct {
	cycle        fwk.CycleState
	status       *fwk.Status      // of PreFilter
	nodes        sets.Set[string] // the only nodes that PreFilter leaves, nil for all
	othersRefuse bool             // the other nodes refuse the pods, whatever room they have
}

// leaves says whether PreFilter leaves a node to the pods.
func (f *filterState) leaves(node string) bool {
	return f.status.IsSuccess() && (f.nodes == nil || f.nodes.Has(node))
}

// newView makes a view of which the nodes are added one by one. Room that is held on a node is not free, and neither is that of nominated pods
// which isKept accepts. all are the nodes that may be added.
func newView(ctx context.Context, profile Profile, m *members, all []fwk.NodeInfo, held func(fwk.NodeInfo) resources.List, isKept func(*corev1.Pod) bool) *view {
	v := &view{
		members: m, ctx: ctx, profile: profile, demands: slices.Clone(m.demands), heldOn: held, isKept: isKept, names: advertisedBy(all, m.demands),
		filters: make([]*filterState, len(m.demands)), refused: map[pair]bool{}, rejectors: sets.New[string](), reasons: sets.New[string](),
	}
	for d := range v.demands {
		v.demands[d].Requests = only(v.names, v.demands[d].Requests)
	}
	return v
}

// grow makes place for so many nodes.
func (v *view) grow(nodes int) {
	v.infos, v.nodes = slices.Grow(v.infos, nodes), slices.Grow(v.nodes, nodes)
	v.held, v.nominated = slices.Grow(v.held, nodes), slices.Grow(v.nominated, nodes)
}

// add adds a node with what is free on it.
func (v *view) add(info fwk.NodeInfo) {
	free, held, nominated := FreeOn(info, v.names), v.heldOn(info), v.keptForNominated(info.Node().Name)
	free.Sub(held)
	free.Sub(nominated)
	v.infos, v.held, v.nominated = append(v.infos, info), append(v.held, held), append(v.nominated, nominated)
	v.nodes = append(v.nodes, Node{Name: info.Node().Name, Free: free})
}

// keptForNominated is what pods request that are nominated to a node and that isKept accepts. It is nil for nothing. The filters count it for
// one member, but not for several on a node.
func (v *view) keptForNominated(node string) resources.List {
	var kept resources.List
	for _, info := range v.profile.NominatedPodsForNode(node) {
		if v.isKept(info.GetPod()) {
			kept = kept.Clone()
			kept.Add(freedBy(info, v.names))
		}
	}
	return kept
}

// fits asks the profile's filters whether a pod of a demand may go to a node beside nominated pods. Where that depends on the places of
// other members it says yes.
func (v *view) fits(demand, node int) bool {
	if !v.filter(demand).leaves(v.nodes[node].Name) {
		return false
	}
	status := v.ask(demand, node)
	if v.constraints.mayPassLater(demand, status) {
		return true
	}
	v.note(status)
	if refusesForGood(status) {
		v.refused[pair{demand, node}] = true
	}
	return status.IsSuccess()
}

// ask asks the filters about a pod of a demand on a node.
func (v *view) ask(demand, node int) *fwk.Status {
	f, ask := v.filter(demand), v.profile.RunFilterPluginsWithNominatedPods
	switch {
	case !f.leaves(v.nodes[node].Name):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	case v.ended != nil && v.ended.withoutNominated:
		ask = v.profile.RunFilterPlugins
	}
	return ask(v.ctx, f.cycle, v.example(demand), v.info(node))
}

// staticFilters look only at a pod and at fields of the node. No placement changes their answers, and they register the events of nodes
// that do. That is not certain of other filters. Some track devices or volumes in memory and send no event when these are released.
var staticFilters = sets.New(names.NodeAffinity, names.NodeName, names.NodeUnschedulable, names.TaintToleration, quota.NodeGroupPlugin)

// refusesForGood says whether a pod is rejected, whatever room there is, until the node changes.
func refusesForGood(status *fwk.Status) bool {
	return status.IsRejected() && staticFilters.Has(status.Plugin())
}

// refuses says whether a node is known to refuse the pods of a demand, whatever room it has. The plugin is one of the rejectors then, so
// its events retry the gang.
func (v *view) refuses(demand, node int) bool {
	f := v.filters[demand]
	switch {
	case f == nil:
		return false // no node has room, so the filters were not asked
	case f.status.IsRejected():
		return refusesForGood(f.status)
	case f.othersRefuse && !f.nodes.Has(v.nodes[node].Name):
		return true
	}
	return v.refused[pair{demand, node}]
}

// filter returns the state in which the filters are asked about a demand.
func (v *view) filter(demand int) *filterState {
	switch {
	case v.filters[demand] != nil:
	case v.ended != nil:
		f := *v.ended.from.filter(demand)
		f.cycle = f.cycle.Clone()
		v.removeAll(&f, v.example(demand))
		v.filters[demand] = &f
	default:
		v.filters[demand] = v.newFilterState(v.example(demand))
	}
	return v.filters[demand]
}

func (v *view) newFilterState(pod *corev1.Pod) *filterState {
	f := &filterState{cycle: framework.NewCycleState()}
	MarkDryRun(f.cycle)
	result, status, plugins := v.profile.RunPreFilterPlugins(v.ctx, f.cycle, pod)
	f.status = status
	v.note(status)
	if !result.AllNodes() {
		f.nodes, f.othersRefuse = result.NodeNames, staticFilters.IsSuperset(plugins)
		v.rejectors = v.rejectors.Union(plugins)
	}
	v.removeAll(f, pod)
	return f
}

// note records which plugin rejected a pod, and why.
func (v *view) note(status *fwk.Status) {
	if status.IsSuccess() {
		return
	}
	if status.Plugin() != "" {
		v.rejectors.Insert(status.Plugin())
	}
	v.reasons.Insert(status.Reasons()...)
}

// nodesOf assigns the members of each demand to its places, in their order.
func (v *view) nodesOf(places [][]Place) map[types.UID]string {
	nodes := map[types.UID]string{}
	for d, class := range v.classes {
		next := 0
		for _, place := range places[d] {
			for range place.Count {
				nodes[class[next].UID] = v.nodes[place.Node].Name
				next++
			}
		}
	}
	return nodes
}
