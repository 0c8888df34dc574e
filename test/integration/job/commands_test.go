package job_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// command asks something of a Job, as the CLI does.
func (s *stage) command(job *batchv1alpha1.Job, uid types.UID, action string) *busv1alpha1.Command {
	s.t.Helper()
	target := metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))
	target.UID = uid
	command, err := muster.BusV1alpha1().Commands(s.namespace).Create(s.t.Context(), &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-"}, Action: action, TargetObject: target}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return command
}

func (s *stage) awaitNoCommands() {
	s.t.Helper()
	s.poll("the Commands are gone", func(ctx context.Context) (bool, error) {
		list, err := muster.BusV1alpha1().Commands(s.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, nil
	})
}

func (s *stage) expectJobEvent(job, reason, message string) {
	s.t.Helper()
	s.Event("Job", s.name(job), func(e watchlog.Event) bool { return e.Reason == reason && e.Message == message })
}

func TestCommands(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(2).Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	s.command(job, job.UID, "AbortJob")
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	s.expectJobEvent("j", "CommandIssued",
		"Start to execute command AbortJob, and clean it up to make sure executed not more than once.")
	assert.Equal(t, "CommandIssued", log.Job(s.name("j")).Reason)

	s.command(job, job.UID, "ResumeJob")
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Zero(t, s.get("j").Status.RetryCount, "resuming does not count")

	s.command(job, job.UID, "RestartJob")
	s.reap(2)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, int32(1), s.get("j").Status.RetryCount)

	s.command(job, job.UID, "TerminateJob")
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)
	s.awaitNoCommands()
	require.Empty(t, watchlog.StatusViolations(log.JobStates(s.name("j"))))
}

func TestCommandsGivenTogetherAreExecutedInTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.awaitPod("j-a-0")
	for range 3 {
		s.command(job, job.UID, "AbortJob")
		s.command(job, job.UID, "ResumeJob")
	}
	s.command(job, job.UID, "AbortJob")
	s.awaitNoCommands()
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	assert.Zero(t, s.get("j").Status.RetryCount)
}

func TestCommandsThatCannotBeExecutedAreAnswered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	unknown := s.command(job, job.UID, "Dance")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "CommandIgnored" && assert.ObjectsAreEqual("Command "+unknown.Name+
			" is not executed: a job knows no action \"Dance\": use one of [AbortJob ResumeJob RestartJob TerminateJob CompleteJob]", e.Message)
	})
	other := s.command(job, "another", "TerminateJob")
	s.expectJobEvent("j", "CommandIgnored", "Command "+other.Name+" is not executed: it is for another job of this name, with UID another")
	idle := s.command(job, job.UID, "ResumeJob")
	s.expectJobEvent("j", "CommandIgnored", "Command "+idle.Name+" is not executed: ResumeJob does nothing to a job that is Running")
	s.awaitNoCommands()
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)

	nobody := job.DeepCopy()
	nobody.Name = "nobody"
	lost := s.command(nobody, "nobody", "AbortJob")
	s.poll("the Command without a Job is gone", func(ctx context.Context) (bool, error) {
		_, err := muster.BusV1alpha1().Commands(s.namespace).Get(ctx, lost.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestJobThatMayNotStartCanBeEnded: a Job that is kept Pending still obeys.
func TestJobThatMayNotStartCanBeEnded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Plugin("no-such").Task(mustertesting.MakeTask("a", 1)))
	s.JobReason(s.name("j"), "Invalid")
	s.command(job, job.UID, "TerminateJob")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Terminated)
}

// TestACommandIsExecutedOnceThoughTheControllerDies: the controller died after it had written the status for a Command, and before it
// deleted the Command. The next one only deletes it.
func TestACommandIsExecutedOnceThoughTheControllerDies(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	whileDown(func() {
		command := s.command(job, job.UID, "RestartJob")
		s.poll("the status that names the Command is written", func(ctx context.Context) (bool, error) {
			current := s.get("j")
			current.Status.HandledCommand = string(command.UID)
			_, err := muster.BatchV1alpha1().Jobs(s.namespace).UpdateStatus(ctx, current, metav1.UpdateOptions{})
			return err == nil, ignoreConflict(err)
		})
	})
	s.awaitNoCommands()
	s.PodsStay(1, "the pod runs on", s.live)
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name("j")).Phase)
	assert.Zero(t, s.get("j").Status.RetryCount)
}
