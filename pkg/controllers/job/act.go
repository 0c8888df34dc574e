package job

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// mayNotStart says that the Job stays Pending and has nothing.
func (t *jobSync) mayNotStart() bool {
	return t.s.Blocks(plan.BlocksStart) && phase.Runs(t.acting.Status.State.Phase)
}

// mayCreate says that a live Job gets what it needs beside its pods. A Job whose data is missing does not ask for room. A Job whose spec
// cannot run asks for nothing more.
func (t *jobSync) mayCreate() bool {
	return phase.Runs(t.acting.Status.State.Phase) && !plan.IsDeleted(t.acting) &&
		!t.s.Blocks(plan.BlocksObjects) && (t.s.Group != nil || !t.s.Blocks(plan.BlocksPods))
}

// mayCreatePods says that it gets pods. Its queue has admitted it, its claims are there, and no restart has to wait.
func (t *jobSync) mayCreatePods() bool {
	return t.mayCreate() && plan.IsAdmitted(t.s.Group) && !t.s.Blocks(plan.BlocksPods) && len(t.s.Claims.Unmade) == 0 &&
		plan.BackoffLeft(t.acting.Status.RestartBackoff, t.s.Now) == 0
}

// isOver says that the Job has ended or is aborted, and its pods are gone.
func (t *jobSync) isOver() bool {
	return phase.KeepsOnlyFinished(t.acting.Status.State.Phase) && t.acting.Status.Terminating == 0
}

// hasGroup says that a Job that is over still has its PodGroup.
func (t *jobSync) hasGroup() bool {
	return t.isOver() && t.s.Group != nil && t.s.Group.DeletionTimestamp == nil
}

// hasEnded says that the Job has ended, and its pods are gone.
func (t *jobSync) hasEnded() bool { return t.isOver() && phase.Ended(t.acting.Status.State.Phase) }

// deletePods deletes the pods that the status counts as terminating.
func (c *Controller) deletePods(ctx context.Context, t *jobSync) error {
	all, err := c.pods.delete(ctx, t.acting, t.p.Members.Victims(), t.local)
	if err != nil {
		t.local.deletions = nil
	}
	t.local.unfinished = !all
	return err
}

// findMissing finds the pods to create, and looks at the Secrets that they mount.
func (c *Controller) findMissing(ctx context.Context, t *jobSync) error {
	t.priorities = order.Priorities(&t.acting.Spec, c.defaults.priorityOf)
	t.missing = t.p.Members.Missing(t.acting.Name, t.p.Stage, t.priorities, t.p.Members.Awaited(t.acting.Status.State.Phase, t.s.Now))
	if len(t.missing) == 0 {
		return nil
	}
	return c.objects.checkSecrets(ctx, t)
}

// createPods creates the missing pods.
func (c *Controller) createPods(ctx context.Context, t *jobSync) error {
	all, err := c.pods.create(ctx, t)
	t.local.noteCreation(err, c.cfg.Clock.Now())
	t.local.unfinished = t.local.unfinished || !all
	return err
}

// deleteExpired deletes a Job that has ended, or was aborted, longer ago than its ttlSecondsAfterFinished. It returns a conflict if the Job
// has changed since it was seen. Its user may have given it more time.
func (o *objects) deleteExpired(ctx context.Context, t *jobSync) error {
	job := t.acting
	left, limited := plan.TimeToLive(job, o.clock.Now())
	if plan.IsDeleted(job) || !limited || left > 0 {
		return nil
	}
	if o.mayDelete != nil && phase.Ended(job.Status.State.Phase) && !o.mayDelete(job.UID, job.Status.State.LastTransitionTime.Time) {
		t.wait = plan.Soonest(t.wait, plan.RetrySoon)
		return nil
	}
	seen := o.writtenJobs.Latest(keyOf(job), job) // of its status, this sync may have written another
	err := o.muster.BatchV1alpha1().Jobs(job.Namespace).Delete(ctx, job.Name, worker.IfUnchanged(seen))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the expired Job: %w", err)
	}
	return nil
}

// maxStartup is how long a pod may be pending before an event announces what follows if it stays so. Every pod is pending at first.
const maxStartup = 30 * time.Second

// describe names the event and its task.
func (d delayedAnswer) describe(spec *batchv1alpha1.JobSpec) string {
	if d.task < 0 {
		return string(d.event)
	}
	return fmt.Sprintf("%s of task %s", d.event, spec.Tasks[d.task].Name)
}

// announce writes an event for each action that is delayed, one for all pods of a task. It takes back the announcements of actions whose
// cause is over. It finds out when time alone changes something for the Job.
func (c *Controller) announce(_ context.Context, t *jobSync) error {
	job, now := t.acting, t.s.Now
	t.wait = plan.Soonest(plan.Soonest(t.wait, t.s.LookAgain), plan.NextDeadline(job, now))
	announced := map[delayedAnswer]bool{}
	for _, d := range t.p.Delays {
		about := delayedAnswer{d.Cause.Task, d.Cause.Type, d.Action}
		switch toldIn := toldAt(&d).Sub(now); {
		case announced[about], t.local.announced[about]:
			announced[about] = true
		case d.PutOff, !phase.Honours(job.Status.State.Phase, d.Action):
		case toldIn > 0:
			t.wait = plan.Soonest(t.wait, toldIn)
		default:
			announced[about] = true
			c.cfg.Recorder.Eventf(job, corev1.EventTypeNormal, eventExecuteAction, "Execute action %s after %s", d.Action, d.Timeout)
		}
		if !d.PutOff { // otherwise it does not wait for a time
			t.wait = plan.Soonest(t.wait, plan.AtLeast(d.Due.Sub(now)))
		}
	}
	if t.p.Request == nil && phase.Runs(job.Status.State.Phase) {
		for about := range t.local.announced {
			if !announced[about] {
				c.cfg.Recorder.Eventf(job, corev1.EventTypeNormal, eventActionCancelled,
					"Action %s is not executed: %s is over", about.action, about.describe(&job.Spec))
			}
		}
	}
	t.local.announced = announced
	return nil
}

// toldAt is when an event announces a delayed answer.
func toldAt(d *policy.Delay) time.Time {
	if d.Cause.Type != busv1alpha1.PodPendingEvent {
		return d.Cause.Since
	}
	return d.Cause.Since.Add(min(d.Timeout/10, maxStartup) + policy.ClockUnit)
}
