package podgroup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

func TestWhoDecidesTells(t *testing.T) {
	waits := func(phase schedulingv1beta1.PodGroupPhase, message string) *schedulingv1beta1.PodGroupStatus {
		return &schedulingv1beta1.PodGroupStatus{Phase: phase, Conditions: []schedulingv1beta1.PodGroupCondition{{
			Type: schedulingv1beta1.PodGroupUnschedulableType, Message: message,
		}}}
	}
	pending, inqueue := schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupInqueue
	tests := map[string]struct {
		last, next *schedulingv1beta1.PodGroupStatus
		gated      bool
		want       []string
	}{
		"the queue is full": {
			last: &schedulingv1beta1.PodGroupStatus{}, next: waits(pending, "the queue is full"),
			want: []string{"Warning Unschedulable the queue is full"},
		},
		"that is known": {last: waits(pending, "the queue is full"), next: waits(pending, "the queue is full")},
		"the scheduler has found no room": {
			last: &schedulingv1beta1.PodGroupStatus{}, next: waits(inqueue, "3/3 tasks in gang unschedulable: no room"),
		},
		"gates keep the pods from the scheduler": {
			last: &schedulingv1beta1.PodGroupStatus{}, next: waits(inqueue, "3/3 tasks in gang unschedulable: gates"), gated: true,
			want: []string{"Warning Unschedulable 3/3 tasks in gang unschedulable: gates"},
		},
		"only the number has changed": {
			last: waits(inqueue, "2/3 tasks in gang unschedulable: gates"), next: waits(inqueue, "3/3 tasks in gang unschedulable: gates"), gated: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			announce(recorder, &schedulingv1beta1.PodGroup{}, test.last, test.next, test.gated)
			close(recorder.Events)
			var got []string
			for event := range recorder.Events {
				got = append(got, event)
			}
			assert.Equal(t, test.want, got)
		})
	}
}
