package startup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-sched/muster/pkg/job/startup"
)

// TestSlow: only bound pods that do not run are slow, and only after Patience.
func TestSlow(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := func(name, node string, p corev1.PodPhase, bound time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec:       corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: p, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-bound))}}},
		}
	}
	going := pod("going", "n", corev1.PodPending, time.Minute)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	pulling := pod("b", "n", corev1.PodPending, time.Minute)
	pulling.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	others := []*corev1.Pod{going, pod("waits", "", corev1.PodPending, time.Minute), pod("runs", "n", corev1.PodRunning, time.Minute)}

	said, next := startup.Slow(others, now)
	assert.Empty(t, said)
	assert.Zero(t, next)

	said, next = startup.Slow(append(others, pod("new", "n", corev1.PodPending, 3*time.Second)), now)
	assert.Empty(t, said)
	assert.Equal(t, startup.Timeout-3*time.Second, next)

	said, _ = startup.Slow(append(others, pulling), now)
	assert.Equal(t, "pod b is bound to node n and does not run yet, container main: ImagePullBackOff: see its events", said)
	said, _ = startup.Slow(append(others, pulling, pod("a", "n", corev1.PodPending, startup.Timeout)), now)
	assert.Equal(t, "pod a is bound to node n and does not run yet (and 1 more): see its events", said)
}
