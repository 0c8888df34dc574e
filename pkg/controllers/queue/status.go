package queue

import (
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// countPhases writes to a status how many PodGroups are in each phase, and says whether any is not completed.
func countPhases(status *schedulingv1beta1.QueueStatus, groups []*schedulingv1beta1.PodGroup) (busy bool) {
	status.Pending, status.Inqueue, status.Running, status.Unknown, status.Completed = 0, 0, 0, 0, 0
	for _, group := range groups {
		switch group.Status.Phase {
		case schedulingv1beta1.PodGroupInqueue:
			status.Inqueue++
		case schedulingv1beta1.PodGroupRunning:
			status.Running++
		case schedulingv1beta1.PodGroupUnknown:
			status.Unknown++
		case schedulingv1beta1.PodGroupCompleted:
			status.Completed++
		default:
			status.Pending++
		}
	}
	return int(status.Completed) < len(groups)
}

// allocated is what is used, in quantities, without what is zero.
func allocated(used resources.List) corev1.ResourceList {
	quantities := used.ToResourceList()
	for name, amount := range used {
		if amount == 0 {
			delete(quantities, name)
		}
	}
	return quantities
}
