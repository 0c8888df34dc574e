package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// reasons of the events on a Job, in their order, each as often as it was reported.
func (s *stage) reasons(job string) []string {
	var found []string
	for _, e := range log.Events("Job", s.namespace, job) {
		found = append(found, fmt.Sprintf("%s x%d", e.Reason, e.Count))
	}
	return found
}

// TestEachStepOfAJobIsOneEvent: a Job that does not wait has two.
func TestEachStepOfAJobIsOneEvent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.expectJobEvent("j", "Running", "The minimum of the job runs")
	s.succeed("j-a-0", "j-a-1")
	s.expectJobEvent("j", "Completed", "PodsSucceeded: 2 of 2 pods have succeeded")
	assert.Equal(t, []string{"Running x1", "Completed x1"}, s.reasons("j"))
}

// TestAJobOutOfRunsIsToldAsFailed: its last restart starts nothing.
func TestAJobOutOfRunsIsToldAsFailed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-0", 3)
	s.reap(1)
	event := s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "Failed" })
	assert.Equal(t, "MaxRetryReached: the Job has run 1 time, maxRetry is 1; last: pod j-a-0 failed with exit code 3; spec.policies[0]: RestartJob", event.Message)
	assert.Equal(t, []string{"Running x1", "Failed x1"}, s.reasons("j"))
	require.Empty(t, watchlog.StatusViolations(log.JobStates(s.name("j"))))
}

func TestAnAdmissionAfterAWaitIsAnEvent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.queue(schedulingv1beta1.QueueStateClosed)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.JobReason(s.name("j"), "QueueNotOpen")
	s.queue(schedulingv1beta1.QueueStateOpen)
	s.group(job)
	s.Soon("the queue blocks no Job", func() bool { return log.Job(s.name("j")).Reason == "" }, func() any { return log.Job(s.name("j")) })
	s.admit(job)
	s.run("j-a-0")
	s.expectJobEvent("j", "Running", "The minimum of the job runs")
}

// TestACommandForNoJobIsAnswered: by an event on the Command.
func TestACommandForNoJobIsAnswered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	command := s.command(mustertesting.MakeJob("absent").Namespace(s.namespace).Obj(), "gone", "AbortJob")
	event := s.Event("Command", s.name(command.Name), func(watchlog.Event) bool { return true })
	assert.Equal(t, "CommandIgnored", event.Reason)
	assert.Equal(t, "Command "+command.Name+" is not executed: there is no job absent", event.Message)
	s.awaitNoCommands()
}

// TestAnAbortedJobRefusesToRestart: a policy answers a change of its spec, and an event says that it does nothing.
func TestAnAbortedJobRefusesToRestart(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.command(job, job.UID, "AbortJob")
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 2 })
	s.expectJobEvent("j", "PolicyIgnored",
		"Action RestartJob is not executed: it does nothing to a job that is Aborted (the spec was changed; spec.policies[0]: RestartJob)")
	assert.Equal(t, batchv1alpha1.Aborted, log.Job(s.name("j")).Phase)
}

// TestAHealthyJobIsNotThreatened: its pods are pending for a moment, as all are, and a policy waits for an hour of that.
func TestAHealthyJobIsNotThreatened(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").LifecyclePolicy(after(time.Hour, busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction)).
		Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-a-0")
	s.expectJobEvent("j", "Completed", "PodsSucceeded: 1 of 1 pod has succeeded")
	assert.NotContains(t, strings.Join(s.reasons("j"), " "), "ExecuteAction")
}

// TestScaledToZeroAndUpTwentyTimes: each phase that a client sees while it scales a Job agrees with its pods.
func TestScaledToZeroAndUpTwentyTimes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	scale := func(replicas int32) {
		s.edit("j", func(job *batchv1alpha1.Job) {
			job.Spec.Tasks[0].Replicas, job.Spec.Tasks[0].MinAvailable = replicas, nil
		})
	}
	shows := func(running int32) {
		s.Soon("the Job runs with all its pods", func() bool {
			state := log.Job(s.name("j"))
			return state.Phase == batchv1alpha1.Running && state.Running == running && state.Pending+state.Terminating == 0
		}, func() any { return log.JobStates(s.name("j")) })
	}
	shows(2)
	for range 20 {
		scale(0)
		s.reap(2)
		shows(0)
		scale(2)
		s.run("j-a-0", "j-a-1")
		shows(2)
	}
	states := log.JobStates(s.name("j"))
	assert.Empty(t, watchlog.StatusViolations(states))
	for _, p := range watchlog.Phases(states) {
		assert.Contains(t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, p)
	}
	assert.Equal(t, []string{"Running x1"}, s.reasons("j"))
}
