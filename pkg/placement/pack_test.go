package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func cpu(n int64) resources.List { return resources.List{corev1.ResourceCPU: n} }

func nodes(free ...int64) []Node {
	out := make([]Node, len(free))
	for i, n := range free {
		out[i] = Node{Name: fmt.Sprint("node", i), Free: cpu(n)}
	}
	return out
}

func anywhere(int, int) bool { return true }

func TestPack(t *testing.T) {
	tests := map[string]struct {
		demands     []Demand
		nodes       []Node
		fits        Fits
		feasibility Feasibility
		placed      []int
	}{
		"alike and enough":     {[]Demand{{cpu(3), 4, 0}}, nodes(6, 6), anywhere, Possible, []int{4}},
		"alike and one short":  {[]Demand{{cpu(3), 5, 0}}, nodes(8, 8), anywhere, Impossible, []int{4}},
		"no nodes":             {[]Demand{{cpu(1), 1, 0}}, nil, anywhere, Impossible, []int{0}},
		"overcommitted node":   {[]Demand{{cpu(1), 1, 0}}, nodes(-5), anywhere, Impossible, []int{0}},
		"nothing is requested": {[]Demand{{nil, 3, 0}}, nodes(0), anywhere, Possible, []int{3}},
		"one per node":         {[]Demand{{cpu(1), 3, 1}}, nodes(9, 9), anywhere, Impossible, []int{2}},
		"kept off a node":      {[]Demand{{cpu(1), 2, 0}}, nodes(1, 9), func(_, node int) bool { return node == 0 }, Impossible, []int{1}},
		"large ones first":     {[]Demand{{cpu(2), 4, 0}, {cpu(8), 1, 0}}, nodes(8, 8), anywhere, Possible, []int{4, 1}},
		"too much in all":      {[]Demand{{cpu(5), 2, 0}, {cpu(4), 2, 0}}, nodes(8, 8), anywhere, Impossible, []int{0, 0}},
		"the sum fits, the pieces may not": {
			[]Demand{{cpu(5), 2, 0}, {cpu(3), 1, 0}, {cpu(4), 1, 0}}, nodes(9, 8), anywhere, Possible, []int{2, 1, 1}},
		"room where none may go": {[]Demand{{cpu(1), 1, 0}, {cpu(1), 1, 0}}, nodes(1, 6), func(_, node int) bool { return node == 0 },
			Impossible, []int{1, 0}},
		"fits in sum but not in pieces": {[]Demand{{cpu(6), 1, 0}, {cpu(5), 2, 0}}, nodes(8, 9), anywhere, Uncertain, nil},
		"the sum is one short":          {[]Demand{{cpu(6), 1, 0}, {cpu(5), 2, 0}}, nodes(8, 7), anywhere, Impossible, nil},
		"memory that a node lacks is not missing on another": {
			[]Demand{{resources.List{corev1.ResourceCPU: 6, corev1.ResourceMemory: 1}, 1, 0}, {cpu(5), 2, 0}},
			[]Node{{Free: resources.List{corev1.ResourceCPU: 8, corev1.ResourceMemory: 1}}, {Free: resources.List{corev1.ResourceCPU: 9, corev1.ResourceMemory: -5}}},
			anywhere, Uncertain, nil},
		"the largest takes no place that is another's only one": {
			[]Demand{{resources.List{corev1.ResourceCPU: 4, corev1.ResourceMemory: 1}, 1, 0}, {resources.List{corev1.ResourceCPU: 1, corev1.ResourceMemory: 2}, 1, 0}},
			[]Node{{Free: resources.List{corev1.ResourceCPU: 4, corev1.ResourceMemory: 4}}, {Free: resources.List{corev1.ResourceCPU: 4, corev1.ResourceMemory: 1}}},
			anywhere, Possible, []int{1, 1}},
		"the sum is just enough": {[]Demand{{cpu(6), 1, 0}, {cpu(5), 2, 0}}, nodes(8, 8), anywhere, Uncertain, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			packing := Pack(test.demands, test.nodes, test.fits)
			assert.Equal(t, test.feasibility, packing.Feasibility)
			if test.feasibility == Possible {
				assert.Equal(t, test.placed, packing.Placed)
			}
			if len(test.demands) == 1 {
				assert.Equal(t, test.placed, packing.Placed)
			}
		})
	}
}

