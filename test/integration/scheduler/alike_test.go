package scheduler_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMembersThatAreAlikeFindTheirNodesByHints: they spread over the nodes as if all nodes were scored for each of them. Without a new
// score for the node of the last pod, some nodes would have none and others four.
func TestMembersThatAreAlikeFindTheirNodesByHints(t *testing.T) {
	const nodes, each = 5, 3
	w := newQuietWorld(t, nodes)
	hints := func() int {
		n, _ := strconv.Atoi(w.metric(`scheduler_batch_attempts_total{profile="default-scheduler",result="hint_used"}`))
		return n
	}
	before := hints()
	w.createGroup("g", nodes*each, "")
	w.createGang("g", nodes*each, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	})
	w.expectBound("g", nodes*each)
	require.Greater(t, hints(), before)

	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(t, err)
	on := map[string]int{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName]++
	}
	for node, n := range on {
		require.Equal(t, each, n, "pods on %s of %v", node, on)
	}
}
