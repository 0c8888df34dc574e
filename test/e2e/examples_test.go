package e2e

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// The tests named TestExample... play the examples in testdata/seeds, as the documents say that they go.

// example is the path of an example.
func example(name string) string { return filepath.Join("testdata", "seeds", name+".yaml") }

// change is a change to an example that the simulation needs, or that makes a story of it.
type change = func(*batchv1alpha1.Job)

// neverAgain lets pods end: with the default restart policy, which the examples have, their containers are started anew
// for ever.
func neverAgain(job *batchv1alpha1.Job) {
	for i := range job.Spec.Tasks {
		if spec := &job.Spec.Tasks[i].Template.Spec; spec.RestartPolicy == "" {
			spec.RestartPolicy = corev1.RestartPolicyNever
		}
	}
}

// ends lets the pods of a task end some time after their start.
func ends(task string, after time.Duration, code int) change {
	return func(job *batchv1alpha1.Job) {
		for i := range job.Spec.Tasks {
			if one := &job.Spec.Tasks[i]; task == "" || one.Name == task {
				one.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				metav1.SetMetaDataAnnotation(&one.Template.ObjectMeta, mustertesting.SimExitAfter, after.String())
				metav1.SetMetaDataAnnotation(&one.Template.ObjectMeta, mustertesting.SimExitCode, strconv.Itoa(code))
			}
		}
	}
}

// slots adds a node with room for so many pods, whatever they ask for: the examples ask for nothing.
func slots(s *harness.Story, pods string) {
	s.AddNodes(1, "cpu", "64", "nvidia.com/gpu", "8", "pods", pods)
}

// ensurePriorityClasses makes the classes that the examples name and do not define.
func ensurePriorityClasses(s *harness.Story) {
	for name, value := range map[string]int32{"master-pri": 1000, "high": 500} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := s.Kube.SchedulingV1().PriorityClasses().Create(s.Ctx, class, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			require.NoError(s.T, err)
		}
	}
}

// ensureQueue makes the queue that an example names and does not define.
func ensureQueue(s *harness.Story, name string) {
	queue := mustertesting.MakeQueue(name).Obj()
	if _, err := s.Muster.SchedulingV1beta1().Queues().Create(s.Ctx, queue, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		require.NoError(s.T, err)
	}
	require.Eventually(s.T, func() bool { return s.Queue(name).Status.State == schedulingv1beta1.QueueStateOpen },
		mustertesting.Timeout, 50*time.Millisecond, "queue %s is open", name)
}

func TestExampleOfSeveralPodTemplates(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	name := s.ApplyFile(example("tf-job"))
	s.JobPhase(name, batchv1alpha1.Running)
	images := map[string]int{}
	job := s.Job(name)
	for _, seen := range s.Pods(7, "all pods run", s.In(harness.Running)) {
		pod := s.Pod(seen.Name)
		assert.True(t, metav1.IsControlledBy(pod, job), "the controlling owner of pod %s is the Job", pod.Name)
		images[pod.Spec.Containers[0].Image]++
	}
	assert.Equal(t, map[string]int{"ps-img": 2, "worker-img": 5}, images)
	assert.EqualValues(t, 7, job.Status.MinAvailable, "by default the sum of all replicas")
}

