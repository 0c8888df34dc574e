package job

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
)

// writeStatus writes the plan's status if it is time. It returns how long an unwritten status has to wait, if that is known. It also
// returns whether the plan may be carried out.
func (c *Controller) writeStatus(ctx context.Context, job *batchv1alpha1.Job, s *snapshot, p *plan, local *localState) (time.Duration, bool, error) {
	if apiequality.Semantic.DeepEqual(&job.Status, p.status) {
		local.unwritten = nil
		c.forgetEnds(s, local)
		return 0, true, nil
	}
	t := timingOf(s, &job.Status, p)
	left := t.after - s.now.Sub(local.lastWrite)
	if left > 0 || t.givesWay && !c.reports.MayWrite(c.worker, keyOf(job)) {
		local.unwritten = newUnwritten(&job.Status, p.status)
		return max(left, 0), !t.beforeActing, nil
	}
	changed, err := c.update(ctx, job, s, p, local)
	switch {
	case changed:
		return 0, false, &notYet{"another client has changed the Job", retrySoon}
	case err != nil && !p.isFirst:
		local.uncertain = &uncertainWrite{job: job, s: s, p: p}
		if recordsEnds(s.job) {
			local.uncertain.ends = s.ended
		}
		return 0, false, err
	case err != nil, p.isFirst: // the write of the first status causes the next look
		return retrySoon, false, err
	}
	c.forgetEnds(s, local)
	c.emitEvents(job, s, p)
	return 0, true, nil
}

// update writes the status. It returns true if another client has changed the Job meanwhile.
func (c *Controller) update(ctx context.Context, job *batchv1alpha1.Job, s *snapshot, p *plan, local *localState) (hasChanged bool, err error) {
	p.status.RunningOfMinimum = runningOfMinimum(p.status)
	changed := *job
	changed.Status = *p.status
	updated, err := c.muster.BatchV1alpha1().Jobs(job.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		c.reportUnwritten(job, err, local)
		return false, fmt.Errorf("writing the status: %w", err)
	}
	local.lastWrite, local.writeError, local.unwritten = s.now, "", nil
	c.count(ctx, job, s, p)
	c.writtenJobs.Put(keyOf(job), updated)
	return false, nil
}

// runningOfMinimum is what the column READY shows. No plan contains it: it goes with each write, and never asks for one.
func runningOfMinimum(status *batchv1alpha1.JobStatus) string {
	return fmt.Sprintf("%d/%d", status.Running, status.MinAvailable)
}

// count counts the meaning of a written status, and logs it.
func (c *Controller) count(ctx context.Context, job *batchv1alpha1.Job, s *snapshot, p *plan) {
	_, err := c.queues.Get(job.Spec.Queue)
	c.instruments.wrote(s.job, &job.Status, p, err == nil)
	logMilestone(ctx, job, p.status)
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
func (c *Controller) resolveUncertain(ctx context.Context, read *batchv1alpha1.JobStatus, local *localState) {
	a := local.uncertain
	if a == nil || !a.hasSucceeded(read) {
		return
	}
	local.uncertain = nil
	c.podTracker.drop(a.s.job.UID, a.ends)
	if a.isStored(read) {
		c.count(ctx, a.job, a.s, a.p)
		c.emitEvents(a.job, a.s, a.p)
	}
}

// forgetEnds forgets how gone or going pods ended, if the status records it now.
func (c *Controller) forgetEnds(s *snapshot, local *localState) {
	local.uncertain = nil
	if recordsEnds(s.job) {
		c.podTracker.drop(s.job.UID, s.ended)
	}
}

// recordsEnds says whether the next status of a Job records how its gone or going pods ended, if that matters. While it restarts, failed
// pods do not matter.
func recordsEnds(job *batchv1alpha1.Job) bool {
	return job.Status.State.Phase != batchv1alpha1.Restarting
}
