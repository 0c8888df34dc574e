package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func after(d time.Duration, event busv1alpha1.Event, action busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{Event: event, Action: action, Timeout: &metav1.Duration{Duration: d}}
}

// slack is a timeout of policies that leaves the controller enough time to see the cause on a busy machine.
const slack = 5 * time.Second

// TestPendingForTooLong: the clock runs on while no controller does.
func TestPendingForTooLong(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").LifecyclePolicy(after(slack, busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction)).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0")
	s.awaitPod("j-a-1")
	s.expectJobEvent("j", "ExecuteAction", "Execute action AbortJob after 5s")
	whileDown(func() {})
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	state := log.Job(s.name("j"))
	assert.Equal(t, "PodPending", state.Reason)
	assert.Contains(t, state.Message, "pod j-a-1 has been pending since")
	assert.WithinDuration(t, job.CreationTimestamp.Add(slack), state.Time, 10*time.Second)
}

func TestPendingForNotTooLong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").LifecyclePolicy(after(slack, busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction)).
		Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.poll("the time that it may be pending passes", func(context.Context) (bool, error) {
		return time.Since(job.CreationTimestamp.Time) > slack+2*time.Second, nil
	})
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)
}

func TestFailureIsAnsweredLater(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").LifecyclePolicy(after(slack, busv1alpha1.PodFailedEvent, busv1alpha1.TerminateJobAction)).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-0", 7)
	s.expectJobEvent("j", "ExecuteAction", "Execute action TerminateJob after 5s")
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)
	assert.Equal(t, "pod j-a-0 failed with exit code 7; spec.policies[0]: TerminateJob", log.Job(s.name("j")).Message)
}

// TestTheDeadlineHoldsAcrossARestart: the time of a Job that may run for so long runs on while no controller does.
func TestTheDeadlineHoldsAcrossARestart(t *testing.T) {
	s := newStage(t)
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	limit := int64(slack / time.Second)
	job.Spec.ActiveDeadlineSeconds = &limit
	job = s.applyObject(job)
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	deadline := s.get("j").Status.StartTime.Add(slack)
	whileDown(func() {})
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)
	state := log.Job(s.name("j"))
	assert.Equal(t, "DeadlineExceeded", state.Reason)
	assert.False(t, state.Time.Before(deadline), "%s is before %s", state.Time, deadline)
	assert.WithinDuration(t, deadline, state.Time, 10*time.Second)
}
