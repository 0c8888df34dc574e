package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func twoTasks() *batchv1alpha1.Job {
	return mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)).Task(mustertesting.MakeTask("b", 2)).Obj()
}

// The status holds what is delayed, together what happened together.
func TestPendingActionsAreInTheStatus(t *testing.T) {
	job, at := twoTasks(), time.Unix(1000, 0)
	since := func(event busv1alpha1.Event, task int, index, exitCode int32, at time.Time) Delay {
		return Delay{Cause: Event{Type: event, Task: task, Index: index, ExitCode: exitCode, Since: at}}
	}
	delayed := DelayedBy([]Delay{
		since(busv1alpha1.PodEvictedEvent, 0, 0, 0, at),
		since(busv1alpha1.PodEvictedEvent, 0, 2, 0, at),
		since(busv1alpha1.PodEvictedEvent, 0, 1, 0, at.Add(time.Second)),
		since(busv1alpha1.PodFailedEvent, 1, 1, 7, at),
		since(busv1alpha1.TaskCompletedEvent, 1, -1, 0, at),
		since(busv1alpha1.JobUnknownEvent, -1, -1, 0, at),
		since(busv1alpha1.PodPendingEvent, 1, 0, 0, at),
	})
	entries := delayed.Write(&job.Spec)
	assert.Equal(t, []batchv1alpha1.DelayedEvent{
		{Event: "Unknown", Since: metav1.NewTime(at)},
		{Event: "PodEvicted", Task: "a", Indexes: "0,2", Since: metav1.NewTime(at)},
		{Event: "PodFailed", Task: "b", Indexes: "1", ExitCode: 7, Since: metav1.NewTime(at)},
		{Event: "TaskCompleted", Task: "b", Since: metav1.NewTime(at)},
		{Event: "PodEvicted", Task: "a", Indexes: "1", Since: metav1.NewTime(at.Add(time.Second))},
	}, entries, "a pending pod says itself since when")
	assert.Equal(t, delayed, ReadDelayed(&job.Spec, entries))
	assert.Nil(t, DelayedEvents{}.Write(&job.Spec))

	job.Spec.Tasks[0].Replicas = 1
	job.Spec.Tasks[1].Name = "c"
	assert.Equal(t, DelayedEvents{
		{busv1alpha1.JobUnknownEvent, -1, -1, 0}: at,
		{busv1alpha1.PodEvictedEvent, 0, 0, 0}:   at,
	}, ReadDelayed(&job.Spec, entries), "what the Job has not any more is forgotten")
}

// A node whose clock is ahead says that a pod has failed in an hour. The answer is not put off until then.
func TestWhatIsToComeHasHappenedNow(t *testing.T) {
	job, now := twoTasks(), time.Unix(1000, 0)
	failed := Event{Type: busv1alpha1.PodFailedEvent, Index: 1, Since: now.Add(time.Hour)}
	all := DelayedEvents{}.Merge(job, make([]Task, 2), []Event{failed}, now)
	require.Len(t, all, 1)
	assert.Equal(t, now, all[0].Since)
}

// However much is delayed, what has to be written is bounded, and no timeout passes early.
func TestPendingActionsStaySmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := twoTasks()
		job.Spec.Tasks[0].Replicas = 10000
		delayed := DelayedEvents{}
		spread := rapid.Int64Range(1, 100000).Draw(t, "seconds")
		for index := range rapid.Int32Range(0, 3000).Draw(t, "pods") {
			delayed[eventKey{busv1alpha1.PodEvictedEvent, 0, index, 0}] = time.Unix(1000+(int64(index)*7919)%spread, 0)
		}
		entries := delayed.Write(&job.Spec)
		require.LessOrEqual(t, len(entries), maxDelayed)
		again := ReadDelayed(&job.Spec, entries)
		require.Len(t, again, len(delayed))
		for one, since := range delayed {
			require.False(t, again[one].Before(since))
		}
		require.Equal(t, entries, again.Write(&job.Spec), "what was written once is written so again")
	})
}

