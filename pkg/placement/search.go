package placement

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/resources"
)

// A gang with inter-pod constraints is placed by a search. Its members are placed in sequence on copies of the nodes. The profile's own
// filters decide about each, beside the members before it. The attempt must follow the places and the order that were found, as the filters
// may reject any other.

const (
	// maxDomains is how many domains are tried as the first one for members that must be near each other.
	maxDomains = 8
	// maxCalls bounds the calls of filters in one search, so that it takes a fraction of a second. If a gang needs more, the feasibility is
	// Uncertain.
	maxCalls = 20_000
	// nodesPerCall is how many nodes PodTopologySpread counts again in the time of one call.
	nodesPerCall = 50
	// randomStrategies is how many random strategies are tried when the fixed ones have failed.
	randomStrategies = 24
)

// clusterState is what filters see of the cluster.
type clusterState struct {
	infos  []fwk.NodeInfo
	cycles []fwk.CycleState // of each demand
	free   []resources.List // on each node
}

// search looks for places of members with inter-pod constraints.
type search struct {
	*view
	start   clusterState
	avoid   sets.Set[string]    // nodes that are not used
	domains [][]int             // of each demand, of each node: the number of the domain that its constraints see
	spread  fwk.PreFilterPlugin // PodTopologySpread, nil if the profile has none
	calls   int                 // calls of filters that are left
}

// newSearch makes a search in the cluster of the view.
func (v *view) newSearch() *search {
	s := &search{view: v, start: clusterState{infos: v.allInfos(), free: freeOf(v.nodes)}, calls: maxCalls}
	for d := range v.demands {
		s.start.cycles = append(s.start.cycles, v.filter(d).cycle)
		s.domains = append(s.domains, domainsOf(v.infos, v.constraints.keys[d]))
	}
	for _, plugin := range v.profile.EnqueueExtensions() {
		if plugin.Name() == names.PodTopologySpread {
			s.spread, _ = plugin.(fwk.PreFilterPlugin)
		}
	}
	return s
}

// domainsOf numbers the nodes: two nodes have the same number if constraints with these topology keys cannot tell them apart.
func domainsOf(infos []fwk.NodeInfo, keys sets.Set[string]) []int {
	numbers, domains := map[string]int{}, make([]int, len(infos))
	sorted := sets.List(keys)
	for n, info := range infos {
		domain := ""
		for _, key := range sorted {
			domain += info.Node().Labels[key] + "\x00"
		}
		if _, known := numbers[domain]; !known {
			numbers[domain] = len(numbers)
		}
		domains[n] = numbers[domain]
	}
	return domains
}

// run tries several strategies until one places all members, and returns the order in which it did. Otherwise it returns the packing with
// the most members placed. Members go to their preferred nodes if possible.
func (s *search) run(prefer map[types.UID]string) (Packing, []types.UID) {
	best := Packing{Feasibility: Impossible, Placed: make([]int, len(s.demands)), Left: s.start.free}
	for _, strategy := range s.strategies(prefer) {
		a := s.arrange(strategy)
		if a.feasibility() == Possible {
			return a.packing(), a.order
		}
		if len(a.order) > sum(best.Placed) {
			best = a.packing()
		}
		if s.calls <= 0 {
			break
		}
	}
	for range randomStrategies {
		if s.calls < maxCalls/2 {
			break
		}
		if a := s.arrange(s.randomStrategy()); a.feasibility() == Possible {
			return a.packing(), a.order
		}
	}
	return best, nil
}

// strategy is an order in which members are placed.
type strategy struct {
	nodes     []int // in the order in which they are tried
	demands   []int // the same
	alternate bool  // go back to the first demand after each member, not when a demand has no more members or places
	prefer    map[types.UID]string
}

// strategies are the strategies that are worth a try first.
func (s *search) strategies(prefer map[types.UID]string) []strategy {
	var demands []int
	for d := range s.demands {
		demands = append(demands, d)
	}
	all := s.allowedNodes()
	strategies := []strategy{{nodes: all, demands: demands, prefer: prefer}}
	for _, nodes := range s.nodeOrders(all) {
		strategies = append(strategies, strategy{nodes: nodes, demands: demands})
	}
	return strategies
}

// randomStrategy is a random strategy. It never counts as the best try, so that the message for the gang stays the same.
func (s *search) randomStrategy() strategy {
	r := strategy{nodes: s.allowedNodes(), demands: rand.Perm(len(s.demands)), alternate: true}
	rand.Shuffle(len(r.nodes), func(i, j int) { r.nodes[i], r.nodes[j] = r.nodes[j], r.nodes[i] })
	return r
}

// allowedNodes are the nodes that are not to be avoided.
func (s *search) allowedNodes() (allowed []int) {
	for n := range s.nodes {
		if !s.avoid.Has(s.nodes[n].Name) {
			allowed = append(allowed, n)
		}
	}
	return allowed
}

// nodeOrders are the orders in which nodes are tried. Members that must be near each other follow the first of them. So each of the domains
// with most room comes first once. Members that keep pods off leave most room when they fill one domain after the other.
func (s *search) nodeOrders(all []int) (orders [][]int) {
	for _, key := range sets.List(s.constraints.near) {
		domains := s.byRoom(all, key)
		for i := range domains[:min(len(domains), maxDomains)] {
			orders = append(orders, slices.Concat(domains[i], slices.Concat(domains[:i]...), slices.Concat(domains[i+1:]...)))
		}
	}
	for _, key := range sets.List(s.constraints.apart.Difference(s.constraints.near)) {
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

// byRoom returns the nodes of each domain of a topology. The domain with room for most of the gang comes first. Nodes without the topology
// key come last.
func (s *search) byRoom(nodes []int, key string) [][]int {
	inDomain := map[string][]int{}
	var without []int
	for _, n := range nodes {
		if value, ok := s.infos[n].Node().Labels[key]; ok {
			inDomain[value] = append(inDomain[value], n)
		} else {
			without = append(without, n)
		}
	}
	share := make(map[string]float64, len(inDomain))
	for value, nodes := range inDomain {
		share[value] = s.shareOf(nodes)
	}
	var domains [][]int
	for _, value := range slices.SortedFunc(maps.Keys(inDomain), func(a, b string) int {
		return cmp.Or(cmp.Compare(share[b], share[a]), cmp.Compare(a, b))
	}) {
		domains = append(domains, inDomain[value])
	}
	if len(without) > 0 {
		domains = append(domains, without)
	}
	return domains
}

// shareOf is the smallest share, over all demands, of the pods that nodes have room for. Each demand counts by itself.
func (s *search) shareOf(nodes []int) float64 {
	least := 1.0
	for d, demand := range s.demands {
		room := 0
		for _, n := range nodes {
			if room >= demand.Count {
				break
			}
			if slots := Slots(demand, s.start.free[n]); slots > 0 && s.mayGo(d, n) {
				room += slots
			}
		}
		least = min(least, float64(room)/float64(demand.Count))
	}
	return least
}

// mayGo says whether a pod of a demand may go to a node. When half of the calls have been used it returns true without a call.
func (s *search) mayGo(d, n int) bool {
	if !s.filter(d).leaves(s.nodes[n].Name) {
		return false
	}
	if s.calls < maxCalls/2 {
		return true
	}
	s.calls--
	status := s.profile.RunFilterPluginsWithNominatedPods(s.ctx, s.start.cycles[d], s.example(d), s.start.infos[n])
	return status.IsSuccess() || s.constraints.mayPassLater(d, status)
}
