package podgroup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Reasons of the events on PodGroups; clients know them.
const (
	unschedulableEvent = "Unschedulable"
	scheduledEvent     = "Scheduled"
	quotaReleasedEvent = "QuotaReleased"
)

// announce writes events about a status write. They say that the gang has started, or give a new reason to wait that the scheduler does not
// report. For gangs that the scheduler handles, the scheduler writes the events: each decision has one event.
func announce(recorder record.EventRecorder, group *schedulingv1beta1.PodGroup, last, next *schedulingv1beta1.PodGroupStatus, gated bool) {
	was, is := schedulingv1beta1.CurrentCondition(last.Conditions), schedulingv1beta1.CurrentCondition(next.Conditions)
	if is == nil {
		return
	}
	same := was != nil && was.Type == is.Type
	switch is.Type {
	case schedulingv1beta1.PodGroupUnschedulableType:
		if next.Phase.Admitted() && !gated {
			return
		}
		if !same || was.Reason != is.Reason || explanation(was.Message) != explanation(is.Message) {
			recorder.Event(group, corev1.EventTypeWarning, unschedulableEvent, is.Message)
		}
	case schedulingv1beta1.PodGroupScheduled:
		if !same {
			recorder.Event(group, corev1.EventTypeNormal, scheduledEvent, "pod group is ready")
		} else if is.Message != was.Message && is.Message != "" {
			recorder.Event(group, corev1.EventTypeNormal, quotaReleasedEvent, is.Message)
		}
	}
}
