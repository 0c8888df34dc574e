package job

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// act does what the status announces: it deletes the pods that the status counts as terminating, and creates missing ones. A refused
// request does not stop the other requests; the first error is returned.
func (c *Controller) act(ctx context.Context, job *batchv1alpha1.Job, s *plan.Snapshot, p *plan.Plan, local *localState) error {
	victims := plan.HighestFirst(job, local.notYetDeleted(p.Members.Victims(), c.clock.Now()))
	deleted, err := c.deletePods(ctx, job, victims, local)
	failed := deleteError.of(err)
	if failed != nil {
		local.deletions = nil
	}
	created := true
	switch {
	case phase.Runs(job.Status.State.Phase) && !plan.IsDeleted(job):
		created, err = c.run(ctx, job, s, p, local)
		failed = firstOf(failed, err)
	case phase.KeepsOnlyFinished(job.Status.State.Phase) && job.Status.Terminating == 0:
		failed = firstOf(failed, c.dismantle(ctx, job, s.Group, local))
	}
	local.unfinished = failed == nil && (!deleted || !created)
	if local.unfinished && !c.turns.Waits(keyOf(job)) {
		c.worker.Enqueue(keyOf(job)) // its turn goes on
	}
	return failed
}

// firstOf returns the first error that is not nil; nil if there is none.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// dismantle deletes the objects that an ended or aborted Job needs no more, and in the end the Job.
func (c *Controller) dismantle(ctx context.Context, job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup, local *localState) error {
	failed := groupDeleteError.of(c.deleteGroup(ctx, job, group, local))
	if phase.Ended(job.Status.State.Phase) {
		failed = firstOf(failed, objectDeleteError.of(c.deleteObjects(ctx, job)))
	}
	return firstOf(failed, expiryError.of(c.deleteExpired(ctx, job)))
}

// run gives a live Job its claims, its PodGroup and the objects of its plugins. Once the PodGroup is admitted, it creates the pods. A Job
// whose data is missing does not ask for room. A Job whose spec cannot run asks for nothing more. all says whether everything that may be
// created now was created.
func (c *Controller) run(ctx context.Context, job *batchv1alpha1.Job, s *plan.Snapshot, p *plan.Plan, local *localState) (all bool, err error) {
	if s.Blocks(plan.BlocksObjects) || s.Group == nil && s.Blocks(plan.BlocksPods) {
		return true, nil
	}
	named, err := c.ensureClaims(ctx, job, s.Claims)
	if err != nil {
		return true, claimError.of(err)
	}
	if !named {
		return true, nil
	}
	group, err := c.ensureGroup(ctx, job, p, s.Group)
	if err != nil {
		return true, groupError.of(err)
	}
	if err := c.applyObjects(ctx, job, &local.plugins); err != nil {
		return true, pluginError.of(err)
	}
	if !plan.IsAdmitted(s.Group) || s.Blocks(plan.BlocksPods) || len(s.Claims.Unmade) > 0 {
		return true, nil
	}
	if plan.BackoffLeft(job.Status.RestartBackoff, s.Now) > 0 {
		return true, nil
	}
	priorities := order.Priorities(&job.Spec, c.priorityOf)
	wanted := p.Members.Missing(job.Name, p.Stage, priorities, p.Members.Awaited(job.Status.State.Phase, s.Now))
	if len(wanted) > 0 {
		if err := c.checkSecrets(ctx, job, &local.plugins); err != nil {
			return true, pluginError.of(err)
		}
	}
	all, err = c.createPods(ctx, job, group, local, newCreation(wanted, priorities, p.Stage.Gang(&job.Spec)))
	local.noteCreation(err, c.clock.Now())
	return all, createError.of(err)
}

// deleteExpired deletes a Job that has ended, or was aborted, longer ago than its ttlSecondsAfterFinished. It returns a conflict if the Job
// has changed since it was seen: its user may have given it more time.
func (c *Controller) deleteExpired(ctx context.Context, job *batchv1alpha1.Job) error {
	left, limited := plan.TimeToLive(job, c.clock.Now())
	if plan.IsDeleted(job) || !limited || left > 0 {
		return nil
	}
	background := metav1.DeletePropagationBackground
	seen := c.writtenJobs.Latest(keyOf(job), job) // of its status, this sync may have written another
	err := c.muster.BatchV1alpha1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
		PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the expired Job: %w", err)
	}
	return nil
}
