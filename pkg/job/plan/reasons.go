package plan

import (
	"fmt"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// Reasons why a Job may not start, or what it waits for.
const (
	ReasonInvalid            = "Invalid"
	ReasonNotSupported       = "NotSupported"
	ReasonQueueNotFound      = "QueueNotFound"
	ReasonQueueIsRoot        = "QueueIsRoot"
	ReasonQueueHasChildren   = "QueueHasChildren"
	ReasonQueueNotOpen       = "QueueNotOpen"
	ReasonPodGroupNameTaken  = "PodGroupNameTaken"
	ReasonSchedulerNotServed = "SchedulerNotServed"
	ReasonPodGroupPending    = "PodGroupPending"
	ReasonQuotaExceeded      = schedulingv1beta1.QuotaExceededReason
	ReasonUnschedulable      = "Unschedulable"
	ReasonClaimNotFound      = "ClaimNotFound"
	ReasonClaimNameTaken     = "ClaimNameTaken"
	ReasonObjectNameTaken    = "PluginObjectNameTaken"
	ReasonEarlierPods        = "WaitingForEarlierPods"
	ReasonBackOff            = "BackOff"
	ReasonFailedCreate       = "FailedCreate"
	// It is no trouble, and has no event.
	reasonWaitingForDependency = "WaitingForDependency"
	// The kubelet has events about it.
	ReasonPodNotStarted = "PodNotStarted"
)

// CheckSpec returns why a Job with this spec may not start, or nil. The answer depends on the spec alone.
func CheckSpec(job *batchv1alpha1.Job) *Finding {
	if errs := validation.Job(job); len(errs) > 0 {
		return &Finding{ReasonInvalid, errs.ToAggregate().Error()}
	}
	if errs := validation.Unsupported(job); len(errs) > 0 {
		return &Finding{ReasonNotSupported, errs.ToAggregate().Error()}
	}
	return nil
}

// ProblemOf returns the problem of a Job that has started, or may start; nil if nothing is known.
func ProblemOf(s *Snapshot) *Finding {
	switch {
	case s.Refusal != nil:
		return s.Refusal
	case s.ForeignGroup:
		return &Finding{ReasonPodGroupNameTaken, fmt.Sprintf("PodGroup %s belongs to another owner", batchv1alpha1.PodGroupName(s.Job))}
	case s.QueueProblem != nil:
		return s.QueueProblem
	case s.Claims != nil && s.Claims.Problem != nil:
		return s.Claims.Problem
	default:
		return s.LastError
	}
}

// currentCondition returns the PodGroup's current condition; nil if there is none, or if it says that all is well.
func currentCondition(group *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroupCondition {
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
	current := currentCondition(group)
	return current != nil && IsAdmitted(group) &&
		(current.Reason == schedulingv1beta1.NotEnoughResourcesReason || current.Reason == schedulingv1beta1.QuotaExceededReason)
}

// GroupFinding returns what the PodGroup's current condition says, unless all is well.
func GroupFinding(group *schedulingv1beta1.PodGroup) *Finding {
	current := currentCondition(group)
	if current == nil {
		return nil
	}
	reason := ReasonUnschedulable
	switch {
	case current.Reason == schedulingv1beta1.QuotaExceededReason:
		reason = ReasonQuotaExceeded
	case !IsAdmitted(group):
		reason = ReasonPodGroupPending
	}
	return &Finding{reason, current.Message}
}
