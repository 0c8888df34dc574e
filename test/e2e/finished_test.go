package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestAResumedJobRunsWhatFailedAgain: the gang is whole again, and succeeds.
func TestAResumedJobRunsWhatFailedAgain(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "3")
	job := s.CreateJob(mustertesting.MakeJob("resumed").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.AbortJobAction).
		Task(mustertesting.MakeTask("worker", 3).Requests("cpu", "1")))
	s.JobPhase(job, batchv1alpha1.Running)
	s.Pods(3, "all run", s.In(harness.Running))
	s.EndPod("resumed-worker-1", 1)
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting, batchv1alpha1.Aborted)

	s.Command(job, busv1alpha1.ResumeJobAction)
	s.Pods(3, "all run again", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	s.EndPod("resumed-worker-0", 0)
	s.EndPod("resumed-worker-1", 0)
	s.EndPod("resumed-worker-2", 0)
	s.JobPhase(job, batchv1alpha1.Completed)
	require.EqualValues(t, 3, s.Job(job).Status.Succeeded)
}

// TestAPipelineOutlivesTheObjectsOfItsFinishedPods: the gang of a later stage counts succeeded pods, also when their node and their objects
// are removed.
func TestAPipelineOutlivesTheObjectsOfItsFinishedPods(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "1")
	job := s.CreateJob(mustertesting.MakeJob("pipeline").Task(mustertesting.MakeTask("first", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("second", 3).DependsOn("first").Requests("cpu", "1")))
	s.Pods(1, "the first stage runs", s.In(harness.Running))
	s.EndPod("pipeline-first-0", 0)
	s.Pods(3, "the second waits for room", s.In(harness.OfTask("second")))
	require.NoError(t, s.Kube.CoreV1().Pods(s.Namespace).Delete(s.Ctx, "pipeline-first-0", metav1.DeleteOptions{}))
	s.Pods(0, "nothing is left of the first", s.In(harness.OfTask("first"), func(p watchlog.Pod) bool { return p.Gone.IsZero() }))

	s.AddNodes(1, "cpu", "2")
	s.Pods(3, "the second stage runs", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
}

// TestATaskThatDependsOnAnyOfOthersStarts: a failed task does not keep the gang of the remaining pods from starting.
func TestATaskThatDependsOnAnyOfOthersStarts(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("any").Task(mustertesting.MakeTask("a", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("b", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("c", 1).DependsOnAny("a", "b").Requests("cpu", "1")))
	s.Pods(2, "the first two run", s.In(harness.Running))
	s.EndPod("any-a-0", 1)
	s.PodsStay(0, "a failure starts nothing", s.In(harness.OfTask("c")))
	s.EndPod("any-b-0", 0)
	s.Pods(1, "a success is enough", s.In(harness.Running, harness.OfTask("c")))
	s.EndPod("any-c-0", 0)
	s.JobPhase(job, batchv1alpha1.Failed)
	require.EqualValues(t, 2, s.Job(job).Status.Succeeded)
}

// TestAMasterStartsWhenItsWorkersAreReady: the gang is the workers first, and then all.
func TestAMasterStartsWhenItsWorkersAreReady(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "1")
	job := s.CreateJob(mustertesting.MakeJob("mpi").Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("master", 1).DependsOnReady("worker").Requests("cpu", "1")))
	s.Pods(2, "the workers wait for room, both", s.In(harness.OfTask("worker")))
	s.PodsStay(0, "none starts alone", s.In(harness.Running))
	s.AddNodes(1, "cpu", "2")
	s.Pods(3, "all run", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	s.EndPod("mpi-master-0", 0)
	s.EndPod("mpi-worker-0", 0)
	s.EndPod("mpi-worker-1", 0)
	s.JobPhase(job, batchv1alpha1.Completed)
}
