package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	testutil "github.com/muster-sched/muster/pkg/testing"
)

// runningGang is a gang of one class whose pods run, by the names of their nodes. Nothing else is remembered of it, as after a restart.
type runningGang struct {
	bound  Bound
	groups []Unit     // of one group each
	on     [][]string // of each group, then of the single pods
}

// history is a cluster in which gangs come and go, lose pods, and HyperNodes change.
type history struct {
	*rapid.T
	nodes []Node
	tree  *Tree
	free  map[string]int
	gangs []*runningGang
}

// TestRandomHistoriesKeepTheBounds: no pod is placed beyond the bound of its gang and group, and minimums are whole. A replaced pod returns
// to its leaf if that has room.
func TestRandomHistoriesKeepTheBounds(t *testing.T) {
	testutil.Histories(t, 2000, func(t *rapid.T) {
		h := &history{T: t, free: map[string]int{}}
		for n := range rapid.IntRange(2, 8).Draw(t, "nodes") {
			h.nodes = append(h.nodes, Node{Name: fmt.Sprintf("n%d", n)})
			h.free[h.nodes[n].Name] = rapid.IntRange(0, 4).Draw(t, "slots")
		}
		h.tree = drawTree(t, h.nodes)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
			case step <= 1:
				h.start()
			case step == 2 && len(h.gangs) > 0:
				h.end(rapid.IntRange(0, len(h.gangs)-1).Draw(t, "gang"))
			case step <= 4 && len(h.gangs) > 0:
				h.replace(h.gangs[rapid.IntRange(0, len(h.gangs)-1).Draw(t, "gang")])
			case step == 5:
				h.tree = drawTree(t, h.nodes) // running pods stay
			}
		}
	})
}

func (h *history) slots() []int {
	slots := make([]int, len(h.tree.Nodes))
	for n, name := range h.tree.Nodes {
		slots[n] = h.free[name]
	}
	return slots
}

func (h *history) start() {
	g := &runningGang{bound: drawBound(h.T)}
	bound := drawBound(h.T)
	for range rapid.IntRange(0, 2).Draw(h.T, "groups") {
		g.groups = append(g.groups, Unit{Pods: []int{rapid.IntRange(1, 3).Draw(h.T, "size")}, Count: 1, Bound: bound})
	}
	r := &Request{Slots: [][]int{h.slots()}, Units: append(slices.Clone(g.groups), Unit{Pods: []int{rapid.IntRange(1, 4).Draw(h.T, "pods")}, Count: 1}), Bound: g.bound}
	choice := h.tree.NewSearch(r).Next()
	if choice == nil {
		return
	}
	checkChoice(h.T, h.tree, r, choice)
	for _, places := range choice.Places {
		g.on = append(g.on, h.put(places))
	}
	h.gangs = append(h.gangs, g)
}

func (h *history) put(places []Place) (on []string) {
	for _, p := range places {
		for range p.Count {
			name := h.tree.Nodes[p.Node]
			h.free[name]--
			on = append(on, name)
		}
	}
	return on
}

func (h *history) end(i int) {
	for _, on := range h.gangs[i].on {
		for _, name := range on {
			h.free[name]++
		}
	}
	h.gangs = slices.Delete(h.gangs, i, i+1)
}

func (h *history) indexes(names []string) (nodes []int) {
	for _, name := range names {
		nodes = append(nodes, h.tree.IndexOf(name))
	}
	return nodes
}

// replace has a pod of a gang fail, and places another one.
func (h *history) replace(g *runningGang) {
	u := rapid.IntRange(0, len(g.on)-1).Draw(h.T, "unit")
	if len(g.on[u]) == 0 {
		return
	}
	i := rapid.IntRange(0, len(g.on[u])-1).Draw(h.T, "pod")
	before := h.tree.CommonDomain(slices.Concat(g.on...))
	h.free[g.on[u][i]]++
	g.on[u] = slices.Delete(g.on[u], i, i+1)
	unit := Unit{Pods: []int{1}, Count: 1, BoundOn: h.indexes(g.on[u])}
	if u < len(g.groups) {
		unit.Bound = g.groups[u].Bound
	}
	r := &Request{Slots: [][]int{h.slots()}, Units: []Unit{unit}, Bound: g.bound, BoundOn: h.indexes(slices.Concat(g.on...))}
	choice := h.tree.NewSearch(r).Next()
	if choice == nil {
		if h.tree.Allows(g.bound, before) && u >= len(g.groups) {
			h.Fatalf("a pod of a gang in domain %d finds no place, and its own is free", before)
		}
		return
	}
	checkChoice(h.T, h.tree, r, choice)
	if len(r.BoundOn) > 0 && !unit.Bound.IsSet() && h.tree.Allows(g.bound, before) && !h.tree.Contains(before, choice.Domain) {
		h.Fatalf("a pod leaves domain %d for %d, and its own place is free", before, choice.Domain)
	}
	g.on[u] = append(g.on[u], h.put(choice.Places[0])...)
}

// BenchmarkChoose places a gang on 5,000 nodes in 250 leaves of 10 spines.
func BenchmarkChoose(b *testing.B) {
	for _, test := range []struct {
		name    string
		leaves  int
		classes int
		groups  int
		pods    int // all
		slots   int
	}{
		{"1000 pods", 250, 1, 0, 1000, 1},
		{"1000 pods that do not fit", 250, 1, 0, 6000, 1},
		{"1000 pods, ten times the domains", 2500, 1, 0, 1000, 1},
		{"ten classes, 100 groups of ten", 250, 10, 100, 1000, 8},
	} {
		b.Run(test.name, func(b *testing.B) {
			objects, nodes := clos(test.leaves, test.leaves/10, 5000/test.leaves)
			tree := Build(objects, nil, nodes)
			r := &Request{Bound: tier(3)}
			capacity := make([]int, len(tree.Nodes))
			for n := range capacity {
				capacity[n] = test.slots - n%2*test.slots/2
			}
			for range test.classes {
				r.Slots = append(r.Slots, capacity)
			}
			r.Recount = func(_, node int, taken []int) int {
				left := capacity[node]
				for _, count := range taken {
					left -= count
				}
				return max(0, left)
			}
			pods := make([]int, test.classes)
			for c := range pods {
				pods[c] = test.pods / test.classes / max(1, test.groups)
			}
			r.Units = []Unit{{Pods: pods, Count: max(1, test.groups)}}
			if test.groups > 0 {
				r.Units[0].Bound = tier(1)
			}
			for b.Loop() {
				tree.NewSearch(r).Next()
			}
		})
	}
}
