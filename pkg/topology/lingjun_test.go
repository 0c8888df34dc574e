package topology

import (
	"container/heap"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// lingjunPods are the pods of a real network of 847 hosts. Each has the numbers of hosts at its leaf switches.
var lingjunPods = []string{
	"888888888887778878875888886678688888873878888888", "767885888688888878888888882277867876888888", "86747667858546875565662767877",
}

// lingjunNodes are the hosts, with labels of their pod and leaf. Leaves of several pods have the same name, as in the real network.
func lingjunNodes() (nodes []Node) {
	for p, leaves := range lingjunPods {
		for l, size := range leaves {
			for h := range int(size - '0') {
				nodes = append(nodes, Node{Name: fmt.Sprintf("h-%d-%02d-%d", p, l, h), Labels: map[string]string{"pod": fmt.Sprint(p), "leaf": fmt.Sprintf("S%02d", l)}})
			}
		}
	}
	return nodes
}

func lingjun() *Tree {
	return Build(nil, []Labels{{Name: "lingjun", Levels: []Level{{"pod", "pod", 2}, {"leaf", "leaf", 1}}}}, lingjunNodes())
}

// gangSizes are the sizes of gangs in hosts, with their share in percent times ten.
var gangSizes = []struct{ hosts, share int }{{1, 400}, {2, 180}, {4, 180}, {8, 120}, {16, 70}, {32, 35}, {64, 15}}

// lingjunFigures are what is left after many gangs have come and gone.
type lingjunFigures struct {
	leaves, fewest           int // of all gangs
	small, inOneLeaf         int // gangs of 2 to 8
	large, fewestLarge       int // leaves of gangs of 16 and more
	crossings, leavesInRings int // steps between leaves in a ring of sorted ranks, of gangs of 16 and more
	looks, wholeLeaf         int // how often 8 hosts were free, and were so in one leaf
}

func (f *lingjunFigures) String() string {
	return fmt.Sprintf("leaves/fewest %.3f; gangs of 2 to 8 in one leaf: %.1f %%; gangs of 16+: %.3f; a whole leaf of 8 free: %.1f %%",
		ratio(f.leaves, f.fewest), 100*ratio(f.inOneLeaf, f.small), ratio(f.large, f.fewestLarge), 100*ratio(f.wholeLeaf, f.looks))
}

func ratio(a, b int) float64 { return float64(a) / float64(max(1, b)) }

// ending is hosts that come free at a time.
type ending struct {
	at    float64
	hosts []int
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// lingjunRun has gangs of whole hosts come and go, in the order in which they come.
func lingjunRun(tree *Tree, place func(free []int, hosts int) []int, seed int64, load float64, gangs int) *lingjunFigures {
	random := rand.New(rand.NewSource(seed))
	free := make([]int, len(tree.Nodes))
	for n := range free {
		free[n] = 1
	}
	sizes := leafSizes(tree)
	arrivals := lingjunArrivals(random, gangs, load*float64(len(free)))
	f, running, now, left := &lingjunFigures{}, &endings{}, 0.0, len(free)
	var queue []arrival
	for done := 0; done < gangs; {
		for len(queue) > 0 && left >= queue[0].hosts {
			gang := queue[0]
			queue = queue[1:]
			hosts := place(free, gang.hosts)
			for _, n := range hosts {
				free[n]--
			}
			left -= len(hosts)
			heap.Push(running, ending{now + gang.runs, hosts})
			if done++; done > gangs/6 {
				f.count(tree, sizes, free, hosts)
			}
		}
		if len(arrivals) == 0 || running.Len() > 0 && (*running)[0].at <= arrivals[0].at {
			e := heap.Pop(running).(ending)
			now = e.at
			left += len(e.hosts)
			for _, n := range e.hosts {
				free[n]++
			}
			continue
		}
		now = arrivals[0].at
		queue, arrivals = append(queue, arrivals[0]), arrivals[1:]
	}
	return f
}

// arrival is a gang that comes at a time.
type arrival struct {
	hosts    int
	at, runs float64
}

// lingjunArrivals are gangs that together ask for an average number of hosts at a time.
func lingjunArrivals(random *rand.Rand, gangs int, average float64) []arrival {
	arrivals, now, work := make([]arrival, gangs), 0.0, 0.0
	for i := range arrivals {
		draw, hosts := random.Intn(1000), 0
		for _, s := range gangSizes {
			if hosts = s.hosts; draw < s.share {
				break
			}
			draw -= s.share
		}
		now += random.ExpFloat64()
		arrivals[i] = arrival{hosts, now, random.ExpFloat64()}
		work += float64(hosts) * arrivals[i].runs
	}
	for i := range arrivals {
		arrivals[i].at *= work / average / now
	}
	return arrivals
}

func leafSizes(tree *Tree) (sizes []int) {
	for d := range tree.Domains {
		if tree.Domains[d].Tier == 1 {
			sizes = append(sizes, tree.Domains[d].Size())
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	return sizes
}

// fewestLeaves is how many leaves hold so many hosts when all are free.
func fewestLeaves(sizes []int, hosts int) (leaves int) {
	for ; hosts > 0; leaves++ {
		hosts -= sizes[leaves]
	}
	return leaves
}

func (f *lingjunFigures) count(tree *Tree, sizes, free, hosts []int) {
	used := map[int]bool{}
	for _, n := range hosts {
		used[tree.DomainOf(n)] = true
	}
	fewest := fewestLeaves(sizes, len(hosts))
	f.leaves, f.fewest = f.leaves+len(used), f.fewest+fewest
	if len(hosts) > 1 && len(hosts) <= 8 {
		f.small++
		if len(used) == 1 {
			f.inOneLeaf++
		}
	}
	if len(hosts) >= 16 {
		f.large, f.fewestLarge = f.large+len(used), f.fewestLarge+fewest
		sorted := slices.Sorted(slices.Values(hosts))
		for i, n := range sorted {
			if tree.DomainOf(n) != tree.DomainOf(sorted[(i+1)%len(sorted)]) {
				f.crossings++
			}
		}
		f.leavesInRings += len(used)
	}
	all, most := 0, 0
	for _, sum := range tree.leafSums(free) {
		all, most = all+sum, max(most, sum)
	}
	if all >= 8 {
		f.looks++
		if most >= 8 {
			f.wholeLeaf++
		}
	}
}

func (t *Tree) leafSums(of []int) (sums []int) {
	for d, sum := range t.Sums(of) {
		if t.Domains[d].Tier == 1 {
			sums = append(sums, sum)
		}
	}
	return sums
}

// choosing places gangs by the search.
func choosing(tree *Tree) func(free []int, hosts int) []int {
	return func(free []int, hosts int) (chosen []int) {
		choice := tree.NewSearch(&Request{Slots: [][]int{free}, Units: []Unit{{Pods: []int{hosts}, Count: 1}}}).Next()
		for _, p := range choice.Places[0] {
			chosen = append(chosen, p.Node)
		}
		return chosen
	}
}

func (f *lingjunFigures) add(g *lingjunFigures) {
	f.leaves, f.fewest, f.small, f.inOneLeaf = f.leaves+g.leaves, f.fewest+g.fewest, f.small+g.small, f.inOneLeaf+g.inOneLeaf
	f.large, f.fewestLarge, f.looks, f.wholeLeaf = f.large+g.large, f.fewestLarge+g.fewestLarge, f.looks+g.looks, f.wholeLeaf+g.wholeLeaf
	f.crossings, f.leavesInRings = f.crossings+g.crossings, f.leavesInRings+g.leavesInRings
}

// lingjunAt adds up five runs.
func lingjunAt(load float64, gangs int) *lingjunFigures {
	tree, all := lingjun(), &lingjunFigures{}
	for seed := range int64(5) {
		all.add(lingjunRun(tree, choosing(tree), seed+1, load, gangs))
	}
	return all
}

// TestLeavesStayWhole: gangs on a real network use few leaves, and leave others whole.
func TestLeavesStayWhole(t *testing.T) {
	for _, test := range []struct{ load, leaves, inOneLeaf, large, wholeLeaf float64 }{
		{0.7, 1.05, 0.98, 1.10, 0.97},
		{0.85, 1.15, 0.92, 1.30, 0.87},
	} {
		f := lingjunAt(test.load, 6000)
		t.Logf("load %.2f: %s", test.load, f)
		assert.Equal(t, f.leavesInRings, f.crossings, "steps between leaves in a ring of ranks")
		assert.LessOrEqual(t, ratio(f.leaves, f.fewest), test.leaves)
		assert.GreaterOrEqual(t, ratio(f.inOneLeaf, f.small), test.inOneLeaf)
		assert.LessOrEqual(t, ratio(f.large, f.fewestLarge), test.large)
		assert.GreaterOrEqual(t, ratio(f.wholeLeaf, f.looks), test.wholeLeaf)
	}
}
