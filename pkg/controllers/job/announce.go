package job

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// maxStartup is how long a pod may be pending before an event announces what follows if it stays so. Every pod is pending at first.
const maxStartup = 30 * time.Second

// describe names the event and its task.
func (d delayedAnswer) describe(spec *batchv1alpha1.JobSpec) string {
	if d.task < 0 {
		return string(d.event)
	}
	return fmt.Sprintf("%s of task %s", d.event, spec.Tasks[d.task].Name)
}

// announce writes the events of delayed actions. It finds out when time alone changes something for the Job.
func (c *Controller) announce(_ context.Context, t *jobSync) error {
	first := c.announceDelays(t.acting, t.p, t.s.Now, t.local)
	for _, wait := range []time.Duration{first, plan.NextDeadline(t.acting, t.s.Now), t.s.LookAgain} {
		t.wait = plan.Soonest(t.wait, wait)
	}
	return nil
}

// announceDelays writes an event for each action that is delayed, one for all pods of a task. It takes back the announcements of actions whose
// cause is over. It returns how long it is until the first action is due, or is to be announced.
func (c *Controller) announceDelays(job *batchv1alpha1.Job, p *plan.Plan, now time.Time, local *localState) time.Duration {
	var first time.Duration
	announced := map[delayedAnswer]bool{}
	for _, d := range p.Delays {
		about := delayedAnswer{d.Cause.Task, d.Cause.Type, d.Action}
		switch toldIn := toldAt(&d).Sub(now); {
		case announced[about]:
		case local.announced[about]:
			announced[about] = true
		case d.PutOff, !phase.Honours(job.Status.State.Phase, d.Action):
		case toldIn > 0:
			first = plan.Soonest(first, toldIn)
		default:
			announced[about] = true
			c.cfg.Recorder.Eventf(job, corev1.EventTypeNormal, eventExecuteAction, "Execute action %s after %s", d.Action, d.Timeout)
		}
		if !d.PutOff { // otherwise it does not wait for a time
			first = plan.Soonest(first, plan.AtLeast(d.Due.Sub(now)))
		}
	}
	if p.Request == nil && phase.Runs(job.Status.State.Phase) {
		for about := range local.announced {
			if !announced[about] {
				c.cfg.Recorder.Eventf(job, corev1.EventTypeNormal, eventActionCancelled,
					"Action %s is not executed: %s is over", about.action, about.describe(&job.Spec))
			}
		}
	}
	local.announced = announced
	return first
}

// toldAt is when an event announces a delayed answer.
func toldAt(d *policy.Delay) time.Time {
	if d.Cause.Type != busv1alpha1.PodPendingEvent {
		return d.Cause.Since
	}
	return d.Cause.Since.Add(min(d.Timeout/10, maxStartup) + policy.ClockUnit)
}
