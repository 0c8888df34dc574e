package policy

import (
	"fmt"
	"slices"
	"time"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// Targets are the pods that a restart of less than the whole Job is about.
type Targets struct {
	// Tasks are the positions of the tasks that are restarted whole.
	Tasks map[int]bool
	// Pods are the indexes, by position of their task, that are restarted one by one.
	Pods map[int]*indexes.Set
}

// Has tells whether the pod of that task and index is a target.
func (t *Targets) Has(task int, index int32) bool {
	return t.Tasks[task] || t.Pods[task] != nil && t.Pods[task].Has(index)
}

// Decision is what a policy wants done.
type Decision struct {
	// Action to take.
	Action busv1alpha1.Action
	// Cause is the event that the policy answers.
	Cause Event
	// Policy is the path of the policy in the Job.
	Policy string
	// Targets are the pods of a restart of less than the whole Job; empty for the other actions.
	Targets Targets
	// Others are the further events that were to be answered now. Where their answers do not add to this one, it has made them needless, or
	// stands in their way.
	Others []Event

	timeout time.Duration
}

// Delay is an answer whose time has not come.
type Delay struct {
	// Cause is the event that will be answered if nothing changes.
	Cause Event
	// Action that will be taken.
	Action busv1alpha1.Action
	// Timeout is how long after the event, at least.
	Timeout time.Duration
	// Due is when: never before the timeout has passed, and at most a second later.
	Due time.Time
	// PutOff says that it is not time that the answer waits for. It is a restart, and nothing can start now.
	PutOff bool
}

// Reason is a word for status and events: the event that is answered.
func (d *Decision) Reason() string { return string(d.Cause.Type) }

// Message says to people what happened and which policy answers it.
func (d *Decision) Message() string {
	return fmt.Sprintf("%s; %s: %s", d.Cause.Message, d.Policy, d.Action)
}

// byWeight lists the actions from the weightiest on. If several actions answer what is seen at once, the weightiest makes the others
// needless. The restarts of less than the Job add up. Resuming is for a Job without pods, and blocks no other action.
var byWeight = []busv1alpha1.Action{
	busv1alpha1.TerminateJobAction,
	busv1alpha1.AbortJobAction,
	busv1alpha1.CompleteJobAction,
	busv1alpha1.RestartJobAction,
	busv1alpha1.RestartTaskAction,
	busv1alpha1.RestartPartitionAction,
	busv1alpha1.RestartPodAction,
	busv1alpha1.ResumeJobAction,
}

// IsRestart tells whether the answer will start pods anew.
func (d Delay) IsRestart() bool { return isRestart(d.Action) }

func isRestart(action busv1alpha1.Action) bool {
	switch action {
	case busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPartitionAction, busv1alpha1.RestartPodAction:
		return true
	default:
		return false
	}
}

// Decide asks the policies about each event. It returns the answer, nil if there is none now, and the answers whose time has not come. For
// each event the policies of its task are asked first, then the policies of the Job. The first that matches answers.
func Decide(spec *batchv1alpha1.JobSpec, events []Event, now time.Time) (*Decision, []Delay) {
	return decide(spec, events, now, false)
}

// DecideWithoutRestarts decides while no pod can be started: answers that restart pods are put off, whatever the time.
func DecideWithoutRestarts(spec *batchv1alpha1.JobSpec, events []Event, now time.Time) (*Decision, []Delay) {
	return decide(spec, events, now, true)
}

// ClockUnit is what the times of the API are cut to. An event at 10.9 s has the time 10 s. A pause that counts from it lasts that much
// longer, so that it is never too short.
const ClockUnit = time.Second

func decide(spec *batchv1alpha1.JobSpec, events []Event, now time.Time, withoutRestarts bool) (*Decision, []Delay) {
	var answer *Decision
	var answered []Event
	var delays []Delay
	targets := Targets{Tasks: map[int]bool{}, Pods: map[int]*indexes.Set{}}
	for _, h := range events {
		next := ask(spec, h)
		if next == nil {
			continue
		}
		due, putOff := h.Since.Add(next.timeout+ClockUnit), withoutRestarts && isRestart(next.Action)
		if putOff || next.timeout > 0 && now.Before(due) {
			delays = append(delays, Delay{h, next.Action, next.timeout, due, putOff})
			continue
		}
		if !targets.include(spec, next) {
			continue
		}
		answered = append(answered, h)
		if answer == nil || weight(next.Action) < weight(answer.Action) {
			answer = next
		}
	}
	if answer != nil {
		answer.Others = slices.DeleteFunc(answered, func(h Event) bool { return keyOf(h) == keyOf(answer.Cause) })
	}
	if answer != nil && weight(answer.Action) >= weight(busv1alpha1.RestartTaskAction) {
		answer.Targets = targets
	}
	return answer, delays
}

func weight(action busv1alpha1.Action) int { return slices.Index(byWeight, action) }

// include adds the pods that a decision is about. It returns false if the decision can do nothing. Its action is not one for policies, or
// it names no pod, partition or task where one is needed.
func (t *Targets) include(spec *batchv1alpha1.JobSpec, d *Decision) bool {
	switch d.Action {
	case busv1alpha1.RestartTaskAction:
		if d.Cause.Task < 0 {
			return false
		}
		t.Tasks[d.Cause.Task] = true
		return true
	case busv1alpha1.RestartPodAction:
		if d.Cause.Task < 0 || d.Cause.Index < 0 {
			return false
		}
		t.add(d.Cause.Task, d.Cause.Index, d.Cause.Index)
		return true
	case busv1alpha1.RestartPartitionAction:
		if d.Cause.Task < 0 || d.Cause.Index < 0 || spec.Tasks[d.Cause.Task].PartitionPolicy == nil {
			return false
		}
		first, last := Partition(&spec.Tasks[d.Cause.Task], d.Cause.Index)
		t.add(d.Cause.Task, first, last)
		return true
	default:
		return weight(d.Action) >= 0
	}
}

// add adds the pods of a task from the first to the last index.
func (t *Targets) add(task int, first, last int32) {
	if t.Pods[task] == nil {
		t.Pods[task] = &indexes.Set{}
	}
	t.Pods[task].AddRange(first, last)
}

// PartitionID returns the number of the partition that the index of a task with partitions belongs to.
func PartitionID(task *batchv1alpha1.TaskSpec, index int32) int32 {
	return index / max(task.PartitionPolicy.PartitionSize, 1)
}

// Partition returns the first and the last index of the partition that the index belongs to.
func Partition(task *batchv1alpha1.TaskSpec, index int32) (first, last int32) {
	size := max(task.PartitionPolicy.PartitionSize, 1)
	first = PartitionID(task, index) * size
	return first, min(first+size, task.Replicas) - 1
}

// ask returns the answer of the first policy that matches, or nil.
func ask(spec *batchv1alpha1.JobSpec, h Event) *Decision {
	if h.Task >= 0 {
		if d := first(spec.Tasks[h.Task].Policies, fmt.Sprintf("spec.tasks[%d].policies", h.Task), h); d != nil {
			return d
		}
	}
	return first(spec.Policies, "spec.policies", h)
}

func first(policies []batchv1alpha1.LifecyclePolicy, path string, h Event) *Decision {
	for i := range policies {
		if matches(&policies[i], h) {
			d := &Decision{Action: policies[i].Action, Cause: h, Policy: fmt.Sprintf("%s[%d]", path, i)}
			if policies[i].Timeout != nil {
				d.timeout = policies[i].Timeout.Duration
			}
			return d
		}
	}
	return nil
}

// matches tells whether a policy answers an event. It does so by exit code, by name, or by "*" if the event is a failure.
func matches(p *batchv1alpha1.LifecyclePolicy, h Event) bool {
	if p.ExitCode != nil {
		return h.Type == busv1alpha1.PodFailedEvent && h.ExitCode == *p.ExitCode
	}
	return names(p, h.Type) || names(p, busv1alpha1.AnyEvent) && isFailure(h.Type)
}

// Asks tells whether one of the policies names the event.
func Asks(policies []batchv1alpha1.LifecyclePolicy, event busv1alpha1.Event) bool {
	return slices.ContainsFunc(policies, func(p batchv1alpha1.LifecyclePolicy) bool { return names(&p, event) })
}

// AnswersEvictions tells whether any of a Job's policies answers that a pod is evicted.
func AnswersEvictions(spec *batchv1alpha1.JobSpec) bool {
	answers := func(p batchv1alpha1.LifecyclePolicy) bool {
		return matches(&p, Event{Type: busv1alpha1.PodEvictedEvent})
	}
	return slices.ContainsFunc(spec.Policies, answers) || slices.ContainsFunc(spec.Tasks, func(task batchv1alpha1.TaskSpec) bool {
		return slices.ContainsFunc(task.Policies, answers)
	})
}

func names(p *batchv1alpha1.LifecyclePolicy, event busv1alpha1.Event) bool {
	return p.Event == event || slices.Contains(p.Events, event)
}

// isFailure tells whether "*" matches the event.
func isFailure(event busv1alpha1.Event) bool {
	switch event {
	case busv1alpha1.PodFailedEvent, busv1alpha1.PodEvictedEvent, busv1alpha1.TaskFailedEvent, busv1alpha1.JobUnknownEvent:
		return true
	default:
		return false
	}
}
