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
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// RetrySoon is when to look again for a change without an event.
const RetrySoon = time.Second

// NextDeadline returns when time alone changes something for the Job; 0 if it does not.
func NextDeadline(job *batchv1alpha1.Job, now time.Time) time.Duration {
	if left, limited := TimeToLive(job, now); limited && !IsDeleted(job) {
		return AtLeast(left)
	}
	if phase.Ended(job.Status.State.Phase) {
		return 0
	}
	var wait time.Duration
	if phase.Runs(job.Status.State.Phase) {
		wait = BackoffLeft(job.Status.RestartBackoff, now)
	}
	if left, limited := timeLeft(job, now); limited {
		wait = Soonest(wait, AtLeast(left))
	}
	return wait
}

// AtLeast keeps a deadline that has passed from causing one sync after another while the API is behind.
func AtLeast(left time.Duration) time.Duration {
	if left <= 0 {
		return RetrySoon
	}
	return left
}

// Soonest returns the shorter of two waits; 0 means none.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// TimeToLive returns how long a Job that has ended, or was aborted, stays; false if it stays for ever. A Job that spec.suspend holds waits
// to go on.
func TimeToLive(job *batchv1alpha1.Job, now time.Time) (time.Duration, bool) {
	p := job.Status.State.Phase
	isDone := phase.Ended(p) || p == batchv1alpha1.Aborted && !isSuspended(job)
	if job.Spec.TTLSecondsAfterFinished == nil || !isDone {
		return 0, false
	}
	expiry := job.Status.State.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	return expiry.Sub(now), true
}

// timeLeft returns how long the Job may run on. It returns false if there is no deadline, or the Job does not run. As in batch/v1 the time begins anew
// at a resume.
func timeLeft(job *batchv1alpha1.Job, now time.Time) (time.Duration, bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || phase.IsAborted(job.Status.State.Phase) {
		return 0, false
	}
	// A Job that was stored before the schema had a maximum may have more than a duration holds.
	const longest = (1<<63-1)/int64(time.Second) - 1
	allowed := time.Duration(min(*job.Spec.ActiveDeadlineSeconds, longest)) * time.Second
	return job.Status.StartTime.Add(allowed + policy.ClockUnit).Sub(now), true
}

// BackoffLeft returns how long it is until pods are created again; 0 if they are now.
func BackoffLeft(b *batchv1alpha1.RestartBackoff, now time.Time) time.Duration {
	if b == nil || b.Until == nil {
		return 0
	}
	return max(b.Until.Sub(now), 0)
}

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
