package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

func TestShortfall(t *testing.T) {
	gpu := func(cpu, gpu int64) resources.List {
		return resources.List{corev1.ResourceCPU: cpu, "nvidia.com/gpu": gpu}
	}
	full := []Node{{Name: "a", Free: gpu(64, 0)}, {Name: "b", Free: gpu(64, 3)}}
	tests := map[string]struct {
		demand  Demand
		nodes   []Node
		freed   []resources.List // on b, in turns with a
		covered bool
	}{
		"pods that have nothing of what is scarce do not help": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 0), gpu(64, 0), gpu(64, 0)},
		},
		"half of it is not enough": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 4)},
		},
		"what was left over on a node counts": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 1), gpu(0, 4)}, covered: true,
		},
		"as much on two nodes that is of no use on either": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1)},
		},
		"and when it adds up": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full,
			freed: []resources.List{gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 2)}, covered: true,
		},
		"a large node": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 8)}, covered: true,
		},
		"something else is scarce on each node: whatever comes may help": {
			demand:  Demand{Requests: gpu(4, 4), Count: 1},
			nodes:   []Node{{Free: gpu(64, 0)}, {Free: gpu(0, 64)}},
			freed:   []resources.List{gpu(1, 0)},
			covered: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			short := Lacking([]Demand{test.demand}, test.nodes, IndexOf(test.nodes, nil), never)
			for i, amount := range test.freed {
				short.Free([]string{"b", "a"}[i%2], amount)
			}
			assert.Equal(t, test.covered, short.Covered())
		})
	}
	assert.Nil(t, Lacking([]Demand{{Requests: gpu(1, 1), Count: 3}}, full, nil, never), "there is room; something else is in the way")
}

func never(int, int) bool { return false }

func TestRoomOnNodesThatRefuseTheDemandIsOfNoUse(t *testing.T) {
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	demand := []Demand{{Requests: cpu(2), Count: 2}}
	nodes := []Node{{Name: "tainted", Free: cpu(64)}, {Name: "full", Free: cpu(1)}}
	short := Lacking(demand, nodes, IndexOf(nodes, nil), func(_, node int) bool { return node == 0 })
	require.NotNil(t, short, "what is free on the one node counts for nothing")
	short.Free("tainted", cpu(64))
	assert.False(t, short.Covered())
	short.Free("full", cpu(2))
	assert.False(t, short.Covered(), "half of it")
	short.Free("", cpu(2))
	assert.True(t, short.Covered(), "a node that comes, or has changed, may not refuse it, whatever its name")

	var many []Node
	for i := range maxClosed + 1 {
		many = append(many, Node{Name: fmt.Sprintf("node-%05d", i), Free: cpu(64)})
	}
	short = Lacking(demand, many, IndexOf(many, nil), func(int, int) bool { return true })
	short.Free(many[maxClosed-1].Name, cpu(64))
	assert.False(t, short.Covered())
	short.Free(many[maxClosed].Name, cpu(64))
	assert.True(t, short.Covered(), "who is forgotten counts")
}

func TestShortfallsOnTheSameNodesShareAnIndex(t *testing.T) {
	nodes := []Node{{Name: "a"}, {Name: "b"}}
	index := IndexOf(nodes, nil)
	assert.Same(t, index, IndexOf(nodes, index))
	assert.NotSame(t, index, IndexOf(nodes[:1], index))
	assert.Equal(t, map[string]int{"b": 0, "a": 1}, IndexOf([]Node{nodes[1], nodes[0]}, index).at)
}

