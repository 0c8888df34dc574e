package coscheduling

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
)

// The members of a gang with ties (see ties.go) are placed one after the other in thought, each where the profile's own filters let it
// go beside those before it. Where they found their places, and in which order, the round must follow: anywhere else the same rules may
// have no answer.

const (
	// mostDomains is how many domains are tried as the one that members who want to be near each other begin with.
	mostDomains = 8
	// mostAnswers bounds how often the filters are asked in one judgement, so that it takes a fraction of a second. A gang that
	// needs more is tried without a plan.
	mostAnswers = 20_000
	// nodesPerAnswer is how many nodes are counted again in the time of an answer.
	nodesPerAnswer = 50
	// luckyWays is how many ways are drawn by lot when none that was thought out has led anywhere.
	luckyWays = 16
)

// scene is a cluster in which a gang is to be placed.
type scene struct {
	*cast
	infos   []fwk.NodeInfo
	cycles  []fwk.CycleState // of each demand: the state that its filters are asked in
	free    []resources.List
	avoid   sets.Set[string]
	domains [][]int             // of each demand, of each node: the domain that the rules of its pods see in it
	spread  fwk.PreFilterPlugin // PodTopologySpread, nil if the profile has none
	answers int                 // that are left
	silent  bool                // what stands in the way here does not now
}

// here is the cluster as it is.
func (k *cast) here() *scene {
	s := &scene{cast: k, infos: k.infos, answers: mostAnswers}
	for d := range k.demands {
		s.cycles = append(s.cycles, k.trial(d).cycle)
		s.domains = append(s.domains, domainsOf(k.infos, k.ties.keys[d]))
	}
	for n := range k.nodes {
		s.free = append(s.free, k.nodes[n].Free)
	}
	for _, plugin := range k.plugin.handle.EnqueueExtensions() {
		if plugin.Name() == names.PodTopologySpread {
			s.spread, _ = plugin.(fwk.PreFilterPlugin)
		}
	}
	return s
}

// drained is the cluster as it will be when what will end has ended.
func (k *cast) drained(endless bool) (*scene, bool) {
	s := k.here()
	s.silent = true
	logger := klog.FromContext(k.ctx)
	s.infos = slices.Clone(s.infos)
	for d := range s.cycles {
		s.cycles[d] = s.cycles[d].Clone()
	}
	for n, drained := range k.drain(endless) {
		s.free[n] = drained.Later
		leaving := k.leaving(n, endless)
		if len(leaving) == 0 {
			continue
		}
		s.infos[n] = s.infos[n].Snapshot()
		for _, gone := range leaving {
			if err := s.infos[n].RemovePod(logger, gone.GetPod()); err != nil {
				return nil, false
			}
			for d, cycle := range s.cycles {
				if !k.trial(d).status.IsSuccess() {
					continue
				}
				if !k.plugin.handle.RunPreFilterExtensionRemovePod(k.ctx, cycle, k.groups[d][0].Pod, gone, s.infos[n]).IsSuccess() {
					return nil, false
				}
			}
		}
	}
	return s, true
}

// domainsOf numbers the nodes such that those have the same number that rules with these topologies cannot tell apart.
func domainsOf(infos []fwk.NodeInfo, keys sets.Set[string]) []int {
	numbers, out := map[string]int{}, make([]int, len(infos))
	sorted := sets.List(keys)
	for n, info := range infos {
		domain := ""
		for _, key := range sorted {
			value, ok := info.Node().Labels[key]
			if ok {
				domain += value
			}
			domain += "\x00"
		}
		if _, known := numbers[domain]; !known {
			numbers[domain] = len(numbers)
		}
		out[n] = numbers[domain]
	}
	return out
}

// placeTogether finds places for the members of a gang with ties, of which a plan has said that there is room enough.
func (k *cast) placeTogether(planned plan.Result) plan.Result {
	s := k.here()
	prefer := k.round.Before
	if prefer == nil {
		prefer = k.places(planned)
	}
	found, turns := s.search(prefer)
	switch {
	case found.Verdict == plan.Possible:
		k.turns = turns
	case planned.Verdict == plan.Uncertain || s.answers <= 0:
		found.Verdict = plan.Uncertain
	default:
		k.apart = true
	}
	return found
}

// togetherLater chooses places on which members with ties find room when what will end has ended: those of before, if they do. It returns
// nil if it finds none.
func (k *cast) togetherLater(endless bool, avoid sets.Set[string], before [][]plan.Place) map[types.UID]string {
	s, ok := k.drained(endless)
	if !ok {
		return nil
	}
	s.avoid = avoid
	found, _ := s.search(k.placesOf(before))
	return k.places(found)
}

// search tries several orders of the demands and of the nodes to place all members, and returns the attempt that came farthest. Where
// members had a place before, they are placed there if possible.
func (s *scene) search(prefer map[types.UID]string) (plan.Result, []types.UID) {
	best := plan.Result{Verdict: plan.Impossible, Seats: make([]int, len(s.demands)), Left: s.free}
	for _, w := range s.ways(prefer) {
		a := s.attempt(w)
		if a.verdict() == plan.Possible {
			return a.result(), a.turns
		}
		if len(a.turns) > seated(best) {
			best = a.result()
		}
		if s.answers <= 0 {
			break
		}
	}
	for range luckyWays {
		if s.answers < mostAnswers/2 {
			break
		}
		if a := s.attempt(s.anyWay()); a.verdict() == plan.Possible {
			return a.result(), a.turns
		}
	}
	return best, nil
}

