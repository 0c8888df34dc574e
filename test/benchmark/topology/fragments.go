package main

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/topology"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// gangSizes are the sizes of gangs in hosts, with their share in percent times ten.
var gangSizes = []struct{ hosts, share int }{{1, 400}, {2, 180}, {4, 180}, {8, 120}, {16, 70}, {32, 35}, {64, 15}}

// wholeHosts are gangs of whole hosts that together ask for a share of them. Those of one host have no topology. Small ones may keep to one leaf
// for a time.
func wholeHosts(seed int64, count, hosts int, load float64, narrow time.Duration) []gang {
	random := rand.New(rand.NewSource(seed))
	gangs, at, runs, work := make([]gang, count), make([]float64, count), make([]float64, count), 0.0
	now := 0.0
	for i := range gangs {
		draw, size := random.Intn(1000), 0
		for _, s := range gangSizes {
			if size = s.hosts; draw < s.share {
				break
			}
			draw -= s.share
		}
		now += random.ExpFloat64()
		at[i], runs[i] = now, random.ExpFloat64()
		work += float64(size) * runs[i]
		gangs[i] = gang{pods: size, requests: []string{gpus, "8"}}
		if size > 1 {
			gangs[i].within = &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode}
		}
		if size > 1 && size <= smallGang {
			gangs[i].narrow = narrow
		}
	}
	for i := range gangs {
		gangs[i].submit = time.Duration(at[i] * work / (load * float64(hosts)) / now * float64(time.Hour))
		gangs[i].run = max(time.Second, time.Duration(runs[i]*float64(time.Hour)))
	}
	return gangs
}

// smallGang is the most hosts of a gang that a leaf can hold.
const smallGang = 8

// fragments is what is seen while gangs come and go.
type fragments struct {
	mu    sync.Mutex
	tree  *topology.Tree
	taken []bool // of each node
	left  int
	whole int // hosts of the largest leaf

	leaves, fewest           int // of all gangs
	small, inOneLeaf         int // gangs of 2 to 8
	large, fewestLarge       int // leaves of gangs of 16 and more
	crossings, leavesInRings int // steps between leaves in a ring of ranks, for gangs in several leaves
	looks, wholeLeaf         int // how often as many hosts as a leaf has were free, and were so in one leaf
}

func newFragments(tree *topology.Tree) *fragments {
	return &fragments{tree: tree, taken: make([]bool, len(tree.Nodes)), left: len(tree.Nodes), whole: largestLeaf(tree)}
}

// take notes the nodes of a gang, and counts them if the network has been in use for a while.
func (f *fragments) take(nodes []string, counts bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range nodes {
		f.taken[f.tree.IndexOf(name)] = true
	}
	f.left -= len(nodes)
	if counts {
		f.count(nodes)
	}
}

// giveBack notes that the nodes of a gang are free again.
func (f *fragments) giveBack(nodes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range nodes {
		f.taken[f.tree.IndexOf(name)] = false
	}
	f.left += len(nodes)
}

func (f *fragments) count(nodes []string) {
	spread, _ := f.tree.SpreadOf(nodes)
	f.leaves, f.fewest = f.leaves+spread.Leaves, f.fewest+spread.Fewest
	if len(nodes) > 1 && len(nodes) <= smallGang {
		f.small++
		if spread.Leaves == 1 {
			f.inOneLeaf++
		}
	}
	if len(nodes) >= 16 {
		f.large, f.fewestLarge = f.large+spread.Leaves, f.fewestLarge+spread.Fewest
	}
	if spread.Leaves > 1 {
		f.leavesInRings += spread.Leaves
		for i, name := range nodes {
			if f.tree.PathOf(name) != f.tree.PathOf(nodes[(i+1)%len(nodes)]) {
				f.crossings++
			}
		}
	}
	if f.left >= f.whole {
		f.looks++
		for _, sum := range leafSums(f.tree, func(node int) int { return freeAt(f.taken[node]) }) {
			if sum >= f.whole {
				f.wholeLeaf++
				break
			}
		}
	}
}

func freeAt(taken bool) int {
	if taken {
		return 0
	}
	return 1
}

func (f *fragments) add(g *fragments) {
	f.leaves, f.fewest, f.small, f.inOneLeaf = f.leaves+g.leaves, f.fewest+g.fewest, f.small+g.small, f.inOneLeaf+g.inOneLeaf
	f.large, f.fewestLarge, f.looks, f.wholeLeaf = f.large+g.large, f.fewestLarge+g.fewestLarge, f.looks+g.looks, f.wholeLeaf+g.wholeLeaf
	f.crossings, f.leavesInRings = f.crossings+g.crossings, f.leavesInRings+g.leavesInRings
}

func ratio(a, b int) float64 { return float64(a) / float64(max(1, b)) }

// figures are what is seen beside the goals.
func (f *fragments) figures(load float64) []report.Figure {
	at := fmt.Sprintf(" at load %.2f", load)
	return []report.Figure{
		report.AtMost("leaves used over fewest"+at, ratio(f.leaves, f.fewest), 1.15, ""),
		report.AtLeast("gangs of 2 to 8 in one leaf"+at, 100*ratio(f.inOneLeaf, f.small), 94, "%"),
		report.AtMost("leaves of gangs of 16 and more over fewest"+at, ratio(f.large, f.fewestLarge), 1.25, ""),
		report.AtLeast("a whole leaf of eight is free if eight hosts are"+at, 100*ratio(f.wholeLeaf, f.looks), 95, "%"),
		report.AtMost("steps between leaves in a ring of ranks over leaves"+at, ratio(f.crossings, f.leavesInRings), 1, ""),
	}
}

// measureFragments has gangs of whole hosts come and go on the real network.
func measureFragments(t *testing.T, o *options) ([]report.Figure, error) {
	network := lingjun()
	tree, all := network.tree(), newFragments(network.tree())
	runs, errs := make([]*fragments, o.seeds), make([]error, o.seeds)
	t.Run("fragments", func(t *testing.T) {
		for seed := range runs {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				f := newFragments(tree)
				r := &replay{
					started: func(i int, nodes []string) { f.take(nodes, i > o.gangs/6) },
					ended:   func(_ int, nodes []string) { f.giveBack(nodes) },
				}
				runs[seed], errs[seed] = f, r.run(t, network, true, wholeHosts(int64(seed+1), o.gangs, len(tree.Nodes), o.load, o.narrow))
			})
		}
	})
	for seed, f := range runs {
		if errs[seed] != nil {
			return nil, errs[seed]
		}
		all.add(f)
	}
	return all.figures(o.load), nil
}
