package placement

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Demand is a number of pods of one demand class: the scheduler cannot tell them apart.
type Demand struct {
	// Requests is what each pod takes from its node.
	Requests resources.List
	// Count is the number of pods.
	Count int
	// MaxPerNode is the number of these pods that a node may hold; 0 means any number.
	MaxPerNode int
}

// Node is a node with what is free on it.
type Node struct {
	// Name of the node.
	Name string
	// Free is what is left for new pods. The node does not have a resource that is missing here.
	Free resources.List
}

// Fits says whether a pod of a demand (by index) may go to a node (by index) that has room. It is asked at most once per pair in one
// packing, and only where there is room.
type Fits func(demand, node int) bool

// Feasibility says whether a gang fits.
type Feasibility int

// The values of Feasibility.
const (
	// Impossible: some demand cannot be met, wherever the pods of the other demands go.
	Impossible Feasibility = iota
	// Uncertain: no places were found for all pods, yet each demand can be met by itself.
	Uncertain
	// Possible: there is a place for each pod.
	Possible
)

// Packing is the places of the pods of several demands, or the best try at them.
type Packing struct {
	// Feasibility says whether all pods have a place.
	Feasibility Feasibility
	// Places has, for each demand, where its pods go. They are complete only if the feasibility is Possible.
	Places [][]Place
	// Placed is, for each demand, the number of its pods that have a place.
	Placed []int
	// Left is what remains free on each node.
	Left []resources.List
}

// Place is a number of pods on a node.
type Place struct {
	// Node is the index of the node.
	Node int
	// Count is the number of pods.
	Count int
}

// Pack finds places for the pods of some demands, the largest first. Placing pods of different sizes is hard in general (bin packing), so
// two orders of the nodes are tried. One has the tightest first, which keeps large gaps whole, the other the roomiest first. At last the smallest
// demand is first, as a larger one may have taken its only place. For a single demand the answer is exact.
func Pack(demands []Demand, nodes []Node, fits Fits) Packing {
	fits = cached(fits, len(nodes))
	order := bySize(demands, nodes)
	best := packInOrder(demands, nodes, fits, order, true)
	if best.Feasibility == Possible || len(demands) == 1 {
		return best
	}
	if other := packInOrder(demands, nodes, fits, order, false); other.Feasibility == Possible || sum(other.Placed) > sum(best.Placed) {
		best = other
	}
	if best.Feasibility == Possible || !possibleAlone(demands, nodes, fits) {
		return best
	}
	slices.Reverse(order)
	if other := packInOrder(demands, nodes, fits, order, true); other.Feasibility == Possible {
		return other
	}
	best.Feasibility = Uncertain
	return best
}

// packInOrder places one demand after the other. For a single demand that is exact: no order of the nodes places more pods.
func packInOrder(demands []Demand, nodes []Node, fits Fits, order []int, tightestFirst bool) Packing {
	packing := Packing{Feasibility: Possible, Places: make([][]Place, len(demands)), Placed: make([]int, len(demands)), Left: freeOf(nodes)}
	for _, d := range order {
		packing.Places[d] = placesFor(d, demands[d], packing.Left, fits, tightestFirst)
		for _, place := range packing.Places[d] {
			packing.Placed[d] += place.Count
			take(packing.Left, place.Node, demands[d].Requests, place.Count)
		}
		if packing.Placed[d] < demands[d].Count {
			packing.Feasibility = Impossible
		}
	}
	return packing
}

// placesFor finds places for the pods of one demand on nodes with the given free amounts.
func placesFor(d int, demand Demand, free []resources.List, fits Fits, tightestFirst bool) []Place {
	candidates := make([]Place, 0, len(free))
	for n := range free {
		if slots := Slots(demand, free[n]); slots > 0 {
			candidates = append(candidates, Place{Node: n, Count: slots})
		}
	}
	slices.SortStableFunc(candidates, func(a, b Place) int {
		if tightestFirst {
			return cmp.Compare(a.Count, b.Count)
		}
		return cmp.Compare(b.Count, a.Count)
	})
	var places []Place
	missing := demand.Count
	for _, candidate := range candidates {
		if missing == 0 {
			break
		}
		if !fits(d, candidate.Node) {
			continue
		}
		candidate.Count = min(candidate.Count, missing)
		missing -= candidate.Count
		places = append(places, candidate)
	}
	return places
}

