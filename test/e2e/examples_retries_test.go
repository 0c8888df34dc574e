package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// restarted are the phases of a Job that was restarted once.
var restarted = []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting,
	batchv1alpha1.Pending, batchv1alpha1.Running}

// TestExampleOfRestartingWholeJobs: the whole Job restarts if any pod fails or is evicted.
func TestExampleOfRestartingWholeJobs(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(*harness.Story){
		"a worker fails":      func(s *harness.Story) { s.EndPod("tf-job-worker-3", 137) },
		"the ps fails":        func(s *harness.Story) { s.EndPod("tf-job-ps-0", 1) },
		"a worker is evicted": func(s *harness.Story) { s.DeletePod("tf-job-worker-0") },
		"the ps is evicted":   func(s *harness.Story) { s.DeletePod("tf-job-ps-0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, "110")
			job := s.ApplyFile(example("tf-job-restarts"), neverAgain)
			s.JobPhase(job, batchv1alpha1.Running)
			before := s.Pods(6, "all pods run", s.In(harness.Running))
			happens(s)
			s.JobPhases(job, restarted...)
			expectNewRun(t, s, before)
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfSpark: the whole Job restarts with its driver; if an executor fails, its container is started again.
func TestExampleOfSpark(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*harness.Story, []watchlog.Pod) {
		t.Parallel()
		s := harness.New(t)
		slots(s, "110")
		job := s.ApplyFile(example("spark-job-restarts"), neverAgain)
		s.JobPhase(job, batchv1alpha1.Running)
		return s, s.Pods(6, "all pods run", s.In(harness.Running))
	}
	job := func(s *harness.Story) string { return s.Name("spark-job").Name }
	t.Run("an executor fails", func(t *testing.T) {
		s, before := start(t)
		uid := s.Pod("spark-job-executor-2").UID
		s.EndPod("spark-job-executor-2", 1)
		s.Soon("its container is started again", func() bool {
			statuses := s.Pod("spark-job-executor-2").Status.ContainerStatuses
			return len(statuses) > 0 && statuses[0].RestartCount > 0
		}, func() any { return s.Pod("spark-job-executor-2").Status })
		assert.Equal(t, uid, s.Pod("spark-job-executor-2").UID)
		assert.Equal(t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, watchlog.Phases(s.Log.JobStates(s.Name(job(s)))))
		assert.Len(t, s.Log.PodsOf(s.Name(job(s))), len(before), "no pod is made anew")
	})
	t.Run("an executor is evicted", func(t *testing.T) {
		s, before := start(t)
		s.DeletePod("spark-job-executor-2")
		s.Pods(7, "a pod takes its place", s.In(harness.Of(job(s))))
		s.Pods(6, "all run again", s.In(harness.Running))
		kept := 0
		for _, pod := range s.Log.Pods(s.In(harness.Running)) {
			for _, old := range before {
				if old.UID == pod.UID {
					kept++
				}
			}
		}
		assert.Equal(t, 5, kept, "the others run on")
		assert.Zero(t, s.Log.Job(s.Name(job(s))).Retries)
	})
	for name, happens := range map[string]func(*harness.Story){
		"the driver fails":      func(s *harness.Story) { s.EndPod("spark-job-driver-0", 1) },
		"the driver is evicted": func(s *harness.Story) { s.DeletePod("spark-job-driver-0") },
	} {
		t.Run(name, func(t *testing.T) {
			s, before := start(t)
			happens(s)
			s.JobPhases(s.Name(job(s)), restarted...)
			expectNewRun(t, s, before)
		})
	}
}

// TestExampleOfMPI: a Job for a scheduler that does not exist says so. With the scheduler, it restarts with its plugins when a pod is
// evicted.
func TestExampleOfMPI(t *testing.T) {
	t.Parallel()
	t.Run("as written", func(t *testing.T) {
		t.Parallel()
		s := harness.New(t)
		job := s.ApplyFile(example("mpi-job"))
		s.Event("Job", job, func(e watchlog.Event) bool {
			return e.Reason == "SchedulerNotServed" && strings.Contains(e.Message, `"scheduler"`)
		})
	})
	t.Run("with the scheduler of the later edition", func(t *testing.T) {
		t.Parallel()
		s := harness.New(t)
		slots(s, "110")
		job := s.ApplyFile(example("mpi-job"), func(job *batchv1alpha1.Job) { job.Spec.SchedulerName = "volcano" })
		s.JobPhase(job, batchv1alpha1.Running)
		before := s.Pods(3, "all pods run", s.In(harness.Running))
		s.DeletePod("mpi-job-mpiworker-1")
		s.JobPhases(job, restarted...)
		expectNewRun(t, s, before)
		pod := s.Pod("mpi-job-mpimaster-0")
		assert.Equal(t, "mpi-job", pod.Spec.Subdomain, "svc works in the new run")
		variables := map[string]bool{}
		for _, variable := range pod.Spec.Containers[0].Env {
			variables[variable.Name] = true
		}
		assert.Contains(t, variables, "VC_MPIWORKER_HOSTS", "svc works in the new run")
		assert.Contains(t, variables, "VK_TASK_INDEX", "env works in the new run")
		secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(s.Ctx, "mpi-job-ssh", metav1.GetOptions{})
		require.NoError(t, err)
		mounted := false
		for _, volume := range pod.Spec.Volumes {
			mounted = mounted || volume.Secret != nil && volume.Secret.SecretName == secret.Name
		}
		assert.True(t, mounted, "ssh works in the new run")
	})
}

// TestExampleOfRetries: maxRetry bounds how often the Job runs.
func TestExampleOfRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change change
		runs   int
	}{
		"as written":    {change: func(*batchv1alpha1.Job) {}, runs: 5},
		"without limit": {change: func(job *batchv1alpha1.Job) { job.Spec.MaxRetry = 0 }, runs: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, "110")
			job := s.ApplyFile(example("job-retry-example"), ends("worker", 500*time.Millisecond, 1), c.change)
			s.JobPhase(job, batchv1alpha1.Failed)
			versions := map[string]int{}
			for _, pod := range s.Log.PodsOf(job) {
				versions[pod.Version]++
			}
			assert.Len(t, versions, c.runs)
			for version, pods := range versions {
				assert.Equal(t, 3, pods, "pods of run %s", version)
			}
			status := s.Job(job).Status
			assert.EqualValues(t, c.runs, status.RetryCount)
			assert.Equal(t, "MaxRetryReached", status.State.Reason)
			assert.Contains(t, status.State.Message, fmt.Sprintf("the Job has run %d times, maxRetry is %d", c.runs, c.runs))
			assert.Contains(t, status.State.Message, "failed with exit code 1")
			require.Empty(t, watchlog.StatusViolations(s.Log.JobStates(job)))
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfRetriesForSuccess: one pod of a Job that needs two successes succeeds, and two fail. A policy gives it another run, which
// counts anew; without one it has failed. Two successes are enough whatever becomes of the third pod.
func TestExampleOfRetriesForSuccess(t *testing.T) {
	t.Parallel()
	needsTwo := func(job *batchv1alpha1.Job) { two := int32(2); job.Spec.MinSuccess = &two }
	start := func(t *testing.T, changes ...change) (*harness.Story, types.NamespacedName, []watchlog.Pod) {
		t.Parallel()
		s := harness.New(t)
		slots(s, "110")
		job := s.ApplyFile(example("job-retry-example"), append(changes, needsTwo)...)
		s.JobPhase(job, batchv1alpha1.Running)
		return s, job, s.Pods(3, "all pods run", s.In(harness.Running))
	}
	succeeded := func(s *harness.Story, job types.NamespacedName, pod string) {
		s.EndPod(pod, 0)
		s.Soon("one has succeeded", func() bool { return s.Log.Job(job).Succeeded == 1 }, func() any { return s.Log.JobStates(job) })
	}
	t.Run("with the policy", func(t *testing.T) {
		s, job, before := start(t)
		succeeded(s, job, "job-retry-example-worker-0")
		failTogether(s, before[1:]...)
		s.JobPhases(job, restarted...)
		expectNewRun(t, s, before)
		assert.EqualValues(t, 1, s.Job(job).Status.RetryCount)

		succeeded(s, job, "job-retry-example-worker-1")
		s.Stays("successes of the last run do not count", func() bool { return s.Log.Job(job).Phase == batchv1alpha1.Running },
			func() any { return s.Log.JobStates(job) })
		s.EndPod("job-retry-example-worker-2", 0)
		s.JobPhases(job, append(append([]batchv1alpha1.JobPhase{}, restarted...), batchv1alpha1.Completing, batchv1alpha1.Completed)...)
		status := s.Job(job).Status
		assert.Equal(t, "MinSuccessReached", status.State.Reason)
		assert.EqualValues(t, 2, status.Succeeded)
		assert.EqualValues(t, 1, status.RetryCount)
	})
	t.Run("without a policy", func(t *testing.T) {
		s, job, before := start(t, func(job *batchv1alpha1.Job) { job.Spec.Policies = nil })
		succeeded(s, job, before[0].Name)
		s.EndPod(before[1].Name, 1)
		s.EndPod(before[2].Name, 1)
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Failed)
		status := s.Job(job).Status
		assert.Equal(t, "PodsFailed", status.State.Reason)
		assert.Equal(t, "1 of 3 pods have succeeded, minSuccess is 2; pod job-retry-example-worker-1 failed with exit code 1", status.State.Message)
		assert.Zero(t, status.RetryCount)
		s.PodsStay(3, "no pod is made anew", s.In(harness.Of(job.Name)))
	})
	t.Run("while a pod cannot be scheduled", func(t *testing.T) {
		s, job, before := start(t)
		cordon(s, before[2].Node)
		s.DeletePod(before[2].Name)
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Pending)
		succeeded(s, job, before[0].Name)
		s.EndPod(before[1].Name, 0)
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Pending, batchv1alpha1.Completing, batchv1alpha1.Completed)
		assert.Equal(t, "MinSuccessReached", s.Job(job).Status.State.Reason)
		s.Pods(0, "nothing waits any more", s.In(harness.Live))
		s.PodsStay(0, "nothing waits any more", s.In(harness.Live))
	})
}

