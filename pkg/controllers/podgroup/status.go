package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-sched/muster/pkg/admission"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
)

// finding says whether the gang can start, and why not.
type finding struct {
	kind    schedulingv1beta1.PodGroupConditionType
	reason  string
	message string
}

// nextPhase is the phase of an admitted PodGroup.
func nextPhase(current schedulingv1beta1.PodGroupPhase, minMember int32, t memberCounts) schedulingv1beta1.PodGroupPhase {
	switch {
	case current == schedulingv1beta1.PodGroupCompleted && !t.unfinished() && !t.mayGoOn:
		// Finished pods are removed one by one; a completed gang stays so until something runs again.
		return schedulingv1beta1.PodGroupCompleted
	case isPartial(current, minMember, t):
		return schedulingv1beta1.PodGroupUnknown
	case t.ofJob && minMember == 0 && t.seated == 0 && t.members == 0:
		// As the Job, which was scaled to zero and may be scaled up again.
		return schedulingv1beta1.PodGroupRunning
	case t.seated < minMember, t.seated == 0 && t.members > 0:
		return schedulingv1beta1.PodGroupInqueue
	case !t.unfinished() && t.leaving == 0 && !t.mayGoOn:
		// Pods that finish because they are being deleted, as in a restart, complete nothing. Nor do the pods of one stage of a Job.
		return schedulingv1beta1.PodGroupCompleted
	}
	return schedulingv1beta1.PodGroupRunning
}

// isPartial says whether some members run and the gang cannot be satisfied. The rest found no room, or members of a running gang were lost
// and are not replaced yet. A removal by Muster, or a raised minimum, does not show it.
func isPartial(current schedulingv1beta1.PodGroupPhase, minMember int32, t memberCounts) bool {
	lost := current == schedulingv1beta1.PodGroupRunning && t.lost || current == schedulingv1beta1.PodGroupUnknown
	return t.running > 0 && t.seated < minMember && (lost || t.unschedulable > 0)
}

// find is the finding from the members of an admitted PodGroup in a phase; nil if they show nothing new. While a Job restarts the phase is
// still that of the pods that go.
func find(phase schedulingv1beta1.PodGroupPhase, minMember int32, t memberCounts) *finding {
	switch phase {
	case schedulingv1beta1.PodGroupRunning, schedulingv1beta1.PodGroupCompleted:
		if t.seated == 0 || t.started < t.seated && t.started < minMember {
			return nil
		}
		return &finding{kind: schedulingv1beta1.PodGroupScheduled, reason: schedulingv1beta1.PodGroupReadyReason, message: t.place.text()}
	case schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupUnknown:
		if t.why == nil {
			return nil
		}
		return &finding{
			kind:    schedulingv1beta1.PodGroupUnschedulableType,
			reason:  gangReason(t.why),
			message: fmt.Sprintf("%d/%d%s%s", t.waiting, t.members, unschedulableTasks, t.why.Message),
		}
	}
	return nil
}

// unschedulableTasks stands between the numbers and the explanation in the message of condition Unschedulable.
const unschedulableTasks = " tasks in gang unschedulable: "

// explanation is a message without the numbers before it, which change while pods come and go.
func explanation(message string) string {
	if _, text, found := strings.Cut(message, unschedulableTasks); found {
		return text
	}
	return message
}

// gangReason is the PodGroup's reason for that of a member's condition. Clients know NotEnoughResources; a gang that
// waits for its own members, or for quota, says so.
func gangReason(condition *corev1.PodCondition) string {
	switch condition.Reason {
	case schedulingv1beta1.NotEnoughPodsReason, schedulingv1beta1.NotEnoughPodsOfTaskReason:
		return condition.Reason
	case schedulingv1beta1.WaitingForQuotaReason:
		return schedulingv1beta1.QuotaExceededReason
	}
	return schedulingv1beta1.NotEnoughResourcesReason
}

// withFinding is the list of conditions with f as the current one. It does not change the given list. A condition that only changes its
// message keeps its time.
func withFinding(conditions []schedulingv1beta1.PodGroupCondition, f finding, now time.Time, id string) []schedulingv1beta1.PodGroupCondition {
	last := schedulingv1beta1.CurrentCondition(conditions)
	if last != nil && last.Type == f.kind && last.Reason == f.reason && last.Message == f.message {
		return conditions
	}
	since := metav1.NewTime(now.Truncate(time.Second))
	if last != nil && last.Type == f.kind {
		since = last.LastTransitionTime
	} else if last != nil && !last.LastTransitionTime.Before(&since) {
		// Times are kept in whole seconds, and the latest one marks the current condition.
		since = metav1.NewTime(last.LastTransitionTime.Add(time.Second))
	}
	next := without(conditions, f.kind)
	return append(next, schedulingv1beta1.PodGroupCondition{
		Type:               f.kind,
		Status:             corev1.ConditionTrue,
		TransitionID:       id,
		LastTransitionTime: since,
		Reason:             f.reason,
		Message:            f.message,
	})
}

// without is a copy of the list without the condition of a type.
func without(conditions []schedulingv1beta1.PodGroupCondition, kind schedulingv1beta1.PodGroupConditionType) []schedulingv1beta1.PodGroupCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c schedulingv1beta1.PodGroupCondition) bool {
		return c.Type == kind
	})
}

