package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// ReasonPodOverdue says that a deleted pod still exists.
const ReasonPodOverdue = "PodDoesNotTerminate"

// OverdueAfter is added to the grace period of a deleted pod. A pod that is still there then is reported. A kubelet that works takes
// seconds.
const OverdueAfter = time.Minute

// FindOverdue returns a finding about deleted pods that still exist. If there is none, it returns in how long there may be one, 0 for
// never. It names the first of several pods by name, so that the text stays.
func FindOverdue(pods []*corev1.Pod, now time.Time) (*Finding, time.Duration) {
	var overdue []*corev1.Pod
	var next time.Duration
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		if left := pod.DeletionTimestamp.Add(OverdueAfter).Sub(now); left > 0 {
			next = Soonest(next, left)
		} else {
			overdue = append(overdue, pod)
		}
	}
	if len(overdue) == 0 {
		return nil, next
	}
	pod := slices.MinFunc(overdue, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	others := ""
	if n := len(overdue) - 1; n > 0 {
		others = fmt.Sprintf(" (and %d more)", n)
	}
	return &Finding{ReasonPodOverdue, fmt.Sprintf("pod %s should have ended by %s and still exists%s: %s",
		pod.Name, pod.DeletionTimestamp.UTC().Format(time.RFC3339), others, whatKeeps(pod))}, next
}

// whatKeeps says why a pod still exists, and what to do.
func whatKeeps(pod *corev1.Pod) string {
	switch {
	case len(pod.Finalizers) > 0:
		return "its finalizers keep it: " + strings.Join(pod.Finalizers, ", ")
	case pod.Spec.NodeName == "":
		return "kubectl delete pod --force removes it"
	default:
		return fmt.Sprintf("node %s does not say that its containers have ended; if the node is lost for good, delete it, or remove the pod with "+
			"kubectl delete pod --force", pod.Spec.NodeName)
	}
}

// Awaited returns the names of pods that go soon, for a Job whose gang has not started. Pods of a higher priority need these names, and the
// gang would start without them. A pod that is overdue is not waited for.
func (m *Members) Awaited(p batchv1alpha1.JobPhase, now time.Time) sets.Set[string] {
	names := sets.Set[string]{}
	for i := range m.unwanted {
		pod := m.unwanted[i].shown
		if p == batchv1alpha1.Pending && (pod.DeletionTimestamp == nil || now.Before(pod.DeletionTimestamp.Add(OverdueAfter))) {
			names.Insert(pod.Name)
		}
	}
	return names
}