// For 50,000 pods that are evicted at different times the entries are bounded in bytes, and none is left out.
func TestDelayedIsBoundedInBytes(t *testing.T) {
	job := twoTasks()
	job.Spec.Tasks[0].Replicas = 50000
	delayed := DelayedEvents{}
	for index := range int32(50000) {
		if index%3 > 0 {
			delayed[eventKey{busv1alpha1.PodEvictedEvent, 0, index, 0}] = time.Unix(1000+int64(index)*7919%600, 0)
		}
	}
	size := 0
	entries := delayed.Write(&job.Spec)
	for _, entry := range entries {
		size += len(entry.Indexes)
	}
	assert.Less(t, size, 64<<10)
	assert.Greater(t, len(entries), 3, "times are told as exactly as there is room for")
	assert.Len(t, ReadDelayed(&job.Spec, entries), len(delayed))

	// Exit codes cannot be rounded.
	delayed = DelayedEvents{}
	for index := range int32(50000) {
		delayed[eventKey{busv1alpha1.PodFailedEvent, 0, index, index * 7919 % 251}] = time.Unix(1000, 0)
	}
	size = 0
	for _, entry := range delayed.Write(&job.Spec) {
		size += len(entry.Indexes)
	}
	assert.Less(t, size, 64<<10)
}