// failTogether writes the failure of pods as their kubelets do, one right after the other. The answer to the first must not
// come before the second. A pod that is already gone is left alone.
func failTogether(s *harness.Story, pods ...watchlog.Pod) {
	s.T.Helper()
	for _, pod := range pods {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Failed"}}`, pod.UID)
		_, err := s.Kube.CoreV1().Pods(pod.Namespace).Patch(s.Ctx, pod.Name, types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "status")
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			require.NoError(s.T, err, "failing pod %s", pod.Name)
		}
	}
}

// TestExampleOfTaskRetries: the whole Job restarts with its master; a worker that fails restarts the workers alone. Both are
// runs: the third failure is the last.
func TestExampleOfTaskRetries(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.ApplyFile(example("task-retry-example"))
	s.JobPhase(job, batchv1alpha1.Running)
	master := s.Pods(1, "the master runs", s.In(harness.Running, harness.OfTask("master")))[0]
	s.Pods(3, "the workers run", s.In(harness.Running, harness.OfTask("worker")))

	s.EndPod("task-retry-example-worker-1", 3)
	s.JobPhases(job, restarted...)
	s.Pods(6, "the workers are made anew", s.In(harness.OfTask("worker")))
	s.Pods(3, "they run", s.In(harness.Running, harness.OfTask("worker")))
	assert.Equal(t, master.UID, s.Pod(master.Name).UID, "the master runs on")
	before := s.Pods(4, "all run", s.In(harness.Running))

	s.EndPod(master.Name, 3)
	phases := append(append([]batchv1alpha1.JobPhase{}, restarted...), restarted[2:]...)
	s.JobPhases(job, phases...)
	expectNewRun(t, s, before)
	assert.EqualValues(t, 2, s.Job(job).Status.RetryCount)

	s.EndPod("task-retry-example-worker-2", 3)
	s.JobPhases(job, append(phases, batchv1alpha1.Restarting, batchv1alpha1.Failed)...)
	status := s.Job(job).Status
	assert.Equal(t, "MaxRetryReached", status.State.Reason)
	assert.Contains(t, status.State.Message, "the Job has run 3 times, maxRetry is 3")
	assert.EqualValues(t, 3, status.RetryCount)
	s.Pods(0, "nothing runs any more", s.In(harness.Live))
	s.PodsStay(0, "and nothing comes", s.In(harness.Live))
}

