// Package policy decides what a Job does about events of its pods. It does not react to single notifications. It computes the events from
// what is seen now and what has been handled before (Record). So a lost, late or repeated notification leads to the same result. It is
// pure: it looks at nothing but its arguments.
package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/text"
)

// Task is what is seen, and what is remembered, of a task's pods in the current incarnation.
type Task struct {
	// Spec of the task, with its defaults filled in.
	Spec *batchv1alpha1.TaskSpec
	// Pods by index: pods of the current incarnation that Muster itself does not want to be gone.
	Pods map[int32]*corev1.Pod
	// Record of what has been dealt with. Its indexes are smaller than the task's replicas.
	Record Record
}

// Event is something that has happened to a Job and has not been dealt with yet.
type Event struct {
	// Type is what a policy may answer.
	Type busv1alpha1.Event
	// Task is the position of the task in the Job's spec; -1 if the Job as a whole is concerned.
	Task int
	// Index of the pod in its task; -1 if no single pod is concerned.
	Index int32
	// Pod that it happened to, as last seen; nil if it is gone or if no single pod is concerned.
	Pod *corev1.Pod
	// ExitCode of the first container that failed, for PodFailed.
	ExitCode int32
	// Since is when it happened: a policy's timeout counts from it. Zero means now.
	Since time.Time
	// Remembered says that it was seen before, and that its answer has been put off.
	Remembered bool
	// Message says to people what has happened.
	Message string
}

// Whole is what is seen of a Job as a whole.
type Whole struct {
	// Unknown tells that part of the gang runs while the rest cannot be scheduled.
	Unknown bool
	// Updated tells that the user has changed the spec.
	Updated bool
}

// specChanged is what there is to say about JobUpdated.
const specChanged = "the spec was changed"

// Observe returns what has happened, failures first, each in the order of tasks and indexes.
func Observe(job *batchv1alpha1.Job, tasks []Task, whole Whole) []Event {
	var all []Event
	for i := range tasks {
		all = append(all, podEvents(job.Name, i, &tasks[i])...)
		all = append(all, taskEvents(i, &tasks[i])...)
		if pending := busv1alpha1.PodPendingEvent; Asks(job.Spec.Policies, pending) || Asks(tasks[i].Spec.Policies, pending) {
			all = append(all, waits(i, &tasks[i])...)
		}
	}
	if whole.Unknown {
		all = append(all, Event{Type: busv1alpha1.JobUnknownEvent, Task: -1, Index: -1,
			Message: "part of the gang runs and the rest cannot be scheduled"})
	}
	if whole.Updated {
		all = append(all, Event{Type: busv1alpha1.JobUpdatedEvent, Task: -1, Index: -1, Message: specChanged})
	}
	slices.SortStableFunc(all, inOrder)
	return all
}

// inOrder orders events: by event, then by task and index.
func inOrder(a, b Event) int {
	return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Index, b.Index))
}

// rank orders the events: the most specific one is answered first.
func rank(event busv1alpha1.Event) int {
	return slices.Index([]busv1alpha1.Event{
		busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent, busv1alpha1.TaskFailedEvent,
		busv1alpha1.TaskCompletedEvent, busv1alpha1.JobUnknownEvent, busv1alpha1.JobUpdatedEvent, busv1alpha1.PodPendingEvent,
	}, event)
}

// podEvents returns the failures and evictions of a task's pods that have not been dealt with.
func podEvents(jobName string, position int, task *Task) []Event {
	var found []Event
	for index := range task.Spec.Replicas {
		pod := task.Pods[index]
		if task.Record.Finished(index) {
			continue
		}
		h := Event{Task: position, Index: index, Pod: pod}
		switch {
		case pod == nil && task.Record.Created.Has(index):
			h.Type = busv1alpha1.PodEvictedEvent
			h.Message = fmt.Sprintf("pod %s was deleted", PodName(jobName, task.Spec.Name, index))
		case pod == nil || HasSucceeded(pod):
			continue
		case IsEvicted(pod):
			h.Type, h.Message = busv1alpha1.PodEvictedEvent, fmt.Sprintf("pod %s was evicted%s", pod.Name, disruption(pod))
		case pod.Status.Phase == corev1.PodFailed:
			h.Type, h.ExitCode, h.Since = busv1alpha1.PodFailedEvent, exitCode(pod), failedAt(pod)
			h.Message = failure(pod.Name, h.ExitCode)
		default:
			continue
		}
		found = append(found, h)
	}
	return found
}

// Failure says to people how a failed pod ended.
func Failure(pod *corev1.Pod) string { return failure(pod.Name, exitCode(pod)) }

func failure(pod string, exitCode int32) string {
	return fmt.Sprintf("pod %s failed with exit code %d", pod, exitCode)
}

// IsEvicted says, by a pod's conditions, whether another client has removed it before it had done its work. A pod that is killed that way
// also ends, well or not, and whichever is seen first must not matter.
func IsEvicted(pod *corev1.Pod) bool {
	return !EndedByItself(pod) && (pod.DeletionTimestamp != nil || IsFinished(pod))
}

