package placement

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
		"a pod without the scarce resource does not help": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 0), gpu(64, 0), gpu(64, 0)},
		},
		"half of the room is not enough": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 4)},
		},
		"the rest on a node counts": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 1), gpu(0, 4)}, covered: true,
		},
		"small amounts on two nodes that are too small on either": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1)},
		},
		"small amounts that add up": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full,
			freed: []resources.List{gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 1), gpu(0, 2)}, covered: true,
		},
		"a large node": {
			demand: Demand{Requests: gpu(1, 4), Count: 2}, nodes: full, freed: []resources.List{gpu(64, 8)}, covered: true,
		},
		"another resource is scarce on each node, so any room may help": {
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
	assert.Nil(t, Lacking([]Demand{{Requests: gpu(1, 1), Count: 3}}, full, nil, never), "there is room enough")
}

func never(int, int) bool { return false }

func TestRoomOnNodesThatRefuseTheDemandDoesNotCount(t *testing.T) {
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	demand := []Demand{{Requests: cpu(2), Count: 2}}
	nodes := []Node{{Name: "tainted", Free: cpu(64)}, {Name: "full", Free: cpu(1)}}
	short := Lacking(demand, nodes, IndexOf(nodes, nil), func(_, node int) bool { return node == 0 })
	require.NotNil(t, short, "what is free on the node that refuses does not count")
	short.Free("tainted", cpu(64))
	assert.False(t, short.Covered())
	short.Free("full", cpu(2))
	assert.False(t, short.Covered(), "half of it")
	short.Free("", cpu(2))
	assert.True(t, short.Covered(), "a node that is new or has changed may not refuse the pods")

	var many []Node
	for i := range maxRefused + 1 {
		many = append(many, Node{Name: fmt.Sprintf("node-%05d", i), Free: cpu(64)})
	}
	short = Lacking(demand, many, IndexOf(many, nil), func(int, int) bool { return true })
	short.Free(many[maxRefused-1].Name, cpu(64))
	assert.False(t, short.Covered())
	short.Free(many[maxRefused].Name, cpu(64))
	assert.True(t, short.Covered(), "room on nodes beyond the bound counts")
}

func TestShortfallsOnTheSameNodesShareAnIndex(t *testing.T) {
	nodes := []Node{{Name: "a"}, {Name: "b"}}
	index := IndexOf(nodes, nil)
	assert.Same(t, index, IndexOf(nodes, index))
	assert.NotSame(t, index, IndexOf(nodes[:1], index))
	assert.Equal(t, map[string]int{"b": 0, "a": 1}, IndexOf([]Node{nodes[1], nodes[0]}, index).at)
}

// TestShortfallIsCoveredWhenTheGangFits lets room come free at random, on nodes and with new nodes. Whenever all places that the pods could
// have are tried and they fit, the shortfall is covered. Some nodes refuse some demands, and only a part of that may be known. If a demand
// certainly lacks room there is a shortfall, and it is not covered from the start.
func TestShortfallIsCoveredWhenTheGangFits(t *testing.T) {
	seen := map[string]int{}
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
		if len(demands) == 1 && !demands[0].Requests.IsZero() {
			room := haveRoom(demands, all, func(_, node int) bool { return !known[[2]int{0, node}] })
			require.Equal(t, !room, short != nil, "there is a shortfall if and only if the demand lacks room")
		}
		if short == nil {
			return
		}
		require.False(t, haveRoom(demands, all, fits), "a shortfall of a gang that fits")
		require.False(t, short.Covered(), "it is covered before room came free")
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
			short.Free(where, freed)
			if haveRoom(demands, all, fits) {
				seen["fits"]++
				require.True(t, short.Covered(), "%v fit on %v", demands, all)
			} else if !short.Covered() {
				seen["lacks"]++
			}
		}
	})
	assert.Positive(t, seen["fits"])
	assert.Positive(t, seen["lacks"])
}

// haveRoom tries all numbers of pods of one or two demands on each node, node by node. It does so independently of Pack.
func haveRoom(demands []Demand, nodes []Node, fits Fits) bool {
	placed := map[[2]int]bool{{}: true} // how many pods of each demand the nodes so far can hold at the same time
	for n, node := range nodes {
		next := map[[2]int]bool{}
		for before := range placed {
			for first := range demands[0].Count - before[0] + 1 {
				second := 0
				for {
					counts := [2]int{first, second}
					if !holds(demands, counts, n, node, fits) {
						break
					}
					next[[2]int{before[0] + first, before[1] + second}] = true
					if second++; len(demands) == 1 || before[1]+second > demands[1].Count {
						break
					}
				}
			}
		}
		placed = next
	}
	want := [2]int{demands[0].Count}
	if len(demands) == 2 {
		want[1] = demands[1].Count
	}
	return placed[want]
}

