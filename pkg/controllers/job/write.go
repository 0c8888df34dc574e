package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// statusWriter writes the statuses of Jobs, with the events and metrics that go with them.
type statusWriter struct {
	muster      versioned.Interface
	recorder    record.EventRecorder
	instruments *instruments
	queues      musterlisters.QueueLister
	reports     *worker.Reports
	worker      *worker.Worker
	writtenJobs *worker.Written[*batchv1alpha1.Job]
	podTracker  *ended.Tracker
}

// write writes the plan's status if it is time. It returns how long an unwritten status has to wait, if that is known. It also
// returns whether the plan may be carried out.
func (w *statusWriter) write(ctx context.Context, job *batchv1alpha1.Job, s *plan.Snapshot, p *plan.Plan, local *localState) (time.Duration, bool, error) {
	if apiequality.Semantic.DeepEqual(&job.Status, p.Status) {
		local.unwritten = nil
		w.forgetEnds(s, local)
		return 0, true, nil
	}
	t := plan.TimingOf(s, &job.Status, p)
	left := intervalOf(t.Interval, p) - s.Now.Sub(local.lastWrite)
	if local.unwritten == nil {
		local.unwrittenSince = s.Now
	}
	if t.Gathers {
		left = max(left, worker.CountsInterval-s.Now.Sub(local.unwrittenSince))
	}
	if left > 0 || t.IsReport && !w.reports.MayWrite(w.worker, keyOf(job)) {
		local.unwritten = plan.NewUnwritten(&job.Status, p.Status)
		return max(left, 0), !t.BeforeActing, nil
	}
	changed, err := w.update(ctx, job, s, p, local)
	switch {
	case changed:
		return 0, false, &staleError{"another client has changed the Job", plan.RetrySoon}
	case err != nil && !p.IsFirst:
		local.uncertain = &uncertainWrite{job: job, s: s, p: p}
		if plan.RecordsEnds(s.Job) {
			local.uncertain.ends = s.Ended
		}
		return 0, false, err
	case err != nil, p.IsFirst: // the write of the first status causes the next look
		return plan.RetrySoon, false, err
	}
	w.forgetEnds(s, local)
	w.emitEvents(job, s, p)
	return 0, true, nil
}

// messageInterval is the least time between two status writes that change only the message.
const messageInterval = 5 * time.Second

// intervalOf is how long an interval is for the Job of a plan.
func intervalOf(i plan.Interval, p *plan.Plan) time.Duration {
	switch i {
	case plan.ForAnnouncements:
		return worker.LeastStatusInterval
	case plan.ForCounts:
		return worker.StatusInterval(p.Members.Names.Len())
	case plan.ForMessages:
		return messageInterval
	default:
		return 0
	}
}

// update writes the status. It returns true if another client has changed the Job meanwhile.
func (w *statusWriter) update(ctx context.Context, job *batchv1alpha1.Job, s *plan.Snapshot, p *plan.Plan, local *localState) (hasChanged bool, err error) {
	p.Status.RunningOfMinimum = runningOfMinimum(p.Status)
	changed := *job
	changed.Status = *p.Status
	updated, err := w.muster.BatchV1alpha1().Jobs(job.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		w.reportUnwritten(job, err, local)
		return false, fmt.Errorf("writing the status: %w", err)
	}
	local.lastWrite, local.writeError, local.unwritten = s.Now, "", nil
	w.count(ctx, job, s, p)
	w.writtenJobs.Put(keyOf(job), updated)
	return false, nil
}

// runningOfMinimum is what the column READY shows. No plan contains it: it goes with each write, and never asks for one.
func runningOfMinimum(status *batchv1alpha1.JobStatus) string {
	return fmt.Sprintf("%d/%d", status.Running, status.MinAvailable)
}

// count counts the meaning of a written status, and logs it.
func (w *statusWriter) count(ctx context.Context, job *batchv1alpha1.Job, s *plan.Snapshot, p *plan.Plan) {
	_, err := w.queues.Get(job.Spec.Queue)
	w.instruments.wrote(s.Job, &job.Status, p, err == nil)
	logMilestone(ctx, job, p.Status)
}

// logMilestone logs when a Job starts for the first time, and when it ends. The podgroup controller logs when it is admitted.
func logMilestone(ctx context.Context, before *batchv1alpha1.Job, now *batchv1alpha1.JobStatus) {
	logger := klog.FromContext(ctx).V(1)
	if before.Status.StartTime == nil && now.StartTime != nil {
		logger.Info("Job started", "job", klog.KObj(before), "queue", before.Spec.Queue, "after", now.StartTime.Sub(before.CreationTimestamp.Time))
	}
	if ended := phase.Ended(now.State.Phase); ended && !phase.Ended(before.Status.State.Phase) {
		logger.Info("Job finished", "job", klog.KObj(before), "queue", before.Spec.Queue, "phase", now.State.Phase, "reason", now.State.Reason)
	}
}

// resolveUncertain finishes a write whose answer was lost, if the status that was read shows that the write succeeded. It forgets the pods whose
// ends the status records, and emits the events of the write.
func (w *statusWriter) resolveUncertain(ctx context.Context, read *batchv1alpha1.JobStatus, local *localState) {
	a := local.uncertain
	if a == nil || !a.hasSucceeded(read) {
		return
	}
	local.uncertain = nil
	w.podTracker.Drop(a.s.Job.UID, a.ends)
	if a.isStored(read) {
		w.count(ctx, a.job, a.s, a.p)
		w.emitEvents(a.job, a.s, a.p)
	}
}

// forgetEnds forgets how gone or going pods ended, if the status records it now.
func (w *statusWriter) forgetEnds(s *plan.Snapshot, local *localState) {
	local.uncertain = nil
	if plan.RecordsEnds(s.Job) {
		w.podTracker.Drop(s.Job.UID, s.Ended)
	}
}

// reportUnwritten writes an event when the API server refuses a Job's status, once for each reason in a row. The status itself cannot say
// it. Nothing that matters later is done to a Job before its status says so. So the Job goes on when the status can be written.
func (w *statusWriter) reportUnwritten(job *batchv1alpha1.Job, err error, local *localState) {
	w.instruments.problems.WithLabelValues(eventStatusError).Inc()
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || local.writeError == err.Error() {
		return // an API server that does not answer takes no events either
	}
	local.writeError = err.Error()
	what := "update"
	if job.Status.State.Phase == "" {
		what = "initialize"
	}
	w.recorder.Eventf(job, corev1.EventTypeWarning, eventStatusError, "Failed to %s job status, err: %v", what, err)
}
