package job

import (
	"fmt"
	"slices"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// Reasons why a Job may not start, or what it waits for.
const (
	reasonInvalid            = "Invalid"
	reasonNotSupported       = "NotSupported"
	reasonQueueNotFound      = "QueueNotFound"
	reasonQueueIsRoot        = "QueueIsRoot"
	reasonQueueHasChildren   = "QueueHasChildren"
	reasonQueueNotOpen       = "QueueNotOpen"
	reasonPodGroupNameTaken  = "PodGroupNameTaken"
	reasonSchedulerNotServed = "SchedulerNotServed"
	reasonPodGroupPending    = "PodGroupPending"
	reasonQuotaExceeded      = schedulingv1beta1.QuotaExceededReason
	reasonUnschedulable      = "Unschedulable"
	reasonClaimNotFound      = "ClaimNotFound"
	reasonClaimNameTaken     = "ClaimNameTaken"
	reasonObjectNameTaken    = "PluginObjectNameTaken"
	reasonEarlierPods        = "WaitingForEarlierPods"
	reasonBackOff            = "BackOff"
	// It is no trouble, and has no event.
	reasonWaitingForDependency = "WaitingForDependency"
	// The kubelet has events about it.
	reasonPodNotStarted = "PodNotStarted"
)

// checkSpec returns why a Job with this spec may not start, or nil. The answer depends on the spec alone.
func checkSpec(job *batchv1alpha1.Job) *finding {
	if errs := validation.Job(job); len(errs) > 0 {
		return &finding{reasonInvalid, errs.ToAggregate().Error()}
	}
	if errs := validation.Unsupported(job); len(errs) > 0 {
		return &finding{reasonNotSupported, errs.ToAggregate().Error()}
	}
	return nil
}

// checkQueue returns why the Job's queue does not admit it, or nil.
func (c *Controller) checkQueue(job *batchv1alpha1.Job) *finding {
	name := job.Spec.Queue
	if name == schedulingv1beta1.RootQueue {
		return &finding{reasonQueueIsRoot, "can not submit job to root queue: name another one"}
	}
	queue, err := c.queues.Get(name)
	if err != nil {
		return &finding{reasonQueueNotFound, fmt.Sprintf("unable to find job queue: queue %q does not exist", name)}
	}
	if children := c.childrenOf(name); children > 0 {
		return &finding{reasonQueueHasChildren,
			fmt.Sprintf("can only submit job to leaf queue, queue `%s` has %d child queues", name, children)}
	}
	// A queue without a state is new, and about to be opened. The PodGroup waits for that, and says so if it takes long.
	if queue.Status.State != "" && queue.Status.State != schedulingv1beta1.QueueStateOpen {
		return &finding{reasonQueueNotOpen, fmt.Sprintf(
			"can only submit job to queue with state `Open`, queue `%s` status is `%s`", name, queue.Status.State)}
	}
	return nil
}

// problemOf returns the problem of a Job that has started, or may start; nil if nothing is known.
func problemOf(s *snapshot) *finding {
	switch {
	case s.refusal != nil:
		return s.refusal
	case s.foreignGroup:
		return &finding{reasonPodGroupNameTaken, fmt.Sprintf("PodGroup %s belongs to another owner", batchv1alpha1.PodGroupName(s.job))}
	case s.queueProblem != nil:
		return s.queueProblem
	case s.claims != nil && s.claims.problem != nil:
		return s.claims.problem
	default:
		return s.lastError
	}
}

// waitingFor returns what a Pending Job waits for; nil if nothing is known.
func (c *Controller) waitingFor(s *snapshot) *finding {
	if name := c.unservedScheduler(s.job); name != "" {
		return &finding{reasonSchedulerNotServed, fmt.Sprintf(
			"scheduler %q is not one of Muster's (%s): it does not keep the Job's pods together",
			name, strings.Join(c.served, ", "))}
	}
	return groupTrouble(s.group)
}

// unservedScheduler returns the first scheduler name of the Job's pods that Muster does not serve; "" if there is none.
func (c *Controller) unservedScheduler(job *batchv1alpha1.Job) string {
	if len(c.served) == 0 {
		return ""
	}
	for i := range job.Spec.Tasks {
		name := job.Spec.Tasks[i].Template.Spec.SchedulerName
		if name == "" {
			name = job.Spec.SchedulerName
		}
		if !slices.Contains(c.served, name) {
			return name
		}
	}
	return ""
}

// obstacleOf returns the PodGroup's current condition; nil if there is none, or if it says that all is well.
func obstacleOf(group *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroupCondition {
	if group == nil {
		return nil
	}
	var current *schedulingv1beta1.PodGroupCondition
	for i := range group.Status.Conditions {
		if c := &group.Status.Conditions[i]; current == nil || !c.LastTransitionTime.Before(&current.LastTransitionTime) {
			current = c
		}
	}
	if current == nil || current.Type == schedulingv1beta1.PodGroupScheduled {
		return nil
	}
	return current
}

// lacksRoom says whether the minimum exists, and lacks room or quota.
func lacksRoom(group *schedulingv1beta1.PodGroup) bool {
	current := obstacleOf(group)
	return current != nil && isAdmitted(group) &&
		(current.Reason == schedulingv1beta1.NotEnoughResourcesReason || current.Reason == schedulingv1beta1.QuotaExceededReason)
}

// groupTrouble returns what the PodGroup's current condition says, unless all is well.
func groupTrouble(group *schedulingv1beta1.PodGroup) *finding {
	current := obstacleOf(group)
	if current == nil {
		return nil
	}
	reason := reasonUnschedulable
	switch {
	case current.Reason == schedulingv1beta1.QuotaExceededReason:
		reason = reasonQuotaExceeded
	case !isAdmitted(group):
		reason = reasonPodGroupPending
	}
	return &finding{reason, current.Message}
}
