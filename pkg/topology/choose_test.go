package topology

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	testutil "github.com/muster-sched/muster/pkg/testing"
)

func tier(of int) Bound { return Bound{Tier: &of} }

// two spines, with two leaves each, with the free slots of their nodes; node "z" is in no domain.
func twoSpines() *Tree {
	leaf := func(name string) HyperNode {
		return hyper(name, 1, []Member{{Type: NodeMember, Pattern: "^" + name + "-"}})
	}
	var nodes []Node
	for _, l := range []string{"a", "b", "c", "d"} {
		for n := range 4 {
			nodes = append(nodes, Node{Name: fmt.Sprintf("%s-%d", l, n)})
		}
	}
	return Build([]HyperNode{
		leaf("a"), leaf("b"), leaf("c"), leaf("d"),
		{Name: "s1", Tier: 2, TierName: "spine", Members: exactly(HyperNodeMember, "a", "b")},
		{Name: "s2", Tier: 2, TierName: "spine", Members: exactly(HyperNodeMember, "c", "d")},
	}, nil, append(nodes, Node{Name: "z"}))
}

// slotsOf has so many free slots on the first nodes of leaves, one on each node. Node "z" has all of its own.
func slotsOf(t *Tree, free map[string]int) []int {
	slots := make([]int, len(t.Nodes))
	for name, count := range free {
		for n, node := range t.Nodes {
			switch {
			case node == name:
				slots[n] = count
			case node[:1] == name && count > 0:
				slots[n] = 1
				count--
			}
		}
	}
	return slots
}

func TestWhichDomainIsChosen(t *testing.T) {
	tree := twoSpines()
	for name, test := range map[string]struct {
		free    map[string]int
		pods    int
		all     int
		bound   Bound
		boundOn []string
		want    string // path of the domain, "-" for none
	}{
		"one leaf if one holds the gang":             {free: map[string]int{"a": 1, "b": 3, "c": 4}, pods: 3, want: "s1/b"},
		"the tightest of two":                        {free: map[string]int{"a": 4, "b": 3, "c": 4}, pods: 2, want: "s1/b"},
		"by path if both have the same":              {free: map[string]int{"c": 3, "b": 3}, pods: 2, want: "s1/b"},
		"a wider tier only if no leaf holds it":      {free: map[string]int{"a": 2, "b": 3, "c": 4}, pods: 5, want: "s1"},
		"the whole cluster at last":                  {free: map[string]int{"a": 2, "b": 3, "c": 4}, pods: 7, want: ""},
		"a bound by tier":                            {free: map[string]int{"a": 2, "b": 3}, pods: 5, bound: tier(1), want: "-"},
		"a bound by name":                            {free: map[string]int{"a": 2, "c": 3}, pods: 5, bound: Bound{TierName: "spine"}, want: "-"},
		"a bound by name allows narrower domains":    {free: map[string]int{"a": 2, "b": 2}, pods: 2, bound: Bound{TierName: "spine"}, want: "s1/a"},
		"a name that no domain has":                  {free: map[string]int{"a": 4}, pods: 1, bound: Bound{TierName: "rack"}, want: "-"},
		"a node in no domain is no leaf":             {free: map[string]int{"z": 9}, pods: 2, bound: tier(2), want: "-"},
		"a node in no domain without a bound":        {free: map[string]int{"z": 9}, pods: 2, want: ""},
		"a bound at the root is none":                {free: map[string]int{"z": 1, "a": 2}, pods: 3, bound: tier(3), want: ""},
		"all replicas before the minimum only":       {free: map[string]int{"a": 2, "b": 4}, pods: 2, all: 4, want: "s1/b"},
		"the minimum in a leaf before all in a wide": {free: map[string]int{"a": 2, "b": 3}, pods: 2, all: 5, want: "s1/a"},
		"where pods run already":                     {free: map[string]int{"a": 1, "b": 4}, pods: 1, boundOn: []string{"b-3"}, want: "s1/b"},
		"around the pods that run already":           {free: map[string]int{"a": 1, "c": 4}, pods: 1, boundOn: []string{"b-3"}, want: "s1"},
		"within the bound of pods that run":          {free: map[string]int{"a": 1, "c": 4}, pods: 2, boundOn: []string{"b-3"}, bound: tier(2), want: "-"},
		"pods that run beyond the bound":             {free: map[string]int{"a": 1, "c": 4}, pods: 1, boundOn: []string{"b-3", "c-1"}, bound: tier(2), want: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &Request{Slots: [][]int{slotsOf(tree, test.free)}, Units: []Unit{{Pods: []int{test.pods}, Count: 1}}, Bound: test.bound}
			if test.all > 0 {
				request.All = []int{test.all}
			}
			for _, node := range test.boundOn {
				request.BoundOn = append(request.BoundOn, tree.IndexOf(node))
			}
			choice := tree.NewSearch(request).Next()
			if test.want == "-" {
				require.Nil(t, choice)
				return
			}
			require.NotNil(t, choice)
			assert.Equal(t, test.want, tree.Domains[choice.Domain].Path)
		})
	}
}

