package job_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

func TestJobRunsToItsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("tf").Task(mustertesting.MakeTask("ps", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "2")))

	s.JobPhase(s.name("tf"), batchv1alpha1.Pending)
	group := s.group(job)
	assert.Equal(t, int32(3), group.Spec.MinMember)
	assert.Equal(t, map[string]int32{"ps": 1, "worker": 2}, group.Spec.MinTaskMember)
	assert.Equal(t, s.namespace, group.Spec.Queue)
	assert.Equal(t, "5", group.Spec.MinResources.Cpu().String())
	assert.True(t, metav1.IsControlledBy(group, job))
	s.PodsStay(0, "no pod before the PodGroup is admitted", s.live)

	s.admit(job)
	s.Pods(3, "all pods", s.live)
	pod := s.awaitPod("tf-worker-1")
	assert.Equal(t, "muster", pod.Spec.SchedulerName)
	assert.Equal(t, group.Name, pod.Annotations[schedulingv1beta1.GroupNameAnnotation])
	assert.Equal(t, "0", pod.Annotations[batchv1alpha1.JobVersionKey])
	assert.Equal(t, "1", pod.Labels[batchv1alpha1.TaskIndexKey])

	s.run("tf-ps-0", "tf-worker-0", "tf-worker-1")
	s.JobPhase(s.name("tf"), batchv1alpha1.Running)
	s.succeed("tf-ps-0", "tf-worker-0", "tf-worker-1")
	s.JobPhases(s.name("tf"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)

	status := s.get("tf").Status
	assert.Equal(t, int32(3), status.Succeeded)
	assert.Equal(t, int32(2), status.TaskStatusCount["worker"].Phase[corev1.PodSucceeded])
	assert.NotNil(t, status.StartTime)
	assert.NotNil(t, status.CompletionTime)
	assert.NotNil(t, status.RunningDuration)
	s.Pods(3, "finished pods are kept", s.live)
	s.Soon("the PodGroup of a finished Job is gone", func() bool {
		_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Get(t.Context(), group.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, func() any { return group.Name })
}

func TestRestartJobRunsMaxRetryTimes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(2).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)

	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-1", 3)
	s.JobPhase(s.name("j"), batchv1alpha1.Restarting)
	state := log.Job(s.name("j"))
	assert.Equal(t, "PodFailed", state.Reason)
	assert.Equal(t, "pod j-a-1 failed with exit code 3; spec.policies[0]: RestartJob", state.Message)
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "ExecuteAction" && e.Message == "Start to execute action RestartJob: pod j-a-1 failed with exit code 3; spec.policies[0]: RestartJob"
	})
	s.reap(1)

	s.run("j-a-0", "j-a-1")
	assert.Equal(t, "1", s.pod("j-a-0").Annotations[batchv1alpha1.JobVersionKey])
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-0", 3)
	s.reap(1)
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending,
		batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Failed)
	status := s.get("j").Status
	assert.Equal(t, int32(2), status.RetryCount)
	assert.Equal(t, "MaxRetryReached", status.State.Reason)
	assert.Equal(t, corev1.PodFailed, s.pod("j-a-0").Status.Phase, "the last failed pod is kept")
	assert.Empty(t, watchlog.StatusViolations(log.JobStates(s.name("j"))), "it is Failed when no pod is left")
	assert.Equal(t, 2, s.created("j-a-0"))
}

func TestEvictionTerminatesTheJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction).
		Task(mustertesting.MakeTask("a", 3)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.evict("j-a-2")
	s.reap(3)
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Terminating, batchv1alpha1.Terminated)
	assert.Equal(t, "PodEvicted", log.Job(s.name("j")).Reason)
	s.Pods(0, "no pod is left", s.live)
}

func TestAbortJobKeepsFinishedPods(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).
		Task(mustertesting.MakeTask("b", 1).Policy(busv1alpha1.AnyEvent, busv1alpha1.AbortJobAction)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-b-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-b-0", 1)
	s.reap(2)
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting, batchv1alpha1.Aborted)
	s.Pods(1, "the failed pod is kept", s.live)
}

func TestCompleteJobWhenATaskHasCompleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).
		Task(mustertesting.MakeTask("worker", 2).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)))
	s.admit(job)
	s.run("j-ps-0", "j-worker-0", "j-worker-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-worker-0", "j-worker-1")
	s.reap(1)
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed)
	assert.Equal(t, int32(2), s.get("j").Status.Succeeded)
}

func TestControllerRestartChangesNothing(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 4)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2", "j-a-3")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.Soon("all pods are remembered", func() bool {
		records := s.get("j").Status.TaskRecords
		return len(records) == 1 && records[0].Created == "0-3"
	}, func() any { return s.get("j").Status })

	whileDown(func() {})
	before := s.get("j").ResourceVersion
	s.PodsStay(4, "a new controller leaves the pods alone", s.live)
	assert.Equal(t, before, s.get("j").ResourceVersion)
}

// TestEvictionWhileTheControllerIsDown: a pod that goes while no controller runs still counts as evicted.
func TestEvictionWhileTheControllerIsDown(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.Soon("all pods are remembered", func() bool {
		records := s.get("j").Status.TaskRecords
		return len(records) == 1 && records[0].Created == "0-1"
	}, func() any { return s.get("j").Status })

	whileDown(func() {
		pod := s.pod("j-a-0")
		require.True(t, s.forceDelete(t.Context(), pod))
	})
	s.JobPhase(s.name("j"), batchv1alpha1.Restarting)
	assert.Equal(t, "pod j-a-0 was deleted; spec.policies[0]: RestartJob", log.Job(s.name("j")).Message)
	s.reap(1)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
}

// TestAFinishedPodThatIsRemovedDoesNotRunAgain: pods are removed as soon as they have ended, before the controller has looked.
func TestAFinishedPodThatIsRemovedDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const pods = 30
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).MinSuccess(pods/2).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction).
		Task(mustertesting.MakeTask("a", pods)))
	s.admit(job)
	for i := range pods {
		s.run(fmt.Sprintf("j-a-%d", i))
	}
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	for i := range pods {
		name := fmt.Sprintf("j-a-%d", i)
		pod := s.pod(name)
		if i%2 == 0 {
			s.fail(name, 7)
		} else {
			s.succeed(name)
		}
		require.True(t, s.forceDelete(t.Context(), pod), name)
	}
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	status := s.get("j").Status
	assert.Equal(t, int32(pods/2), status.Succeeded)
	for i := range pods {
		assert.Equal(t, 1, s.created(fmt.Sprintf("j-a-%d", i)), "pod %d runs once", i)
	}
}
