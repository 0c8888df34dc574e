package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
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

// expectInOrder checks from the record that no pod was created before all pods of the tasks that its own depends on had
// succeeded, and that all of them were.
func expectInOrder(t *testing.T, s *harness.Story, name types.NamespacedName) {
	t.Helper()
	for _, task := range s.Job(name).Spec.Tasks {
		pods := s.Log.Pods(s.In(harness.OfTask(task.Name)))
		assert.Len(t, pods, int(task.Replicas), "pods of task %s", task.Name)
		if task.DependsOn == nil {
			continue
		}
		for _, before := range task.DependsOn.Name {
			for _, first := range s.Log.Pods(s.In(harness.OfTask(before))) {
				for _, pod := range pods {
					assert.False(t, pod.Created.Before(first.Finished), "%s was created before %s had finished", pod.Name, first.Name)
				}
			}
		}
	}
}

// TestExampleOfAPipelineThatBreaks: what depends on a task that has failed does not start.
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

// TestExampleOfACircle: A depends on B, B on C and C on A.
func TestExampleOfACircle(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	job := s.ApplyFile(example("depends-on"), func(job *batchv1alpha1.Job) {
		for i, on := range []string{"task-b", "task-c", "task-a"} {
			job.Spec.Tasks[i].DependsOn = &batchv1alpha1.DependsOn{Name: []string{on}}
		}
	})
	state := s.JobReason(job, "Invalid")
	assert.Equal(t, batchv1alpha1.Pending, state.Phase)
	assert.Contains(t, state.Message, "task-a -> task-b -> task-c -> task-a")
	s.PodsStay(0, "no pod is created", s.In())
}