// TestFewestLeavesInside: a gang that needs several leaves takes few of them, and leaves whole ones alone where it can.
func TestFewestLeavesInside(t *testing.T) {
	tree := twoSpines()
	for name, test := range map[string]struct {
		free map[string]int
		pods int
		want []string // one node of each leaf
	}{
		"two leaves, not three":         {map[string]int{"a": 1, "b": 3, "c": 4, "d": 3}, 7, []string{"c-0", "d-0"}},
		"the spine with fewer leaves":   {map[string]int{"a": 4, "b": 4, "c": 1, "d": 4, "z": 1}, 8, []string{"a-0", "b-0"}},
		"the tightest pair":             {map[string]int{"a": 4, "b": 2, "c": 3, "d": 4}, 5, []string{"a-0", "b-0"}},
		"over spines, fullest first":    {map[string]int{"a": 4, "b": 1, "c": 4, "d": 1}, 8, []string{"a-0", "c-0"}},
		"over spines, the last tightly": {map[string]int{"a": 4, "b": 1, "c": 4, "d": 2}, 10, []string{"a-0", "c-0", "d-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			choice := tree.NewSearch(&Request{Slots: [][]int{slotsOf(tree, test.free)}, Units: []Unit{{Pods: []int{test.pods}, Count: 1}}}).Next()
			require.NotNil(t, choice)
			var first []string
			for i, p := range choice.Places[0] {
				if i == 0 || tree.DomainOf(p.Node) != tree.DomainOf(choice.Places[0][i-1].Node) {
					first = append(first, tree.Nodes[p.Node])
				}
			}
			assert.Equal(t, test.want, first)
		})
	}
}

// TestGroupsBeforeSinglePods: each group is in a leaf, and single pods take what is left.
func TestGroupsBeforeSinglePods(t *testing.T) {
	tree := twoSpines()
	request := &Request{
		Slots: [][]int{slotsOf(tree, map[string]int{"a": 4, "b": 3, "c": 4, "d": 4})}, Bound: tier(2),
		Units: []Unit{{Pods: []int{2}, Count: 3, Bound: tier(1)}, {Pods: []int{1}, Count: 1}},
	}
	choice := tree.NewSearch(request).Next()
	require.NotNil(t, choice)
	assert.Equal(t, "s1", tree.Domains[choice.Domain].Path)
	require.Len(t, choice.Places, 4)
	request.Slots[0] = slotsOf(tree, map[string]int{"a": 3, "b": 3, "c": 1, "d": 1})
	assert.Nil(t, tree.NewSearch(request).Next(), "two groups of two in six slots of two leaves, not three")
}

// TestAReplacedPodReturnsToItsLeaf: close to its neighbours if they have room, else as close as possible.
func TestAReplacedPodReturnsToItsLeaf(t *testing.T) {
	tree := twoSpines()
	running := []int{tree.IndexOf("a-0"), tree.IndexOf("c-0")}
	for _, test := range []struct {
		free map[string]int
		near string
		want string
	}{
		{map[string]int{"a": 1, "c": 3}, "c-0", "c"},
		{map[string]int{"a": 1, "c": 3}, "a-0", "a"},
		{map[string]int{"a": 1, "d": 4}, "c-0", "d"},
		{map[string]int{"b": 4, "a": 1}, "c-0", "a"},
	} {
		choice := tree.NewSearch(&Request{
			Slots: [][]int{slotsOf(tree, test.free)}, Units: []Unit{{Pods: []int{1}, Count: 1, Near: []int{tree.IndexOf(test.near)}}}, BoundOn: running,
		}).Next()
		require.NotNil(t, choice)
		assert.Equal(t, test.want, tree.Nodes[choice.Places[0][0].Node][:1], "%v near %s", test.free, test.near)
	}
}

// TestSeveralClassesStayTogether: a class follows another one into its leaf.
func TestSeveralClassesStayTogether(t *testing.T) {
	tree := twoSpines()
	launcher, workers := slotsOf(tree, map[string]int{"a": 4, "b": 4, "c": 4, "d": 4}), slotsOf(tree, map[string]int{"c": 4, "d": 2})
	slots := [][]int{launcher, workers}
	choice := tree.NewSearch(&Request{
		Slots: slots, Units: []Unit{{Pods: []int{1, 5}, Count: 1}},
		Recount: func(class, node int, taken []int) int { return max(0, slots[class][node]-taken[class]) },
	}).Next()
	require.NotNil(t, choice)
	assert.Equal(t, "s2", tree.Domains[choice.Domain].Path)
	for _, p := range choice.Places[0] {
		assert.Contains(t, "cd", tree.Nodes[p.Node][:1])
	}
}

