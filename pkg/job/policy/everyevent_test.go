package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// jobOfAllEvents is a Job whose tasks raise all events that pods do.
func jobOfAllEvents() (*batchv1alpha1.Job, []Task) {
	return mustertesting.MakeJob("j").Policy(busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction).Obj(), []Task{
		task(Record{Created: indexes.Of(0, 1, 2)}, map[int32]*corev1.Pod{
			0: pod("j-a-0", corev1.PodFailed, exits(3)), 1: pod("j-a-1", corev1.PodPending, restarted(3)),
		}),
		task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0, 1, 2)}, nil),
	}
}

// TestEveryEventIsRaisedAndRanked: some state of pods raises each event of the schema. Each has a place in the order of answers.
func TestEveryEventIsRaisedAndRanked(t *testing.T) {
	job, everything := jobOfAllEvents()
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

// TestEveryEventIsKnownUntilItsDelayedAnswer: as long as its cause holds, an event is raised anew in each look. If that ends with the first
// look, the event is remembered.
func TestEveryEventIsKnownUntilItsDelayedAnswer(t *testing.T) {
	job, tasks := jobOfAllEvents()
	first, now := time.Unix(1000, 0), time.Unix(1060, 0)
	var delays []Delay
	for _, event := range (DelayedEvents{}).Merge(job, tasks, Observe(job, tasks, Whole{Unknown: true, Updated: true}), first) {
		event.Since = first
		delays = append(delays, Delay{Cause: event})
	}
	for i := range tasks { // the policies have been asked
		tasks[i].Record.Note(tasks[i].Spec, tasks[i].Pods)
	}
	for _, d := range delays {
		if d.Cause.Task >= 0 {
			tasks[d.Cause.Task].Record.Settle(d.Cause)
		}
	}
	delete(tasks[0].Pods, 0) // the failed pod may be gone
	known := map[busv1alpha1.Event]Event{}
	for _, event := range DelayedBy(delays).Merge(job, tasks, Observe(job, tasks, Whole{Unknown: true}), now) {
		known[event.Type] = event
	}
	for _, event := range mustertesting.PolicyEvents(t) {
		if event == busv1alpha1.AnyEvent {
			continue
		}
		assert.NotEmpty(t, known[event].Message, "add %s to stands and remember, or raise it in each look", event)
		if event != busv1alpha1.PodPendingEvent { // it has its own time
			assert.Equal(t, first, known[event].Since, event)
		}
	}
}
