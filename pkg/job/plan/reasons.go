package plan

import (
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/validation"
)

// Finding is a reason for programs and a sentence for users.
type Finding struct {
	Reason, Message string
}

// Blocker is what a Job waits for or lacks.
type Blocker struct {
	Finding
	// Blocks is what does not happen.
	Blocks Extent
	// While is when the status of the Job says it.
	While While
}

// Extent is what a blocker blocks. Each extent includes the ones before it.
type Extent int

const (
	// BlocksNothing is of blockers that only say why.
	BlocksNothing Extent = iota
	// BlocksPods is of blockers for which a Job gets no pod, and no PodGroup.
	BlocksPods
	// BlocksObjects is of blockers for which nothing is created.
	BlocksObjects
	// BlocksRestarts is of blockers for which no pod is restarted or scaled away either.
	BlocksRestarts
	// BlocksStart is of blockers for which a Job that has nothing yet stays so.
	BlocksStart
)

// While is when the status of a Job names a blocker.
type While int

const (
	// WhileLive is while the Job is Pending or Running.
	WhileLive While = iota
	// WhilePending is while it is Pending.
	WhilePending
	// Always is also while it stops.
	Always
)

// Reasons why a Job may not start, or what it waits for.
const (
	ReasonInvalid            = "Invalid"
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
	// It has no event.
	reasonWaitingForDependency = "WaitingForDependency"
	// The kubelet has events about it.
	ReasonPodNotStarted = "PodNotStarted"
)

// CheckSpec returns why a Job with this spec may not start, or nil. The answer depends on the spec alone.
func CheckSpec(job *batchv1alpha1.Job) *Finding {
	if errs := validation.Job(job); len(errs) > 0 {
		return &Finding{ReasonInvalid, errs.ToAggregate().Error()}
	}
	return nil
}

// currentCondition returns the PodGroup's current condition; nil if there is none, or if it says that all is well.
func currentCondition(group *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroupCondition {
	if group == nil {
		return nil
	}
	current := schedulingv1beta1.CurrentCondition(group.Status.Conditions)
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
	switch current := currentCondition(group); {
	case current == nil:
		return nil
	case current.Reason == schedulingv1beta1.QuotaExceededReason:
		return &Finding{ReasonQuotaExceeded, current.Message}
	case !IsAdmitted(group):
		return &Finding{ReasonPodGroupPending, current.Message}
	default:
		return &Finding{ReasonUnschedulable, current.Message}
	}
}

// undone begins the text about a failed request, behind the reason of a phase.
const undone = "not done yet: "

// withUndone is the message of a state with the failed request.
func withUndone(state *batchv1alpha1.JobState, why *Finding) string {
	if state.Message == "" {
		return undone + why.Message
	}
	return state.Message + "; " + undone + why.Message
}

// withoutUndone is the message of a state alone.
func withoutUndone(state *batchv1alpha1.JobState) string {
	why, _, isUndone := strings.Cut(state.Message, undone)
	if !isUndone || phase.Runs(state.Phase) {
		return state.Message
	}
	return strings.TrimSuffix(why, "; ")
}

// IsAdmitted says whether the PodGroup's queue has admitted it, so that its pods may be created.
func IsAdmitted(group *schedulingv1beta1.PodGroup) bool {
	return group != nil && group.Status.Phase.Admitted()
}
