// Package plan finds places for the members of a gang. It is pure: nodes are free amounts, and whether a pod may go to
// a node at all is a function that the caller gives.
package plan

import (
	"math"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Demand is a number of pods that are alike.
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
	// Free is what is left for new pods. A resource that is missing is not there.
	Free resources.List
}

// Fits says whether a pod of a demand (by index) may go to a node (by index), room aside. It is asked at most once per pair
// in a plan, and only where there is room.
type Fits func(demand, node int) bool

// Verdict says what is known of a gang's chances.
type Verdict int

// The verdicts.
const (
	// Impossible: some demand cannot be met whatever is done about the others.
	Impossible Verdict = iota
	// Uncertain: no place was found for all together, yet none of the demands is impossible by itself.
	Uncertain
	// Possible: there is a place for each pod.
	Possible
)

// Result is a plan, or why there is none.
type Result struct {
	// Verdict says what is known.
	Verdict Verdict
	// Places has, for each demand, the node (by index) and the number of its pods there. Complete only if Possible.
	Places [][]Place
	// Seats is, for each demand, the number of its pods that found a place in the best attempt.
	Seats []int
	// Left is what the best attempt leaves free on each node.
	Left []resources.List
}

// Place is a number of pods on a node.
type Place struct {
	// Node is the index of the node.
	Node int
	// Count is the number of pods.
	Count int
}

// Make seats the largest demand first. Finding places for pods of different sizes is hard in general (it is bin
// packing), so two orders of the nodes are tried: the tightest first, which keeps large gaps whole, and the roomiest first.
// For pods that are all alike the answer is exact.
func Make(demands []Demand, nodes []Node, fits Fits) Result {
	fits = remember(fits, len(nodes))
	order := bySize(demands, nodes)
	best := attempt(demands, nodes, fits, order, true)
	if best.Verdict == Possible || len(demands) == 1 {
		return best
	}
	if other := attempt(demands, nodes, fits, order, false); other.Verdict == Possible || sum(other.Seats) > sum(best.Seats) {
		best = other
	}
	if best.Verdict != Possible && possibleAlone(demands, nodes, fits) {
		best.Verdict = Uncertain
	}
	return best
}

// attempt seats one demand after the other. For a single demand that is exact: no order of nodes seats more.
func attempt(demands []Demand, nodes []Node, fits Fits, order []int, tightestFirst bool) Result {
	free := make([]resources.List, len(nodes))
	for n := range nodes {
		free[n] = nodes[n].Free
	}
	result := Result{Verdict: Possible, Places: make([][]Place, len(demands)), Seats: make([]int, len(demands))}
	for _, d := range order {
		places := seat(d, demands[d], free, fits, tightestFirst)
		for _, place := range places {
			result.Seats[d] += place.Count
			taken := free[place.Node].Clone()
			taken.Sub(demands[d].Requests.Scale(int64(place.Count)))
			free[place.Node] = taken
		}
		result.Places[d] = places
		if result.Seats[d] < demands[d].Count {
			result.Verdict = Impossible
		}
	}
	result.Left = free
	return result
}

// seat finds places for one demand on nodes with the given free amounts.
func seat(d int, demand Demand, free []resources.List, fits Fits, tightestFirst bool) []Place {
	candidates := make([]Place, 0, len(free))
	for n := range free {
		if slots := Slots(demand, free[n]); slots > 0 {
			candidates = append(candidates, Place{Node: n, Count: slots})
		}
	}
	sort.SliceStable(candidates, func(i, j int) bool {
		if tightestFirst {
			return candidates[i].Count < candidates[j].Count
		}
		return candidates[i].Count > candidates[j].Count
	})
	var places []Place
	for left := demand.Count; left > 0 && len(candidates) > 0; candidates = candidates[1:] {
		candidate := candidates[0]
		if !fits(d, candidate.Node) {
			continue
		}
		candidate.Count = min(candidate.Count, left)
		left -= candidate.Count
		places = append(places, candidate)
	}
	return places
}

// Slots is the number of pods of a demand that the free amounts hold.
func Slots(demand Demand, free resources.List) int {
	slots := int64(math.MaxInt32)
	if demand.MaxPerNode > 0 {
		slots = int64(demand.MaxPerNode)
	}
	for name, amount := range demand.Requests {
		if amount > 0 {
			slots = min(slots, free[name]/amount)
		}
	}
	return int(max(0, slots))
}

// possibleAlone says whether each demand could be met if the others were not there, and all together fit into the sum of
// what is free where any of them may go.
func possibleAlone(demands []Demand, nodes []Node, fits Fits) bool {
	wanted := resources.List{}
	for d, demand := range demands {
		wanted.Add(demand.Requests.Scale(int64(demand.Count)))
		left := demand.Count
		for n := range nodes {
			if slots := Slots(demand, nodes[n].Free); left > 0 && slots > 0 && fits(d, n) {
				left -= slots
			}
		}
		if left > 0 {
			return false
		}
	}
	for n := range nodes {
		if covered(wanted) {
			return true
		}
		if servesAny(demands, n, nodes[n], fits) {
			for name, amount := range nodes[n].Free {
				wanted[name] -= max(0, amount)
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

// covered says whether nothing is wanted any more.
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
	sort.SliceStable(order, func(i, j int) bool { return size[order[i]] > size[order[j]] })
	return order
}

// remember asks fits once per pair.
func remember(fits Fits, nodes int) Fits {
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

func sum(counts []int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}