func TestExampleOfMinimums(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct{ pods, minimum int }{
		"tf-job-gang":  {6, 6},
		"tf-training":  {5, 3},
		"mpi-launcher": {5, 5},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, map[int]string{6: "5", 5: "4", 3: "2"}[c.minimum])
			job := s.ApplyFile(example(file))
			s.Pods(c.pods, "all pods wait", s.In(harness.Unbound))
			s.PodsStay(0, "less than the minimum does not start", s.In(harness.Bound))
			slots(s, "1")
			s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
			s.Pods(c.minimum, "the minimum runs", s.In(harness.Running))
			s.PodsStay(c.pods-c.minimum, "the rest waits", s.In(harness.Unbound))
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfTaskPriority: three pods of one driver and five executors are enough. With room for three, the driver and two executors
// start, in whichever order the spec has the tasks.
func TestExampleOfTaskPriority(t *testing.T) {
	t.Parallel()
	for name, reorder := range map[string]change{
		"as written": func(*batchv1alpha1.Job) {},
		"executors first": func(job *batchv1alpha1.Job) {
			job.Spec.Tasks[0], job.Spec.Tasks[1] = job.Spec.Tasks[1], job.Spec.Tasks[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			ensurePriorityClasses(s)
			slots(s, "3")
			job := s.ApplyFile(example("spark-job-priority"), reorder)
			s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running)
			s.Pods(3, "three run", s.In(harness.Running))
			s.PodsStay(3, "three wait", s.In(harness.Unbound))
			assert.Len(t, s.Log.Pods(s.In(harness.Running, harness.OfTask("driver"))), 1)
			assert.Len(t, s.Log.Pods(s.In(harness.Running, harness.OfTask("executor"))), 2)
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfSharing: two Jobs that could each use all of the room both start; surplus shares the rest of the room.
func TestExampleOfSharing(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ensurePriorityClasses(s)
	slots(s, "0") // so that the Jobs have nodes of their own
	second := func(job *batchv1alpha1.Job) { job.Name = "spark-job-2" }
	a, b := s.ApplyFile(example("spark-job-priority")), s.ApplyFile(example("spark-job-priority"), second)
	// Once both are known to wait. Surplus of the first may start before the second has been looked at.
	judged := func(p watchlog.Pod) bool { return p.Waiting.Reason == corev1.PodReasonUnschedulable }
	s.Pods(12, "both wait: the first would take six places if it were alone", s.In(harness.Unbound, judged))
	slots(s, "8")
	s.JobPhase(a, batchv1alpha1.Running)
	s.Pods(8, "there is room for eight", s.In(harness.Running))
	for _, job := range []string{a.Name, b.Name} {
		started := len(s.Log.Pods(s.In(harness.Running, harness.Of(job))))
		assert.True(t, started == 0 || started >= 3, "%s runs with %d pods", job, started)
	}
	slots(s, "4")
	s.JobPhase(b, batchv1alpha1.Running)
	s.Pods(12, "there is room for all", s.In(harness.Running))
	s.WholeGangs(s.Namespace, window)
}

// TestExampleOfWhatBelongsToAJob: a Job has one PodGroup, which tells the scheduler of its tasks, and its pods.
func TestExampleOfWhatBelongsToAJob(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	name := s.ApplyFile(example("tensorflow-training"))
	s.JobPhase(name, batchv1alpha1.Running)
	job := s.Job(name)
	var pods []string
	for _, pod := range s.Pods(5, "all pods run", s.In(harness.Running)) {
		pods = append(pods, pod.Name)
	}
	assert.ElementsMatch(t, []string{"tensorflow-training-ps-0", "tensorflow-training-ps-1", "tensorflow-training-worker-0",
		"tensorflow-training-worker-1", "tensorflow-training-worker-2"}, pods)

	groupName := s.Name("tensorflow-training-" + string(job.UID))
	s.Soon("its PodGroup is Running", func() bool { return s.Log.Group(groupName).Phase == schedulingv1beta1.PodGroupRunning },
		func() any { return s.Log.Group(groupName) })
	groups, err := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, groups.Items, 1, "one PodGroup for a Job")
	group := groups.Items[0]
	assert.Equal(t, groupName.Name, group.Name)
	assert.True(t, metav1.IsControlledBy(&group, job), "the controlling owner of the PodGroup is the Job")
	assert.EqualValues(t, 4, group.Spec.MinMember)
	assert.Equal(t, map[string]int32{"ps": 2, "worker": 3}, group.Spec.MinTaskMember)
	assert.Equal(t, "default", group.Spec.Queue)
	s.WholeGangs(s.Namespace, window)
}

// TestExampleOfDistributedTraining plays the ways in which the Job of the deep dive goes on.
func TestExampleOfDistributedTraining(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*harness.Story, []watchlog.Pod) {
		t.Parallel()
		s := harness.New(t)
		ensurePriorityClasses(s)
		ensureQueue(s, "ai-training")
		slots(s, "110")
		job := s.ApplyFile(example("distributed-training"), neverAgain)
		s.JobPhase(job, batchv1alpha1.Running)
		return s, s.Pods(5, "all pods run", s.In(harness.Running))
	}
	t.Run("the parameter server is done", func(t *testing.T) {
		s, _ := start(t)
		s.EndPod("distributed-training-ps-0", 0)
		job := s.Name("distributed-training")
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed)
		assert.EqualValues(t, 1, s.Job(job).Status.Succeeded)
		s.Pods(0, "the workers are gone", s.In(harness.Live))
		s.PodsStay(0, "the workers are gone", s.In(harness.Live))
		s.Stays("the Job is kept for an hour", func() bool { return !s.Log.JobGone(job) }, func() any { return s.Log.JobStates(job) })
	})
	t.Run("it is deleted some time after its end", func(t *testing.T) {
		s, _ := start(t)
		job := s.Name("distributed-training")
		group := s.GroupOf(job).Name
		soon := int32(3)
		require.NoError(t, s.EditJob(job, func(job *batchv1alpha1.Job) { job.Spec.TTLSecondsAfterFinished = &soon }))
		s.EndPod("distributed-training-ps-0", 0)
		s.Soon("the Job is gone", func() bool { return s.Log.JobGone(job) }, func() any { return s.Log.JobStates(job) })
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed)
		s.Pods(0, "its pods are gone", s.In(func(p watchlog.Pod) bool { return p.Gone.IsZero() }))
		require.Eventually(t, func() bool {
			_, err := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).Get(s.Ctx, group, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, mustertesting.Timeout, 50*time.Millisecond, "its PodGroup is gone")
	})
	t.Run("it is scheduled with its queue and its priority", func(t *testing.T) {
		s, pods := start(t)
		group := s.GroupOf(s.Name("distributed-training"))
		assert.Equal(t, "ai-training", group.Spec.Queue)
		assert.Equal(t, "high", group.Spec.PriorityClassName)
		class, err := s.Kube.SchedulingV1().PriorityClasses().Get(s.Ctx, "high", metav1.GetOptions{})
		require.NoError(t, err)
		for _, seen := range pods {
			assert.Equal(t, "ai-training", seen.Queue, "queue of %s", seen.Name)
			pod := s.Pod(seen.Name)
			assert.Equal(t, "high", pod.Spec.PriorityClassName, "class of %s", pod.Name)
			require.NotNil(t, pod.Spec.Priority, "priority of %s", pod.Name)
			assert.Equal(t, class.Value, *pod.Spec.Priority, "priority of %s", pod.Name)
		}
	})
	t.Run("enough workers have succeeded", func(t *testing.T) {
		s, _ := start(t)
		s.EndPod("distributed-training-worker-1", 0)
		s.EndPod("distributed-training-worker-3", 0)
		job := s.Name("distributed-training")
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed)
		assert.Equal(t, "MinSuccessReached", s.Job(job).Status.State.Reason)
	})
	t.Run("a worker is evicted", func(t *testing.T) {
		s, before := start(t)
		s.DeletePod("distributed-training-worker-2")
		job := s.Name("distributed-training")
		s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running)
		expectNewRun(t, s, before)
		assert.EqualValues(t, 1, s.Job(job).Status.RetryCount)
	})
}

// expectNewRun waits until as many pods run as before, and checks that all of them are new.
func expectNewRun(t *testing.T, s *harness.Story, before []watchlog.Pod) {
	t.Helper()
	isNew := func(p watchlog.Pod) bool {
		for _, old := range before {
			if old.UID == p.UID {
				return false
			}
		}
		return true
	}
	s.Pods(len(before), "as many new pods run as before", s.In(harness.Running, isNew))
	s.Pods(len(before), "and no others", s.In(harness.Running))
}
