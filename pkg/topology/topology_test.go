package topology

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

func exactly(kind MemberType, names ...string) (members []Member) {
	for _, name := range names {
		members = append(members, Member{Type: kind, Exact: name})
	}
	return members
}

func hyper(name string, tier int, members ...[]Member) HyperNode {
	return HyperNode{Name: name, Tier: tier, Members: slices.Concat(members...)}
}

func younger(h HyperNode) HyperNode {
	h.Created = time.Unix(1000, 0)
	return h
}

func nodesNamed(names ...string) (nodes []Node) {
	for _, name := range names {
		nodes = append(nodes, Node{Name: name})
	}
	return nodes
}

// draw is a line for each domain: path, tier and the nodes directly in it.
func draw(t *Tree) (lines []string) {
	for d := range t.Domains {
		var own []string
		for n := t.Domains[d].From; n < t.Domains[d].To; n++ {
			if t.DomainOf(n) == d {
				own = append(own, t.Nodes[n])
			}
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s/%d %s", t.Domains[d].Path, t.Domains[d].Tier, strings.Join(own, ","))))
	}
	return lines
}

func reasons(t *Tree) (all []string) {
	for _, f := range t.Faults() {
		all = append(all, f.Object+" "+f.Field+" "+f.Reason)
	}
	return all
}

func TestATreeOfHyperNodes(t *testing.T) {
	rack1, err := labels.Parse("rack=1")
	require.NoError(t, err)
	tree := Build([]HyperNode{
		hyper("spine", 2, exactly(HyperNodeMember, "leaf-b", "leaf-a")),
		hyper("leaf-a", 1, []Member{{Type: NodeMember, Pattern: "^a-[0-9]$"}}),
		hyper("leaf-b", 1, []Member{{Type: NodeMember, Labels: rack1}}, exactly(NodeMember, "x")),
		hyper("other", 1, exactly(NodeMember, "o1", "absent")),
	}, nil, append(nodesNamed("a-1", "a-2", "a-10", "x", "o1", "alone"), Node{Name: "b", Labels: map[string]string{"rack": "1"}}))
	assert.Equal(t, []string{"/3 a-10,alone", "other/1 o1", "spine/2", "spine/leaf-a/1 a-1,a-2", "spine/leaf-b/1 b,x"}, draw(tree))
	assert.Equal(t, []string{"other spec.members[1].selector.exactMatch.name MemberNotFound"}, reasons(tree))
	for name, members := range map[string]int{"spine": 2, "leaf-a": 2, "leaf-b": 2, "other": 2} {
		domain, ok := tree.OfHyperNode(name)
		require.True(t, ok)
		assert.Equal(t, members, domain.Members, name)
	}
	assert.Equal(t, "spine/leaf-b", tree.PathOf("x"))
	assert.Equal(t, "spine", tree.Domains[tree.CommonDomain([]string{"x", "a-1", "gone"})].Path)
	assert.Equal(t, Root, tree.CommonDomain([]string{"x", "o1"}))
	assert.Equal(t, -1, tree.CommonDomain([]string{"gone"}))
}

// TestABadObjectIsContained: the rest of the tree stands as it would without the mistake.
func TestABadObjectIsContained(t *testing.T) {
	good := []HyperNode{
		hyper("good", 2, exactly(HyperNodeMember, "g1")),
		hyper("g1", 1, exactly(NodeMember, "n1", "n2")),
	}
	for name, test := range map[string]struct {
		bad    []HyperNode
		faults []string
		tree   []string // beside the good part
	}{
		"two parents": {
			[]HyperNode{younger(hyper("late", 2, exactly(HyperNodeMember, "g1"), exactly(NodeMember, "n3")))},
			[]string{"late spec.members[0] TwoParents"}, []string{"late/2 n3"},
		},
		"a cycle": {
			[]HyperNode{hyper("a", 3, exactly(HyperNodeMember, "b")), hyper("b", 2, exactly(HyperNodeMember, "a"), exactly(NodeMember, "n3"))},
			[]string{"b spec.members[0] Cycle"}, []string{"a/3", "a/b/2 n3"},
		},
		"itself": {
			[]HyperNode{hyper("a", 3, exactly(HyperNodeMember, "a"), exactly(NodeMember, "n3"))},
			[]string{"a spec.members[0] Cycle"}, []string{"a/3 n3"},
		},
		"a tier that is not above": {
			[]HyperNode{hyper("low", 1, exactly(HyperNodeMember, "x")), hyper("x", 1, exactly(NodeMember, "n3"))},
			[]string{"low spec.members[0] TierNotAbove"}, []string{"low/1", "x/1 n3"},
		},
		"a node in two leaves": {
			[]HyperNode{younger(hyper("thief", 1, exactly(NodeMember, "n1", "n2", "n3")))},
			[]string{"thief spec.members[0] NodeInTwoDomains"}, []string{"thief/1 n3"},
		},
		"a bad pattern": {
			[]HyperNode{hyper("p", 1, []Member{{Type: NodeMember, Pattern: "(n"}}, exactly(NodeMember, "n3"))},
			[]string{"p spec.members[0].selector.regexMatch.pattern InvalidPattern"}, []string{"p/1 n3"},
		},
		"no selector, two selectors, a pattern for HyperNodes, an unknown type": {
			[]HyperNode{hyper("p", 1, []Member{
				{Type: NodeMember}, {Type: NodeMember, Exact: "n3", Pattern: "n3"}, {Type: HyperNodeMember, Pattern: "g"}, {Type: "Rack", Exact: "n3"},
			})},
			[]string{"p spec.members[0].selector InvalidMember", "p spec.members[1].selector InvalidMember", "p spec.members[2].selector UnsupportedSelector", "p spec.members[3].type InvalidMember"},
			[]string{"p/1"},
		},
		"no members, and members that do not exist": {
			[]HyperNode{hyper("a", 1), hyper("b", 3, exactly(HyperNodeMember, "absent")), hyper("c", 1, []Member{{Type: NodeMember, Pattern: "absent"}})},
			[]string{"a spec.members NoMembers", "b spec.members[0].selector.exactMatch.name MemberNotFound", "c spec.members[0].selector.regexMatch.pattern MemberNotFound"},
			[]string{"a/1", "b/3", "c/1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := slices.Concat(good, test.bad)
			tree := Build(all, nil, nodesNamed("n1", "n2", "n3"))
			assert.Equal(t, test.faults, reasons(tree))
			for _, f := range tree.Faults() {
				assert.NotEmpty(t, f.Message)
				assert.NotEmpty(t, f.Remedy)
			}
			slices.Reverse(all)
			again := Build(all, nil, nodesNamed("n3", "n2", "n1"))
			assert.Equal(t, tree, again, "the order of the objects does not matter")
			got := draw(tree)
			for _, line := range slices.Concat([]string{"good/2", "good/g1/1 n1,n2"}, test.tree) {
				assert.Contains(t, got, line)
			}
			assert.Len(t, got, 3+len(test.tree))
		})
	}
}

// TestANodeOfAParentAndItsChild is in the child.
func TestANodeOfAParentAndItsChild(t *testing.T) {
	tree := Build([]HyperNode{
		hyper("spine", 2, exactly(HyperNodeMember, "leaf"), exactly(NodeMember, "n1", "n2")),
		hyper("leaf", 1, exactly(NodeMember, "n1")),
	}, nil, nodesNamed("n1", "n2"))
	assert.Equal(t, []string{"/3", "spine/2 n2", "spine/leaf/1 n1"}, draw(tree))
	assert.Empty(t, tree.Faults())
}

func TestATreeOfLabels(t *testing.T) {
	node := func(name string, pairs ...string) Node {
		n := Node{Name: name, Labels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			n.Labels[pairs[i]] = pairs[i+1]
		}
		return n
	}
	h100, err := labels.Parse("gpu=h100")
	require.NoError(t, err)
	gb200, err := labels.Parse("gpu=gb200")
	require.NoError(t, err)
	tree := Build(
		[]HyperNode{hyper("hn", 1, exactly(NodeMember, "h"))},
		[]Labels{
			{Kind: "NetworkTopology", Name: "h100", Selector: h100, Levels: []Level{{"block", "block", 3}, {"rack", "rack", 2}}},
			{Kind: "NetworkTopology", Name: "gb200", Selector: gb200, Levels: []Level{{"block", "block", 3}, {"rack", "rack", 2}, {"clique", "clique", 1}}},
			{Kind: "NetworkTopology", Name: "bad", Levels: []Level{{"block", "block", 1}, {"rack", "rack", 1}}},
			{Kind: "NetworkTopology", Name: "taken", Selector: h100, Levels: []Level{{"rack", "rack", 1}}},
		},
		[]Node{
			node("h", "block", "1"), // a HyperNode has it
			node("a", "gpu", "h100", "block", "1", "rack", "1"),
			node("b", "gpu", "h100", "block", "2", "rack", "1"),
			node("c", "gpu", "gb200", "block", "1", "rack", "7", "clique", "u.0"),
			node("d", "gpu", "gb200", "block", "1", "clique", "u.0"), // no rack
			node("e"),
		},
	)
	assert.Equal(t, []string{"/4 e", "1/3 d", "1/1/2 a", "1/7/2", "1/7/u.0/1 c", "2/3", "2/1/2 b", "hn/1 h"}, draw(tree))
	assert.Equal(t, []string{
		"gb200 spec.levels[1].nodeLabel LabelMissing", "bad spec.levels[1].tier TierNotAbove", "taken spec.nodeSelector AllNodesTaken",
	}, reasons(tree))
}

// TestADomainIsFoundByItsPath, and none by a part of it.
func TestADomainIsFoundByItsPath(t *testing.T) {
	tree := lingjun()
	for d := range tree.Domains {
		found, ok := tree.OfPath(tree.Domains[d].Path)
		assert.True(t, ok)
		assert.Equal(t, tree.Domains[d], found)
	}
	for _, path := range []string{"3", "0/S", "0/S01/", "/0", "0/S99", "S01"} {
		_, ok := tree.OfPath(path)
		assert.False(t, ok, path)
	}
}

// TestTwoSourcesWithTheSameName: paths differ, as only the path identifies a domain.
func TestTwoSourcesWithTheSameName(t *testing.T) {
	tree := Build([]HyperNode{hyper("r1", 1, exactly(NodeMember, "a"))},
		[]Labels{{Name: "x", Levels: []Level{{"rack", "", 1}}}, {Name: "y", Levels: []Level{{"row", "", 1}}}},
		[]Node{{Name: "a"}, {Name: "b", Labels: map[string]string{"rack": "r1"}}, {Name: "c", Labels: map[string]string{"row": "r1"}}})
	assert.Equal(t, []string{"/2", "r1/1 a", "rack:r1/1 b", "row:r1/1 c"}, draw(tree))
}

// TestAnEmptyTree has the root, and a bound that is above it holds for all nodes.
func TestAnEmptyTree(t *testing.T) {
	tree := Build(nil, nil, nodesNamed("a"))
	assert.Equal(t, []string{"/1 a"}, draw(tree))
	assert.False(t, tree.IsKnown())
	assert.NotEqual(t, tree.Generation, Build(nil, nil, nodesNamed("b")).Generation)
}

// TestTenThousandObjectsWithBadOnes: all that is good is in its place, and each bad one has its fault.
func TestTenThousandObjectsWithBadOnes(t *testing.T) {
	objects, nodes := clos(9600, 25, 1)
	bad := []HyperNode{
		younger(hyper("second-parent", 2, exactly(HyperNodeMember, "leaf-00007"))), hyper("cycle", 5, exactly(HyperNodeMember, "cycle")),
		younger(hyper("thief", 1, exactly(NodeMember, "node-00007-00"))), hyper("low", 1, exactly(HyperNodeMember, "leaf-00008")),
	}
	tree := Build(slices.Concat(objects, bad), nil, nodes)
	assert.Len(t, tree.Faults(), len(bad))
	for _, node := range nodes {
		assert.Equal(t, "leaf-"+node.Name[5:10], tree.PathOf(node.Name)[len("spine-000/"):])
	}
}

// TestALabelWithAValueForEachNode: as many domains as nodes, and values as long as labels may be.
func TestALabelWithAValueForEachNode(t *testing.T) {
	var nodes []Node
	for n := range 5000 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%04d", n), Labels: map[string]string{"rack": fmt.Sprintf("%059d%04d", 0, n)}})
	}
	list := Labels{Kind: "NetworkTopology", Name: "t", Levels: []Level{{"rack", "rack", 1}}}
	tree := Build(nil, []Labels{list}, nodes)
	assert.Len(t, tree.Domains, 5001)
	assert.Empty(t, tree.Faults())
	nodes[0].Labels = map[string]string{"rack": nodes[1].Labels["rack"]}
	moved := Build(nil, []Labels{list}, nodes)
	assert.Len(t, moved.Domains, 5000)
	assert.NotEqual(t, tree.Generation, moved.Generation, "a decision on the tree before is refused")
	delete(nodes[0].Labels, "rack")
	assert.Empty(t, Build(nil, []Labels{list}, nodes).PathOf("n0000"))
}

