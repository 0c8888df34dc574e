package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestLimitsComeFromTheNearestAncestor: of each resource by itself.
func TestLimitsComeFromTheNearestAncestor(t *testing.T) {
	tree := NewTree()
	tree.Set(Root, Terms{Capability: resources.List{corev1.ResourcePods: 100, corev1.ResourceMemory: 50}})
	tree.Set("p", Terms{Capability: resources.List{corev1.ResourceCPU: 8000, corev1.ResourceMemory: 20}})
	tree.Set("q", Terms{Parent: "p", Capability: resources.List{corev1.ResourceCPU: 9000}})
	assert.Equal(t, resources.List{corev1.ResourceCPU: 9000, corev1.ResourceMemory: 20, corev1.ResourcePods: 100}, tree.Limits("q"))
	assert.Equal(t, resources.List{corev1.ResourcePods: 100, corev1.ResourceMemory: 50}, tree.Limits("unknown"))
}

func TestScarcest(t *testing.T) {
	limits := resources.List{corev1.ResourceCPU: 8000, corev1.ResourceMemory: 100, corev1.ResourcePods: 10}
	for name, c := range map[string]struct {
		used resources.List
		want corev1.ResourceName
	}{
		"nothing is used":              {nil, corev1.ResourceCPU},
		"one is nearer to its limit":   {resources.List{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 51}, corev1.ResourceMemory},
		"the first of two by name":     {resources.List{corev1.ResourcePods: 5, corev1.ResourceMemory: 50}, corev1.ResourceMemory},
		"what has no limit":            {resources.List{corev1.ResourcePods: 1, "gpu": 1000}, corev1.ResourcePods},
		"a limit is exceeded":          {resources.List{corev1.ResourceCPU: 9000, corev1.ResourcePods: 10}, corev1.ResourceCPU},
		"nothing is left of any limit": {resources.List{corev1.ResourceCPU: 8000, corev1.ResourceMemory: 100, corev1.ResourcePods: 10}, corev1.ResourceCPU},
	} {
		sums := resources.Sums{}
		sums.Add(c.used)
		assert.Equal(t, c.want, Scarcest(sums, limits), name)
		assert.Empty(t, Scarcest(sums, nil), name)
	}
}

// TestUsersWithTheLargestPartComeFirst: of any resource of the queue. Users of other queues, and users that use nothing any more, do not
// count.
func TestUsersWithTheLargestPartComeFirst(t *testing.T) {
	tree := NewTree()
	tree.Set("q", Terms{})
	for user, amount := range map[string]resources.List{
		"ann": {corev1.ResourceCPU: 1000, "gpu": 8}, "bob": {corev1.ResourceCPU: 9000}, "cy": {corev1.ResourceCPU: 1000}, "dan": {corev1.ResourceCPU: 1000},
	} {
		tree.Add(Account("q", user), amount)
	}
	tree.Add(Account("q", "gone"), resources.List{"gpu": 1})
	tree.Sub(Account("q", "gone"), resources.List{"gpu": 1})
	tree.Add(Account("other", "eve"), resources.List{"gpu": 9})
	tree.Add("q", resources.List{corev1.ResourceCPU: 1000})
	var names []string
	for _, user := range tree.Users("q") {
		names = append(names, user.User)
	}
	assert.Equal(t, []string{"ann", "bob", "cy", "dan"}, names)
	assert.Equal(t, resources.List{corev1.ResourceCPU: 9000}, tree.Users("q")[1].Used)
}