// anyWay is a way by lot. Such ways do not count as the best, so that what is reported of the gang stays the same.
func (s *scene) anyWay() way {
	w := way{nodes: s.open(), demands: rand.Perm(len(s.demands)), byTurns: rand.IntN(2) == 0}
	rand.Shuffle(len(w.nodes), func(i, j int) { w.nodes[i], w.nodes[j] = w.nodes[j], w.nodes[i] })
	return w
}

// way is how to place members.
type way struct {
	nodes   []int // in the order in which they are tried
	demands []int // the same
	byTurns bool  // go back to the first demand after each member, not when nobody is left of one or finds a place
	prefer  map[types.UID]string
}

// ways are those that are worth a try.
func (s *scene) ways(prefer map[types.UID]string) (ways []way) {
	var forth []int
	for d := range s.demands {
		forth = append(forth, d)
	}
	back := slices.Clone(forth)
	slices.Reverse(back)
	all := s.open()
	ways = append(ways, way{all, forth, false, prefer})
	for _, nodes := range s.nodeOrders(all) {
		ways = append(ways, way{nodes, forth, false, nil})
	}
	if len(forth) == 1 {
		return ways
	}
	as := slices.Clone(ways)
	for _, byTurns := range []bool{false, true} {
		for _, w := range as {
			ways = append(ways, way{w.nodes, back, byTurns, w.prefer})
		}
	}
	return ways
}

func seated(result plan.Result) int {
	total := 0
	for _, n := range result.Seats {
		total += n
	}
	return total
}

// open are the nodes that are not to be avoided.
func (s *scene) open() (open []int) {
	for n := range s.nodes {
		if !s.avoid.Has(s.nodes[n].Name) {
			open = append(open, n)
		}
	}
	return open
}

// nodeOrders are the orders in which nodes are tried. Members that want to be near each other go where the first of them went, so each
// of the domains with most room for the gang comes first once. Members that keep others off leave most to them when they fill one domain
// after the other.
func (s *scene) nodeOrders(all []int) (orders [][]int) {
	for _, key := range sets.List(s.ties.near) {
		domains := s.byRoom(all, key)
		for i := range domains[:min(len(domains), mostDomains)] {
			orders = append(orders, slices.Concat(domains[i], slices.Concat(domains[:i]...), slices.Concat(domains[i+1:]...)))
		}
	}
	for _, key := range sets.List(s.ties.far.Difference(s.ties.near)) {
		domains := s.byRoom(all, key)
		orders = append(orders, slices.Concat(domains...))
		slices.Reverse(domains)
		orders = append(orders, slices.Concat(domains...))
	}
	if len(orders) == 0 {
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		orders = append(orders, reversed)
	}
	return orders
}

// byRoom returns the nodes of each domain of a topology, those of the domain first that has room for the greatest part of the gang. Nodes
// without the topology come last.
func (s *scene) byRoom(nodes []int, key string) [][]int {
	members := map[string][]int{}
	var without []int
	for _, n := range nodes {
		if value, ok := s.infos[n].Node().Labels[key]; ok {
			members[value] = append(members[value], n)
		} else {
			without = append(without, n)
		}
	}
	share := make(map[string]float64, len(members))
	for value, nodes := range members {
		share[value] = s.shareOf(nodes)
	}
	var domains [][]int
	for _, value := range slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return cmp.Or(cmp.Compare(share[b], share[a]), cmp.Compare(a, b))
	}) {
		domains = append(domains, members[value])
	}
	if len(without) > 0 {
		domains = append(domains, without)
	}
	return domains
}

// shareOf is the part of a demand for which nodes have room: of that demand for which they have least, each by itself.
func (s *scene) shareOf(nodes []int) float64 {
	least := 1.0
	for d, demand := range s.demands {
		room := 0
		for _, n := range nodes {
			if room >= demand.Count {
				break
			}
			if slots := plan.Slots(demand, s.free[n]); slots > 0 && s.mayGo(d, n) {
				room += slots
			}
		}
		least = min(least, float64(room)/float64(demand.Count))
	}
	return least
}

// mayGo says whether a pod of a demand may go to a node, in the end. It says yes when half of the answers have been used up.
func (s *scene) mayGo(d, n int) bool {
	run := s.trial(d)
	if !run.status.IsSuccess() || run.names != nil && !run.names.Has(s.nodes[n].Name) {
		return false
	}
	if s.answers < mostAnswers/2 {
		return true
	}
	s.answers--
	status := s.plugin.handle.RunFilterPluginsWithNominatedPods(s.ctx, s.cycles[d], s.groups[d][0].Pod, s.infos[n])
	return status.IsSuccess() || s.ties.mindsFellows(d, status)
}

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