// TestFeasibilityOfPack draws clusters and gangs and compares the feasibility with an exhaustive search: Possible and Impossible are
// certain. Uncertain is said only if each demand can be met by itself and the sum of free room is enough.
func TestFeasibilityOfPack(t *testing.T) {
	seen := map[Feasibility]int{}
	both := func() bool { return seen[Possible] > 0 && seen[Impossible] > 0 }
	mustertesting.HistoriesUntil(t, 3000, both, func(t *rapid.T) {
		cluster := nodes(rapid.SliceOfN(rapid.Int64Range(-1, 12), 0, 4).Draw(t, "free")...)
		var demands []Demand
		for range rapid.IntRange(1, 3).Draw(t, "demands") {
			demands = append(demands, Demand{
				Requests:   cpu(rapid.Int64Range(0, 6).Draw(t, "cpu")),
				Count:      rapid.IntRange(1, 3).Draw(t, "count"),
				MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
			})
		}
		refused, refusals := map[[2]int]bool{}, rapid.IntRange(0, 2).Draw(t, "refusals")
		for d := range demands {
			for n := range cluster {
				refused[[2]int{d, n}] = refusals > 0 && rapid.IntRange(0, 3).Draw(t, "refused") < refusals
			}
		}
		fits := func(d, n int) bool { return !refused[[2]int{d, n}] }

		packing := Pack(demands, cluster, fits)
		seen[packing.Feasibility]++
		possible := canBePlaced(demands, cluster, fits)
		eachAlone, sumFits := true, fitsInSum(demands, cluster, fits)
		for d := range demands {
			eachAlone = eachAlone && canBePlaced(demands[d:d+1], cluster, func(_, n int) bool { return fits(d, n) })
		}
		switch packing.Feasibility {
		case Possible:
			assert.True(t, possible)
			checkPlaces(t, demands, cluster, fits, packing.Places)
		case Impossible:
			assert.False(t, possible, "a gang that fits is rejected")
			assert.False(t, eachAlone && sumFits, "nothing shows that it is impossible")
		case Uncertain:
			assert.Greater(t, len(demands), 1, "for a single demand the answer is exact")
			assert.True(t, eachAlone && sumFits, "it is certainly impossible")
			assert.Less(t, sum(packing.Placed), countOfPods(demands))
		}
	})
	assert.Positive(t, seen[Possible])
	assert.Positive(t, seen[Impossible])
	t.Logf("%d uncertain", seen[Uncertain]) // they are rare: the table above has some
}

func countOfPods(demands []Demand) (total int) {
	for _, demand := range demands {
		total += demand.Count
	}
	return total
}

// fitsInSum says whether the nodes that take a pod of any demand have free CPU for all pods.
func fitsInSum(demands []Demand, cluster []Node, fits Fits) bool {
	wanted, free := int64(0), int64(0)
	for _, demand := range demands {
		wanted += int64(demand.Count) * demand.Requests[corev1.ResourceCPU]
	}
	for n := range cluster {
		for d, demand := range demands {
			size := demand.Requests[corev1.ResourceCPU]
			if fits(d, n) && (size == 0 || size <= cluster[n].Free[corev1.ResourceCPU]) {
				free += max(0, cluster[n].Free[corev1.ResourceCPU])
				break
			}
		}
	}
	return wanted <= free
}

func checkPlaces(t *rapid.T, demands []Demand, cluster []Node, fits Fits, places [][]Place) {
	used := make([]int64, len(cluster))
	for d, demand := range demands {
		placed := 0
		for _, place := range places[d] {
			assert.True(t, fits(d, place.Node))
			assert.True(t, demand.MaxPerNode == 0 || place.Count <= demand.MaxPerNode)
			placed += place.Count
			used[place.Node] += int64(place.Count) * demand.Requests[corev1.ResourceCPU]
		}
		assert.Equal(t, demand.Count, placed)
	}
	for n := range cluster {
		assert.True(t, used[n] == 0 || used[n] <= cluster[n].Free[corev1.ResourceCPU])
	}
}

// canBePlaced tries all places of the pods one by one.
func canBePlaced(demands []Demand, cluster []Node, fits Fits) bool {
	free := make([]int64, len(cluster))
	for n := range cluster {
		free[n] = cluster[n].Free[corev1.ResourceCPU]
	}
	onNode := map[[2]int]int{}
	var place func(d, k, from int) bool
	place = func(d, k, from int) bool {
		if d == len(demands) {
			return true
		}
		if k == demands[d].Count {
			return place(d+1, 0, 0)
		}
		size := demands[d].Requests[corev1.ResourceCPU]
		for n := from; n < len(cluster); n++ {
			at := [2]int{d, n}
			if !fits(d, n) || size > 0 && free[n] < size || demands[d].MaxPerNode > 0 && onNode[at] == demands[d].MaxPerNode {
				continue
			}
			free[n] -= size
			onNode[at]++
			if place(d, k+1, n) {
				return true
			}
			free[n] += size
			onNode[at]--
		}
		return false
	}
	return place(0, 0, 0)
}
