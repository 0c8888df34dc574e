package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/startup"
)

// takeSnapshot reads the Job and its objects, once the informers show the controller's own writes.
func (c *Controller) takeSnapshot(ctx context.Context, t *jobSync) error {
	if err := c.written.EnsureReady(nameOf(t.job)); err != nil {
		// The informer shows the last write soon, which brings the Job back here. The pause is for a Job that was deleted again before it
		// was seen.
		return &staleError{err.Error(), plan.RetrySoon}
	}
	job, local := defaults.Job(t.job, c.cfg.SchedulerName), t.local
	t.commands = c.commands.of(t.job)
	s := &plan.Snapshot{Job: job, Command: t.commands.next, Dependency: c.cfg.DependencyCondition, RestartBackoff: c.cfg.RestartBackoff,
		SpecChanged: local.planned != 0 && local.planned != job.Generation, Now: c.cfg.Clock.Now()}
	if err := c.lookAtPods(ctx, s, local); err != nil {
		return err
	}
	foreign := c.lookAtGroup(s, local)
	c.lookForBlockers(s, foreign, local)
	s.SpecMark = local.specMark
	s.Controlled = controlled(s, &local.plugins)
	s.Complete(local.unwritten)
	t.s, local.unfinished = s, false // it keeps its turn if it comes to act
	return nil
}

// lookForBlockers adds the Job's claims, and what the Job waits for or lacks, the most important first.
func (c *Controller) lookForBlockers(s *plan.Snapshot, foreign *plan.Finding, local *localState) {
	p := s.Job.Status.State.Phase
	var refusal *plan.Finding
	if !phase.Ended(p) {
		refusal, s.Claims = local.refusalOf(s.Job), c.objects.surveyClaims(s.Job)
	}
	s.Refuse(cmp.Or(refusal, local.plugins.finding(s)))
	s.Block(foreign, plan.BlocksObjects, plan.WhileLive)
	if (p == "" || phase.Runs(p)) && !plan.IsAdmitted(s.Group) {
		s.Block(c.checkQueue(s.Job), plan.BlocksPods, plan.WhileLive)
	}
	if s.Claims != nil {
		s.Block(s.Claims.Problem, plan.BlocksPods, plan.WhileLive)
	}
	s.Block(local.lastError, plan.BlocksNothing, plan.Always)
	overdue, overdueIn := plan.FindOverdue(s.Pods, s.Now)
	s.Block(overdue, plan.BlocksNothing, plan.Always)
	s.LookAgain = plan.Soonest(s.LookAgain, overdueIn)
	s.Block(c.waitingFor(s), plan.BlocksNothing, plan.WhilePending)
}

// lookAtPods adds the Job's pods to the snapshot. It returns a staleError if a pod is gone, and the informer's handlers have not seen yet how it
// ended. Their event brings the Job back here.
func (c *Controller) lookAtPods(ctx context.Context, s *plan.Snapshot, local *localState) error {
	pods := c.pods.of(s.Job)
	c.status.resolveUncertain(ctx, &s.Job.Status, local)
	ended, known := c.podTracker.Look(s.Job.UID, pods)
	if !known && plan.NeedsEnds(s.Job) {
		return &staleError{"the event of a pod that is gone is still to come", plan.RetrySoon}
	}
	s.Pods, s.Ended = pods, ended
	if plan.OrPending(s.Job.Status.State.Phase) == batchv1alpha1.Pending {
		s.Starting, s.LookAgain = startup.Slow(pods, s.Now)
	}
	return nil
}

// lookAtGroup adds the Job's PodGroup to the snapshot. It returns a finding if another owner's PodGroup has its name.
func (c *Controller) lookAtGroup(s *plan.Snapshot, local *localState) (foreign *plan.Finding) {
	name := batchv1alpha1.PodGroupName(s.Job)
	group, err := c.groups.PodGroups(s.Job.Namespace).Get(name)
	switch {
	case err != nil, group.UID == local.goneGroup: // the only error of an informer's lister is NotFound
	case metav1.IsControlledBy(group, s.Job):
		s.Group = group
	default:
		return &plan.Finding{Reason: plan.ReasonPodGroupNameTaken, Message: fmt.Sprintf("PodGroup %s belongs to another owner", name)}
	}
	return nil
}

// checkQueue returns why the Job's queue does not admit it, or nil.
func (c *Controller) checkQueue(job *batchv1alpha1.Job) *plan.Finding {
	name := job.Spec.Queue
	if name == schedulingv1beta1.RootQueue {
		return &plan.Finding{Reason: plan.ReasonQueueIsRoot, Message: "can not submit job to root queue: name another one"}
	}
	queue, err := c.queues.Get(name)
	if err != nil {
		return &plan.Finding{Reason: plan.ReasonQueueNotFound, Message: fmt.Sprintf("unable to find job queue: queue %q does not exist", name)}
	}
	if children := len(indexed[*schedulingv1beta1.Queue](c.queueIndex, byParent, name)); children > 0 {
		return &plan.Finding{Reason: plan.ReasonQueueHasChildren,
			Message: fmt.Sprintf("can only submit job to leaf queue, queue `%s` has %d child queues", name, children)}
	}
	// A queue without a state is new, and about to be opened. The PodGroup waits for that, and says so if it takes long.
	if queue.Status.State != "" && queue.Status.State != schedulingv1beta1.QueueStateOpen {
		return &plan.Finding{Reason: plan.ReasonQueueNotOpen, Message: fmt.Sprintf(
			"can only submit job to queue with state `Open`, queue `%s` status is `%s`", name, queue.Status.State)}
	}
	return nil
}

// waitingFor returns what a Pending Job waits for; nil if nothing is known.
func (c *Controller) waitingFor(s *plan.Snapshot) *plan.Finding {
	if name := c.unservedScheduler(s.Job); name != "" {
		return &plan.Finding{Reason: plan.ReasonSchedulerNotServed, Message: fmt.Sprintf(
			"scheduler %q is not one of Muster's (%s): it does not keep the Job's pods together",
			name, strings.Join(c.cfg.ServedSchedulerNames, ", "))}
	}
	return plan.GroupFinding(s.Group)
}

// unservedScheduler returns the first scheduler name of the Job's pods that Muster does not serve; "" if there is none.
func (c *Controller) unservedScheduler(job *batchv1alpha1.Job) string {
	if len(c.cfg.ServedSchedulerNames) == 0 {
		return ""
	}
	for i := range job.Spec.Tasks {
		name := cmp.Or(job.Spec.Tasks[i].Template.Spec.SchedulerName, job.Spec.SchedulerName)
		if !slices.Contains(c.cfg.ServedSchedulerNames, name) {
			return name
		}
	}
	return ""
}
