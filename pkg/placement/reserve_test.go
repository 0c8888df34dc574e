package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

// futureNode is a node with what is free now and later.
type futureNode struct{ now, later int64 }

// future makes nodes, and what will be free on them, from pairs of what is free now and later.
func future(pairs ...futureNode) (nodes []Node, later []resources.List) {
	for i, pair := range pairs {
		nodes, later = append(nodes, Node{Name: fmt.Sprint("node", i), Free: cpu(pair.now)}), append(later, cpu(pair.later))
	}
	return nodes, later
}

func TestPackLater(t *testing.T) {
	tests := map[string]struct {
		demands []Demand
		nodes   []futureNode
		fits    Fits
		before  [][]Place
		places  [][]Place // nil: none
	}{
		"what is free now is enough": {
			demands: []Demand{{cpu(2), 2, 0}}, nodes: []futureNode{{2, 4}, {2, 4}}, fits: anywhere,
			places: [][]Place{{{0, 1}, {1, 1}}}},
		"what is free now first, the rest where most is free": {
			demands: []Demand{{cpu(4), 3, 0}}, nodes: []futureNode{{4, 8}, {3, 8}, {1, 8}}, fits: anywhere,
			places: [][]Place{{{0, 1}, {1, 2}}}},
		"too large even later": {
			demands: []Demand{{cpu(4), 3, 0}}, nodes: []futureNode{{4, 4}, {0, 7}}, fits: anywhere},
		"an earlier place is kept when other nodes have more room": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: []futureNode{{1, 4}, {3, 4}}, fits: anywhere,
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{0, 1}}}},
		"a place that is free is better than one that will be": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: []futureNode{{1, 4}, {4, 4}}, fits: anywhere,
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{1, 1}}}},
		"an earlier place that is too small even later is dropped": {
			demands: []Demand{{cpu(4), 2, 0}}, nodes: []futureNode{{0, 4}, {0, 4}}, fits: anywhere,
			before: [][]Place{{{0, 2}}}, places: [][]Place{{{0, 1}, {1, 1}}}},
		"a node that a filter refuses is not chosen": {
			demands: []Demand{{cpu(4), 1, 0}}, nodes: []futureNode{{4, 4}, {0, 4}}, fits: func(_, n int) bool { return n == 1 },
			before: [][]Place{{{0, 1}}}, places: [][]Place{{{1, 1}}}},
		"one pod on each node": {
			demands: []Demand{{cpu(1), 2, 1}}, nodes: []futureNode{{4, 4}, {0, 4}}, fits: anywhere,
			before: [][]Place{{{0, 2}}}, places: [][]Place{{{0, 1}, {1, 1}}}},
		"an earlier place counts once, now or later": {
			demands: []Demand{{cpu(4), 2, 0}}, nodes: []futureNode{{4, 8}, {0, 4}}, fits: anywhere,
			before: [][]Place{{{0, 1}, {1, 1}}}, places: [][]Place{{{0, 1}, {1, 1}}}},
		"more in use than there is": {
			demands: []Demand{{cpu(1), 1, 0}}, nodes: []futureNode{{-5, 4}, {0, 4}}, fits: anywhere,
			places: [][]Place{{{1, 1}}}},
		"another order helps pods of different sizes": {
			// The two of 3 would take the room that is free now. No node would be left for the one of 5.
			demands: []Demand{{cpu(5), 1, 0}, {cpu(3), 2, 0}}, nodes: []futureNode{{3, 5}, {4, 6}}, fits: anywhere,
			places: [][]Place{{{0, 1}}, {{1, 2}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, later := future(test.nodes...)
			places, ok := PackLater(test.demands, nodes, later, test.fits, test.before)
			assert.Equal(t, test.places != nil, ok)
			if ok {
				assert.Equal(t, test.places, places)
			}
		})
	}
}

func TestReservedPlacesAreTakenWhenTheyAreFree(t *testing.T) {
	demands := []Demand{{cpu(6), 1, 0}, {cpu(5), 1, 0}}
	now := nodes(5, 6)
	places, ok := PackLater(demands, now, freeOf(now), anywhere, [][]Place{{{1, 1}}, {{0, 1}}})
	assert.True(t, ok)
	assert.Equal(t, [][]Place{{{1, 1}}, {{0, 1}}}, places)
	now = nodes(5, 5)
	_, ok = PackLater(demands, now, freeOf(now), anywhere, [][]Place{{{1, 1}}, {{0, 1}}})
	assert.False(t, ok)
}

// slotsOf counts the pods of a demand that fit on a node one by one.
func slotsOf(demand Demand, free int64) (slots int) {
	for slots < 100 && (demand.MaxPerNode == 0 || slots < demand.MaxPerNode) && int64(slots+1)*demand.Requests["cpu"] <= free {
		slots++
	}
	return slots
}

// waitsFor is the number of pods whose places are not free yet.
func waitsFor(demand Demand, cluster []futureNode, places []Place) (waits int) {
	for _, place := range places {
		waits += max(0, place.Count-slotsOf(demand, cluster[place.Node].now))
	}
	return waits
}

// TestReservedPlacesStayUntilTheyAreFree draws clusters whose pods end one after the other. Places are found if and only if there is room
// for all pods later. Repeated choices never wait for more pods than before. When the room is free the gang fits.
func TestReservedPlacesStayUntilTheyAreFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cluster []futureNode
		for range rapid.IntRange(1, 5).Draw(t, "nodes") {
			size := rapid.Int64Range(1, 10).Draw(t, "size")
			cluster = append(cluster, futureNode{now: rapid.Int64Range(-1, size).Draw(t, "now"), later: size})
		}
		demand := Demand{
			Requests:   cpu(rapid.Int64Range(1, 5).Draw(t, "cpu")),
			Count:      rapid.IntRange(1, 6).Draw(t, "count"),
			MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
		}
		refused := rapid.SliceOfN(rapid.Bool(), len(cluster), len(cluster)).Draw(t, "refused")
		fits := func(_, n int) bool { return !refused[n] }
		slots := 0
		for n := range cluster {
			if !refused[n] {
				slots += slotsOf(demand, cluster[n].later)
			}
		}
		choose := func(before [][]Place) ([][]Place, bool) {
			nodes, later := future(cluster...)
			return PackLater([]Demand{demand}, nodes, later, fits, before)
		}
		places, ok := choose(nil)
		assert.Equal(t, slots >= demand.Count, ok, "for a single demand the answer is exact")
		for ok {
			count := 0
			for _, place := range places[0] {
				count += place.Count
				assert.False(t, refused[place.Node])
				assert.LessOrEqual(t, place.Count, slotsOf(demand, cluster[place.Node].later))
			}
			assert.Equal(t, demand.Count, count)
			waits := waitsFor(demand, cluster, places[0])
			if waits == 0 {
				break
			}
			// A pod ends on a node that is waited for.
			for _, place := range places[0] {
				if node := &cluster[place.Node]; place.Count > slotsOf(demand, node.now) {
					node.now++
					break
				}
			}
			places, ok = choose(places)
			assert.True(t, ok)
			assert.LessOrEqual(t, waitsFor(demand, cluster, places[0]), waits)
		}
		if ok {
			now, _ := future(cluster...)
			placed, possible := PackLater([]Demand{demand}, now, freeOf(now), fits, places)
			assert.True(t, possible)
			assert.Equal(t, places, placed, "the gang goes to its reserved places")
		}
	})
}
