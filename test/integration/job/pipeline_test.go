package job_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// expectMinimum waits until the Job's PodGroup asks for that many members.
func (s *stage) expectMinimum(job *batchv1alpha1.Job, members int32) {
	s.t.Helper()
	s.poll("the PodGroup asks for what may run", func(context.Context) (bool, error) { return s.group(job).Spec.MinMember == members, nil })
}

// TestPipelineRunsStageByStage: each task starts when the one before has completed, and the gang is what may run.
func TestPipelineRunsStageByStage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("p").Task(mustertesting.MakeTask("collect", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("clean", 2).DependsOn("collect").Requests("cpu", "1")).
		Task(mustertesting.MakeTask("train", 1).DependsOn("clean").Requests("cpu", "1")))
	s.expectMinimum(job, 1)
	assert.Equal(t, "1", s.group(job).Spec.MinResources.Cpu().String())
	s.admit(job)
	s.run("p-collect-0")
	s.JobPhase(s.name("p"), batchv1alpha1.Running)
	s.PodsStay(1, "the others wait", s.live)

	s.succeed("p-collect-0")
	s.run("p-clean-0", "p-clean-1")
	s.expectMinimum(job, 3)
	s.succeed("p-clean-0")
	s.PodsStay(3, "one of two is not enough", s.live)
	s.succeed("p-clean-1")
	s.run("p-train-0")
	s.succeed("p-train-0")
	s.JobPhase(s.name("p"), batchv1alpha1.Completed)
	assert.Equal(t, int32(4), s.get("p").Status.Succeeded)
}

func TestATaskThatCanNeverStartFailsTheJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("p").Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 1).DependsOn("a")))
	s.admit(job)
	s.run("p-a-0")
	s.JobPhase(s.name("p"), batchv1alpha1.Running)
	s.fail("p-a-0", 1)
	s.JobPhase(s.name("p"), batchv1alpha1.Failed)
	state := log.Job(s.name("p"))
	assert.Equal(t, "DependencyFailed", state.Reason)
	assert.Contains(t, state.Message, "task b cannot start")
	assert.Zero(t, s.created("p-b-0"))
}

// TestMasterWaitsForReadyWorkers: what an MPI launcher needs.
func TestMasterWaitsForReadyWorkers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("mpi").Task(mustertesting.MakeTask("worker", 2)).Task(mustertesting.MakeTask("master", 1).
		DependsOnReady("worker").Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)))
	s.admit(job)
	s.awaitPod("mpi-worker-1")
	s.Pods(2, "the workers are there", s.live)
	s.PodsStay(2, "the master waits", s.live)
	s.run("mpi-worker-0", "mpi-worker-1", "mpi-master-0")
	s.JobPhase(s.name("mpi"), batchv1alpha1.Running)
	s.succeed("mpi-master-0")
	s.reap(2)
	s.JobPhase(s.name("mpi"), batchv1alpha1.Completed)
}