// TestPatternsFindWhatTheyMatch: the index leaves no node out.
func TestPatternsFindWhatTheyMatch(t *testing.T) {
	nodes := nodesNamed("gpu-1", "gpu-10", "node-gpu-1", "GPU-1", "x")
	for pattern, want := range map[string][]string{
		"gpu-1": {"gpu-1", "gpu-10", "node-gpu-1"}, "^gpu-1$": {"gpu-1"}, "(gpu|x)": {"gpu-1", "gpu-10", "node-gpu-1", "x"}, "(?i)gpu-1$": {"gpu-1", "node-gpu-1", "GPU-1"},
		"^(gpu-1)0?$": {"gpu-1", "gpu-10"}, ".": {"gpu-1", "gpu-10", "node-gpu-1", "GPU-1", "x"}, "z": nil, "(?:gpu-)?x": {"x"},
	} {
		found, err := newSearch(nodes).matching(pattern)
		require.NoError(t, err)
		var names []string
		for _, n := range found {
			names = append(names, nodes[n].Name)
		}
		assert.Equal(t, want, names, pattern)
	}
}

// clos makes HyperNodes of two tiers below one spine tier, by patterns.
func clos(leaves, leavesPerSpine, nodesPerLeaf int) (objects []HyperNode, nodes []Node) {
	for spine := range (leaves + leavesPerSpine - 1) / leavesPerSpine {
		s := hyper(fmt.Sprintf("spine-%03d", spine), 2)
		for leaf := spine * leavesPerSpine; leaf < min(leaves, (spine+1)*leavesPerSpine); leaf++ {
			name := fmt.Sprintf("leaf-%05d", leaf)
			s.Members = append(s.Members, exactly(HyperNodeMember, name)...)
			objects = append(objects, hyper(name, 1, []Member{{Type: NodeMember, Pattern: fmt.Sprintf("node-%05d-.*", leaf)}}))
			for node := range nodesPerLeaf {
				nodes = append(nodes, Node{Name: fmt.Sprintf("node-%05d-%02d", leaf, node)})
			}
		}
		objects = append(objects, s)
	}
	return objects, nodes
}

// TestTheGenerationIsOfTheTree: other objects with the same domains have the same one.
func TestTheGenerationIsOfTheTree(t *testing.T) {
	objects, nodes := clos(20, 5, 3)
	first := Build(objects, nil, nodes)
	rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	assert.Equal(t, first.Generation, Build(objects, nil, nodes).Generation)
	assert.NotEqual(t, first.Generation, Build(objects, nil, nodes[1:]).Generation)
	assert.NotEqual(t, first.Generation, Build(objects[1:], nil, nodes).Generation)
}

// BenchmarkBuild makes a tree of 5,000 nodes.
func BenchmarkBuild(b *testing.B) {
	for _, leaves := range []int{250, 9600} {
		b.Run(fmt.Sprint(leaves), func(b *testing.B) {
			objects, nodes := clos(leaves, 25, max(1, 5000/leaves))
			for b.Loop() {
				Build(objects, nil, nodes)
			}
		})
	}
}
