package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// podOption changes a pod of a test.
type podOption func(*corev1.Pod)

func going(pod *corev1.Pod) {
	now := metav1.Now()
	pod.DeletionTimestamp = &now
}

func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", LastTransitionTime: metav1.Unix(200, 0)})
}

// removed is deleted as one that has ended.
func removed(pod *corev1.Pod) {
	going(pod)
	pod.DeletionGracePeriodSeconds = new(int64)
}

// endedAtSecond gives a pod a container that ended well then.
func endedAtSecond(second int64) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Unix(second, 0)}}}}
	}
}

// exits gives a pod one container for each code; a code of 0 is one that ended well.
func exits(codes ...int32) podOption {
	return func(pod *corev1.Pod) {
		for _, code := range codes {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}})
		}
	}
}

func restarted(times int32) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: times})
	}
}

func pod(name string, phase corev1.PodPhase, options ...podOption) *corev1.Pod {
	p := mustertesting.MakePod(name).UID("uid-of-" + name).Phase(phase).Obj()
	for _, option := range options {
		option(p)
	}
	return p
}

// task makes a task "a" of three replicas.
func task(record Record, pods map[int32]*corev1.Pod) Task {
	spec := mustertesting.MakeTask("a", 3).MaxRetry(3).Obj()
	return Task{Spec: spec, Pods: pods, Record: record}
}

