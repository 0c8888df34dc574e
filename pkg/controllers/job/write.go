package job

import (
	"bytes"
	"context"
	"encoding/json"
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

// write writes the plan's status if it is time. Otherwise it sets how long the status has to wait, if that is known. It returns errEnough if
// the plan may not be carried out yet.
func (w *statusWriter) write(ctx context.Context, t *jobSync) error {
	local, before := t.local, &t.job.Status
	if apiequality.Semantic.DeepEqual(before, t.p.Status) {
		local.unwritten = nil
		w.forgetEnds(&t.decision, local)
		return nil
	}
	timing := plan.TimingOf(t.s, before, t.p)
	left := intervalOf(timing.Interval, t.p) - t.s.Now.Sub(local.lastWrite)
	if local.unwritten == nil {
		local.unwrittenSince = t.s.Now
	}
	if timing.Gathers {
		left = max(left, worker.CountsInterval-t.s.Now.Sub(local.unwrittenSince))
	}
	if left > 0 || timing.IsReport && !w.reports.MayWrite(w.worker, keyOf(t.job)) {
		local.unwritten = plan.NewUnwritten(before, t.p.Status)
		t.wait = max(left, 0)
		if timing.BeforeActing {
			return errEnough
		}
		return nil
	}
	if err := w.update(ctx, t); err != nil {
		return err
	}
	if t.p.IsFirst { // its write causes the next look
		t.wait = plan.RetrySoon
		return errEnough
	}
	w.forgetEnds(&t.decision, local)
	w.emitEvents(&t.decision)
	return nil
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

// update writes the status.
func (w *statusWriter) update(ctx context.Context, t *jobSync) error {
	// The column READY. No plan contains it: it goes with each write, and never asks for one.
	t.p.Status.RunningOfMinimum = fmt.Sprintf("%d/%d", t.p.Status.Running, t.p.Status.MinAvailable)
	changed := *t.job
	changed.Status = *t.p.Status
	updated, err := w.muster.BatchV1alpha1().Jobs(t.job.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return &staleError{"another client has changed the Job", plan.RetrySoon}
	case err != nil:
		w.reportUnwritten(t.job, err, t.local)
		if !t.p.IsFirst {
			decided := t.decision
			t.local.uncertain = &decided
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	t.local.lastWrite, t.local.writeError, t.local.unwritten = t.s.Now, "", nil
	w.count(ctx, &t.decision)
	w.writtenJobs.Put(keyOf(t.job), updated)
	return nil
}

// count counts the meaning of a written status. It logs when a Job starts for the first time, and when it ends. The podgroup controller logs
// when it is admitted.
func (w *statusWriter) count(ctx context.Context, d *decision) {
	job, before, now := d.job, &d.job.Status, d.p.Status
	_, err := w.queues.Get(job.Spec.Queue)
	w.instruments.wrote(d.s.Job, before, d.p, err == nil)
	logger := klog.FromContext(ctx).V(1)
	if before.StartTime == nil && now.StartTime != nil {
		logger.Info("Job started", "job", klog.KObj(job), "queue", job.Spec.Queue, "after", now.StartTime.Sub(job.CreationTimestamp.Time))
	}
	if phase.Ended(now.State.Phase) && !phase.Ended(before.State.Phase) {
		logger.Info("Job finished", "job", klog.KObj(job), "queue", job.Spec.Queue, "phase", now.State.Phase, "reason", now.State.Reason)
	}
}

// resolveUncertain finishes a write whose answer was lost, if the status that was read shows that the write succeeded. It forgets the pods whose
// ends the status records, and emits the events of the write.
func (w *statusWriter) resolveUncertain(ctx context.Context, read *batchv1alpha1.JobStatus, local *localState) {
	d := local.uncertain
	if d == nil || !hasWritten(d.p.Status, read) {
		return
	}
	w.forgetEnds(d, local)
	if isStored(d.p.Status, read) {
		w.count(ctx, d)
		w.emitEvents(d)
	}
}

// hasWritten says whether a status that was read later is the wanted one. It compares what is known of the pods.
func hasWritten(wanted, read *batchv1alpha1.JobStatus) bool {
	return wanted.State.Phase == read.State.Phase && wanted.Version == read.Version && wanted.RetryCount == read.RetryCount &&
		apiequality.Semantic.DeepEqual(wanted.TaskRecords, read.TaskRecords)
}

// isStored says whether a status that was read later is the wanted one. Times have whole seconds in the API server.
func isStored(wanted, read *batchv1alpha1.JobStatus) bool {
	want, err := json.Marshal(wanted)
	found, otherErr := json.Marshal(read)
	return err == nil && otherErr == nil && bytes.Equal(want, found)
}

// forgetEnds forgets how gone or going pods ended, if the status records it now.
func (w *statusWriter) forgetEnds(d *decision, local *localState) {
	local.uncertain = nil
	if plan.RecordsEnds(d.s.Job) {
		w.podTracker.Drop(d.s.Job.UID, d.s.Ended)
	}
}

// reportUnwritten writes an event when the API server refuses a Job's status, once for each reason in a row. The status itself cannot say
// it. Nothing that matters later is done to a Job before its status says so. So the Job goes on when the status can be written.
func (w *statusWriter) reportUnwritten(job *batchv1alpha1.Job, err error, local *localState) {
	w.instruments.problems.WithLabelValues(eventStatusError).Inc()
	if !errors.As(err, new(apierrors.APIStatus)) || local.writeError == err.Error() {
		return // an API server that does not answer takes no events either
	}
	local.writeError = err.Error()
	what := "update"
	if job.Status.State.Phase == "" {
		what = "initialize"
	}
	w.recorder.Eventf(job, corev1.EventTypeWarning, eventStatusError, "Failed to %s job status, err: %v", what, err)
}
