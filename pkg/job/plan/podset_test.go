package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestReadyIsWhatThePodSays(t *testing.T) {
	pod := mustertesting.MakePod("p").Obj()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true}}
	assert.False(t, isReady(pod), "a readiness gate may be closed")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	assert.False(t, isReady(pod))
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	assert.True(t, isReady(pod))
	pod.Status.Phase = corev1.PodSucceeded
	assert.False(t, isReady(pod))
}