// world is a drawn tree with drawn slots of one class.
type world struct {
	tree  *Tree
	slots []int
}

func drawTree(t *rapid.T, nodes []Node) *Tree {
	var objects []HyperNode
	var lower []string
	for _, n := range nodes {
		lower = append(lower, n.Name)
	}
	kind := NodeMember
	for level := range rapid.IntRange(0, 3).Draw(t, "levels") {
		count := rapid.IntRange(1, 3).Draw(t, "domains")
		made := make([]HyperNode, count)
		for i := range made {
			made[i] = HyperNode{Name: fmt.Sprintf("l%d-%d", level, i), Tier: level + 1, TierName: fmt.Sprintf("tier%d", level+1)}
		}
		for _, name := range lower {
			if at := rapid.IntRange(0, count).Draw(t, "parent"); at < count { // else it has no parent
				made[at].Members = append(made[at].Members, exactly(kind, name)...)
			}
		}
		kind, lower = HyperNodeMember, nil
		for _, h := range made {
			lower = append(lower, h.Name)
		}
		objects = append(objects, made...)
	}
	return Build(objects, nil, nodes)
}

func drawBound(t *rapid.T) Bound {
	switch rapid.IntRange(0, 2).Draw(t, "kind of bound") {
	case 0:
		return tier(rapid.IntRange(0, 4).Draw(t, "tier"))
	case 1:
		return Bound{TierName: fmt.Sprintf("tier%d", rapid.IntRange(1, 3).Draw(t, "tier"))}
	}
	return Bound{}
}

func drawWorld(t *rapid.T) *world {
	var nodes []Node
	for n := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%d", n)})
	}
	w := &world{tree: drawTree(t, nodes)}
	for range w.tree.Nodes {
		w.slots = append(w.slots, rapid.IntRange(0, 3).Draw(t, "slots"))
	}
	return w
}

// fitsByForce tries all ways to place the units in a domain.
func (w *world) fitsByForce(domain int, units []Unit, free []int) bool {
	if len(units) == 0 {
		return true
	}
	u, rest := units[0], units
	if u.Count == 1 {
		rest = units[1:]
	} else {
		rest = slices.Clone(units)
		rest[0].Count--
	}
	for d := domain; d < w.tree.Domains[domain].End; d++ {
		if w.tree.Allows(u.Bound, d) && w.spread(w.tree.Domains[d].From, w.tree.Domains[d].To, u.Pods[0], free, func() bool { return w.fitsByForce(domain, rest, free) }) {
			return true
		}
	}
	return false
}

// spread tries all ways to place pods on nodes, until one lets the rest fit.
func (w *world) spread(from, to, pods int, free []int, rest func() bool) bool {
	if pods == 0 {
		return rest()
	}
	if from == to {
		return false
	}
	for count := min(pods, free[from]); count >= 0; count-- {
		free[from] -= count
		ok := w.spread(from+1, to, pods-count, free, rest)
		free[from] += count
		if ok {
			return true
		}
	}
	return false
}

// checkChoice fails if a choice is not what the request asks for.
func checkChoice(t *rapid.T, tree *Tree, r *Request, choice *Choice) {
	taken := make([]int, len(tree.Nodes))
	i := 0
	everywhere := slices.Clone(r.BoundOn)
	for _, u := range r.Units {
		for range u.Count {
			count, on := 0, slices.Clone(u.BoundOn)
			for _, p := range choice.Places[i] {
				taken[p.Node] += p.Count
				count += p.Count
				on = append(on, p.Node)
			}
			if count != u.Pods[0] {
				t.Fatalf("unit %d has %d places for %d pods", i, count, u.Pods[0])
			}
			if len(on) > 0 && !isWithin(tree, u.Bound, on) {
				t.Fatalf("unit %d is on %v, beyond its bound %+v", i, on, u.Bound)
			}
			everywhere = append(everywhere, on...)
			i++
		}
	}
	for n := range taken {
		if taken[n] > r.Slots[0][n] {
			t.Fatalf("node %d has %d slots and is given %d pods", n, r.Slots[0][n], taken[n])
		}
	}
	if !isWithin(tree, r.Bound, everywhere) {
		t.Fatalf("the gang is on %v, beyond its bound %+v", everywhere, r.Bound)
	}
}