// TestExampleOfTimeouts: pods that are pending for too long abort the Job, and it can be resumed.
func TestExampleOfTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("as written", func(t *testing.T) {
		t.Parallel()
		s := harness.New(t)
		slots(s, "2")
		job := s.ApplyFile(example("timeout-retry-example"))
		s.Event("Job", job, func(e watchlog.Event) bool {
			return e.Reason == "ExecuteAction" && e.Message == "Execute action AbortJob after 1h0m0s"
		})
		s.Stays("the Job waits", func() bool { return s.Log.Job(job).Phase == batchv1alpha1.Pending }, func() any { return s.Log.JobStates(job) })
	})
	t.Run("with less patience", func(t *testing.T) {
		t.Parallel()
		s := harness.New(t)
		slots(s, "2")
		job := s.ApplyFile(example("timeout-retry-example"), func(job *batchv1alpha1.Job) {
			job.Spec.Policies[0].Timeout = &metav1.Duration{Duration: 8 * time.Second}
		})
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Aborting, batchv1alpha1.Aborted)
		assert.Equal(t, "PodPending", s.Job(job).Status.State.Reason)
		s.Pods(0, "its pods are gone", s.In(func(p watchlog.Pod) bool { return p.Gone.IsZero() }))

		slots(s, "1")
		s.Command(job, busv1alpha1.ResumeJobAction)
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Aborting, batchv1alpha1.Aborted, batchv1alpha1.Pending, batchv1alpha1.Running)
		s.Pods(3, "all pods run", s.In(harness.Running))
		assert.Zero(t, s.Job(job).Status.RetryCount)
	})
}

