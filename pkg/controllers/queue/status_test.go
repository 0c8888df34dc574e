package queue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// TestHowFullAQueueIs: the resource that is nearest to its limit is named. Without a limit it is the one with the largest part of the
// cluster.
func TestHowFullAQueueIs(t *testing.T) {
	cluster := resources.List{corev1.ResourceCPU: 64000, corev1.ResourceMemory: 1 << 30}
	used := func(f quota.Figures) string {
		if table := tableOf(f); table != nil {
			return table.Used
		}
		return ""
	}
	for want, c := range map[string]struct{ used, limits resources.List }{
		"cpu 12/16":      {resources.List{corev1.ResourceCPU: 12000, corev1.ResourceMemory: 1 << 29}, resources.List{corev1.ResourceCPU: 16000}},
		"memory 1Mi/2Mi": {resources.List{corev1.ResourceCPU: 1500, corev1.ResourceMemory: 1 << 20}, resources.List{corev1.ResourceCPU: 16000, corev1.ResourceMemory: 2 << 20}},
		"cpu 0/16":       {nil, resources.List{corev1.ResourceCPU: 16000, corev1.ResourcePods: 5}},
		"cpu 1500m/0":    {resources.List{corev1.ResourceCPU: 1500}, resources.List{corev1.ResourceCPU: 0}},
		"memory 512Mi":   {resources.List{corev1.ResourceCPU: 12000, corev1.ResourceMemory: 1 << 29}, nil},
		"":               {nil, nil},
	} {
		assert.Equal(t, want, used(quota.Figures{Used: c.used, Limit: c.limits, Cluster: cluster}))
	}
	assert.Empty(t, used(quota.Figures{}), "nothing is known of the cluster")
}

// TestTheTableOfAQueue: what runs and what is kept for gangs that start stand apart, and all cells are about one resource.
func TestTheTableOfAQueue(t *testing.T) {
	cpu := func(n int64) resources.List {
		return resources.List{corev1.ResourceCPU: n * 1000, corev1.ResourceMemory: n}
	}
	f := quota.Figures{Used: cpu(27), Reserved: cpu(57), Limit: resources.List{corev1.ResourceCPU: 100_000}, Share: cpu(20), Guarantee: cpu(5), Cluster: cpu(40)}
	assert.Equal(t, &schedulingv1beta1.QueueFigures{Used: "cpu 27/100", Reserved: "57", Share: "20", Guarantee: "5", Borrowed: "7"}, tableOf(f))

	f.Share = nil
	assert.Empty(t, tableOf(f).Borrowed, "nothing is borrowed while no share is known")
	f = quota.Figures{Guarantee: cpu(5), Share: cpu(5), Cluster: cpu(40)}
	assert.Equal(t, &schedulingv1beta1.QueueFigures{Used: "cpu 0", Share: "5", Guarantee: "5"}, tableOf(f), "a queue without limit and use")
	f = quota.Figures{Reserved: cpu(4), Share: cpu(4), Cluster: cpu(40)}
	assert.Equal(t, &schedulingv1beta1.QueueFigures{Used: "cpu 0", Reserved: "4", Share: "4"}, tableOf(f), "its first gang starts")
	f = quota.Figures{Used: cpu(4), Share: resources.List{}, Cluster: cpu(40)}
	assert.Equal(t, &schedulingv1beta1.QueueFigures{Used: "cpu 4", Borrowed: "4"}, tableOf(f), "it deserves nothing")
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