// isWithin says whether some domain that a bound allows has all of the nodes. It asks each domain.
func isWithin(tree *Tree, bound Bound, nodes []int) bool {
	for d := range tree.Domains {
		if tree.Allows(bound, d) && !slices.ContainsFunc(nodes, func(n int) bool { return n < tree.Domains[d].From || n >= tree.Domains[d].To }) {
			return true
		}
	}
	return false
}

// drawBoundsOf are slots of which the given ones are the exact numbers.
func drawBoundsOf(t *rapid.T, slots []int) (bounds [][]int, exact func(class, node int) int) {
	most, asked := slices.Clone(slots), map[int]bool{}
	for n := range most {
		most[n] += rapid.IntRange(0, 2).Draw(t, "too many")
	}
	return [][]int{most}, func(_, n int) int {
		if asked[n] || most[n] == 0 {
			t.Fatalf("node %d is asked about without need", n)
		}
		asked[n] = true
		return slots[n]
	}
}

// TestOnlyDomainsThatAreTriedAreAsked: a domain without room by its bounds is never asked, and the rest is not when one has room.
func TestOnlyDomainsThatAreTriedAreAsked(t *testing.T) {
	tree := twoSpines()
	var asked []string
	of := func(exact map[string]int) *Request {
		asked = nil
		really := slotsOf(tree, exact)
		return &Request{
			Slots: [][]int{slotsOf(tree, map[string]int{"a": 2, "b": 3, "c": 4, "d": 4})}, Units: []Unit{{Pods: []int{3}, Count: 1}},
			Exact: func(_, n int) int {
				if name := tree.Nodes[n][:1]; !slices.Contains(asked, name) {
					asked = append(asked, name)
				}
				return really[n]
			},
		}
	}
	for _, test := range []struct {
		exact map[string]int
		want  string
		asked []string
	}{
		{map[string]int{"a": 2, "b": 3, "c": 4, "d": 4}, "s1/b", []string{"b"}},
		{map[string]int{"a": 2, "b": 2, "c": 4, "d": 4}, "s2/c", []string{"b", "c"}},
		{map[string]int{"b": 2, "c": 3, "d": 4}, "s2/c", []string{"b", "c"}},
		{map[string]int{"b": 2, "c": 1, "d": 3}, "s2/d", []string{"b", "c", "d"}},
		{map[string]int{"a": 2, "b": 2, "c": 2, "d": 2}, "s1", []string{"b", "c", "d", "a"}},
	} {
		choice := tree.NewSearch(of(test.exact)).Next()
		require.NotNil(t, choice)
		assert.Equal(t, test.want, tree.Domains[choice.Domain].Path, "%v", test.exact)
		assert.Equal(t, test.asked, asked, "%v", test.exact)
	}
	assert.Nil(t, tree.NewSearch(of(map[string]int{"a": 1, "c": 1})).Next())
	assert.Equal(t, []string{"b", "c", "d", "a"}, asked)
}

// TestAPlaceIsFoundIfThereIsOne: in the lowest tier where one exists, against all ways to place the pods.
func TestAPlaceIsFoundIfThereIsOne(t *testing.T) {
	testutil.Histories(t, 3000, func(t *rapid.T) {
		w := drawWorld(t)
		r := &Request{Slots: [][]int{w.slots}, Bound: drawBound(t)}
		if rapid.Bool().Draw(t, "groups") {
			r.Units = append(r.Units, Unit{Pods: []int{rapid.IntRange(1, 3).Draw(t, "size")}, Count: rapid.IntRange(1, 3).Draw(t, "groups"), Bound: drawBound(t)})
		}
		if single := rapid.IntRange(0, 4).Draw(t, "single pods"); single > 0 || len(r.Units) == 0 {
			r.Units = append(r.Units, Unit{Pods: []int{max(1, single)}, Count: 1})
		}
		lowest := -1
		for d := range w.tree.Domains {
			if (lowest < 0 || w.tree.Domains[d].Tier < lowest) && w.tree.Allows(r.Bound, d) && w.fitsByForce(d, r.Units, slices.Clone(w.slots)) {
				lowest = w.tree.Domains[d].Tier
			}
		}
		bounded := *r
		if rapid.Bool().Draw(t, "bounds") {
			bounded.Slots, bounded.Exact = drawBoundsOf(t, w.slots)
		}
		choice := w.tree.NewSearch(&bounded).Next()
		switch {
		case choice == nil && lowest >= 0:
			t.Fatalf("there is a place in tier %d", lowest)
		case choice != nil && lowest < 0:
			t.Fatalf("there is no place")
		case choice != nil:
			if got := w.tree.Domains[choice.Domain].Tier; got != lowest {
				t.Fatalf("tier %d, and tier %d has a place", got, lowest)
			}
			checkChoice(t, w.tree, r, choice)
		}
	})
}
