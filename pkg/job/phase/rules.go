package phase

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/text"
)

// Reasons for phases that a Job reaches by itself.
const (
	// ReasonMinSuccessReached: minSuccess pods have succeeded.
	ReasonMinSuccessReached = "MinSuccessReached"
	// ReasonPodsSucceeded: all pods have finished and enough of them have succeeded.
	ReasonPodsSucceeded = "PodsSucceeded"
	// ReasonPodsFailed: all pods have finished and too few of them have succeeded.
	ReasonPodsFailed = "PodsFailed"
	// ReasonDependentTaskStarting: tasks whose dependencies have come about start, and their pods wait for room.
	ReasonDependentTaskStarting = "DependentTaskStarting"
	// ReasonTooManyPending: so many pods are pending that the rest is less than minAvailable.
	ReasonTooManyPending = "TooManyPodsPending"
	// ReasonDependencyFailed: all pods that may run have finished, and the remaining tasks can never start.
	ReasonDependencyFailed = "DependencyFailed"
	// ReasonMaxRetryReached: the Job has run maxRetry times.
	ReasonMaxRetryReached = "MaxRetryReached"
)

// Step is one step that a Job takes from one phase to another by itself.
type Step struct {
	// Next is the phase that is entered; the present one if the Job stays where it is.
	Next batchv1alpha1.JobPhase
	// Reason and Message say why, for the phases that need an explanation; otherwise the earlier ones stay.
	Reason, Message string
}

// Next returns the step that the counts of the status allow from its phase. The spec has its defaults filled in; the
// stage is the part of it that may run now. A Job that fails stays in its phase until no pod is left that could still do anything.
func Next(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	step := next(spec, stage, status)
	if step.Next == batchv1alpha1.Failed && livePods(status) > 0 {
		return Step{Next: status.State.Phase}
	}
	return step
}

func next(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	switch current := status.State.Phase; current {
	case "":
		return Step{Next: batchv1alpha1.Pending}
	case batchv1alpha1.Pending:
		return fromPending(spec, stage, status)
	case batchv1alpha1.Running:
		return fromRunning(spec, stage, status)
	case batchv1alpha1.Restarting:
		return fromRestarting(spec, status)
	case batchv1alpha1.Aborting:
		return onceGone(status, batchv1alpha1.Aborted)
	case batchv1alpha1.Completing:
		return onceGone(status, batchv1alpha1.Completed)
	case batchv1alpha1.Terminating:
		return onceGone(status, batchv1alpha1.Terminated)
	default:
		return Step{Next: current}
	}
}

// fromPending: a Job runs once its minimum runs or has succeeded. Failed pods do not help it there; if nothing but failed pods is left, it
// ends. Enough successes are enough here, too: all pods may have finished unseen, and the rest may be unable to start.
func fromPending(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	if status.Running+status.Succeeded >= stage.MinAvailable {
		return Step{Next: batchv1alpha1.Running}
	}
	if minSuccessReached(spec, status) {
		return success(spec, status)
	}
	if allFinished(stage, status) {
		return shortOfSuccess(spec, stage, status)
	}
	return Step{Next: batchv1alpha1.Pending}
}

// fromRunning: a Job ends when enough pods have succeeded or all have finished. It goes back to Pending when too many of its pods wait. A
// Job that is scaled to zero stays.
func fromRunning(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	switch {
	case stage.Replicas == 0:
		return Step{Next: batchv1alpha1.Running}
	case minSuccessReached(spec, status):
		return success(spec, status)
	case allFinished(stage, status):
		return shortOfSuccess(spec, stage, status)
	case status.Pending > stage.Replicas-stage.MinAvailable:
		return tooManyPending(spec, stage, status)
	default:
		return Step{Next: batchv1alpha1.Running}
	}
}

// tooManyPending is how a Job goes back to Pending. If that is only because a task starts that has waited for other tasks, it is no
// problem.
func tooManyPending(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	var starting []string
	others := status.Pending
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		if pending := status.TaskStatusCount[task.Name].Phase[corev1.PodPending]; isStarting(task, status) {
			starting = append(starting, task.Name)
			others -= pending
		}
	}
	if len(starting) > 0 && others <= stage.Replicas-stage.MinAvailable {
		return Step{batchv1alpha1.Pending, ReasonDependentTaskStarting, fmt.Sprintf(
			"%s: %s pending", describeStart(starting), text.Are(int(status.Pending), "pod"))}
	}
	return Step{batchv1alpha1.Pending, ReasonTooManyPending, fmt.Sprintf(
		"%d of %s pending, minAvailable is %d", status.Pending, text.Are(int(stage.Replicas), "pod"), stage.MinAvailable)}
}

// isStarting tells whether a task with dependencies has pods and all of them are pending.
func isStarting(task *batchv1alpha1.TaskSpec, status *batchv1alpha1.JobStatus) bool {
	phases := status.TaskStatusCount[task.Name].Phase
	return task.DependsOn != nil && len(task.DependsOn.Name) > 0 && len(phases) == 1 && phases[corev1.PodPending] > 0
}

