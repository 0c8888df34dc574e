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
)

// announce tells people what a status write has changed: that the gang has started, and why it waits, when that is new and the
// scheduler has no say in it. Of gangs that it looks after the scheduler tells by itself: each decision has one event, by
// whoever gives it.
func announce(recorder record.EventRecorder, group *schedulingv1beta1.PodGroup, last, next *schedulingv1beta1.PodGroupStatus, gated bool) {
	was, is := current(last.Conditions), current(next.Conditions)
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
		}
	}
}