// EndedByItself tells whether a pod has come to its end, good or bad, without having been told to go. The marks of a failed pod that is
// being removed do not say which came first, so it has not.
func EndedByItself(pod *corev1.Pod) bool {
	return HasSucceeded(pod) || pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil && disruptionOf(pod) == nil
}

// HasSucceeded tells whether a pod has done its work: it has succeeded, and was not deleted before its end. Many programs that receive
// SIGTERM exit with 0 though their work is not done.
func HasSucceeded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded && !wasToldToGo(pod)
}

// wasToldToGo tells whether a pod that has ended was told to go before. The API server gives only pods that have not ended a time of grace
// to end in. It is 0 again when a kubelet has the pod removed; clients that evict pods mark them before.
func wasToldToGo(pod *corev1.Pod) bool {
	if grace := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp != nil && (grace == nil || *grace > 0) {
		return true
	}
	mark := disruptionOf(pod)
	return mark != nil && !mark.LastTransitionTime.After(endedAt(pod))
}

// endedAt returns when the last container of a pod that has ended did so. If none says so, later than anything that is known of the pod.
func endedAt(pod *corev1.Pod) time.Time {
	var latest time.Time
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(latest) {
			latest = ended.FinishedAt.Time
		}
	}
	if latest.IsZero() {
		return failedAt(pod)
	}
	return latest
}

func disruptionOf(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func disruption(pod *corev1.Pod) string {
	if c := disruptionOf(pod); c != nil && c.Reason != "" {
		return " (" + c.Reason + ")"
	}
	return ""
}

// exitCode returns the exit code of the first container of a failed pod that failed; 0 if none says so.
func exitCode(pod *corev1.Pod) int32 {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if ended := statuses[i].State.Terminated; ended != nil && ended.ExitCode != 0 {
				return ended.ExitCode
			}
		}
	}
	return 0
}

// failedAt returns when a failed pod's last container ended, or else the latest thing that is known of the pod.
func failedAt(pod *corev1.Pod) time.Time {
	latest := pod.CreationTimestamp.Time
	note := func(at time.Time) {
		if at.After(latest) {
			latest = at
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil {
			note(ended.FinishedAt.Time)
		}
	}
	for i := range pod.Status.Conditions {
		note(pod.Status.Conditions[i].LastTransitionTime.Time)
	}
	return latest
}

// waits returns the pods of a task that wait to run.
func waits(position int, task *Task) []Event {
	var found []Event
	for index := range task.Spec.Replicas {
		pod := task.Pods[index]
		if pod == nil || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			continue
		}
		found = append(found, Event{
			Type: busv1alpha1.PodPendingEvent, Task: position, Index: index, Pod: pod, Since: pod.CreationTimestamp.Time,
			Message: fmt.Sprintf("pod %s has been pending since %s", pod.Name, pod.CreationTimestamp.UTC().Format(time.RFC3339)),
		})
	}
	return found
}

// taskEvents returns what happened to a task as a whole.
func taskEvents(position int, task *Task) []Event {
	var found []Event
	if restarts := restartsOf(task); restarts >= task.Spec.MaxRetry && restarts > 0 {
		found = append(found, Event{Type: busv1alpha1.TaskFailedEvent, Task: position, Index: -1,
			Message: fmt.Sprintf("containers of task %s were restarted %s", task.Spec.Name, text.Count(int(restarts), "time"))})
	}
	if hasCompleted(task) {
		found = append(found, Event{Type: busv1alpha1.TaskCompletedEvent, Task: position, Index: -1,
			Message: completion(task.Spec)})
	}
	return found
}

func completion(task *batchv1alpha1.TaskSpec) string {
	if task.Replicas == 1 {
		return "the only pod of task " + task.Name + " has succeeded"
	}
	return fmt.Sprintf("all %d pods of task %s have succeeded", task.Replicas, task.Name)
}

// restartsOf returns how often the containers of the task's live pods were restarted.
func restartsOf(task *Task) int32 {
	var restarts int32
	for _, pod := range task.Pods {
		if pod.DeletionTimestamp != nil || IsFinished(pod) {
			continue
		}
		for i := range pod.Status.InitContainerStatuses {
			restarts += pod.Status.InitContainerStatuses[i].RestartCount
		}
		for i := range pod.Status.ContainerStatuses {
			restarts += pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	return restarts
}

// hasCompleted tells whether all of a task's replicas have succeeded and had not when the policies were last asked. There may
// be fewer replicas than there were then.
func hasCompleted(task *Task) bool {
	if task.Record.Completed || task.Spec.Replicas == 0 {
		return false
	}
	succeeded := task.Record.Succeeded.Len()
	for index, pod := range task.Pods {
		if HasSucceeded(pod) && !task.Record.Finished(index) {
			succeeded++
		}
	}
	return succeeded >= task.Spec.Replicas
}

// IsFinished tells whether a pod has succeeded or failed.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodName returns the name of the pod of a Job's task with that index.
func PodName(job, task string, index int32) string {
	return fmt.Sprintf("%s-%s-%d", job, task, index)
}
