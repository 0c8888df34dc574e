// Package dependency says which tasks of a Job may run now (dependsOn), and how much of the Job that is. It is pure.
package dependency

import (
	"fmt"
	"slices"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
)

// Task is how far a task has come in the current incarnation.
type Task struct {
	// Succeeded and Failed are the numbers of its pods that have.
	Succeeded, Failed int32
	// Ready is the number of its pods that run and are Ready.
	Ready int32
	// Started says that at least one of its pods was created.
	Started bool
	// Lost is the number of its pods that have failed for good: none comes in their place.
	Lost int32
}

// Stage is the part of a Job that may run now. A Job whose tasks do not wait for each other is one stage.
type Stage struct {
	// Open tells for each task of the spec whether its pods may be created.
	Open []bool
	// Replicas is the number of pods of the open tasks, finished ones included.
	Replicas int32
	// MinAvailable is the effective minimum: the Job's own, or all of Replicas if that is less.
	MinAvailable int32
	// WaitsFor is for each task of the spec the names of the tasks that it waits for. It is nil for an open one.
	WaitsFor [][]string
	// Lost is for each task of the spec the number of its pods that none comes for any more.
	Lost []int32
}

// StageOf works out the stage. The spec has its defaults filled in. tasks are its tasks in order; byDefault is what is
// waited for where dependsOn does not say.
//
// A task that has started stays open: its condition was met, and may change again.
func StageOf(spec *batchv1alpha1.JobSpec, tasks []Task, byDefault batchv1alpha1.DependencyCondition) Stage {
	stage := Stage{Open: make([]bool, len(spec.Tasks)), WaitsFor: make([][]string, len(spec.Tasks)), Lost: make([]int32, len(spec.Tasks))}
	for i := range spec.Tasks {
		stage.Lost[i] = tasks[i].Lost
		if !tasks[i].Started {
			stage.WaitsFor[i] = waitsFor(spec, tasks, spec.Tasks[i].DependsOn, byDefault)
		}
		if len(stage.WaitsFor[i]) == 0 {
			stage.Open[i] = true
			stage.Replicas += spec.Tasks[i].Replicas
		}
	}
	stage.MinAvailable = min(spec.MinAvailable, stage.Replicas)
	return stage
}

// waitsFor returns the tasks that a task waits for; nil if it may start.
func waitsFor(spec *batchv1alpha1.JobSpec, tasks []Task, on *batchv1alpha1.DependsOn, byDefault batchv1alpha1.DependencyCondition) []string {
	if on == nil {
		return nil
	}
	condition := on.Condition
	if condition == "" {
		condition = byDefault
	}
	isMet := func(name string) bool {
		i := slices.IndexFunc(spec.Tasks, func(t batchv1alpha1.TaskSpec) bool { return t.Name == name })
		if i < 0 {
			return false
		}
		if condition == batchv1alpha1.DependencyReady {
			return isReady(&spec.Tasks[i], tasks[i])
		}
		return isCompleted(&spec.Tasks[i], tasks[i])
	}
	if on.Iteration == batchv1alpha1.IterationAny && slices.ContainsFunc(on.Name, isMet) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(on.Name), isMet)
}

// Waiting says to people which task waits for which: the first one that does, and how many more do. It is empty if none waits.
func (s Stage) Waiting(spec *batchv1alpha1.JobSpec) string {
	first, more := -1, 0
	for i := range s.WaitsFor {
		switch {
		case len(s.WaitsFor[i]) == 0:
		case first < 0:
			first = i
		default:
			more++
		}
	}
	if first < 0 {
		return ""
	}
	others := ""
	if n := len(s.WaitsFor[first]) - 1; n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	said := fmt.Sprintf("task %s waits for task %s%s", spec.Tasks[first].Name, s.WaitsFor[first][0], others)
	if more > 0 {
		said += fmt.Sprintf("; tasks that wait beside it: %d", more)
	}
	return said
}

// isCompleted tells whether all pods of a task have finished, and enough of them well.
func isCompleted(spec *batchv1alpha1.TaskSpec, t Task) bool {
	return t.Succeeded+t.Failed >= spec.Replicas && t.Succeeded >= *spec.MinAvailable
}

// isReady tells whether the minimum of a task runs and is ready, or has succeeded.
func isReady(spec *batchv1alpha1.TaskSpec, t Task) bool {
	return t.Ready+t.Succeeded >= *spec.MinAvailable
}

// Whole is the stage as if no pod were lost.
func (s Stage) Whole() Stage {
	s.Lost = make([]int32, len(s.Lost))
	return s
}

// Gang returns the Job's spec as its gang has to know it in this stage. Tasks that may not run yet have no pods and no minimum, and no
// pods are lost. Otherwise the remaining pods, or new ones for evicted pods, would wait for ever. It is to be read only: it
// shares with the argument all that is the same.
func (s Stage) Gang(spec *batchv1alpha1.JobSpec) *batchv1alpha1.JobSpec {
	isLost := func(n int32) bool { return n > 0 }
	if !slices.ContainsFunc(s.Lost, isLost) && !slices.Contains(s.Open, false) {
		return spec
	}
	part := *spec
	part.Tasks = slices.Clone(spec.Tasks)
	// Minimums of tasks bind if the Job's is at least their sum. Minimums that did not bind must not begin to.
	bind := spec.MinAvailable >= defaults.TasksMinAvailable(spec)
	for i := range part.Tasks {
		task := &part.Tasks[i]
		if !s.Open[i] {
			task.Replicas = 0
		}
		task.Replicas = max(0, task.Replicas-s.Lost[i])
		if bind {
			least := min(*task.MinAvailable, task.Replicas)
			task.MinAvailable = &least
		}
	}
	part.MinAvailable = min(s.MinAvailable, defaults.Replicas(&part))
	return &part
}
