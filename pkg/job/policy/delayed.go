package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// Bounds of the delayed events in a status. The number of entries is the maximum of the schema, and the other bound is for all bytes.
const (
	maxDelayed      = 200
	maxDelayedBytes = 64 << 10
	leastEntry      = 100 // bytes of an entry beside its indexes and the name of its task
)

// DelayedEvents is what has happened and will be answered later, with the time that each timeout counts from. It stands in
// the Job's status, so that deadlines outlive the controller and the pods.
type DelayedEvents map[eventKey]time.Time

// eventKey tells one delayed event from another.
type eventKey struct {
	event    busv1alpha1.Event
	task     int
	index    int32
	exitCode int32
}

func keyOf(h Event) eventKey { return eventKey{h.Type, h.Task, h.Index, h.ExitCode} }

// ReadDelayed reads status.delayed of a Job. Entries about tasks or pods that the Job has not any more are dropped, and so are unreadable
// ones.
func ReadDelayed(spec *batchv1alpha1.JobSpec, written []batchv1alpha1.DelayedEvent) DelayedEvents {
	delayed := DelayedEvents{}
	for i := range written {
		entry := &written[i]
		one := eventKey{event: entry.Event, task: -1, index: -1, exitCode: entry.ExitCode}
		if entry.Task != "" {
			one.task = slices.IndexFunc(spec.Tasks, func(t batchv1alpha1.TaskSpec) bool { return t.Name == entry.Task })
			if one.task < 0 {
				continue
			}
		}
		if entry.Indexes == "" {
			delayed[one] = entry.Since.Time
			continue
		}
		if one.task < 0 {
			continue
		}
		for index := range readSet(entry.Indexes, spec.Tasks[one.task].Replicas).All() {
			one.index = index
			delayed[one] = entry.Since.Time
		}
	}
	return delayed
}

// DelayedBy returns the events that the delays are about. A pod that is pending says itself since when.
func DelayedBy(delays []Delay) DelayedEvents {
	delayed := DelayedEvents{}
	for _, d := range delays {
		if d.Cause.Type != busv1alpha1.PodPendingEvent {
			delayed[keyOf(d.Cause)] = d.Cause.Since
		}
	}
	return delayed
}

// Write returns the events for status.delayed, nil if there is none. Pods with the same event at the same time share an entry. If there are
// very many different times, some are rounded up, so that the status stays bounded. Their timeouts pass a little later, and none later than
// the last. If that is not enough, exit codes that no policy names are dropped. Entries that still do not fit are dropped, the latest
// first.
func (a DelayedEvents) Write(spec *batchv1alpha1.JobSpec) []batchv1alpha1.DelayedEvent {
	if entries, fits := a.fit(spec); fits {
		return entries
	}
	named := a.withNamedCodes(spec)
	if entries, fits := named.fit(spec); fits {
		return entries
	}
	return withinBounds(recordGroups(spec, named.together().group(time.Second)))
}

// fit returns the entries with times as exact as there is room for. It is false if there is none even if each kind of event has one time.
func (a DelayedEvents) fit(spec *batchv1alpha1.JobSpec) ([]batchv1alpha1.DelayedEvent, bool) {
	for step := time.Second; step <= max(a.spread(), time.Second); step *= 2 {
		groups := a.group(step)
		if len(groups) > maxDelayed {
			continue
		}
		if kept := withinBounds(recordGroups(spec, groups)); len(kept) == len(groups) {
			return kept, true
		}
	}
	entries := recordGroups(spec, a.together().group(time.Second))
	return entries, len(withinBounds(entries)) == len(entries)
}

// spread is the time from the first of the events to the last.
func (a DelayedEvents) spread() time.Duration {
	var first, last time.Time
	for _, since := range a {
		if first.IsZero() || since.Before(first) {
			first = since
		}
		if since.After(last) {
			last = since
		}
	}
	return last.Sub(first)
}

// together merges the events of each kind, for all pods. They get the time of the last one.
func (a DelayedEvents) together() DelayedEvents {
	kind := func(one eventKey) eventKey {
		one.index = min(one.index, 0)
		return one
	}
	last := DelayedEvents{}
	for one, since := range a {
		if since.After(last[kind(one)]) {
			last[kind(one)] = since
		}
	}
	told := make(DelayedEvents, len(a))
	for one := range a {
		told[one] = last[kind(one)]
	}
	return told
}

// withNamedCodes tells the events without the exit codes that no policy names. To the policies all of these are the same.
func (a DelayedEvents) withNamedCodes(spec *batchv1alpha1.JobSpec) DelayedEvents {
	named := map[int32]bool{}
	note := func(policies []batchv1alpha1.LifecyclePolicy) {
		for i := range policies {
			if code := policies[i].ExitCode; code != nil {
				named[*code] = true
			}
		}
	}
	note(spec.Policies)
	for i := range spec.Tasks {
		note(spec.Tasks[i].Policies)
	}
	told := make(DelayedEvents, len(a))
	for one, since := range a {
		if !named[one.exitCode] {
			one.exitCode = 0
		}
		if latest, found := told[one]; !found || since.After(latest) {
			told[one] = since
		}
	}
	return told
}