// withoutOutcome is a copy of the list without what an earlier run of the gang has come to.
func withoutOutcome(conditions []schedulingv1beta1.PodGroupCondition) []schedulingv1beta1.PodGroupCondition {
	return without(without(conditions, schedulingv1beta1.PodGroupScheduled), schedulingv1beta1.PodGroupUnschedulableType)
}

// releasedMessage begins the message of a gang that runs and whose room for further members was given to others.
const releasedMessage = "no quota is kept for further members any more"

// saysAlready says whether the current condition says that the gang has started, and where. It may say more about that.
func saysAlready(conditions []schedulingv1beta1.PodGroupCondition, f *finding) bool {
	last := schedulingv1beta1.CurrentCondition(conditions)
	return f.kind == schedulingv1beta1.PodGroupScheduled && last != nil && last.Type == f.kind && last.Reason == f.reason &&
		(f.message == "" || strings.HasPrefix(last.Message, releasedMessage))
}

// nextStatus is the status of a PodGroup, from its present status, its members' counts and admission's decision.
func nextStatus(group *schedulingv1beta1.PodGroup, t memberCounts, v admission.Decision, now time.Time, id string) *schedulingv1beta1.PodGroupStatus {
	next := group.Status.DeepCopy()
	next.Running, next.Succeeded, next.Failed = t.running, t.succeeded, t.failed
	switch {
	case !group.Status.Phase.Admitted() && v.Reason != "" && !v.Admitted:
		next.Phase = schedulingv1beta1.PodGroupPending
		next.Conditions = withFinding(next.Conditions, finding{
			kind:    schedulingv1beta1.PodGroupUnschedulableType,
			reason:  v.Reason,
			message: v.Message,
		}, now, id)
		return next
	case !group.Status.Phase.Admitted() && !v.Admitted:
		return next
	case !group.Status.Phase.Admitted():
		// The blocker to its admission is over.
		next.Conditions = without(next.Conditions, schedulingv1beta1.PodGroupUnschedulableType)
	}
	sayWhichIncarnation(next, batchv1alpha1.JobOf(group) != nil, int32(t.version))
	if gang.IsRunOver(group) && t.unfinished() {
		next.Conditions = withoutOutcome(next.Conditions) // members of the next run have come
	}
	next.Phase = nextPhase(group.Status.Phase, group.Spec.Minimum(), t)
	if f := find(next.Phase, group.Spec.Minimum(), t); f != nil && !saysAlready(next.Conditions, f) {
		next.Conditions = withFinding(next.Conditions, *f, now, id)
	}
	return next
}

// sayWhichIncarnation says which incarnation of a Job's pods the status is about. Conditions of an earlier one are dropped; if a status
// does not name its incarnation, nothing is dropped.
func sayWhichIncarnation(next *schedulingv1beta1.PodGroupStatus, ofJob bool, version int32) {
	if next.JobVersion != nil && *next.JobVersion < version {
		next.Conditions = withoutOutcome(next.Conditions)
	}
	if next.JobVersion != nil || ofJob || version > 0 {
		next.JobVersion = &version
	}
}

// isUrgent says whether a change of status must be written at once; counts and numbers can wait a little.
func isUrgent(last, next *schedulingv1beta1.PodGroupStatus) bool {
	if last.Phase != next.Phase || ptr.Deref(next.JobVersion, 0) != ptr.Deref(last.JobVersion, 0) || next.Succeeded < last.Succeeded ||
		!apiequality.Semantic.DeepEqual(last.Reserved, next.Reserved) {
		return true
	}
	lastCondition, nextCondition := schedulingv1beta1.CurrentCondition(last.Conditions), schedulingv1beta1.CurrentCondition(next.Conditions)
	if nextCondition == nil || lastCondition == nil {
		return nextCondition != lastCondition
	}
	return lastCondition.Type != nextCondition.Type
}

// isReport says whether a change of status only reports a reason to wait, or members that exist or run. Nothing in Muster waits for that
// report: code that needs members counts them itself. A change that records finished members matters more: only the status tells the
// scheduler about succeeded pods that are gone. Pods wait for the admission of their PodGroup.
func isReport(last, next *schedulingv1beta1.PodGroupStatus) bool {
	if !next.Phase.Admitted() {
		return true
	}
	if !last.Phase.Admitted() || ptr.Deref(last.JobVersion, 0) != ptr.Deref(next.JobVersion, 0) || last.Succeeded != next.Succeeded || last.Failed != next.Failed ||
		!apiequality.Semantic.DeepEqual(last.Reserved, next.Reserved) {
		return false
	}
	before, after := schedulingv1beta1.CurrentCondition(last.Conditions), schedulingv1beta1.CurrentCondition(next.Conditions)
	if after != nil && after.Type != schedulingv1beta1.PodGroupScheduled && (before == nil || before.Type != after.Type) {
		return false
	}
	switch next.Phase {
	case schedulingv1beta1.PodGroupRunning:
		return last.Phase == schedulingv1beta1.PodGroupInqueue || last.Phase == next.Phase
	case schedulingv1beta1.PodGroupInqueue:
		return last.Phase == next.Phase
	}
	return false
}
