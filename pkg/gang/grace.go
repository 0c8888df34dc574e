package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// LongestGrace is how long a pod may take to end where it uses more than its queue's share or capability. Anybody may write a longer grace
// period on a pod. Without the bound it would keep borrowed room for ever.
const LongestGrace = 10 * time.Minute

// longestGrace is LongestGrace as the API has it.
const longestGrace = int64(LongestGrace / time.Second)

// GraceOf is how long a pod may take to end, by itself. It is at most a hundred years, which can be added to a time.
func GraceOf(pod *corev1.Pod) time.Duration {
	const century = int64(100 * 365 * 24 * time.Hour / time.Second)
	return time.Duration(min(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds), century)) * time.Second
}

// BoundedGrace is the grace period in seconds for the deletion of a pod that is to end in time. It is nil if the pod's own is short enough.
func BoundedGrace(pod *corev1.Pod) *int64 {
	if GraceOf(pod) <= LongestGrace && !Lingers(pod) {
		return nil
	}
	return ptr.To(longestGrace)
}

// Lingers says whether a pod is being deleted and may take longer than LongestGrace. It is not expected to go soon.
func Lingers(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > longestGrace
}
