package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
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

func TestMake(t *testing.T) {
	tests := map[string]struct {
		demands []Demand
		nodes   []Node
		fits    Fits
		verdict Verdict
		seats   []int
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
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := Make(test.demands, test.nodes, test.fits)
			assert.Equal(t, test.verdict, result.Verdict)
			if test.verdict == Possible {
				assert.Equal(t, test.seats, result.Seats)
			}
			if len(test.demands) == 1 {
				assert.Equal(t, test.seats, result.Seats)
			}
		})
	}
}

// TestAPlanHolds draws clusters and gangs: what a plan seats fits, it never says Impossible to what an exhaustive search can
// seat, and it never says Possible to what that cannot.
func TestAPlanHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := nodes(rapid.SliceOfN(rapid.Int64Range(-1, 9), 0, 4).Draw(t, "free")...)
		var demands []Demand
		for range rapid.IntRange(1, 3).Draw(t, "demands") {
			demands = append(demands, Demand{
				Requests:   cpu(rapid.Int64Range(0, 6).Draw(t, "cpu")),
				Count:      rapid.IntRange(1, 3).Draw(t, "count"),
				MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
			})
		}
		barred := map[[2]int]bool{}
		for d := range demands {
			for n := range cluster {
				barred[[2]int{d, n}] = rapid.IntRange(0, 3).Draw(t, "barred") == 0
			}
		}
		fits := func(d, n int) bool { return !barred[[2]int{d, n}] }

		result := Make(demands, cluster, fits)
		switch seatable := search(demands, cluster, fits); result.Verdict {
		case Possible:
			assert.True(t, seatable)
			checkPlaces(t, demands, cluster, fits, result.Places)
		case Impossible:
			assert.False(t, seatable, "a gang that fits was refused")
		}
	})
}

func checkPlaces(t *rapid.T, demands []Demand, cluster []Node, fits Fits, places [][]Place) {
	used := make([]int64, len(cluster))
	for d, demand := range demands {
		seated := 0
		for _, place := range places[d] {
			assert.True(t, fits(d, place.Node))
			assert.True(t, demand.MaxPerNode == 0 || place.Count <= demand.MaxPerNode)
			seated += place.Count
			used[place.Node] += int64(place.Count) * demand.Requests[corev1.ResourceCPU]
		}
		assert.Equal(t, demand.Count, seated)
	}
	for n := range cluster {
		assert.True(t, used[n] == 0 || used[n] <= cluster[n].Free[corev1.ResourceCPU])
	}
}

// search tries every way to seat the pods one by one.
func search(demands []Demand, cluster []Node, fits Fits) bool {
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
