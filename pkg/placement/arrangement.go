package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
)

// arrangement is a copy of the cluster with the members that one strategy has placed.
type arrangement struct {
	*search
	now        clusterState
	copied     []bool // of each node: its info is the arrangement's own
	stale      []bool // of each demand: its spreading must be counted again
	prefer     map[types.UID]string
	candidates [][]int                       // of each demand: the nodes that are left for its pods, in the order in which they are tried
	closed     []map[string]sets.Set[string] // of each demand, of each topology key: the domains that members keep its pods out of
	places     [][]Place
	order      []types.UID
}

// arrange places as many members as it can. When other members have been placed it tries rejected members again.
func (s *search) arrange(by strategy) *arrangement {
	a := &arrangement{
		search: s, prefer: by.prefer, copied: make([]bool, len(s.infos)), stale: make([]bool, len(s.demands)),
		now:    clusterState{infos: slices.Clone(s.start.infos), free: slices.Clone(s.start.free)},
		closed: make([]map[string]sets.Set[string], len(s.demands)), places: make([][]Place, len(s.demands)),
	}
	for d := range s.demands {
		a.now.cycles = append(a.now.cycles, s.start.cycles[d].Clone())
		a.candidates = append(a.candidates, by.nodes)
		a.closed[d] = map[string]sets.Set[string]{}
	}
	for a.placeSome(by) {
	}
	return a
}

// placeSome places members of the demands in their order, and says whether it has placed any.
func (a *arrangement) placeSome(by strategy) bool {
	before := len(a.order)
	for _, d := range by.demands {
		for a.placeOne(d) {
			if by.alternate {
				return true
			}
		}
	}
	return len(a.order) > before
}

func (a *arrangement) feasibility() Feasibility {
	if len(a.order) == a.count() {
		return Possible
	}
	return Impossible
}

func (a *arrangement) packing() Packing {
	packing := Packing{Feasibility: a.feasibility(), Places: a.places, Left: a.now.free}
	for _, places := range a.places {
		packing.Placed = append(packing.Placed, len(places))
	}
	return packing
}

// placeOne places the next member of a demand and says whether it could. The node that takes the member is tried first for the next one.
// Nodes whose filters rejected it and may pass it later come last.
func (a *arrangement) placeOne(d int) bool {
	next := len(a.places[d])
	if next == a.demands[d].Count || !a.filter(d).status.IsSuccess() {
		return false
	}
	m := a.classes[d][next]
	nodes := a.candidates[d]
	if next == 0 {
		nodes = a.roomyFirst(d, nodes)
	}
	if i := a.preferred(m, nodes); i > 0 {
		nodes = slices.Concat(nodes[i:i+1], nodes[:i], nodes[i+1:])
	}
	rejected := map[int]bool{} // domains
	var later []int
	for i, n := range nodes {
		if Slots(a.demands[d], a.now.free[n]) == 0 {
			continue
		}
		if rejected[a.domains[d][n]] {
			later = append(later, n)
			continue
		}
		status := a.ask(d, m.Pod, n)
		if status.IsSuccess() {
			a.candidates[d] = slices.Concat(nodes[i:], later)
			return a.place(d, m, n)
		}
		if isSatisfiable(status) {
			rejected[a.domains[d][n]] = true
			later = append(later, n)
		}
	}
	a.candidates[d] = later
	return false
}

// roomyFirst puts nodes first whose domain has room for all pods of a demand with pod affinity.
func (a *arrangement) roomyFirst(d int, nodes []int) []int {
	for _, key := range sets.List(a.constraints.attracted[d]) {
		room := map[string]int{}
		for _, n := range nodes {
			room[a.infos[n].Node().Labels[key]] += Slots(a.demands[d], a.now.free[n])
		}
		var roomy, rest []int
		for _, n := range nodes {
			if room[a.infos[n].Node().Labels[key]] >= a.demands[d].Count {
				roomy = append(roomy, n)
			} else {
				rest = append(rest, n)
			}
		}
		nodes = slices.Concat(roomy, rest)
	}
	return nodes
}

// preferred is the position among the nodes of the one that a member prefers, -1 if there is none.
func (a *arrangement) preferred(m *gang.Member, nodes []int) int {
	node, ok := a.prefer[m.UID]
	if !ok {
		return -1
	}
	return slices.IndexFunc(nodes, func(n int) bool { return a.nodes[n].Name == node })
}

// ask asks the filters whether a member may go to a node beside the placed members.
func (a *arrangement) ask(d int, pod *corev1.Pod, n int) *fwk.Status {
	if !a.filter(d).leaves(a.nodes[n].Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if a.isClosed(d, n) {
		status := fwk.NewStatus(fwk.Unschedulable, reasonExistingAntiAffinity).WithPlugin(names.InterPodAffinity)
		a.note(status)
		return status
	}
	if a.calls--; a.calls < 0 {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	if status := a.countSpreading(d); !status.IsSuccess() {
		return status
	}
	status := a.profile.RunFilterPluginsWithNominatedPods(a.ctx, a.now.cycles[d], pod, a.now.infos[n])
	a.note(status)
	return status
}

// isClosed says whether a placed member keeps the pods of a demand off a node. InterPodAffinity does not see that if no pod had such a
// term when its PreFilter ran.
func (a *arrangement) isClosed(d, n int) bool {
	for key, domains := range a.closed[d] {
		if value, ok := a.infos[n].Node().Labels[key]; ok && domains.Has(value) {
			return true
		}
	}
	return false
}

// countSpreading has PodTopologySpread count the pods of all domains again. When pods are added one by one on different nodes, it loses
// track of the domain with the fewest.
func (a *arrangement) countSpreading(d int) *fwk.Status {
	if !a.stale[d] || a.spread == nil || a.now.cycles[d].GetSkipFilterPlugins().Has(names.PodTopologySpread) {
		return nil
	}
	a.stale[d] = false
	a.calls -= len(a.infos) / nodesPerCall
	_, status := a.spread.PreFilter(a.ctx, a.now.cycles[d], a.example(d), a.now.infos)
	return status
}

// place puts a member on a node, where the filters of all demands see it from now on. It returns false if a plugin fails.
func (a *arrangement) place(d int, m *gang.Member, n int) bool {
	added, err := framework.NewPodInfo(m.Pod)
	if err != nil {
		return false
	}
	if !a.copied[n] {
		a.now.infos[n], a.copied[n] = a.now.infos[n].Snapshot(), true
	}
	a.now.infos[n].AddPodInfo(added)
	for e, cycle := range a.now.cycles {
		if !a.constraints.dependent[e] || !a.filter(e).status.IsSuccess() {
			continue
		}
		if !a.profile.RunPreFilterExtensionAddPod(a.ctx, cycle, a.example(e), added, a.now.infos[n]).IsSuccess() {
			return false
		}
		a.stale[e] = true
	}
	for _, r := range a.constraints.repels[d] {
		value, ok := a.infos[n].Node().Labels[r.key]
		if !ok {
			continue
		}
		if a.closed[r.demand][r.key] == nil {
			a.closed[r.demand][r.key] = sets.New[string]()
		}
		a.closed[r.demand][r.key].Insert(value)
	}
	take(a.now.free, n, a.demands[d].Requests, 1)
	a.places[d] = append(a.places[d], Place{Node: n, Count: 1})
	a.order = append(a.order, m.UID)
	return true
}