// TestAShortfallNeverHidesRoom lets room come free at random, on nodes and with new ones: whenever the demands fit, the shortfall is
// covered. Some nodes refuse some demands; of those only a part may be known.
func TestAShortfallNeverHidesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(label string, from, to int64) resources.List {
			return resources.List{
				corev1.ResourceCPU: rapid.Int64Range(from, to).Draw(t, label+" cpu"),
				"nvidia.com/gpu":   rapid.Int64Range(from, to).Draw(t, label+" gpu"),
			}
		}
		demands := make([]Demand, rapid.IntRange(1, 2).Draw(t, "demands"))
		for d := range demands {
			demands[d] = Demand{
				Requests:   amount("each", 0, 5),
				Count:      rapid.IntRange(1, 6).Draw(t, "count"),
				MaxPerNode: rapid.IntRange(0, 2).Draw(t, "maxPerNode"),
			}
		}
		var all []Node
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			all = append(all, Node{Name: fmt.Sprint("node", len(all)), Free: amount("free", -3, 9)})
		}
		refused, known := map[[2]int]bool{}, map[[2]int]bool{}
		for d := range demands {
			for n := range all {
				refused[[2]int{d, n}] = rapid.Bool().Draw(t, "refused")
				known[[2]int{d, n}] = refused[[2]int{d, n}] && rapid.Bool().Draw(t, "known")
			}
		}
		fits := func(demand, node int) bool { return !refused[[2]int{demand, node}] }
		short := Lacking(demands, all, IndexOf(all, nil), func(demand, node int) bool { return known[[2]int{demand, node}] })
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			freed, where := amount("freed", 0, 6), ""
			if n := rapid.IntRange(0, len(all)).Draw(t, "node"); n < len(all) {
				free := all[n].Free.Clone()
				free.Add(freed)
				all[n].Free = free
				where = all[n].Name
			} else {
				all = append(all, Node{Name: fmt.Sprint("node", len(all)), Free: freed})
			}
			if short != nil {
				short.Free(where, freed)
			}
			if Make(demands, all, fits).Verdict == Possible && short != nil {
				assert.True(t, short.Covered(), "%v fits on %v", demands, all)
			}
		}
	})
}

func TestAThousandLackTheLastPlaceUntilItComes(t *testing.T) {
	place := resources.List{corev1.ResourcePods: 1}
	demands := []Demand{{Requests: place, Count: 1000}}
	var nodes []Node
	for n, places := range []int64{100, 100, 100, 100, 100, 100, 100, 100, 100, 99} {
		nodes = append(nodes, Node{Name: fmt.Sprint("node", n), Free: resources.List{corev1.ResourcePods: places}})
	}
	require.NotEqual(t, Possible, Make(demands, nodes, anywhere).Verdict)
	short := Lacking(demands, nodes, IndexOf(nodes, nil), never)
	require.False(t, short.Covered())
	short.Free("node9", place)
	assert.True(t, short.Covered())
	nodes[9].Free = resources.List{corev1.ResourcePods: 100}
	assert.Equal(t, Possible, Make(demands, nodes, anywhere).Verdict)
}

// The benchmarks below are what a parked gang costs in a cluster of 5000 nodes, half of which refuse it: once when it is parked, and
// at each pod that goes.

func largeCluster() ([]Demand, []Node) {
	demands := []Demand{{Requests: resources.List{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8 << 30}, Count: 50}}
	nodes := make([]Node, 5000)
	for n := range nodes {
		nodes[n] = Node{Name: fmt.Sprintf("node-%05d", n), Free: resources.List{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 64 << 30}}
	}
	return demands, nodes
}

func BenchmarkLacking(b *testing.B) {
	demands, nodes := largeCluster()
	for name, refuses := range map[string]Refuses{"nobody refuses": never, "half refuse": func(_, n int) bool { return n%2 == 0 }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			index := IndexOf(nodes, nil)
			for b.Loop() {
				index = IndexOf(nodes, index)
				Lacking(demands, nodes, index, refuses)
			}
		})
	}
}

func BenchmarkFree(b *testing.B) {
	demands, nodes := largeCluster()
	for name, refuses := range map[string]Refuses{"nobody refuses": never, "half refuse": func(_, n int) bool { return n%2 == 0 }} {
		b.Run(name, func(b *testing.B) {
			short, freed := Lacking(demands, nodes, IndexOf(nodes, nil), refuses), resources.List{corev1.ResourceCPU: 1000}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				short.Free(nodes[n%len(nodes)].Name, freed)
			}
		})
	}
}