// withinBounds returns as many of the entries as a status may have, nil if there is none.
func withinBounds(entries []batchv1alpha1.DelayedEvent) []batchv1alpha1.DelayedEvent {
	size := 0
	for i := range entries {
		size += leastEntry + len(entries[i].Task) + len(entries[i].Indexes)
		if i == maxDelayed || size > maxDelayedBytes {
			return entries[:i]
		}
	}
	return entries
}

// moment is the content of one entry of the status, shared by pods of a task. Its index is -1 or, if it is about pods, 0.
type moment struct {
	eventKey
	since int64
}

func (a DelayedEvents) group(step time.Duration) map[moment][]int32 {
	groups := map[moment][]int32{}
	for one, since := range a {
		index := one.index
		one.index = min(index, 0)
		key := moment{one, since.Add(step - ClockUnit).Truncate(step).Unix()}
		groups[key] = append(groups[key], index)
	}
	return groups
}

func recordGroups(spec *batchv1alpha1.JobSpec, groups map[moment][]int32) []batchv1alpha1.DelayedEvent {
	order := slices.SortedFunc(maps.Keys(groups), func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.task, b.task), cmp.Compare(a.event, b.event),
			cmp.Compare(a.index, b.index), cmp.Compare(a.exitCode, b.exitCode))
	})
	var entries []batchv1alpha1.DelayedEvent
	for _, key := range order {
		entry := batchv1alpha1.DelayedEvent{
			Event:    key.event,
			Indexes:  indexes.Of(groups[key]...).String(),
			ExitCode: key.exitCode,
			Since:    metav1.Unix(key.since, 0),
		}
		if key.task >= 0 {
			entry.Task = spec.Tasks[key.task].Name
		}
		entries = append(entries, entry)
	}
	return entries
}

// Merge returns what has happened now together with what is to be answered later and still stands. If an event happened before, and again,
// the first time counts. An event without a time happened now, and so did one with a time in the future. The node's clock
// is ahead.
func (a DelayedEvents) Merge(job *batchv1alpha1.Job, tasks []Task, seen []Event, now time.Time) []Event {
	// The status tells times in whole seconds: one look must see the same as the next.
	now = now.Truncate(time.Second)
	known := make(map[eventKey]bool, len(seen))
	all := make([]Event, 0, len(seen)+len(a))
	for _, h := range seen {
		since, waits := a[keyOf(h)]
		switch {
		case waits && h.Type != busv1alpha1.PodPendingEvent:
			h.Since = since
		case h.Since.IsZero(), h.Since.After(now):
			h.Since = now
		}
		known[keyOf(h)] = true
		all = append(all, h)
	}
	for one, since := range a {
		if !known[one] && stands(tasks, one) {
			all = append(all, remember(job, tasks, one, since))
		}
	}
	slices.SortStableFunc(all, inOrder)
	return all
}

// stands says whether the cause of a delayed answer still holds, for causes that cannot be seen any more later. An evicted pod has no
// running successor, a failed one has not been replaced, or a task is still complete.
func stands(tasks []Task, one eventKey) bool {
	if one.event == busv1alpha1.JobUpdatedEvent {
		return true
	}
	if one.task < 0 {
		return false
	}
	task := &tasks[one.task]
	switch one.event {
	case busv1alpha1.PodEvictedEvent:
		return !task.Record.Succeeded.Has(one.index) && !hasRun(task.Pods[one.index])
	case busv1alpha1.PodFailedEvent:
		return task.Record.Failed.Has(one.index)
	case busv1alpha1.TaskCompletedEvent:
		return task.Record.hasCompleted(task.Spec)
	default:
		return false
	}
}

// hasRun tells whether a pod is one that was made, and has run, since the one before it was evicted.
func hasRun(pod *corev1.Pod) bool {
	return pod != nil && (pod.Status.Phase == corev1.PodRunning || IsFinished(pod) && !IsEvicted(pod))
}

// remember tells again what has happened.
func remember(job *batchv1alpha1.Job, tasks []Task, one eventKey, since time.Time) Event {
	h := Event{Type: one.event, Task: one.task, Index: one.index, ExitCode: one.exitCode, Since: since, Remembered: true}
	var task *batchv1alpha1.TaskSpec
	name := ""
	if one.task >= 0 {
		task = tasks[one.task].Spec
	}
	if one.index >= 0 {
		h.Pod = tasks[one.task].Pods[one.index]
		name = PodName(job.Name, task.Name, one.index)
	}
	switch one.event {
	case busv1alpha1.PodEvictedEvent:
		h.Message = "pod " + name + " was evicted, and no pod of its name has run since"
	case busv1alpha1.PodFailedEvent:
		h.Message = failure(name, one.exitCode)
		if one.exitCode == 0 { // it is not told
			h.Message = "pod " + name + " failed"
		}
	case busv1alpha1.TaskCompletedEvent:
		h.Message = completion(task)
	case busv1alpha1.JobUpdatedEvent:
		h.Message = specChanged
	}
	return h
}