func TestObserve(t *testing.T) {
	running := pod("j-a-0", corev1.PodRunning)
	all := Record{Created: indexes.Of(0, 1, 2)}
	for name, c := range map[string]struct {
		task  Task
		whole Whole
		want  []string
	}{
		"nothing created yet":                       {task: task(Record{}, nil)},
		"all run":                                   {task: task(all, map[int32]*corev1.Pod{0: running, 1: running, 2: running})},
		"one has never been created":                {task: task(Record{Created: indexes.Of(0, 1)}, map[int32]*corev1.Pod{0: running, 1: running})},
		"one has gone":                              {task: task(all, map[int32]*corev1.Pod{0: running, 2: running}), want: []string{"PodEvicted: pod j-a-1 was deleted"}},
		"one is going":                              {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodRunning, going), 2: running}), want: []string{"PodEvicted: pod j-a-1 was evicted"}},
		"one is going before it was noted":          {task: task(Record{}, map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodPending, going)}), want: []string{"PodEvicted: pod j-a-1 was evicted"}},
		"one fails as it is killed":                 {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed, exits(137), going), 2: running}), want: []string{"PodEvicted: pod j-a-1 was evicted"}},
		"one failed with the mark of an eviction":   {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed, exits(137), disrupted), 2: running}), want: []string{"PodEvicted: pod j-a-1 was evicted (PreemptionByScheduler)"}},
		"one still runs with the mark":              {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodRunning, disrupted), 2: running})},
		"one failed":                                {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed, exits(3)), 2: running}), want: []string{"PodFailed: pod j-a-1 failed with exit code 3"}},
		"the second container failed":               {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed, exits(0, 4, 5)), 2: running}), want: []string{"PodFailed: pod j-a-1 failed with exit code 4"}},
		"a failure that is known":                   {task: task(Record{Created: indexes.Of(0, 1, 2), Failed: indexes.Of(1)}, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed, exits(3)), 2: running})},
		"a known failure that is deleted":           {task: task(Record{Created: indexes.Of(0, 1, 2), Failed: indexes.Of(1)}, map[int32]*corev1.Pod{0: running, 2: running})},
		"one ends well as it is killed":             {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodSucceeded, going), 2: running}), want: []string{"PodEvicted: pod j-a-1 was evicted"}},
		"one ended well after it was marked":        {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodSucceeded, disrupted, endedAtSecond(201)), 2: running}), want: []string{"PodEvicted: pod j-a-1 was evicted (PreemptionByScheduler)"}},
		"one is marked after it ended well":         {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodSucceeded, disrupted, endedAtSecond(199)), 2: running})},
		"a succeeded pod that is going":             {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodSucceeded, removed), 2: running})},
		"a known success that is deleted":           {task: task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(1)}, map[int32]*corev1.Pod{0: running, 2: running})},
		"the last succeeded":                        {task: task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0, 1)}, map[int32]*corev1.Pod{2: pod("j-a-2", corev1.PodSucceeded)}), want: []string{"TaskCompleted: all 3 pods of task a have succeeded"}},
		"all succeeded and that is known":           {task: task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0, 1, 2), Completed: true}, map[int32]*corev1.Pod{2: pod("j-a-2", corev1.PodSucceeded)})},
		"all succeeded before any policy was asked": {task: task(Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0, 1, 2)}, nil), want: []string{"TaskCompleted: all 3 pods of task a have succeeded"}},
		"containers restarted too often":            {task: task(all, map[int32]*corev1.Pod{0: pod("j-a-0", corev1.PodRunning, restarted(2)), 1: pod("j-a-1", corev1.PodRunning, restarted(1)), 2: running}), want: []string{"TaskFailed: containers of task a were restarted 3 times"}},
		"containers restarted, but not too often":   {task: task(all, map[int32]*corev1.Pod{0: pod("j-a-0", corev1.PodRunning, restarted(2)), 1: running, 2: running})},
		"part of the gang cannot be scheduled":      {task: task(all, map[int32]*corev1.Pod{0: running, 1: running, 2: running}), whole: Whole{Unknown: true}, want: []string{"Unknown: part of the gang runs and the rest cannot be scheduled"}},
		"the spec was changed":                      {task: task(all, map[int32]*corev1.Pod{0: running, 1: running, 2: running}), whole: Whole{Updated: true}, want: []string{"JobUpdated: the spec was changed"}},
		"failures come before evictions, in order":  {task: task(all, map[int32]*corev1.Pod{1: pod("j-a-1", corev1.PodFailed, exits(1)), 2: pod("j-a-2", corev1.PodFailed, exits(2))}), want: []string{"PodFailed: pod j-a-1 failed with exit code 1", "PodFailed: pod j-a-2 failed with exit code 2", "PodEvicted: pod j-a-0 was deleted"}},
		"a failed pod whose containers do not tell": {task: task(all, map[int32]*corev1.Pod{0: running, 1: pod("j-a-1", corev1.PodFailed), 2: running}), want: []string{"PodFailed: pod j-a-1 failed with exit code 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range Observe(mustertesting.MakeJob("j").Obj(), []Task{c.task}, c.whole) {
				got = append(got, string(h.Type)+": "+h.Message)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func policies(list ...batchv1alpha1.LifecyclePolicy) []batchv1alpha1.LifecyclePolicy { return list }

func on(event busv1alpha1.Event, action busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{Event: event, Action: action}
}

func onExit(code int32, action busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{ExitCode: &code, Action: action}
}

func TestDecide(t *testing.T) {
	failed := Event{Type: busv1alpha1.PodFailedEvent, Task: 0, Index: 1, ExitCode: 3}
	evicted := Event{Type: busv1alpha1.PodEvictedEvent, Task: 0, Index: 2}
	taskFailed := Event{Type: busv1alpha1.TaskFailedEvent, Task: 0, Index: -1}
	completed := Event{Type: busv1alpha1.TaskCompletedEvent, Task: 0, Index: -1}
	unknown := Event{Type: busv1alpha1.JobUnknownEvent, Task: -1, Index: -1}
	updated := Event{Type: busv1alpha1.JobUpdatedEvent, Task: -1, Index: -1}
	anything, restart, terminate := busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction, busv1alpha1.TerminateJobAction
	for name, c := range map[string]struct {
		task, job []batchv1alpha1.LifecyclePolicy
		happens   []Event
		want      string
	}{
		"no policy":                          {happens: []Event{failed}},
		"nothing happened":                   {job: policies(on(anything, restart))},
		"the Job's policy":                   {job: policies(on(busv1alpha1.PodFailedEvent, restart)), happens: []Event{failed}, want: "RestartJob spec.policies[0]"},
		"the task's comes first":             {task: policies(on(anything, terminate)), job: policies(on(busv1alpha1.PodFailedEvent, restart)), happens: []Event{failed}, want: "TerminateJob spec.tasks[0].policies[0]"},
		"the task's does not match":          {task: policies(on(busv1alpha1.PodEvictedEvent, terminate)), job: policies(on(busv1alpha1.PodFailedEvent, restart)), happens: []Event{failed}, want: "RestartJob spec.policies[0]"},
		"the first of the list":              {job: policies(onExit(4, terminate), onExit(3, restart), on(busv1alpha1.PodFailedEvent, terminate)), happens: []Event{failed}, want: "RestartJob spec.policies[1]"},
		"an exit code is for failures":       {job: policies(onExit(3, terminate)), happens: []Event{evicted, completed}},
		"one of several events":              {job: policies(batchv1alpha1.LifecyclePolicy{Events: []busv1alpha1.Event{busv1alpha1.PodEvictedEvent, busv1alpha1.PodFailedEvent}, Action: restart}), happens: []Event{failed}, want: "RestartJob spec.policies[0]"},
		"* matches a failure":                {job: policies(on(anything, restart)), happens: []Event{failed}, want: "RestartJob spec.policies[0]"},
		"* matches an eviction":              {job: policies(on(anything, restart)), happens: []Event{evicted}, want: "RestartJob spec.policies[0]"},
		"* matches a task's failure":         {job: policies(on(anything, restart)), happens: []Event{taskFailed}, want: "RestartJob spec.policies[0]"},
		"* matches Unknown":                  {job: policies(on(anything, restart)), happens: []Event{unknown}, want: "RestartJob spec.policies[0]"},
		"* does not match completion":        {job: policies(on(anything, restart)), happens: []Event{completed}},
		"completion has to be named":         {job: policies(on(anything, restart), on(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)), happens: []Event{completed}, want: "CompleteJob spec.policies[1]"},
		"a task's policy is not for Unknown": {task: policies(on(anything, restart)), happens: []Event{unknown}},
		"the weightiest action wins":         {job: policies(on(busv1alpha1.PodFailedEvent, restart), on(busv1alpha1.PodEvictedEvent, terminate)), happens: []Event{failed, evicted}, want: "TerminateJob spec.policies[1]"},
		"the first of equal actions":         {job: policies(on(busv1alpha1.PodEvictedEvent, restart), on(busv1alpha1.PodFailedEvent, restart)), happens: []Event{failed, evicted}, want: "RestartJob spec.policies[1]"},
		"restarting a pod of no pod":         {task: policies(on(anything, busv1alpha1.RestartPodAction)), happens: []Event{taskFailed}},
		"restarting a task of no task":       {job: policies(on(anything, busv1alpha1.RestartTaskAction)), happens: []Event{unknown}},
		"to resume is asked for too":         {job: policies(on(busv1alpha1.JobUpdatedEvent, busv1alpha1.ResumeJobAction)), happens: []Event{updated}, want: "ResumeJob spec.policies[0]"},
		"but gives way to all else":          {job: policies(on(busv1alpha1.JobUpdatedEvent, busv1alpha1.ResumeJobAction), on(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)), happens: []Event{updated, failed}, want: "RestartPod spec.policies[1]"},
		"* does not match an update":         {job: policies(on(anything, restart)), happens: []Event{updated}},
		"no policy is about syncing":         {job: policies(on(anything, busv1alpha1.SyncJobAction)), happens: []Event{failed}},
		"restarting a partition of none":     {job: policies(on(anything, busv1alpha1.RestartPartitionAction)), happens: []Event{failed}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &batchv1alpha1.JobSpec{Policies: c.job, Tasks: []batchv1alpha1.TaskSpec{{Name: "a", Policies: c.task}}}
			got := ""
			if d, _ := Decide(spec, c.happens, time.Now()); d != nil {
				got = string(d.Action) + " " + d.Policy
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestRestartsOfPodsAddUp(t *testing.T) {
	spec := &batchv1alpha1.JobSpec{Tasks: []batchv1alpha1.TaskSpec{
		{Name: "a", Policies: policies(on(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction))},
		{Name: "b", Policies: policies(on(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction))},
	}}
	d, _ := Decide(spec, []Event{
		{Type: busv1alpha1.PodFailedEvent, Task: 0, Index: 1},
		{Type: busv1alpha1.PodFailedEvent, Task: 0, Index: 4},
		{Type: busv1alpha1.PodFailedEvent, Task: 1, Index: 0},
	}, time.Now())
	require.NotNil(t, d)
	assert.Equal(t, busv1alpha1.RestartTaskAction, d.Action)
	for _, c := range []struct {
		task, index int32
		want        bool
	}{{0, 1, true}, {0, 4, true}, {0, 0, false}, {1, 0, true}, {1, 7, true}, {2, 0, false}} {
		assert.Equal(t, c.want, d.Targets.Has(int(c.task), c.index), "%d-%d", c.task, c.index)
	}
}

func TestAPartitionIsRestartedWhole(t *testing.T) {
	spec := &batchv1alpha1.JobSpec{Tasks: []batchv1alpha1.TaskSpec{
		{Name: "a", Replicas: 6, PartitionPolicy: &batchv1alpha1.PartitionPolicySpec{TotalPartitions: 3, PartitionSize: 2}},
		{Name: "b", Replicas: 6},
	}, Policies: policies(on(busv1alpha1.AnyEvent, busv1alpha1.RestartPartitionAction))}
	d, _ := Decide(spec, []Event{
		{Type: busv1alpha1.PodFailedEvent, Task: 0, Index: 3},
		{Type: busv1alpha1.PodEvictedEvent, Task: 0, Index: 5},
		{Type: busv1alpha1.TaskFailedEvent, Task: 0, Index: -1},
		{Type: busv1alpha1.PodFailedEvent, Task: 1, Index: 0},
	}, time.Now())
	require.NotNil(t, d)
	assert.Equal(t, busv1alpha1.RestartPartitionAction, d.Action)
	assert.Equal(t, "2-5", d.Targets.Pods[0].String())
	assert.Nil(t, d.Targets.Pods[1])
	assert.Empty(t, d.Targets.Tasks)
	for index, want := range []int32{0, 0, 1, 1, 2, 2} {
		assert.Equal(t, want, PartitionID(&spec.Tasks[0], int32(index)))
	}
}

// TestPartitionsCoverATask: every index is in exactly one partition, and no partition has an index that the task has not. The replicas
// of a Job that was stored before the schema checked them may not fill the last partition.
func TestPartitionsCoverATask(t *testing.T) {
	for _, c := range []struct {
		replicas, size int32
		want           []string // the partition of each index
	}{
		{4, 2, []string{"0-1", "0-1", "2-3", "2-3"}},
		{5, 2, []string{"0-1", "0-1", "2-3", "2-3", "4-4"}},
		{3, 5, []string{"0-2", "0-2", "0-2"}},
		{2, 1, []string{"0-0", "1-1"}},
		{2, 0, []string{"0-0", "1-1"}},
	} {
		task := &batchv1alpha1.TaskSpec{Replicas: c.replicas, PartitionPolicy: &batchv1alpha1.PartitionPolicySpec{PartitionSize: c.size}}
		var got []string
		for index := range c.replicas {
			first, last := Partition(task, index)
			got = append(got, fmt.Sprintf("%d-%d", first, last))
		}
		assert.Equal(t, c.want, got, "%d replicas, partitions of %d", c.replicas, c.size)
	}
}

func TestRecordIsWhatTheStatusHolds(t *testing.T) {
	record := Record{Created: indexes.Of(0, 1, 2, 5), Succeeded: indexes.Of(1), Failed: indexes.Of(2), Replaced: map[int32]int32{0: 3, 1: 3, 5: 7}}
	written, found := record.Write("a")
	require.True(t, found)
	assert.Equal(t, batchv1alpha1.TaskRecord{Name: "a", Created: "0-2,5", Succeeded: "1", Failed: "2",
		Replaced: []batchv1alpha1.ReplacedPods{{Generation: 3, Indexes: "0-1"}, {Generation: 7, Indexes: "5"}}}, written)

	again := ReadRecord([]batchv1alpha1.TaskRecord{{Name: "b", Created: "9"}, written}, "a", 5)
	assert.Equal(t, "0-2", again.Created.String(), "an index that the task has not any more is forgotten")
	assert.Equal(t, map[int32]int32{0: 3, 1: 3, 5: 7}, again.Replaced, "but not a pod that is to go")
	again.Seen(5, generationPod(7))
	again.Seen(2, generationPod(8))
	assert.True(t, again.IsReplaced(5, 7))
	assert.True(t, again.IsReplaced(5, 0), "an informer that is behind shows an older pod")
	assert.False(t, again.IsReplaced(5, 8), "the successor, which has not been seen yet")
	again.Seen(5, generationPod(8))
	assert.Equal(t, map[int32]int32{0: 3, 1: 3}, again.Replaced)

	_, found = (&Record{}).Write("a")
	assert.False(t, found)
	broken := ReadRecord([]batchv1alpha1.TaskRecord{{Name: "a", Created: "5-1", Replaced: []batchv1alpha1.ReplacedPods{{Indexes: "x"}}}}, "a", 5)
	_, found = broken.Write("a")
	assert.False(t, found, "what cannot be read is forgotten")
}

func TestTimeouts(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(event busv1alpha1.Event, action busv1alpha1.Action, d time.Duration) batchv1alpha1.LifecyclePolicy {
		return batchv1alpha1.LifecyclePolicy{Event: event, Action: action, Timeout: &metav1.Duration{Duration: d}}
	}
	job := mustertesting.MakeJob("j").LifecyclePolicy(after(busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction, time.Hour)).
		LifecyclePolicy(after(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction, time.Minute)).
		Task(mustertesting.MakeTask("a", 3)).Obj()
	waiting := mustertesting.MakePod("j-a-0").Phase(corev1.PodPending).Obj()
	waiting.CreationTimestamp = metav1.NewTime(start)
	failed := pod("j-a-1", corev1.PodFailed, exits(3))
	failed.CreationTimestamp = metav1.NewTime(start)
	failed.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(start.Add(10 * time.Second))
	seen := []Task{{Spec: &job.Spec.Tasks[0], Pods: map[int32]*corev1.Pod{0: waiting, 1: failed, 2: pod("j-a-2", corev1.PodRunning)}}}

	ask := func(at time.Time) (*Decision, []Delay) { return Decide(&job.Spec, Observe(job, seen, Whole{}), at) }
	d, delays := ask(start.Add(time.Minute))
	assert.Nil(t, d)
	require.Len(t, delays, 2)
	assert.Equal(t, start.Add(71*time.Second), delays[0].Due, "counts from the end of the container")
	assert.Equal(t, start.Add(time.Hour+time.Second), delays[1].Due, "counts from the creation of the pod")

	d, delays = ask(start.Add(71 * time.Second))
	require.NotNil(t, d)
	assert.Equal(t, busv1alpha1.RestartJobAction, d.Action)
	assert.Len(t, delays, 1)

	seen[0].Pods[1] = pod("j-a-1", corev1.PodRunning)
	d, delays = ask(start.Add(time.Hour + time.Second))
	require.NotNil(t, d)
	assert.Equal(t, busv1alpha1.AbortJobAction, d.Action)
	assert.Equal(t, "pod j-a-0 has been pending since 1970-01-01T00:16:40Z; spec.policies[0]: AbortJob", d.Message())
	assert.Empty(t, delays)

	seen[0].Pods[0] = pod("j-a-0", corev1.PodRunning)
	d, delays = ask(start.Add(2 * time.Hour))
	assert.Nil(t, d, "a pod that runs is not pending")
	assert.Empty(t, delays)
}

func TestRestartsArePutOffWhileNothingCanStart(t *testing.T) {
	spec := &mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)).
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.AbortJobAction).Obj().Spec
	failed := Event{Type: busv1alpha1.PodFailedEvent, Task: 0, Index: 1}
	evicted := Event{Type: busv1alpha1.PodEvictedEvent, Task: 0, Index: 2}
	d, delays := DecideWithoutRestarts(spec, []Event{failed}, time.Unix(1000, 0))
	assert.Nil(t, d)
	require.Len(t, delays, 1)
	assert.True(t, delays[0].PutOff)
	assert.Contains(t, DelayedBy(delays), keyOf(failed))
	d, _ = DecideWithoutRestarts(spec, []Event{failed, evicted}, time.Unix(1000, 0))
	require.NotNil(t, d)
	assert.Equal(t, busv1alpha1.AbortJobAction, d.Action)
}

// TestACompletedTaskWhosePodRunsAnewCompletesAgain, but one that is rid of pods that it had beyond that stays completed.
func TestACompletedTaskWhosePodRunsAnewCompletesAgain(t *testing.T) {
	record := Record{Created: indexes.Of(0, 1), Succeeded: indexes.Of(0, 1), Completed: true}
	record.Renew(2, nil)
	assert.True(t, record.Completed)
	record.Renew(1, nil)
	assert.False(t, record.Completed)
}

func generationPod(generation int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1alpha1.PodGenerationAnnotation: fmt.Sprint(generation)}}}
}
