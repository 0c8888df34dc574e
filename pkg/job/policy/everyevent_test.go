package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestEveryEventIsRaisedAndRanked: some state of pods raises each event of the schema. Each has a place in the order of answers.
func TestEveryEventIsRaisedAndRanked(t *testing.T) {
	job := mustertesting.MakeJob("j").Policy(busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction).Obj()
	everything := []Task{
		task(Record{Created: indexes.Of(0, 1, 2)}, map[int32]*corev1.Pod{
			0: pod("j-a-0", corev1.PodFailed, exits(3)), 1: pod("j-a-1", corev1.PodPending, restarted(3)),
		}),
		task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0, 1, 2)}, nil),
	}
	raised := map[busv1alpha1.Event]bool{}
	for _, event := range Observe(job, everything, Whole{Unknown: true, Updated: true}) {
		raised[event.Type] = true
	}
	for _, event := range mustertesting.PolicyEvents(t) {
		if event == busv1alpha1.AnyEvent {
			assert.False(t, raised[event], "it stands for others")
			continue
		}
		assert.True(t, raised[event], "add %s to Observe, and what raises it to this test", event)
		assert.GreaterOrEqual(t, rank(event), 0, "give %s a place in rank", event)
	}
}
