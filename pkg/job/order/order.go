// Package order says in which order the pods of a Job are created: the order in which its gang starts. It is pure.
package order

import (
	"cmp"
	"slices"
	"time"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
)

// Timeout is how long refused pods hold back the creation of pods of lower priorities. It outlasts a webhook or an API
// server that restarts. A ResourceQuota may refuse pods for ever.
const Timeout = 10 * time.Second

// Priorities returns the priority of the pods of each task. valueOf returns the value of a PriorityClass, and for "" that of pods that name
// none.
func Priorities(spec *batchv1alpha1.JobSpec, valueOf func(class string) int32) []int32 {
	priorities := make([]int32, len(spec.Tasks))
	for i := range spec.Tasks {
		priorities[i] = valueOf(cmp.Or(spec.Tasks[i].Template.Spec.PriorityClassName, spec.PriorityClassName))
	}
	return priorities
}

// ByPriority returns the positions of tasks with these priorities, the highest first.
func ByPriority(priorities []int32) []int {
	order := make([]int, len(priorities))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(priorities[b], priorities[a]) })
	return order
}

// Minimum returns how many pods of each task belong to the Job's minimum, in the given order of tasks. If the minimums of the tasks fit into
// the Job's, they come first, and the rest is filled in order. Otherwise they do not bind, and the minimum is filled in order alone.
func Minimum(spec *batchv1alpha1.JobSpec, order []int) []int32 {
	counts := make([]int32, len(order))
	left := spec.MinAvailable
	take := func(n int, most int32) {
		taken := min(left, most)
		counts[n] += taken
		left -= taken
	}
	if tasksBind(spec) {
		for n, position := range order {
			take(n, *spec.Tasks[position].MinAvailable)
		}
	}
	for n, position := range order {
		take(n, spec.Tasks[position].Replicas-counts[n])
	}
	return counts
}

// tasksBind says whether the minimums of the tasks fit into the Job's.
func tasksBind(spec *batchv1alpha1.JobSpec) bool {
	return spec.MinAvailable >= defaults.TasksMinAvailable(spec)
}

// Classes cuts a list of pods, given by their tasks, into runs of one priority. It returns where each run ends. A gang starts as soon as enough
// of its pods exist. So the pods of a run are created before those of the next.
func Classes(tasks []int, priorities []int32) []int {
	var ends []int
	for n := range tasks {
		if n+1 == len(tasks) || priorities[tasks[n]] != priorities[tasks[n+1]] {
			ends = append(ends, n+1)
		}
	}
	return ends
}

// CanStartWithout says whether the minimum of a gang can start without some pods. tasks has the task of each.
func CanStartWithout(spec *batchv1alpha1.JobSpec, tasks []int) bool {
	left := make([]int32, len(spec.Tasks))
	for i := range spec.Tasks {
		left[i] = spec.Tasks[i].Replicas
	}
	for _, position := range tasks {
		left[position]--
	}
	bind, sum := tasksBind(spec), int32(0)
	for i, n := range left {
		if bind && n < *spec.Tasks[i].MinAvailable {
			return false
		}
		sum += n
	}
	return sum >= spec.MinAvailable
}
