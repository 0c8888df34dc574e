package podgroup

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/runs"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/runtimes"
)

// estimateNotUsedEvent is the reason of the event that says that the word of a user is not used.
const estimateNotUsedEvent = "EstimateNotUsed"

// steady is by how much of itself an estimate from earlier runs must change before another is written.
const steady = 10

// estimate is how long a PodGroup is expected to run, for its status. Once it runs, it keeps its estimate, unless its user says something else.
// NotUsed says that the word of its user is not used, which was not said before.
func (c *Controller) estimate(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) (next *schedulingv1beta1.PodGroupEstimate, notUsed bool) {
	last := group.Status.Estimate
	found := c.runs.Find(c.factsOf(group, pods))
	next = inStatus(found)
	switch {
	case last == nil:
		return next, found.Distrusted
	case found.Source == runtimes.User:
		return next, false
	case hasStarted(group.Status.Phase), next != nil && isAlike(last, next):
		return last, false
	}
	return next, found.Distrusted && last.Message != next.Message
}

func hasStarted(phase schedulingv1beta1.PodGroupPhase) bool {
	return phase.Admitted() && phase != schedulingv1beta1.PodGroupInqueue
}

// isAlike says whether two estimates from earlier runs say about the same.
func isAlike(last, next *schedulingv1beta1.PodGroupEstimate) bool {
	if last.Source != next.Source || last.Source != schedulingv1beta1.EstimateFromHistory || last.Message != next.Message ||
		last.Runtime == nil || next.Runtime == nil || !ptr.Equal(last.Limit, next.Limit) {
		return false
	}
	return (last.Runtime.Duration - next.Runtime.Duration).Abs() < last.Runtime.Duration/steady
}

// inStatus is a finding as statuses have it; nil if nothing is known and there is nothing to say.
func inStatus(found runtimes.Finding) *schedulingv1beta1.PodGroupEstimate {
	if !found.Known() && found.Message == "" {
		return nil
	}
	next := &schedulingv1beta1.PodGroupEstimate{Source: sources[found.Source], Message: found.Message}
	if found.Known() {
		next.Runtime = &metav1.Duration{Duration: found.For.Round(time.Millisecond)}
	}
	if found.Limit > 0 {
		next.Limit = &metav1.Duration{Duration: found.Limit}
	}
	return next
}

// sources in the words of the API.
var sources = map[runtimes.Source]schedulingv1beta1.EstimateSource{
	runtimes.User: schedulingv1beta1.EstimateFromUser, runtimes.History: schedulingv1beta1.EstimateFromHistory,
	runtimes.Limit: schedulingv1beta1.EstimateFromLimit, runtimes.Queue: schedulingv1beta1.EstimateFromQueue,
}

// factsOf are what the estimate of a PodGroup is made of.
func (c *Controller) factsOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) runtimes.Facts {
	queue, _ := c.admission.queues.Get(admission.QueueOf(group)) // one that is missing has no default
	return runtimes.FactsOf(group, c.jobOf(group), queue, pods)
}

// tellNotUsed makes an event on a PodGroup and on its Job: the word of the user is not used.
func (c *Controller) tellNotUsed(group *schedulingv1beta1.PodGroup, message string) {
	c.recorder.Event(group, corev1.EventTypeWarning, estimateNotUsedEvent, message)
	if job := c.jobOf(group); job != nil {
		c.recorder.Event(job, corev1.EventTypeWarning, estimateNotUsedEvent, message)
	}
}

// noteLate notes the runs whose ends the last leader had no time to note, of what still exists.
func (c *Controller) noteLate() {
	var ends []*runs.End
	jobs, _ := c.jobs.List(labels.Everything()) // the informer's store has no errors
	for _, job := range jobs {
		if phase.Ended(job.Status.State.Phase) {
			if end := c.endOfJob(job, ptr.Deref(job.Status.CompletionTime, metav1.Time{}).Time); end != nil {
				ends = append(ends, end)
			}
		}
	}
	groups, _ := c.groups.List(labels.Everything())
	for _, group := range groups {
		if group.Status.Phase != schedulingv1beta1.PodGroupCompleted {
			continue
		}
		pods, _ := c.countMembers(group)
		if end := endOfGroup(group, &group.Status, pods, time.Time{}); end != nil {
			ends = append(ends, end)
		}
	}
	c.runs.NoteLate(ends)
}

