package validation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// UnsupportedGroup names a field of a PodGroup that Muster does not support yet, and says what to do. It is "" if there is none.
// The gang waits then: it would start in a form that its author has ruled out. That is about the size and the number of sub groups. Their
// networkTopology is kept.
//
// A Job's PodGroup repeats the partitions of its tasks. They are part of the minimums of the tasks, so nothing is ignored there.
func UnsupportedGroup(group *schedulingv1beta1.PodGroup) string {
	if owner := metav1.GetControllerOf(group); owner != nil && owner.Kind == "Job" && owner.APIVersion == batchv1alpha1.SchemeGroupVersion.String() {
		return ""
	}
	for i, policy := range group.Spec.SubGroupPolicy {
		if ptr.Deref(policy.SubGroupSize, 1) > 1 || ptr.Deref(policy.MinSubGroups, 0) > 0 {
			return fmt.Sprintf("spec.subGroupPolicy[%d] is not supported yet: make a PodGroup for each sub group, "+
				"or name minimums of tasks in minTaskMember, and leave it out", i)
		}
	}
	return ""
}
