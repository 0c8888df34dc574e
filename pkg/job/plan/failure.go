package plan

import (
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// nameFailure adds the name of a failed pod to the reason, if the Job fails now because of its pods. If an action led to the failure, its
// own text names the pod.
func nameFailure(before, status *batchv1alpha1.JobStatus, m *Members) {
	if status.State.Phase != batchv1alpha1.Failed || before.State.Phase == batchv1alpha1.Failed {
		return
	}
	if r := status.State.Reason; r != phase.ReasonPodsFailed && r != phase.ReasonDependencyFailed {
		return
	}
	if pod := m.firstFailed(); pod != nil {
		status.State.Message += "; " + policy.Failure(pod)
	}
}

// firstFailed returns the failed pod of the lowest index in the first task that has one. It looks at existing pods and at ended ones that
// no status records yet; nil if none is.
func (m *Members) firstFailed() *corev1.Pod {
	for i := range m.tasks {
		for index := range m.tasks[i].Spec.Replicas {
			if pod := m.tasks[i].Pods[index]; pod != nil && pod.Status.Phase == corev1.PodFailed {
				return pod
			}
		}
	}
	return nil
}
