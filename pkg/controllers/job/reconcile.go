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
	"github.com/muster-sched/muster/pkg/job/policy"
)

// retrySoon is when to look again for a change without an event.
const retrySoon = time.Second

// reconcile brings a Job one step further: it takes a snapshot, makes a plan, writes the status that announces it, and
// carries it out.
func (c *Controller) reconcile(ctx context.Context, job *batchv1alpha1.Job, local *localState) (time.Duration, error) {
	commands := c.commandsOf(job)
	s, err := c.takeSnapshot(ctx, job, commands.next, local)
	if errors.Is(err, errEndUnknown) {
		return 0, &notYet{err.Error(), retrySoon} // the informer's event brings the Job back here
	}
	local.unfinished = false // it keeps its turn if it comes to act
	if err != nil {
		return 0, err
	}
	if err := c.deleteCommands(ctx, job, commands, local); err != nil {
		return 0, err
	}

	p := makePlan(s)
	if first := firstStatus(s, p); first != nil {
		p = &plan{status: first, isFirst: true}
	}
	if !c.isStillTrue(ctx, s, p) {
		return 0, &notYet{"the API server does not confirm yet what the informers show", retrySoon}
	}
	if err := c.applyFirst(ctx, s, p, local); err != nil {
		return c.conclude(s.job, s, pluginError.of(err), 0, local)
	}
	wait, mayAct, err := c.writeStatus(ctx, job, s, p, local)
	if err != nil || !mayAct {
		return wait, err
	}
	local.planned = job.Generation
	if s.held != nil && phase.Runs(p.status.State.Phase) {
		return wait, nil
	}
	acting := *s.job
	acting.Status = *p.status
	failed := c.act(ctx, &acting, s, p, local)
	wait = soonest(wait, c.announce(&acting, p, s.now, local))
	wait = soonest(wait, c.nextDeadline(&acting, s.now))
	wait = soonest(wait, soonest(s.overdueIn, s.startingIn))
	return c.conclude(&acting, s, failed, wait, local)
}

// conclude says when to sync the Job again, by the result of act.
func (c *Controller) conclude(job *batchv1alpha1.Job, s *snapshot, failed error, wait time.Duration, local *localState) (time.Duration, error) {
	if failed != nil {
		pause, err := c.report(job, failed, local)
		return soonest(wait, pause), err
	}
	if local.lastError != nil {
		local.lastError = nil
		wait = soonest(wait, retrySoon) // the status still records it
	}
	if s.foreignGroup {
		// No event tells when an object of another owner is gone.
		wait = soonest(wait, retrySoon)
	}
	return wait, nil
}

// isStillTrue asks the API server whether the causes of the plan still hold: the Command is still there, and the event that a policy
// answers has really happened.
func (c *Controller) isStillTrue(ctx context.Context, s *snapshot, p *plan) bool {
	if p.isFirst {
		return true
	}
	return (s.command == nil || c.isStillAsked(ctx, s.command)) && (p.request == nil || c.hasHappened(ctx, s.job, p.request.cause))
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
	case apierrors.IsNotFound(err), err == nil && !isMember(job, pod):
		return e.Remembered || e.Pod == nil || e.Pod.DeletionTimestamp != nil || e.Type == busv1alpha1.PodFailedEvent
	case err != nil, e.Pod == nil && !e.Remembered:
		return false
	case e.Remembered:
		return pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded
	default:
		return pod.UID == e.Pod.UID && (e.Type != busv1alpha1.PodPendingEvent || pod.Status.Phase == corev1.PodPending)
	}
}

// nextDeadline returns when time alone changes something for the Job; 0 if it does not.
func (c *Controller) nextDeadline(job *batchv1alpha1.Job, now time.Time) time.Duration {
	if left, limited := timeToLive(job, now); limited && !isDeleted(job) {
		return atLeast(left)
	}
	if phase.Ended(job.Status.State.Phase) {
		return 0
	}
	var wait time.Duration
	if phase.Runs(job.Status.State.Phase) {
		wait = backoffLeft(job.Status.RestartBackoff, now)
	}
	if left, limited := timeLeft(job, now); limited {
		wait = soonest(wait, atLeast(left))
	}
	return wait
}

// atLeast keeps a deadline that has passed from causing one sync after another while the API is behind.
func atLeast(left time.Duration) time.Duration {
	if left <= 0 {
		return retrySoon
	}
	return left
}

// soonest returns the shorter of two waits; 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