// TestWhatIsRemembered: a stored event that still holds is written again, with its first time.
func TestWhatIsRemembered(t *testing.T) {
	job, before, now := twoTasks(), time.Unix(1000, 0), time.Unix(1060, 500)
	tasks := func(pods map[int32]*corev1.Pod, record Record) []Task {
		return []Task{{Spec: &job.Spec.Tasks[0], Pods: pods, Record: record}, {Spec: &job.Spec.Tasks[1]}}
	}
	evicted := DelayedEvents{{busv1alpha1.PodEvictedEvent, 0, 1, 0}: before}
	failed := DelayedEvents{{busv1alpha1.PodFailedEvent, 0, 1, 7}: before}
	completed := DelayedEvents{{busv1alpha1.TaskCompletedEvent, 0, -1, 0}: before}
	taskFailed := DelayedEvents{{busv1alpha1.TaskFailedEvent, 0, -1, 0}: before}
	said := func(event busv1alpha1.Event, index int32, since time.Time) []Event {
		return []Event{{Type: event, Task: 0, Index: index, Since: since}}
	}
	for name, c := range map[string]struct {
		delayed DelayedEvents
		tasks   []Task
		seen    []Event
		want    string
	}{
		"nothing":                            {tasks: tasks(nil, Record{})},
		"the new pod has not come":           {delayed: evicted, tasks: tasks(nil, Record{}), want: "pod j-a-1 was evicted, and no pod of its name has run since @1000"},
		"the new pod waits":                  {delayed: evicted, tasks: tasks(map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodPending)}, Record{}), want: "pod j-a-1 was evicted, and no pod of its name has run since @1000"},
		"the new pod runs":                   {delayed: evicted, tasks: tasks(map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodRunning)}, Record{})},
		"the new pod has failed":             {delayed: evicted, tasks: tasks(map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodFailed, exits(1))}, Record{Failed: indexes.Of(1)})},
		"it was evicted in its place":        {delayed: evicted, tasks: tasks(map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodFailed, exits(1), disrupted)}, Record{Failed: indexes.Of(1)}), want: "pod j-a-1 was evicted, and no pod of its name has run since @1000"},
		"the new pod has run unseen":         {delayed: evicted, tasks: tasks(nil, Record{Succeeded: indexes.Of(1)})},
		"the new pod was evicted, too":       {delayed: evicted, tasks: tasks(nil, Record{}), seen: said(busv1alpha1.PodEvictedEvent, 1, time.Time{}), want: " @1000"},
		"another pod was evicted":            {tasks: tasks(nil, Record{}), seen: said(busv1alpha1.PodEvictedEvent, 0, time.Time{}), want: " @1060"},
		"the failed pod has gone":            {delayed: failed, tasks: tasks(nil, Record{Failed: indexes.Of(1)}), want: "pod j-a-1 failed with exit code 7 @1000"},
		"the failed pod was started anew":    {delayed: failed, tasks: tasks(nil, Record{})},
		"a failure that knows its time":      {tasks: tasks(nil, Record{}), seen: said(busv1alpha1.PodFailedEvent, 0, time.Unix(999, 0)), want: " @999"},
		"the task is complete":               {delayed: completed, tasks: tasks(nil, Record{Succeeded: indexes.Of(0, 1, 2)}), want: "all 3 pods of task a have succeeded @1000"},
		"the task has become larger":         {delayed: completed, tasks: tasks(nil, Record{Succeeded: indexes.Of(0, 1)})},
		"containers are restarted no more":   {delayed: taskFailed, tasks: tasks(nil, Record{})},
		"containers are restarted still":     {delayed: taskFailed, tasks: tasks(nil, Record{}), seen: said(busv1alpha1.TaskFailedEvent, -1, time.Time{}), want: " @1000"},
		"the gang is complete again":         {delayed: DelayedEvents{{busv1alpha1.JobUnknownEvent, -1, -1, 0}: before}, tasks: tasks(nil, Record{})},
		"a change of the spec stays":         {delayed: DelayedEvents{{busv1alpha1.JobUpdatedEvent, -1, -1, 0}: before}, tasks: tasks(nil, Record{}), want: "the spec was changed @1000"},
		"a pod that waits has its own times": {tasks: tasks(nil, Record{}), seen: said(busv1alpha1.PodPendingEvent, 1, time.Unix(5, 0)), want: " @5"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, h := range c.delayed.Merge(job, c.tasks, c.seen, now) {
				got += fmt.Sprintf("%s @%d", h.Message, h.Since.Unix())
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestManyKindsOfDelayedEventsAreNotPutOff: the status cannot hold all kinds of events. Exit codes are dropped, and times hardly
// change. No rounding makes kinds fewer.
func TestManyKindsOfDelayedEventsAreNotPutOff(t *testing.T) {
	job := twoTasks()
	job.Spec.Tasks[0].Replicas = 10000
	code := int32(7)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{ExitCode: &code, Action: busv1alpha1.AbortJobAction}}
	for _, pods := range []int32{200, 201, 251, 10000} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			delayed := DelayedEvents{}
			for index := range pods {
				delayed[eventKey{busv1alpha1.PodFailedEvent, 0, index, 1 + index%251}] = time.Unix(100_000+int64(index)*7%600, 0)
			}
			again := map[int32]eventKey{}
			since := map[int32]time.Time{}
			for one, at := range ReadDelayed(&job.Spec, delayed.Write(&job.Spec)) {
				again[one.index], since[one.index] = one, at
			}
			require.Len(t, again, len(delayed), "none is left out")
			for one, at := range delayed {
				require.False(t, since[one.index].Before(at))
				require.LessOrEqual(t, since[one.index].Sub(at), 600*time.Second, "no later than the last of them")
				if one.exitCode == code || pods <= maxDelayed {
					require.Equal(t, one, again[one.index], "a policy asks for this exit code")
				}
			}
		})
	}
	many := DelayedEvents{}
	for i := range int32(300) { // policies may name very many
		code := 1000 + i
		job.Spec.Policies = append(job.Spec.Policies, batchv1alpha1.LifecyclePolicy{ExitCode: &code, Action: busv1alpha1.AbortJobAction})
		many[eventKey{busv1alpha1.PodFailedEvent, 0, i, code}] = time.Unix(100_000+int64(i), 0)
	}
	entries := many.Write(&job.Spec)
	assert.Len(t, entries, maxDelayed)
	for i, entry := range entries {
		assert.Equal(t, int64(100_000+i), entry.Since.Unix(), "the first are kept as they are")
	}
}
