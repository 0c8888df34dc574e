package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
)

// attempt is a scene on which members have been placed.
type attempt struct {
	*scene
	infos  []fwk.NodeInfo
	copied []bool // infos that are the attempt's own
	cycles []fwk.CycleState
	stale  []bool // of each demand: its spreading must be counted again
	free   []resources.List
	prefer map[types.UID]string
	left   [][]int                       // of each demand: where its pods may still go, in the order to be tried
	barred []map[string]sets.Set[string] // of each demand, of each topology: the domains that members keep its pods out of
	places [][]plan.Place
	turns  []types.UID
}

// attempt places members as far as it goes, and comes back to those that were refused when others have found their places.
func (s *scene) attempt(w way) *attempt {
	a := &attempt{
		scene: s, prefer: w.prefer, infos: slices.Clone(s.infos), copied: make([]bool, len(s.infos)), stale: make([]bool, len(s.demands)),
		free: slices.Clone(s.free), barred: make([]map[string]sets.Set[string], len(s.demands)), places: make([][]plan.Place, len(s.demands)),
	}
	for d := range s.demands {
		a.cycles = append(a.cycles, s.cycles[d].Clone())
		a.left = append(a.left, w.nodes)
		a.barred[d] = map[string]sets.Set[string]{}
	}
	for a.placeSome(w) {
	}
	return a
}

// placeSome places members of the demands in their order, and says whether it has placed any.
func (a *attempt) placeSome(w way) bool {
	before := len(a.turns)
	for _, d := range w.demands {
		for a.placeOne(d) {
			if w.byTurns {
				return true
			}
		}
	}
	return len(a.turns) > before
}

func (a *attempt) verdict() plan.Verdict {
	if len(a.turns) == len(a.round.Members) {
		return plan.Possible
	}
	return plan.Impossible
}

func (a *attempt) result() plan.Result {
	result := plan.Result{Verdict: a.verdict(), Places: a.places, Left: a.free}
	for _, places := range a.places {
		result.Seats = append(result.Seats, len(places))
	}
	return result
}

// placeOne places the next member of a demand. The node that takes it is the first to be asked for the next one; those that refused it
// and may change their minds come last.
func (a *attempt) placeOne(d int) bool {
	next := len(a.places[d])
	if next == a.demands[d].Count || !a.trial(d).status.IsSuccess() {
		return false
	}
	m := a.groups[d][next]
	nodes := a.left[d]
	if next == 0 {
		nodes = a.roomyFirst(d, nodes)
	}
	if i := a.preferred(m, nodes); i > 0 {
		nodes = slices.Concat(nodes[i:i+1], nodes[:i], nodes[i+1:])
	}
	refused := map[int]bool{} // domains
	var later []int
	for i, n := range nodes {
		if plan.Slots(a.demands[d], a.free[n]) == 0 {
			continue
		}
		if refused[a.domains[d][n]] {
			later = append(later, n)
			continue
		}
		status := a.ask(d, m.Pod, n)
		if status.IsSuccess() {
			a.left[d] = slices.Concat(nodes[i:], later)
			return a.place(d, m, n)
		}
		if mayComeTrue(status) {
			refused[a.domains[d][n]] = true
			later = append(later, n)
		}
	}
	a.left[d] = later
	return false
}

// roomyFirst puts those nodes first in whose domain all pods of a demand have room that want to be near each other.
func (a *attempt) roomyFirst(d int, nodes []int) []int {
	for _, key := range sets.List(a.ties.nears[d]) {
		room := map[string]int{}
		for _, n := range nodes {
			room[a.infos[n].Node().Labels[key]] += plan.Slots(a.demands[d], a.free[n])
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

// preferred is the place among the nodes of the one that a member had before, -1 if it had none.
func (a *attempt) preferred(m *gang.Member, nodes []int) int {
	node, ok := a.prefer[m.UID]
	if !ok {
		return -1
	}
	return slices.IndexFunc(nodes, func(n int) bool { return a.nodes[n].Name == node })
}

// ask asks the filters whether a member may go to a node beside those that have their places.
func (a *attempt) ask(d int, pod *corev1.Pod, n int) *fwk.Status {
	run := a.trial(d)
	if run.names != nil && !run.names.Has(a.nodes[n].Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if a.isBarred(d, n) {
		status := fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch).WithPlugin(names.InterPodAffinity)
		a.remember(status)
		return status
	}
	if a.answers--; a.answers < 0 {
		return fwk.NewStatus(fwk.Unschedulable)
	}
	if status := a.countAgain(d); !status.IsSuccess() {
		return status
	}
	status := a.plugin.handle.RunFilterPluginsWithNominatedPods(a.ctx, a.cycles[d], pod, a.infos[n])
	a.remember(status)
	return status
}

func (a *attempt) remember(status *fwk.Status) {
	if !a.silent {
		a.note(status)
	}
}

// isBarred says whether a member that has its place keeps the pods of a demand off a node. InterPodAffinity does not tell where nobody
// had such a rule when it was asked first.
func (a *attempt) isBarred(d, n int) bool {
	for key, domains := range a.barred[d] {
		if value, ok := a.infos[n].Node().Labels[key]; ok && domains.Has(value) {
			return true
		}
	}
	return false
}

// countAgain has PodTopologySpread count the pods in all domains. Told of one pod after the other on different nodes, it loses sight of
// which domain has the fewest.
func (a *attempt) countAgain(d int) *fwk.Status {
	if !a.stale[d] || a.spread == nil || a.cycles[d].GetSkipFilterPlugins().Has(names.PodTopologySpread) {
		return nil
	}
	a.stale[d] = false
	a.answers -= len(a.infos) / nodesPerAnswer
	_, status := a.spread.PreFilter(a.ctx, a.cycles[d], a.groups[d][0].Pod, a.infos)
	return status
}

// place puts a member on a node, where the filters of all demands see it from now on.
func (a *attempt) place(d int, m *gang.Member, n int) bool {
	added, err := framework.NewPodInfo(m.Pod)
	if err != nil {
		return false
	}
	if !a.copied[n] {
		a.infos[n], a.copied[n] = a.infos[n].Snapshot(), true
	}
	a.infos[n].AddPodInfo(added)
	for e, cycle := range a.cycles {
		if !a.ties.minds[e] || !a.trial(e).status.IsSuccess() {
			continue
		}
		if !a.plugin.handle.RunPreFilterExtensionAddPod(a.ctx, cycle, a.groups[e][0].Pod, added, a.infos[n]).IsSuccess() {
			return false
		}
		a.stale[e] = true
	}
	for _, shun := range a.ties.shuns[d] {
		value, ok := a.infos[n].Node().Labels[shun.key]
		if !ok {
			continue
		}
		if a.barred[shun.demand][shun.key] == nil {
			a.barred[shun.demand][shun.key] = sets.New[string]()
		}
		a.barred[shun.demand][shun.key].Insert(value)
	}
	free := a.free[n].Clone()
	free.Sub(a.demands[d].Requests)
	a.free[n] = free
	a.places[d] = append(a.places[d], plan.Place{Node: n, Count: 1})
	a.turns = append(a.turns, m.UID)
	return true
}
