package upstream

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// PatchPodStatus writes a pod's status as the scheduler does: only what differs from the pod's.
func PatchPodStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status *corev1.PodStatus) error {
	return util.PatchPodStatus(ctx, client, pod.Name, pod.Namespace, &pod.Status, status)
}

// UpdatePodCondition sets a condition of a pod and says whether that has changed anything.
func UpdatePodCondition(status *corev1.PodStatus, condition *corev1.PodCondition) bool {
	return podutil.UpdatePodCondition(status, condition)
}

// PodScheduledCondition returns the condition PodScheduled of a pod, nil if it has none.
func PodScheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return condition
}

// ObservedGeneration is the generation of a pod that its condition PodScheduled should name, 0 for none.
func ObservedGeneration(pod *corev1.Pod) int64 {
	return podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled)
}

// SameScheduledCondition says whether two versions of a pod carry the same condition PodScheduled.
func SameScheduledCondition(a, b *corev1.Pod) bool {
	x, y := PodScheduledCondition(a), PodScheduledCondition(b)
	if x == nil || y == nil {
		return x == y
	}
	return x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
}