// Slots is the number of pods of a demand that the free amounts hold.
func Slots(demand Demand, free resources.List) int {
	return slotsIn(demand, func(name corev1.ResourceName) int64 { return free[name] })
}

func slotsIn(demand Demand, amountOf func(corev1.ResourceName) int64) int {
	slots := int64(math.MaxInt32)
	if demand.MaxPerNode > 0 {
		slots = int64(demand.MaxPerNode)
	}
	for name, amount := range demand.Requests {
		if amount > 0 {
			slots = min(slots, amountOf(name)/amount)
		}
	}
	return int(max(0, slots))
}

// possibleAlone says whether each demand could be met if there were no other. All of them together must fit into the sum of the nodes that
// they may go to, too.
func possibleAlone(demands []Demand, nodes []Node, fits Fits) bool {
	wanted := resources.List{}
	for d, demand := range demands {
		wanted.Add(demand.Requests.Scale(int64(demand.Count)))
		missing := demand.Count
		for n := range nodes {
			if slots := Slots(demand, nodes[n].Free); missing > 0 && slots > 0 && fits(d, n) {
				missing -= slots
			}
		}
		if missing > 0 {
			return false
		}
	}
	for n := range nodes {
		if covered(wanted) {
			return true
		}
		if servesAny(demands, n, nodes[n], fits) {
			for name, amount := range nodes[n].Free {
				wanted[name] = max(0, wanted[name]-max(0, amount))
			}
		}
	}
	return covered(wanted)
}

// servesAny says whether a pod of any demand may go to a node as it is.
func servesAny(demands []Demand, n int, node Node, fits Fits) bool {
	for d, demand := range demands {
		if Slots(demand, node.Free) > 0 && fits(d, n) {
			return true
		}
	}
	return false
}

// covered says whether all amounts are 0 or less.
func covered(wanted resources.List) bool {
	for _, amount := range wanted {
		if amount > 0 {
			return false
		}
	}
	return true
}

// bySize orders the demands by the largest share of the biggest node that one pod takes.
func bySize(demands []Demand, nodes []Node) []int {
	if len(demands) == 1 {
		return []int{0}
	}
	biggest := map[corev1.ResourceName]int64{}
	for _, node := range nodes {
		for name, amount := range node.Free {
			biggest[name] = max(biggest[name], amount)
		}
	}
	size := make([]float64, len(demands))
	order := make([]int, len(demands))
	for d, demand := range demands {
		order[d] = d
		for name, amount := range demand.Requests {
			if amount > 0 {
				size[d] = max(size[d], float64(amount)/float64(max(1, biggest[name])))
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return order
}

// cached asks fits once per pair.
func cached(fits Fits, nodes int) Fits {
	answers := map[int]bool{}
	return func(demand, node int) bool {
		key := demand*nodes + node
		answer, known := answers[key]
		if !known {
			answer = fits(demand, node)
			answers[key] = answer
		}
		return answer
	}
}

// freeOf is what is free on each node. The amounts are shared with the nodes; see take.
func freeOf(nodes []Node) []resources.List {
	free := make([]resources.List, len(nodes))
	for n := range nodes {
		free[n] = nodes[n].Free
	}
	return free
}

// take takes the requests of some pods from what is free on a node. It replaces the list, as other nodes may share it.
func take(free []resources.List, node int, requests resources.List, count int) {
	left := free[node].Clone()
	left.Sub(requests.Scale(int64(count)))
	free[node] = left
}

func sum(counts []int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}