func describeStart(tasks []string) string {
	if len(tasks) == 1 {
		return "task " + tasks[0] + " starts"
	}
	return fmt.Sprintf("tasks %s and %d more start", tasks[0], len(tasks)-1)
}

func minSuccessReached(spec *batchv1alpha1.JobSpec, status *batchv1alpha1.JobStatus) bool {
	return spec.MinSuccess != nil && status.Succeeded >= *spec.MinSuccess
}

// success is how a Job ends that has reached its minSuccess.
func success(spec *batchv1alpha1.JobSpec, status *batchv1alpha1.JobStatus) Step {
	return Step{completion(status), ReasonMinSuccessReached,
		fmt.Sprintf("%s succeeded, minSuccess is %d", text.Have(int(status.Succeeded), "pod"), *spec.MinSuccess)}
}

// fromRestarting: a Job out of runs fails; another waits for room to create its minimum anew.
func fromRestarting(spec *batchv1alpha1.JobSpec, status *batchv1alpha1.JobStatus) Step {
	if status.RetryCount >= spec.MaxRetry {
		return Step{batchv1alpha1.Failed, ReasonMaxRetryReached, outOfRuns(spec, status)}
	}
	if defaults.Replicas(spec)-status.Terminating >= spec.MinAvailable {
		return Step{Next: batchv1alpha1.Pending}
	}
	return Step{Next: batchv1alpha1.Restarting}
}

func outOfRuns(spec *batchv1alpha1.JobSpec, status *batchv1alpha1.JobStatus) string {
	message := fmt.Sprintf("the Job has run %s, maxRetry is %d", text.Count(int(status.RetryCount), "time"), spec.MaxRetry)
	if status.State.Message != "" {
		message += "; last: " + status.State.Message
	}
	return message
}

// onceGone: a phase that announces an end is left when no pod is left that could still do anything.
func onceGone(status *batchv1alpha1.JobStatus, end batchv1alpha1.JobPhase) Step {
	if livePods(status) > 0 {
		return Step{Next: status.State.Phase}
	}
	return Step{Next: end}
}

// livePods counts the pods that have not finished, or are still going.
func livePods(status *batchv1alpha1.JobStatus) int32 {
	return status.Terminating + status.Pending + status.Running + status.Unknown
}

func allFinished(stage dependency.Stage, status *batchv1alpha1.JobStatus) bool {
	return stage.Replicas > 0 && status.Succeeded+status.Failed >= stage.Replicas
}

// shortOfSuccess ends a Job whose runnable pods have all finished without reaching minSuccess.
func shortOfSuccess(spec *batchv1alpha1.JobSpec, stage dependency.Stage, status *batchv1alpha1.JobStatus) Step {
	count := fmt.Sprintf("%d of %s succeeded", status.Succeeded, text.Have(int(defaults.Replicas(spec)), "pod"))
	if i := slices.Index(stage.Open, false); i >= 0 {
		return Step{batchv1alpha1.Failed, ReasonDependencyFailed, fmt.Sprintf(
			"%s; task %s cannot start: its dependencies are not met and cannot be any more", count, spec.Tasks[i].Name)}
	}
	if spec.MinSuccess != nil { // it would have been enough, whatever the minimums
		return Step{batchv1alpha1.Failed, ReasonPodsFailed, fmt.Sprintf("%s, minSuccess is %d", count, *spec.MinSuccess)}
	}
	if task := taskShortOfSuccess(spec, status); task != nil {
		return Step{batchv1alpha1.Failed, ReasonPodsFailed, fmt.Sprintf("%s; task %s: %d have, its minAvailable is %d",
			count, task.Name, succeededOf(task, status), *task.MinAvailable)}
	}
	if status.Succeeded < spec.MinAvailable {
		return Step{batchv1alpha1.Failed, ReasonPodsFailed, fmt.Sprintf("%s, minAvailable is %d", count, spec.MinAvailable)}
	}
	return Step{completion(status), ReasonPodsSucceeded, count}
}

// completion is the phase of a Job that has done its work. Completed shows no pod that could still do anything, so
// that Completing comes before it while there are some.
func completion(status *batchv1alpha1.JobStatus) batchv1alpha1.JobPhase {
	if livePods(status) > 0 {
		return batchv1alpha1.Completing
	}
	return batchv1alpha1.Completed
}

// taskShortOfSuccess returns the first task of which fewer pods than its minimum have succeeded. The minimums of
// tasks bind only if the Job's own is at least their sum; otherwise it returns nil.
func taskShortOfSuccess(spec *batchv1alpha1.JobSpec, status *batchv1alpha1.JobStatus) *batchv1alpha1.TaskSpec {
	if spec.MinAvailable < defaults.TasksMinAvailable(spec) {
		return nil
	}
	for i := range spec.Tasks {
		if task := &spec.Tasks[i]; succeededOf(task, status) < *task.MinAvailable {
			return task
		}
	}
	return nil
}

func succeededOf(task *batchv1alpha1.TaskSpec, status *batchv1alpha1.JobStatus) int32 {
	return status.TaskStatusCount[task.Name].Phase[corev1.PodSucceeded]
}
