package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestExampleOfDependencies: a task starts when all tasks that it depends on have completed, and the Job completes when
// all have.
func TestExampleOfDependencies(t *testing.T) {
	t.Parallel()
	for file, minimum := range map[string]int32{"depends-on": 6, "data-pipeline": 1, "ml-workflow": 1} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, "110")
			job := s.ApplyFile(example(file), ends("", 500*time.Millisecond, 0))
			// With the default minimum a Job is Pending again while a stage of it starts.
			s.JobPhase(job, batchv1alpha1.Running)
			s.JobPhase(job, batchv1alpha1.Completed)
			expectInOrder(t, s, job)
			status := s.Job(job).Status
			assert.Equal(t, minimum, status.MinAvailable)
			assert.Len(t, s.Log.PodsOf(job), int(status.Succeeded), "each pod ran once")
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// expectInOrder checks the order of the pods that fit, from the record. None was created before all pods of the tasks that its own task
// depends on had succeeded. There are as many pods as wanted, and all have succeeded.
func expectInOrder(t *testing.T, s *harness.Story, name types.NamespacedName, fits ...func(watchlog.Pod) bool) {
	t.Helper()
	podsOf := func(task string) []watchlog.Pod { return s.Log.Pods(s.In(append(fits, harness.OfTask(task))...)) }
	for _, task := range s.Job(name).Spec.Tasks {
		pods := podsOf(task.Name)
		assert.Len(t, pods, int(task.Replicas), "pods of task %s", task.Name)
		for _, pod := range pods {
			assert.Equal(t, corev1.PodSucceeded, pod.Phase, "phase of %s", pod.Name)
		}
		if task.DependsOn == nil {
			continue
		}
		for _, before := range task.DependsOn.Name {
			for _, first := range podsOf(before) {
				for _, pod := range pods {
					assert.False(t, pod.Created.Before(first.Finished), "%s was created before %s had finished", pod.Name, first.Name)
				}
			}
		}
	}
}

// TestExampleOfIndependentTasks: tasks without dependencies run at the same time. A task that depends on both waits until both have
// completed, whichever is first.
func TestExampleOfIndependentTasks(t *testing.T) {
	t.Parallel()
	roots := []string{"depends-on-task-a-0", "depends-on-task-b-0", "depends-on-task-b-1"}
	for name, order := range map[string][]int{"A completes first": {0, 1, 2}, "B completes first": {1, 2, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, "110")
			job := s.ApplyFile(example("depends-on"), func(job *batchv1alpha1.Job) { job.Spec.Tasks[1].DependsOn = nil })
			s.Pods(len(roots), "A and B run, and none of their pods has finished", s.In(harness.Running))
			for i, root := range order {
				s.PodsStay(0, fmt.Sprintf("C is not there after %d of %d pods", i, len(roots)), s.In(harness.OfTask("task-c")))
				s.EndPod(roots[root], 0)
			}
			for _, pod := range s.Pods(3, "C runs", s.In(harness.Running, harness.OfTask("task-c"))) {
				s.EndPod(pod.Name, 0)
			}
			s.JobPhase(job, batchv1alpha1.Completed)
			expectInOrder(t, s, job)
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfAPipelineThatBreaks: a task that depends on a failed task does not start.
func TestExampleOfAPipelineThatBreaks(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.ApplyFile(example("data-pipeline"), ends("data-collection", 500*time.Millisecond, 0), ends("data-preprocessing", 500*time.Millisecond, 1))
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Failed)
	assert.Empty(t, s.Log.Pods(s.In(harness.OfTask("model-training"))))
	state := s.Job(job).Status.State
	assert.Equal(t, "DependencyFailed", state.Reason)
	assert.Contains(t, state.Message, "model-training")
}

// TestExampleOfAPipelineThatIsRetried: with a policy the pipeline goes on at its failed middle task, or from its beginning. The last task
// waits for the new pods.
func TestExampleOfAPipelineThatIsRetried(t *testing.T) {
	t.Parallel()
	for action, want := range map[busv1alpha1.Action]struct{ collections, version int }{
		busv1alpha1.RestartTaskAction: {1, 0},
		busv1alpha1.RestartJobAction:  {2, 1},
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			slots(s, "110")
			job := s.ApplyFile(example("data-pipeline"), func(job *batchv1alpha1.Job) {
				job.Spec.Tasks[1].Policies = []batchv1alpha1.LifecyclePolicy{{Event: busv1alpha1.PodFailedEvent, Action: action}}
			}, ends("data-collection", 500*time.Millisecond, 0), ends("model-training", 500*time.Millisecond, 0))
			preprocessing := harness.OfTask("data-preprocessing")
			first := s.Pods(3, "the middle runs", s.In(harness.Running, preprocessing))
			s.EndPod(first[1].Name, 1)
			s.Pods(6, "the middle is made anew", s.In(preprocessing))
			second := s.Pods(3, "it runs again", s.In(harness.Running, preprocessing))
			assert.Len(t, s.Log.Pods(s.In(harness.OfTask("data-collection"))), want.collections, "pods of the beginning")
			for _, pod := range second {
				s.EndPod(pod.Name, 0)
			}
			s.JobPhases(job, append(slices.Clone(restarted), batchv1alpha1.Completed)...)
			expectInOrder(t, s, job, func(p watchlog.Pod) bool {
				return p.Version == strconv.Itoa(want.version) && p.Phase == corev1.PodSucceeded
			})
			assert.Len(t, s.Log.Pods(s.In(harness.OfTask("model-training"))), 2, "the end ran once")
			status := s.Job(job).Status
			assert.EqualValues(t, 1, status.RetryCount, "a restart, of the Job or of a part, is a run")
			assert.EqualValues(t, want.version, status.Version)
			s.WholeGangs(s.Namespace, window)
		})
	}
}

// TestExampleOfACircle: A depends on B, B on C and C on A.
func TestExampleOfACircle(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	job := s.ReadJob(example("depends-on"))
	job.Namespace = s.Namespace
	for i, on := range []string{"task-b", "task-c", "task-a"} {
		job.Spec.Tasks[i].DependsOn = &batchv1alpha1.DependsOn{Name: []string{on}}
	}
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
	require.ErrorContains(t, err, "spec.tasks: job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)")
	assert.ErrorContains(t, err, "task-a, task-b, task-c; remove one of the dependencies")
}