// holds says whether a node holds so many pods of each demand.
func holds(demands []Demand, counts [2]int, n int, node Node, fits Fits) bool {
	used := resources.List{}
	for d, demand := range demands {
		if counts[d] > 0 && (!fits(d, n) || demand.MaxPerNode > 0 && counts[d] > demand.MaxPerNode) {
			return false
		}
		for range counts[d] {
			used.Add(demand.Requests)
		}
	}
	for name, amount := range used {
		if amount > 0 && amount > node.Free[name] {
			return false
		}
	}
	return true
}

// TestShortfallOfOneResourceIsExact: if only one resource is requested, the shortfall is covered exactly when the room is there. Pods are
// counted one by one.
func TestShortfallOfOneResourceIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demand := Demand{Requests: cpu(rapid.Int64Range(1, 5).Draw(t, "each")), Count: rapid.IntRange(1, 9).Draw(t, "count")}
		free := rapid.SliceOfN(rapid.Int64Range(-4, 9), 1, 4).Draw(t, "free")
		slots := func() (total int) {
			for _, amount := range free {
				total += slotsOf(demand, amount)
			}
			return total
		}
		cluster := nodes(free...)
		short := Lacking([]Demand{demand}, cluster, IndexOf(cluster, nil), never)
		require.Equal(t, slots() < demand.Count, short != nil)
		if short == nil {
			return
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n, amount := rapid.IntRange(0, len(free)-1).Draw(t, "node"), rapid.Int64Range(0, 7).Draw(t, "freed")
			free[n] += amount
			short.Free(cluster[n].Name, cpu(amount))
			require.Equal(t, slots() >= demand.Count, short.Covered(), "%v free for %v", free, demand)
		}
	})
}

func TestShortfallOfAThousandPodsThatLackOnePlace(t *testing.T) {
	place := resources.List{corev1.ResourcePods: 1}
	demands := []Demand{{Requests: place, Count: 1000}}
	var nodes []Node
	for n, places := range []int64{100, 100, 100, 100, 100, 100, 100, 100, 100, 99} {
		nodes = append(nodes, Node{Name: fmt.Sprint("node", n), Free: resources.List{corev1.ResourcePods: places}})
	}
	require.NotEqual(t, Possible, Pack(demands, nodes, anywhere).Feasibility)
	short := Lacking(demands, nodes, IndexOf(nodes, nil), never)
	require.False(t, short.Covered())
	short.Free("node9", place)
	assert.True(t, short.Covered())
	nodes[9].Free = resources.List{corev1.ResourcePods: 100}
	assert.Equal(t, Possible, Pack(demands, nodes, anywhere).Feasibility)
}

func TestWhichNodesAGangNeeds(t *testing.T) {
	cluster := []Node{{Name: "refuses", Free: cpu(9)}, {Name: "n", Free: cpu(9)}}
	short := Lacking([]Demand{{Requests: cpu(4), Count: 3}}, cluster, IndexOf(cluster, nil), func(_, n int) bool { return n == 0 })
	assert.True(t, short.IsHurtBy("n", cpu(9), cpu(2)), "one of two pods has no room left")
	assert.False(t, short.IsHurtBy("n", cpu(9), cpu(1)), "both have")
	assert.False(t, short.IsHurtBy("n", cpu(3), cpu(3)), "none had")
	assert.False(t, short.IsHurtBy("refuses", cpu(9), cpu(9)))
	assert.False(t, short.IsHurtBy("n", resources.List{"nvidia.com/gpu": 8}, cpu(2)), "none has room there")
}

func TestNeedsOfOneKindAreHurtAlike(t *testing.T) {
	cluster := []Node{{Name: "a", Free: cpu(9)}, {Name: "b", Free: cpu(9)}}
	need := func(requests resources.List, count, refuses int) *Shortfall {
		return Lacking([]Demand{{Requests: requests, Count: count}}, cluster, nil, func(_, n int) bool { return n == refuses })
	}
	kind := need(cpu(4), 5, -1).Kind()
	assert.Equal(t, kind, need(cpu(4), 50, -1).Kind(), "however many pods lack room")
	assert.Equal(t, kind, need(resources.List{corev1.ResourceCPU: 4, "nvidia.com/gpu": 0}, 5, -1).Kind(), "nothing of another resource")
	assert.NotEqual(t, kind, need(cpu(5), 5, -1).Kind(), "other amounts")
	assert.NotEqual(t, kind, need(cpu(4), 5, 0).Kind(), "another node refuses")
	assert.NotEqual(t, need(cpu(4), 5, 1).Kind(), need(cpu(4), 5, 0).Kind())
}

// The benchmarks measure the cost of an unschedulable gang in a cluster of 5000 nodes. They measure the decision, and for each pod that ends.

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
	for name, refuses := range map[string]Refuses{"no node refuses": never, "half refuse": func(_, n int) bool { return n%2 == 0 }} {
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
	for name, refuses := range map[string]Refuses{"no node refuses": never, "half refuse": func(_, n int) bool { return n%2 == 0 }} {
		b.Run(name, func(b *testing.B) {
			short, freed := Lacking(demands, nodes, IndexOf(nodes, nil), refuses), resources.List{corev1.ResourceCPU: 1000}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				short.Free(nodes[n%len(nodes)].Name, freed)
			}
		})
	}
}
