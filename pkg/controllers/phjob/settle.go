package phjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/phjob"
	"github.com/muster-sched/muster/pkg/phjob/phase"
)

// limitPeriod is how often records above the limit are deleted.
const limitPeriod = 30 * time.Second

// settle releases what an ended PhJob holds, and deletes its pod and its record when their time is up.
func (c *Controller) settle(ctx context.Context, job *primehubv1alpha1.PhJob) (time.Duration, error) {
	if err := c.deleteGroups(ctx, job, ""); err != nil {
		return 0, err
	}
	now, pods := c.clock.Now(), c.podsOf(job)
	recordLeft, limited := phjob.KeepsRecord(job, c.settings, now)
	if limited && recordLeft == 0 {
		if !c.isRecorded(job) {
			return unrecordedPause, nil
		}
		return 0, c.deleteRecord(ctx, job)
	}
	podLeft, limited := phjob.KeepsPod(job, c.settings, now)
	if len(pods) == 0 || !limited {
		return recordLeft, nil
	}
	if podLeft > 0 && (recordLeft == 0 || podLeft < recordLeft) {
		return podLeft, nil
	}
	if podLeft > 0 {
		return recordLeft, nil
	}
	for _, pod := range pods {
		if err := c.deletePod(ctx, pod); err != nil {
			return 0, err
		}
	}
	return recordLeft, nil
}

// unrecordedPause is when to look again at a PhJob that the history has to record before it is deleted.
const unrecordedPause = time.Second

// isRecorded says whether the history has what it keeps of a PhJob that has ended.
func (c *Controller) isRecorded(job *primehubv1alpha1.PhJob) bool {
	return c.mayDelete == nil || job.Status.FinishTime == nil || c.mayDelete(job.UID, job.Status.FinishTime.Time)
}

// deleteRecord deletes a PhJob, unless it has changed meanwhile.
func (c *Controller) deleteRecord(ctx context.Context, job *primehubv1alpha1.PhJob) error {
	err := c.muster.PrimehubV1alpha1().PhJobs(job.Namespace).Delete(ctx, job.Name, worker.IfUnchanged(job))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the PhJob: %w", err)
	}
	return nil
}

// limitRecords deletes the oldest ended PhJobs of each namespace that has more PhJobs than the limit, until the context ends.
func (c *Controller) limitRecords(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		jobs, _ := c.jobs.List(labels.Everything()) // a lister never fails
		for _, job := range beyondLimit(jobs, c.settings.JobSubmission.JobLimit) {
			if !c.isRecorded(job) {
				continue
			}
			if err := c.deleteRecord(ctx, job); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Deleting a PhJob above the limit failed", "phJob", klog.KObj(job))
			}
		}
	}, limitPeriod)
}

// beyondLimit lists the PhJobs to delete so that no namespace has more than limit: the oldest that have ended.
func beyondLimit(jobs []*primehubv1alpha1.PhJob, limit int) []*primehubv1alpha1.PhJob {
	all, ended := map[string]int{}, map[string][]*primehubv1alpha1.PhJob{}
	for _, job := range jobs {
		all[job.Namespace]++
		if phase.IsFinal(job.Status.Phase) {
			ended[job.Namespace] = append(ended[job.Namespace], job)
		}
	}
	var beyond []*primehubv1alpha1.PhJob
	for namespace, candidates := range ended {
		excess := min(len(candidates), all[namespace]-limit)
		if excess <= 0 {
			continue
		}
		slices.SortFunc(candidates, func(a, b *primehubv1alpha1.PhJob) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		beyond = append(beyond, candidates[:excess]...)
	}
	return beyond
}
