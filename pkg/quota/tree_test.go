package quota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

func cpu(millis int64) resources.List { return resources.List{corev1.ResourceCPU: millis} }

func TestRoomAsksEveryAncestor(t *testing.T) {
	tree := NewTree()
	tree.Set("org", "", cpu(4000))
	tree.Set("team", "org", cpu(3000))
	tree.Set("other", "org", nil)
	tree.Add("other", cpu(2000))

	assert.Nil(t, tree.Room("team", cpu(2000)))
	shortage := tree.Room("team", cpu(2500))
	require.NotNil(t, shortage)
	assert.Equal(t, Shortage{Queue: "org", Resource: corev1.ResourceCPU, Want: 2500, Free: 2000}, *shortage)
	assert.Equal(t, `queue "org" has 2 cpu free of its capability, 2500m needed`, shortage.Error())
	assert.Equal(t, "team", tree.Room("team", cpu(3500)).Queue)
}

func TestWhatIsNotLimitedOrNotWantedDoesNotMatter(t *testing.T) {
	tree := NewTree()
	tree.Set("q", "", cpu(1000))
	tree.Add("q", cpu(3000)) // the capability was lowered afterwards
	assert.Nil(t, tree.Room("q", resources.List{corev1.ResourceMemory: 1 << 40}))
	assert.Equal(t, int64(-2000), tree.Room("q", cpu(1)).Free)
}

func TestQueuesAppearInAnyOrder(t *testing.T) {
	tree := NewTree()
	tree.Add("leaf", cpu(1000))
	tree.Set("leaf", "parent", nil)
	assert.Equal(t, []string{"leaf", Root}, tree.Path("leaf"))
	tree.Set("parent", "", cpu(1500))
	assert.Equal(t, []string{"leaf", "parent", Root}, tree.Path("leaf"))
	assert.Equal(t, cpu(1000), tree.Total("parent"))
	assert.NotNil(t, tree.Room("leaf", cpu(1000)))
	tree.Remove("parent")
	assert.Nil(t, tree.Room("leaf", cpu(1000)))
	assert.Equal(t, cpu(1000), tree.Total(Root))
}

func TestACycleOfParentsEnds(t *testing.T) {
	tree := NewTree()
	tree.Set("a", "b", nil)
	tree.Set("b", "a", nil)
	tree.Add("a", cpu(1))
	assert.Equal(t, []string{"a", "b", Root}, tree.Path("a"))
	assert.Equal(t, cpu(1), tree.Total(Root))
}

// TestTotalsAreTheSumOfWhatWasAdded drives the tree through random histories and compares every total with one that is
// summed from scratch along the declared parents.
func TestTotalsAreTheSumOfWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := NewTree()
		own := map[string]int64{}
		parents := map[string]string{} // only the declared queues
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			queue := name.Draw(t, fmt.Sprint("queue", step))
			switch rapid.IntRange(0, 3).Draw(t, "verb") {
			case 0:
				// Parents come earlier in the alphabet: the model knows no cycles.
				parent := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Filter(func(p string) bool { return p < queue }).Draw(t, "parent")
				tree.Set(queue, parent, nil)
				parents[queue] = parent
			case 1:
				tree.Remove(queue)
				delete(parents, queue)
			case 2:
				amount := rapid.Int64Range(1, 100).Draw(t, "amount")
				tree.Add(queue, cpu(amount))
				own[queue] += amount
			case 3:
				tree.Sub(queue, cpu(own[queue]))
				own[queue] = 0
			}
		}
		want := map[string]int64{}
		for queue, amount := range own {
			for at := queue; ; {
				want[at] += amount
				if at == Root {
					break
				}
				parent := parents[at]
				if _, declared := parents[parent]; !declared {
					parent = Root
				}
				at = parent
			}
		}
		for _, queue := range []string{"a", "b", "c", "d", "e", Root} {
			assert.Equal(t, want[queue], tree.Total(queue)[corev1.ResourceCPU], queue)
		}
	})
}
