package job

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// reconcile brings a Job one step further: it takes a snapshot, makes a plan, writes the status that announces it, and
// carries it out.
func (c *Controller) reconcile(ctx context.Context, job *batchv1alpha1.Job, local *localState) (time.Duration, error) {
	commands := c.commandsOf(job)
	s, err := c.takeSnapshot(ctx, job, commands.next, local)
	if errors.Is(err, errEndUnknown) {
		return 0, &notYet{err.Error(), plan.RetrySoon} // the informer's event brings the Job back here
	}
	local.unfinished = false // it keeps its turn if it comes to act
	if err != nil {
		return 0, err
	}
	if err := c.deleteCommands(ctx, job, commands, local); err != nil {
		return 0, err
	}

	p := plan.Make(s)
	if !c.isStillTrue(ctx, s, p) {
		return 0, &notYet{"the API server does not confirm yet what the informers show", plan.RetrySoon}
	}
	if err := c.applyFirst(ctx, s, p, local); err != nil {
		return c.conclude(s.Job, s, pluginError.of(err), 0, local)
	}
	wait, mayAct, err := c.writeStatus(ctx, job, s, p, local)
	if err != nil || !mayAct {
		return wait, err
	}
	local.planned = job.Generation
	if s.Blocks(plan.BlocksStart) && phase.Runs(p.Status.State.Phase) {
		return wait, nil
	}
	acting := *s.Job
	acting.Status = *p.Status
	failed := c.act(ctx, &acting, s, p, local)
	wait = plan.Soonest(wait, c.announce(&acting, p, s.Now, local))
	wait = plan.Soonest(wait, plan.NextDeadline(&acting, s.Now))
	wait = plan.Soonest(wait, s.LookAgain)
	return c.conclude(&acting, s, failed, wait, local)
}

// conclude says when to sync the Job again, by the result of act.
func (c *Controller) conclude(job *batchv1alpha1.Job, s *plan.Snapshot, failed error, wait time.Duration, local *localState) (time.Duration, error) {
	if failed != nil {
		pause, err := c.report(job, failed, local)
		return plan.Soonest(wait, pause), err
	}
	if local.lastError != nil {
		local.lastError = nil
		wait = plan.Soonest(wait, plan.RetrySoon) // the status still records it
	}
	if s.Lacks(plan.ReasonPodGroupNameTaken) {
		// No event tells when an object of another owner is gone.
		wait = plan.Soonest(wait, plan.RetrySoon)
	}
	return wait, nil
}

// isStillTrue asks the API server whether the causes of the plan still hold: the Command is still there, and the event that a policy
// answers has really happened.
func (c *Controller) isStillTrue(ctx context.Context, s *plan.Snapshot, p *plan.Plan) bool {
	if p.IsFirst {
		return true
	}
	return (s.Command == nil || c.isStillAsked(ctx, s.Command)) && (p.Request == nil || c.hasHappened(ctx, s.Job, p.Request.Cause))
}

// hasHappened asks the API server whether the cause of a policy's action is true. It costs one request for each action of a policy. It
// makes sure that no action rests on an informer that is behind, as after a change of leader.
func (c *Controller) hasHappened(ctx context.Context, job *batchv1alpha1.Job, e *policy.Event) bool {
	if e == nil || e.Index < 0 || e.Remembered && e.Type == busv1alpha1.PodFailedEvent {
		return true
	}
	name := policy.PodName(job.Name, job.Spec.Tasks[e.Task].Name, e.Index)
	pod, err := c.kube.CoreV1().Pods(job.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !plan.IsMember(job, pod):
		return e.Remembered || e.Pod == nil || e.Pod.DeletionTimestamp != nil || e.Type == busv1alpha1.PodFailedEvent
	case err != nil, e.Pod == nil && !e.Remembered:
		return false
	case e.Remembered:
		return pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded
	default:
		return pod.UID == e.Pod.UID && (e.Type != busv1alpha1.PodPendingEvent || pod.Status.Phase == corev1.PodPending)
	}
}
