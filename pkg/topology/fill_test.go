package topology

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFill: leaves that are in use fill up first, then blocks, and nodes outside the network before all of them.
func TestFill(t *testing.T) {
	tree := Build(nil, []Labels{{Name: "l", Levels: []Level{{"block", "", 2}, {"rack", "", 1}}}}, []Node{
		{"a1", map[string]string{"block": "a", "rack": "1"}}, {"a2", map[string]string{"block": "a", "rack": "1"}},
		{"a3", map[string]string{"block": "a", "rack": "2"}}, {"a4", map[string]string{"block": "a", "rack": "2"}},
		{"b1", map[string]string{"block": "b", "rack": "1"}}, {"b2", map[string]string{"block": "b", "rack": "1"}},
		{"out", nil},
	})
	for name, test := range map[string]struct {
		slots map[string]int
		want  string
	}{
		"the used leaf, then the used block": {
			map[string]int{"a1": 8, "a3": 8, "a4": 8, "b1": 8, "b2": 8}, "[[a1] [b1 b2] [a3 a4]]",
		},
		"the used node of a leaf":  {map[string]int{"a1": 3, "a2": 8, "b1": 8, "b2": 8}, "[[a1] [a2] [b1 b2]]"},
		"a node in no domain":      {map[string]int{"a1": 1, "out": 8}, "[[out] [a1]]"},
		"one leaf after the other": {map[string]int{"a1": 2, "a2": 2, "a3": 2, "a4": 2}, "[[a1 a2] [a3 a4]]"},
	} {
		t.Run(name, func(t *testing.T) {
			slots, nodes := make([]int, len(tree.Nodes)), []int(nil)
			for node, count := range test.slots {
				slots[tree.IndexOf(node)] = count
				nodes = append(nodes, tree.IndexOf(node))
			}
			var got [][]string
			for _, group := range tree.Fill(slots, nodes) {
				var names []string
				for _, n := range group {
					names = append(names, tree.Nodes[n])
				}
				got = append(got, names)
			}
			assert.Equal(t, test.want, fmt.Sprint(got))
		})
	}
}

// TestFillChoosesAsAGangOfOne: a single pod without a topology goes where a gang of one pod would.
func TestFillChoosesAsAGangOfOne(t *testing.T) {
	tree, random := lingjun(), rand.New(rand.NewSource(1))
	for range 200 {
		slots, nodes := make([]int, len(tree.Nodes)), []int(nil)
		for n := range slots {
			if slots[n] = max(0, random.Intn(12)-3); slots[n] > 0 {
				nodes = append(nodes, n)
			}
		}
		choice := tree.NewSearch(&Request{Slots: [][]int{slots}, Units: []Unit{{Pods: []int{1}, Count: 1}}}).Next()
		first := tree.Fill(slots, nodes)[0]
		sums, of := tree.Sums(slots), tree.DomainOf(first[0])
		assert.Equal(t, sums[choice.Domain], sums[of], "the least room left in a leaf")
		assert.Equal(t, tree.Domains[choice.Domain].Size(), tree.Domains[of].Size())
		if choice.Domain == of {
			assert.Contains(t, first, choice.Places[0][0].Node, "the least room left on a node")
		}
	}
}
