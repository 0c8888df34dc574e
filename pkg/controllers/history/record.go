package history

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/phase"
	phjobphase "github.com/muster-sched/muster/pkg/phjob/phase"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// longestMessage is the length to which messages are cut. A million of them are kept.
const longestMessage = 256

// jobRecord is the record of a Job that has ended, or is deleted. It first ran at started, which may be unknown.
func jobRecord(job *batchv1alpha1.Job, started *metav1.Time, used use, now time.Time) *historyv1alpha1.Record {
	status := &job.Status
	r := &historyv1alpha1.Record{
		Kind: historyv1alpha1.KindJob, Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		User: job.Labels[schedulingv1beta1.UserLabel], Queue: job.Spec.Queue, PriorityClass: job.Spec.PriorityClassName,
		Phase: string(status.State.Phase), Reason: status.State.Reason, Message: status.State.Message,
		Created: job.CreationTimestamp, Ended: endOfJob(job, now), Restarts: status.RetryCount,
	}
	r.Started = cmp.Or(started, status.StartTime)
	if !phase.Ended(status.State.Phase) {
		deleted(r)
	}
	for i := range job.Spec.Tasks {
		r.Pods += job.Spec.Tasks[i].Replicas
	}
	ran := time.Duration(0)
	switch {
	case status.RunningDuration != nil:
		ran = status.RunningDuration.Duration
	case status.StartTime != nil:
		ran = r.Ended.Sub(status.StartTime.Time)
	}
	return finish(r, ran, used, build.Requests(&job.Spec))
}

// phJobRecord is the record of a PhJob that has ended, or is deleted.
func phJobRecord(job *primehubv1alpha1.PhJob, queue string, used use, now time.Time) *historyv1alpha1.Record {
	status := &job.Status
	r := &historyv1alpha1.Record{
		Kind: historyv1alpha1.KindPhJob, Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		User: cmp.Or(job.Spec.UserName, job.Spec.UserID), Queue: queue,
		Phase: string(status.Phase), Reason: string(status.Reason), Message: status.Message,
		Created: job.CreationTimestamp, Started: status.StartTime, Ended: metav1.NewTime(now), Restarts: status.Requeued, Pods: 1,
	}
	if status.FinishTime != nil {
		r.Ended = *status.FinishTime
	}
	if !phjobphase.IsFinal(status.Phase) {
		deleted(r)
	}
	ran := time.Duration(0)
	if r.Started != nil {
		ran = r.Ended.Sub(r.Started.Time)
	}
	return finish(r, ran, used, used.requests)
}

// deleted says of a record that its Job was deleted before it had ended.
func deleted(r *historyv1alpha1.Record) {
	r.Reason, r.Message = historyv1alpha1.PhaseDeleted, "deleted in phase "+cmp.Or(r.Phase, "Pending")
	r.Phase = historyv1alpha1.PhaseDeleted
}

// finish fills in amounts and times.
func finish(r *historyv1alpha1.Record, ran time.Duration, used use, requests resources.List) *historyv1alpha1.Record {
	r.Reason, r.Message = text.Cut(r.Reason, text.MaxReason), text.Cut(r.Message, longestMessage)
	r.RunSeconds = int64(max(ran, 0).Seconds())
	first := r.Ended.Time
	if r.Started != nil {
		first = r.Started.Time
	}
	r.WaitSeconds = int64(max(first.Sub(r.Created.Time), 0).Seconds())
	requests = requests.Clone()
	delete(requests, corev1.ResourcePods)
	if len(requests) > 0 {
		r.Requests = requests.ToResourceList()
	}
	if len(used.seconds) > 0 {
		r.ResourceSeconds = used.seconds
	}
	r.Evictions = used.evictions
	return r
}

// endOfJob is when a Job ended. Volcano writes no completion time.
func endOfJob(job *batchv1alpha1.Job, now time.Time) metav1.Time {
	switch {
	case !phase.Ended(job.Status.State.Phase):
		return metav1.NewTime(now)
	case job.Status.CompletionTime != nil:
		return *job.Status.CompletionTime
	case !job.Status.State.LastTransitionTime.IsZero():
		return job.Status.State.LastTransitionTime
	}
	return metav1.NewTime(now)
}
