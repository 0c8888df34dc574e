package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/testing/clients"
)

// forbidBinding keeps a pod of the test's namespace from being bound, until allow is called.
func (w *world) forbidBinding(pod string) (allow func()) {
	w.t.Helper()
	return clients.Refuse(w.t, kube, clients.Refusal{
		Namespace: w.namespace, Version: "v1", Resource: "pods/binding", Name: pod,
		Operation: admissionregistrationv1.Create, Message: "the test forbids it",
	})
}

// awaitForbidden waits until the API server keeps a pod from being bound. It takes a moment to learn of a policy.
func (w *world) awaitForbidden(pod, node string) {
	w.t.Helper()
	w.eventually("the policy is in force", func() bool {
		err := kube.CoreV1().Pods(w.namespace).Bind(w.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: w.namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}

// A member whose binding fails after its gang was released keeps its room. Another gang waits and would fit into it. It is bound as soon as
// possible. Until then the gang is partial, but not so long that it is evicted for that.
func TestAMemberWhoseBindingFailsKeepsItsRoom(t *testing.T) {
	w := newWorld(t, 2)
	w.create(w.pod("g-1", "g")) // of a gang that does not exist yet
	allow := w.forbidBinding("g-1")
	w.awaitForbidden("g-1", w.namespace+"-1")
	w.createGroup("g", 2, "")
	w.create(w.pod("g-0", "g"))
	w.expectBound("g", 1)
	w.eventually("the scheduler was refused", func() bool { return len(w.eventsOf("Pod", "g-1", "FailedScheduling")) > 0 })

	w.createGroup("h", 1, "")
	w.createGang("h", 1)
	w.expectHeld("h", "no room for the one pod that the gang needs to start")
	// Longer than the patience with partial gangs in these tests.
	end := time.Now().Add(4 * time.Second)
	w.eventually("g stays as it is for a while", func() bool {
		require.Equal(t, 1, w.bound("g"))
		require.Zero(t, w.bound("h"))
		return time.Now().After(end)
	})
	allow()
	w.expectBound("g", 2)
	require.Zero(t, w.bound("h"))
}
