package coscheduling

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

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
