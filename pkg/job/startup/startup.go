// Package startup says which pods of a Job take long to start. It is pure.
package startup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Timeout is how long a bound pod may take to start before the Job's status names it. Most pods start sooner and cause no write.
const Timeout = 10 * time.Second

// Slow tells of bound pods that have not started for longer than Patience; "" if there are none. next is in how long there may be more, 0 for
// never. It names the first by name, so that the text stays.
func Slow(pods []*corev1.Pod, now time.Time) (said string, next time.Duration) {
	var slow []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			continue
		}
		if left := boundAt(pod).Add(Timeout).Sub(now); left <= 0 {
			slow = append(slow, pod)
		} else if next == 0 || left < next {
			next = left
		}
	}
	if len(slow) == 0 {
		return "", next
	}
	pod := slices.MinFunc(slow, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	others := ""
	if n := len(slow) - 1; n > 0 {
		others = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("pod %s is bound to node %s and does not run yet%s%s: see its events", pod.Name, pod.Spec.NodeName, others, waitOf(pod)), next
}

// boundAt is when the pod got its node.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// waitOf says what the first container that waits, waits for.
func waitOf(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && waiting.Reason != "" {
				return fmt.Sprintf(", container %s: %s", statuses[i].Name, waiting.Reason)
			}
		}
	}
	return ""
}
