package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// drained makes nodes from pairs of what is free now and what will be.
func drained(pairs ...[2]int64) []Drained {
	out := make([]Drained, len(pairs))
	for i, pair := range pairs {
		out[i] = Drained{Name: fmt.Sprint("node", i), Now: cpu(pair[0]), Later: cpu(pair[1])}
	}
	return out
}

func TestSetAside(t *testing.T) {
	tests := map[string]struct {
		demands []Demand
		nodes   []Drained
		fits    Fits
		before  [][]Place
		places  [][]Place // nil: none
	}{
		"what is free is enough": {
			demands: []Demand{{cpu(2), 2, 0}}, nodes: drained([2]int64{2, 4}, [2]int64{2, 4}), fits: anywhere,
			places: [][]Place{{{0, 1}, {1, 1}}}},
		"what is free first, the rest where most is free": {
			demands: []Demand{{cpu(4), 3, 0}}, nodes: drained([2]int64{4, 8}, [2]int64{3, 8}, [2]int64{1, 8}), fits: anywhere,
			places: [][]Place{{{0, 1}, {1, 2}}}},
		"too large for the drained cluster": {
			demands: []Demand{{cpu(4), 3, 0}}, nodes: drained([2]int64{4, 4}, [2]int64{0, 7}), fits: anywhere},
		"the choice stands while other nodes become freer": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: drained([2]int64{1, 4}, [2]int64{3, 4}), fits: anywhere,
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{0, 1}}}},
		"a place that is free is better than one that will be": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: drained([2]int64{1, 4}, [2]int64{4, 4}), fits: anywhere,
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{1, 1}}}},
		"a chosen node that is too small now is left": {
			demands: []Demand{{cpu(4), 2, 0}}, nodes: drained([2]int64{0, 4}, [2]int64{0, 4}), fits: anywhere,
			before: [][]Place{{{0, 2}}}, places: [][]Place{{{0, 1}, {1, 1}}}},
		"a node that other reasons bar is not chosen": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: drained([2]int64{4, 4}, [2]int64{0, 4}), fits: func(_, n int) bool { return n == 1 },
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{1, 1}}}},
		"one of a kind on each node": {
			demands: []Demand{{cpu(1), 2, 1}}, nodes: drained([2]int64{4, 4}, [2]int64{0, 4}), fits: anywhere,
			before: [][]Place{{{0, 2}}}, places: [][]Place{{{0, 1}, {1, 1}}}},
		"more in use than there is": {
			demands: []Demand{{cpu(1), 1, 0}}, nodes: drained([2]int64{-5, 4}, [2]int64{0, 4}), fits: anywhere,
			places: [][]Place{{{1, 1}}}},
		"another order helps pods of different sizes": {
			// What is free now would go to the two of 3, and no node would be left for the one of 5.
			demands: []Demand{{cpu(5), 1, 0}, {cpu(3), 2, 0}}, nodes: drained([2]int64{3, 5}, [2]int64{4, 6}), fits: anywhere,
			places: [][]Place{{{0, 1}}, {{1, 2}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			places, ok := SetAside(test.demands, test.nodes, test.fits, test.before)
			assert.Equal(t, test.places != nil, ok)
			if ok {
				assert.Equal(t, test.places, places)
			}
		})
	}
}

func TestPlacesThatWereSetAsideAreKeptWhenTheyAreFree(t *testing.T) {
	demands := []Demand{{cpu(6), 1, 0}, {cpu(5), 1, 0}}
	places, ok := Keep(demands, nodes(5, 6), anywhere, [][]Place{{{1, 1}}, {{0, 1}}})
	assert.True(t, ok)
	assert.Equal(t, [][]Place{{{1, 1}}, {{0, 1}}}, places)
	_, ok = Keep(demands, nodes(5, 5), anywhere, [][]Place{{{1, 1}}, {{0, 1}}})
	assert.False(t, ok)
}

// waitsFor is the number of pods whose places are not free yet.
func waitsFor(demands []Demand, nodes []Drained, places [][]Place) int {
	unfree := 0
	for d := range demands {
		for _, place := range places[d] {
			unfree += max(0, place.Count-Slots(demands[d], nodes[place.Node].Now))
		}
	}
	return unfree
}

// TestSetAsideIsStableAndHolds draws clusters whose pods end one after the other: the places always fit the drained cluster,
// where there were some they stay, they never wait for more pods than before, and when all has ended they are a plan.
func TestSetAsideIsStableAndHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cluster []Drained
		for n := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			size := rapid.Int64Range(1, 10).Draw(t, "size")
			cluster = append(cluster, Drained{Name: fmt.Sprint("node", n), Now: cpu(rapid.Int64Range(-1, size).Draw(t, "now")), Later: cpu(size)})
		}
		demands := []Demand{{
			Requests:   cpu(rapid.Int64Range(1, 5).Draw(t, "cpu")),
			Count:      rapid.IntRange(1, 6).Draw(t, "count"),
			MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
		}}
		barred := rapid.SliceOfN(rapid.Bool(), len(cluster), len(cluster)).Draw(t, "barred")
		fits := func(_, n int) bool { return !barred[n] }
		seats := 0
		for n := range cluster {
			if !barred[n] {
				seats += Slots(demands[0], cluster[n].Later)
			}
		}
		places, ok := SetAside(demands, cluster, fits, nil)
		assert.Equal(t, seats >= demands[0].Count, ok, "for pods that are alike the answer is exact")
		for ok {
			checkChoice(t, demands, cluster, fits, places)
			waits := waitsFor(demands, cluster, places)
			if waits == 0 {
				break
			}
			// Something ends on a node that waits.
			for _, place := range places[0] {
				if node := &cluster[place.Node]; place.Count > Slots(demands[0], node.Now) {
					node.Now = cpu(node.Now["cpu"] + 1)
					break
				}
			}
			places, ok = SetAside(demands, cluster, fits, places)
			assert.True(t, ok)
			assert.LessOrEqual(t, waitsFor(demands, cluster, places), waits)
		}
		if ok {
			free := make([]Node, len(cluster))
			for n := range cluster {
				free[n] = Node{Free: cluster[n].Now}
			}
			_, seated := Keep(demands, free, fits, places)
			assert.True(t, seated)
		}
	})
}

func checkChoice(t *rapid.T, demands []Demand, cluster []Drained, fits Fits, places [][]Place) {
	count := 0
	for _, place := range places[0] {
		count += place.Count
		assert.True(t, fits(0, place.Node))
		assert.LessOrEqual(t, place.Count, Slots(demands[0], cluster[place.Node].Later))
	}
	assert.Equal(t, demands[0].Count, count)
}
