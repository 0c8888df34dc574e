package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// inGroup is a node of a node group.
func inGroup(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[schedulingv1beta1.NodeGroupLabel] = name }
}

// nodeGroups lets the pods of a queue go to groups of nodes only.
func nodeGroups(names ...string) func(*schedulingv1beta1.Queue) {
	return func(q *schedulingv1beta1.Queue) {
		q.Spec.Affinity = &schedulingv1beta1.Affinity{
			NodeGroupAffinity: &schedulingv1beta1.NodeGroupAffinity{RequiredDuringSchedulingIgnoredDuringExecution: names}}
	}
}

// TestAGangStaysInTheNodeGroupsOfItsQueue, and wakes when a node comes to the group, or the queue gets another group. Pods of other groups are
// not evicted for it.
func TestAGangStaysInTheNodeGroupsOfItsQueue(t *testing.T) {
	w := newQuietWorld(t, 2) // two nodes without a group
	first := w.addNode(2, inGroup("a"))
	high := w.class(1000)
	w.awaitClass(high)
	w.create(w.pod("other", "", w.pinTo(0)))
	w.expectBound("other", 1)

	queue := w.queue("groups", "100", nodeGroups("a"))
	w.submit("g", queue, 2, 2, high)
	w.expectHeld("g", "room for 1 of the 2 members that start together", fmt.Sprintf("not in the node groups of queue %q (a)", queue))
	relabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"a"}}}`, schedulingv1beta1.NodeGroupLabel)
	_, err := kube.CoreV1().Nodes().Patch(w.ctx, fmt.Sprintf("%s-1", w.namespace), types.MergePatchType, relabel, metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("g", 2)
	assert.ElementsMatch(t, []string{first, fmt.Sprintf("%s-1", w.namespace)}, []string{w.nodeOf("g-0"), w.nodeOf("g-1")})
	assert.Equal(t, 1, w.bound("other"), "a pod of another group stays")

	w.addNode(3, inGroup("b"))
	w.addNode(4, inGroup("b"))
	w.create(w.pod("single", "", high, func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, schedulingv1beta1.QueueNameAnnotation, queue)
	}))
	w.submit("second", queue, 1, 1, high)
	w.expectHeld("second", "no room for the one pod that the gang needs to start", "lacks 2 cpu", fmt.Sprintf("not in the node groups of queue %q (a)", queue))
	patch := `{"spec":{"affinity":{"nodeGroupAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":["a","b"]}}}}`
	_, err = muster.SchedulingV1beta1().Queues().Patch(w.ctx, queue, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	w.expectBound("second", 1)
	w.expectBound("single", 1)
	assert.Equal(t, 1, w.bound("other"), "a pod of another group stays")
}