// TestTimeoutsOfEvictions: an eviction is answered only if no pod has taken the place of the evicted one in time.
func TestTimeoutsOfEvictions(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	start := func(name string) types.NamespacedName {
		job := s.CreateJob(mustertesting.MakeJob(name).MinAvailable(1).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")).
			LifecyclePolicy(batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodEvictedEvent, Action: busv1alpha1.TerminateJobAction,
				Timeout: &metav1.Duration{Duration: 5 * time.Second}}))
		s.JobPhase(job, batchv1alpha1.Running)
		s.Pods(2, "all its pods run", s.In(harness.Running, harness.Of(name)))
		return job
	}
	evict := func(job types.NamespacedName) {
		s.DeletePod(job.Name + "-worker-1")
		s.Event("Job", job, func(e watchlog.Event) bool {
			return e.Reason == "ExecuteAction" && e.Message == "Execute action TerminateJob after 5s"
		})
	}
	replaced, lost := start("replaced"), start("lost")

	evict(replaced)
	s.Pods(3, "a pod takes the place", s.In(harness.Of("replaced")))
	s.Pods(2, "it runs", s.In(harness.Running, harness.Of("replaced")))
	cordon(s, s.Pods(2, "both run", s.In(harness.Running, harness.Of("lost")))[0].Node)
	evict(lost)
	s.JobPhases(lost, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Terminating, batchv1alpha1.Terminated)
	assert.Equal(t, "PodEvicted", s.Job(lost).Status.State.Reason)
	s.Pods(0, "nothing of it runs any more", s.In(harness.Live, harness.Of("lost")))
	s.PodsStay(0, "nothing of it runs any more", s.In(harness.Live, harness.Of("lost")))

	// Its five seconds began earlier, so that they are over now, too.
	s.Stays("the other runs on", func() bool { return s.Log.Job(replaced).Phase == batchv1alpha1.Running },
		func() any { return s.Log.JobStates(replaced) })
	s.JobPhases(replaced, batchv1alpha1.Pending, batchv1alpha1.Running)
	assert.Empty(t, s.Job(replaced).Status.Delayed)
}

// cordon takes a node out of use for new pods.
func cordon(s *harness.Story, name string) {
	s.T.Helper()
	patch := []byte(`{"spec":{"unschedulable":true}}`)
	_, err := s.Kube.CoreV1().Nodes().Patch(s.Ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(s.T, err)
}

// TestTheEventTaskFailed: containers of a task were started again too often.
func TestTheEventTaskFailed(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.CreateJob(mustertesting.MakeJob("job").Task(mustertesting.MakeTask("worker", 2).MaxRetry(1).
		RestartPolicy(corev1.RestartPolicyOnFailure).Policy(busv1alpha1.TaskFailedEvent, busv1alpha1.TerminateJobAction)))
	s.JobPhase(job, batchv1alpha1.Running)
	s.Pods(2, "both run", s.In(harness.Running))
	s.EndPod("job-worker-1", 1)
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Terminating, batchv1alpha1.Terminated)
	assert.Equal(t, "TaskFailed", s.Job(job).Status.State.Reason)
}

// TestTheEventUnknown: part of the gang runs, and the rest cannot be scheduled any more.
func TestTheEventUnknown(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(3, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").Policy(busv1alpha1.JobUnknownEvent, busv1alpha1.AbortJobAction).
		Task(mustertesting.MakeTask("worker", 3).Requests("cpu", "3")))
	s.JobPhase(job, batchv1alpha1.Running)
	lost := s.Pods(3, "all run", s.In(harness.Running))[0]
	cordon(s, lost.Node)
	s.DeletePod(lost.Name)
	s.JobPhase(job, batchv1alpha1.Aborted)
	assert.Equal(t, "Unknown", s.Job(job).Status.State.Reason)
	s.Pods(0, "nothing runs any more", s.In(harness.Live))
	s.PodsStay(0, "nothing runs any more", s.In(harness.Live))
}