// jobEnded notes how long the last run of a Job took. The Job has ended, or is deleted.
func (c *Controller) jobEnded(job *batchv1alpha1.Job, ended time.Time) {
	if end := c.endOfJob(job, ended); end != nil {
		c.runs.Note(end)
	}
}

// endOfJob is the end of the last run of a Job, which began when its minimum had nodes. Its PodGroup says when that was. It goes when the Job
// ends. The end is nil if its times are not known.
func (c *Controller) endOfJob(job *batchv1alpha1.Job, ended time.Time) *runs.End {
	var began time.Time
	group, err := c.groups.PodGroups(job.Namespace).Get(batchv1alpha1.PodGroupName(job))
	if err == nil && ptr.Deref(group.Status.JobVersion, -1) == job.Status.Version {
		began = boundAt(&group.Status)
	}
	if job.Status.RetryCount == 0 && job.Status.StartTime != nil {
		began = earliest(began, job.Status.StartTime.Time)
	}
	if began.IsZero() || ended.IsZero() {
		return nil
	}
	stated := ptr.Deref(job.Spec.RunningEstimate, metav1.Duration{}).Duration
	if stated == 0 {
		stated, _ = runtimes.Stated(job) // the PodGroup has the annotations of its Job
	}
	return &runs.End{
		ID: idOf(job.UID, ended), At: ended, Run: runtimes.RunOfJob(job), Took: ended.Sub(began), Stated: stated,
		Successful: job.Status.State.Phase == batchv1alpha1.Completed,
	}
}

// idOf names a run of an object by its end.
func idOf(uid types.UID, ended time.Time) string { return fmt.Sprintf("%s/%d", uid, ended.Unix()) }

// groupEnded notes how long a PodGroup took if it has just completed, or lost its pods.
func (c *Controller) groupEnded(group *schedulingv1beta1.PodGroup, next *schedulingv1beta1.PodGroupStatus, pods []*corev1.Pod) {
	if group.Status.Phase == next.Phase {
		return
	}
	if !hasStarted(next.Phase) {
		c.groupLost(group)
		return
	}
	if end := endOfGroup(group, next, pods, c.clock.Now()); end != nil {
		c.runs.Note(end)
	}
}

// endOfGroup is the end of a PodGroup that no Job of ours controls, and that has completed. If no pod says when, it was at the latest time. The
// end is nil if it has not completed, or if its times are not known.
func endOfGroup(group *schedulingv1beta1.PodGroup, now *schedulingv1beta1.PodGroupStatus, pods []*corev1.Pod, latest time.Time) *runs.End {
	if now.Phase != schedulingv1beta1.PodGroupCompleted || batchv1alpha1.JobOf(group) != nil {
		return nil
	}
	began, ended := boundAt(&group.Status), time.Time{}
	for _, pod := range pods {
		if condition := gang.ScheduledCondition(pod); condition != nil && condition.Status == corev1.ConditionTrue {
			began = earliest(began, condition.LastTransitionTime.Time)
		}
		for i := range pod.Status.ContainerStatuses {
			if last := pod.Status.ContainerStatuses[i].State.Terminated; last != nil && last.FinishedAt.After(ended) {
				ended = last.FinishedAt.Time
			}
		}
	}
	if ended.IsZero() {
		ended = latest
	}
	if began.IsZero() || ended.IsZero() {
		return nil
	}
	stated, _ := runtimes.Stated(group)
	return &runs.End{ID: idOf(group.UID, ended), At: ended, Run: runtimes.RunOf(group), Took: ended.Sub(began), Stated: stated, Successful: now.Failed == 0}
}

// groupLost notes that a PodGroup of no Job of ours runs no more, such as that of a bare pod. It or its pods were deleted.
func (c *Controller) groupLost(group *schedulingv1beta1.PodGroup) {
	began, now, phase := boundAt(&group.Status), c.clock.Now(), group.Status.Phase
	if !hasStarted(phase) || phase == schedulingv1beta1.PodGroupCompleted || began.IsZero() || batchv1alpha1.JobOf(group) != nil {
		return
	}
	stated, _ := runtimes.Stated(group)
	c.runs.Note(&runs.End{ID: idOf(group.UID, now), At: now, Run: runtimes.RunOf(group), Took: now.Sub(began), Stated: stated})
}

// boundAt is when the minimum of a PodGroup had nodes, zero if it had none.
func boundAt(status *schedulingv1beta1.PodGroupStatus) time.Time {
	for i := range status.Conditions {
		if status.Conditions[i].Type == schedulingv1beta1.PodGroupScheduled {
			return status.Conditions[i].LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// earliest is the earlier one of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
