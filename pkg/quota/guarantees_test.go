package quota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAGuaranteeIsNotLent: the cluster has 100 cpu, and the queue green is guaranteed 30.
func TestAGuaranteeIsNotLent(t *testing.T) {
	tree := NewTree()
	tree.SetTotal(cpu(100))
	tree.Set("green", Terms{Guarantee: cpu(30)})
	tree.Set("org", Terms{Capability: cpu(50)})
	tree.Set("org-a", Terms{Parent: "org", Guarantee: cpu(20)})
	tree.Set("org-b", Terms{Parent: "org"})

	assert.Nil(t, tree.Room("blue", cpu(50)), "30 are kept for green, 20 for org-a")
	shortage := tree.Room("blue", cpu(51))
	require.EqualError(t, shortage, "the cluster has 50m cpu free of its total, 51m needed; 50m cpu are kept for the guarantees of other queues")
	assert.False(t, shortage.IsForEver(), "nodes may come")
	assert.False(t, tree.Exceeds("blue", cpu(101)))

	assert.Nil(t, tree.Room("org-b", cpu(30)))
	shortage = tree.Room("org-b", cpu(31))
	require.EqualError(t, shortage, `can never fit queue "org": 31m cpu asked, its capability is 50m, of which 20m are guaranteed to other queues`)
	assert.True(t, tree.Exceeds("org-b", cpu(31)))
	tree.Add("org-b", cpu(10))
	require.EqualError(t, tree.Room("org-b", cpu(25)),
		`queue "org" has 20m cpu free of its capability, 25m needed; 20m cpu are kept for the guarantees of other queues`)

	tree.Add("org-a", cpu(15))
	require.EqualError(t, tree.Room("org-b", cpu(25)),
		`queue "org" has 20m cpu free of its capability, 25m needed; 5m cpu are kept for the guarantees of other queues`, "what it uses of its guarantee")
	assert.Nil(t, tree.Room("org-a", cpu(25)), "the queue itself may use its guarantee, and more")
	assert.Nil(t, tree.Room("green", cpu(70)))

	tree.Remove("green")
	tree.Set("org-a", Terms{Parent: "org"})
	assert.False(t, tree.HasGuarantees())
	assert.Nil(t, tree.Room("blue", cpu(1000)), "without guarantees the nodes are no limit of a queue")
}

// TestRoomBesideGuarantees compares Room with a model. For its parent, a queue counts as what it and its children count, and at least as
// its guarantee. The asking queue and its ancestors count without their guarantee.
func TestRoomBesideGuarantees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, terms, used := NewTree(), map[string]Terms{}, map[string]int64{}
		names := []string{"a", "b", "c", "d", "e", "f"}
		total := rapid.Int64Range(0, 60).Draw(t, "total")
		tree.SetTotal(cpu(total))
		for i, name := range names {
			own := Terms{Parent: rapid.SampledFrom(append([]string{""}, names[:i]...)).Draw(t, "parent")}
			if rapid.Bool().Draw(t, "limited") {
				own.Capability = cpu(rapid.Int64Range(0, 40).Draw(t, "capability"))
			}
			if rapid.Bool().Draw(t, "guaranteed") {
				own.Guarantee = cpu(rapid.Int64Range(1, 20).Draw(t, "guarantee"))
			}
			terms[name], used[name] = own, rapid.Int64Range(0, 10).Draw(t, "used")
		}
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			tree.Set(name, terms[name])
			tree.Add(name, cpu(used[name]))
		}
		name, want := rapid.SampledFrom(names).Draw(t, "asks"), rapid.Int64Range(1, 30).Draw(t, "wants")
		for _, asked := range []*Tree{tree, tree.Clone()} {
			require.Equal(t, fitsBesideGuarantees(terms, used, total, name, want), asked.Room(name, cpu(want)) == nil, fmt.Sprint(asked.Room(name, cpu(want))))
		}
	})
}

// fitsBesideGuarantees is the model.
func fitsBesideGuarantees(terms map[string]Terms, used map[string]int64, total int64, asks string, want int64) bool {
	onPath := map[string]bool{"": true}
	for name := asks; name != ""; name = terms[name].Parent {
		onPath[name] = true
	}
	fits, guarantees := true, false
	var counts func(name string) int64
	counts = func(name string) int64 {
		sum := used[name]
		if name == asks {
			sum += want
		}
		for child, own := range terms {
			if own.Parent == name && child != "" {
				sum += counts(child)
			}
		}
		if !onPath[name] {
			return max(sum, terms[name].Guarantee["cpu"])
		}
		if limit, limited := terms[name].Capability["cpu"]; limited && sum > limit {
			fits = false
		}
		return sum
	}
	all := counts("")
	for name, own := range terms {
		guarantees = guarantees || !onPath[name] && own.Guarantee["cpu"] > 0
	}
	return fits && (!guarantees || all <= total)
}

// TestAGuaranteeCanAlwaysBeHad: queues take what Room gives them, in any order, and give some of it back. A queue below its guarantee can have
// all that it lacks at any time.
func TestAGuaranteeCanAlwaysBeHad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, names := NewTree(), []string{"org", "org-a", "org-b", "green", "blue"}
		guarantees := map[string]int64{}
		for _, name := range names {
			guarantees[name] = rapid.Int64Range(0, 20).Draw(t, name)
		}
		guarantees["org"] = max(guarantees["org"], guarantees["org-a"]+guarantees["org-b"])
		org := Terms{Capability: cpu(guarantees["org"] + rapid.Int64Range(0, 20).Draw(t, "room of org")), Guarantee: cpu(guarantees["org"])}
		tree.SetTotal(cpu(guarantees["org"] + guarantees["green"] + guarantees["blue"] + rapid.Int64Range(0, 20).Draw(t, "free")))
		tree.Set("org", org)
		tree.Set("org-a", Terms{Parent: "org", Guarantee: cpu(guarantees["org-a"])})
		tree.Set("org-b", Terms{Parent: "org", Guarantee: cpu(guarantees["org-b"])})
		tree.Set("green", Terms{Guarantee: cpu(guarantees["green"])})
		tree.Set("blue", Terms{Guarantee: cpu(guarantees["blue"])})
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			name, amount := rapid.SampledFrom(names[1:]).Draw(t, "queue"), rapid.Int64Range(1, 30).Draw(t, "amount")
			if tree.Room(name, cpu(amount)) == nil {
				tree.Add(name, cpu(amount))
			} else if has := tree.Total(name).Amount("cpu"); has > 0 {
				tree.Sub(name, cpu(rapid.Int64Range(1, has).Draw(t, "back")))
			}
			for _, name := range names[1:] { // guarantees of children are kept from their parent, too
				if lacks := guarantees[name] - tree.Total(name).Amount("cpu"); lacks > 0 {
					require.Nil(t, tree.Room(name, cpu(lacks)), "%s lacks %d", name, lacks)
				}
			}
		}
	})
}
