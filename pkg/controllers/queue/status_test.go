package queue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// TestHowFullAQueueIs: the resource that is nearest to its limit is named. Without a limit it is the one with the largest part of the
// cluster.
func TestHowFullAQueueIs(t *testing.T) {
	cluster := resources.List{corev1.ResourceCPU: 64000, corev1.ResourceMemory: 1 << 30}
	for want, c := range map[string]struct{ used, limits resources.List }{
		"cpu 12/16":      {resources.List{corev1.ResourceCPU: 12000, corev1.ResourceMemory: 1 << 29}, resources.List{corev1.ResourceCPU: 16000}},
		"memory 1Mi/2Mi": {resources.List{corev1.ResourceCPU: 1500, corev1.ResourceMemory: 1 << 20}, resources.List{corev1.ResourceCPU: 16000, corev1.ResourceMemory: 2 << 20}},
		"cpu 0/16":       {nil, resources.List{corev1.ResourceCPU: 16000, corev1.ResourcePods: 5}},
		"cpu 1500m/0":    {resources.List{corev1.ResourceCPU: 1500}, resources.List{corev1.ResourceCPU: 0}},
		"memory 512Mi":   {resources.List{corev1.ResourceCPU: 12000, corev1.ResourceMemory: 1 << 29}, nil},
		"":               {nil, nil},
	} {
		used := resources.Sums{}
		used.Add(c.used)
		assert.Equal(t, want, usedOf(used, c.limits, cluster))
	}
	assert.Empty(t, usedOf(resources.Sums{}, nil, nil), "nothing is known of the cluster")
}

// TestManyUsersOfAQueue: as many as fit are named, by name, and the rest is counted.
func TestManyUsersOfAQueue(t *testing.T) {
	var users []quota.UserUse
	for i := range maxUsers + 3 {
		users = append(users, quota.UserUse{User: fmt.Sprintf("u%02d", 99-i), Used: resources.List{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 0}})
	}
	named, others := usersOf(users)
	assert.Len(t, named, maxUsers)
	assert.EqualValues(t, 3, others)
	assert.Equal(t, "u80", named[0].Name)
	assert.Equal(t, "u99", named[maxUsers-1].Name)
	assert.Len(t, named[0].Allocated, 1)

	named, others = usersOf(users[:2])
	assert.Len(t, named, 2)
	assert.Zero(t, others)
}
