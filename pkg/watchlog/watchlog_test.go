package watchlog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// clock is a time that tests move by hand.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time          { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

func newLog() (*watchlog.Log, *clock) {
	c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return watchlog.New(c.Now), c
}

func member(name string, version int) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("gang").Version(version).Requests("cpu", "1")
}

func TestGangViolations(t *testing.T) {
	bind := func(log *watchlog.Log, names ...string) {
		for _, name := range names {
			log.RecordPod(member(name, 1).Node("node-0").Obj())
		}
	}
	tests := map[string]struct {
		happens func(*watchlog.Log, *clock)
		want    string
	}{
		"no pod is bound": {
			happens: func(*watchlog.Log, *clock) {},
		},
		"all are bound within the window": {
			happens: func(log *watchlog.Log, c *clock) {
				bind(log, "a")
				c.advance(2 * time.Second)
				bind(log, "b", "c")
			},
		},
		"the minimum at once, surplus much later": {
			happens: func(log *watchlog.Log, c *clock) {
				bind(log, "a", "b", "c")
				c.advance(time.Hour)
				bind(log, "d")
			},
		},
		"the minimum too late": {
			happens: func(log *watchlog.Log, c *clock) {
				bind(log, "a", "b")
				c.advance(3 * time.Second)
				bind(log, "c")
			},
			want: `gang default/gang version "1" needs 3 members and 2 were bound within 2s of the first; the minimum was reached after 3s`,
		},
		"never the minimum": {
			happens: func(log *watchlog.Log, _ *clock) { bind(log, "a") },
			want:    `gang default/gang version "1" needs 3 members and 1 were bound within 2s of the first; it had 1 in the end`,
		},
		"another incarnation does not help": {
			happens: func(log *watchlog.Log, _ *clock) {
				bind(log, "a", "b")
				log.RecordPod(member("other", 2).Obj())
			},
			want: `gang default/gang version "1" needs 3 members and 2 were bound within 2s of the first; it had 2 in the end`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log, c := newLog()
			log.RecordGroup(mustertesting.MakePodGroup("gang").MinMember(3).Obj())
			test.happens(log, c)
			violations := watchlog.GangViolations(log.Incarnations(), 2*time.Second)
			if test.want == "" {
				assert.Empty(t, violations)
			} else {
				assert.Equal(t, []string{test.want}, violations)
			}
		})
	}
}

func TestTheMinimumIsThatOfTheFirstBind(t *testing.T) {
	log, c := newLog()
	log.RecordGroup(mustertesting.MakePodGroup("gang").MinMember(1).Obj())
	c.advance(time.Second)
	log.RecordPod(member("a", 1).Node("node-0").Obj())
	c.advance(time.Second)
	log.RecordGroup(mustertesting.MakePodGroup("gang").MinMember(5).Obj())
	incarnations := log.Incarnations()
	require.Len(t, incarnations, 1)
	assert.EqualValues(t, 1, incarnations[0].MinMember)
}

func TestPodMoments(t *testing.T) {
	log, c := newLog()
	start := c.now
	log.RecordPod(member("a", 1).Obj())
	c.advance(time.Second)
	log.RecordPod(member("a", 1).Node("n").Obj())
	c.advance(time.Second)
	log.RecordPod(member("a", 1).Node("n").Phase(corev1.PodRunning).Obj())
	c.advance(time.Second)
	log.RecordPod(member("a", 1).Node("n").Phase(corev1.PodFailed).Obj())
	c.advance(time.Second)
	log.RecordPodGone(member("a", 1).Node("n").Phase(corev1.PodFailed).Obj())

	pods := log.Pods(func(watchlog.Pod) bool { return true })
	require.Len(t, pods, 1)
	pod := pods[0]
	assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}, []time.Duration{
		pod.Created.Sub(start), pod.Bound.Sub(start), pod.Running.Sub(start), pod.Finished.Sub(start), pod.Gone.Sub(start),
	})
	assert.False(t, pod.Live())
}

func TestPeakUse(t *testing.T) {
	log, _ := newLog()
	log.RecordGroup(mustertesting.MakePodGroup("gang").Queue("q").Obj())
	log.RecordPod(member("waiting", 1).Obj())
	log.RecordPod(member("a", 1).Node("n").Obj())
	log.RecordPod(member("b", 1).Node("n").Obj())
	log.RecordPod(member("a", 1).Node("n").Phase(corev1.PodSucceeded).Obj())
	log.RecordPod(member("c", 1).Node("n").Obj())
	log.RecordPodGone(member("b", 1).Node("n").Obj())
	log.RecordPod(member("d", 1).Node("n").Obj())
	assert.EqualValues(t, 2000, log.PeakUse("q")[corev1.ResourceCPU])
	assert.EqualValues(t, 2, log.PeakUse("q")[corev1.ResourcePods])
	assert.Empty(t, log.PeakUse("other"))
}

func TestStatusViolations(t *testing.T) {
	pending := watchlog.JobState{Phase: batchv1alpha1.Pending, MinAvailable: 2, Effective: 2, Replicas: 3}
	running := watchlog.JobState{Phase: batchv1alpha1.Running, MinAvailable: 2, Effective: 2, Replicas: 3, Running: 3}
	with := func(state watchlog.JobState, change func(*watchlog.JobState)) watchlog.JobState {
		change(&state)
		return state
	}
	restarting := with(running, func(s *watchlog.JobState) { s.Phase, s.Running, s.Terminating = batchv1alpha1.Restarting, 0, 3 })
	completed := watchlog.JobState{Phase: batchv1alpha1.Completed, MinAvailable: 2, Replicas: 3, Succeeded: 3}
	tests := map[string]struct {
		states []watchlog.JobState
		want   []string
	}{
		"a good life": {states: []watchlog.JobState{
			{}, pending, running, restarting,
			with(pending, func(s *watchlog.JobState) { s.Terminating = 1 }),
			running, completed,
		}},
		"Running first": {
			states: []watchlog.JobState{running},
			want:   []string{"the first phase is Running, not Pending"},
		},
		"Running too early": {
			states: []watchlog.JobState{pending, with(running, func(s *watchlog.JobState) { s.Running = 1 })},
			want: []string{"Pending -> Running with pending 0, running 1, succeeded 0, failed 0, terminating 0: " +
				"fewer run or have succeeded than the minimum of 2"},
		},
		"Restarting without victims": {
			states: []watchlog.JobState{pending, running, with(restarting, func(s *watchlog.JobState) { s.Terminating = 0 })},
			want: []string{"Running -> Restarting with pending 0, running 0, succeeded 0, failed 0, terminating 0: " +
				"no pod is counted as terminating"},
		},
		"Pending again too early": {
			states: []watchlog.JobState{pending, running, restarting, with(pending, func(s *watchlog.JobState) { s.Terminating = 2 })},
			want: []string{"Restarting -> Pending with pending 0, running 0, succeeded 0, failed 0, terminating 2: " +
				"more terminate than the minimum of 2 of 3 allows"},
		},
		"Completed with a pod left": {
			states: []watchlog.JobState{pending, running, with(completed, func(s *watchlog.JobState) { s.Running = 1 })},
			want: []string{"Running -> Completed with pending 0, running 1, succeeded 3, failed 0, terminating 0: " +
				"some pods are not gone yet"},
		},
		"Failed with a pod left": {
			states: []watchlog.JobState{pending, running, restarting,
				with(completed, func(s *watchlog.JobState) {
					s.Phase, s.Succeeded, s.Failed, s.Terminating = batchv1alpha1.Failed, 0, 2, 1
				})},
			want: []string{"Restarting -> Failed with pending 0, running 0, succeeded 0, failed 2, terminating 1: " +
				"some pods are not gone yet"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, watchlog.StatusViolations(test.states))
		})
	}
}

func TestJobStatesKeepEachChangeOfTheLatestJob(t *testing.T) {
	log, c := newLog()
	name := types.NamespacedName{Namespace: "default", Name: "job"}
	phase := func(uid string, phase batchv1alpha1.JobPhase) {
		c.advance(time.Second)
		log.RecordJob(mustertesting.MakeJob("job").UID(uid).
			Status(batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: phase}}).Obj())
	}
	phase("1", batchv1alpha1.Running)
	phase("2", "")
	phase("2", batchv1alpha1.Pending)
	phase("2", batchv1alpha1.Pending)
	phase("2", batchv1alpha1.Running)
	states := log.JobStates(name)
	assert.Len(t, states, 3)
	assert.Equal(t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, watchlog.Phases(states))
	assert.Equal(t, batchv1alpha1.Running, log.Job(name).Phase)
	assert.False(t, log.JobGone(name))
}

func TestEvents(t *testing.T) {
	log, _ := newLog()
	log.RecordEvent(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{UID: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "default", Name: "job"},
		Reason:         "ExecuteAction",
	})
	assert.Len(t, log.Events("Job", "default", "job"), 1)
	assert.Empty(t, log.Events("Pod", "default", "job"))
}

func TestWait(t *testing.T) {
	log, _ := newLog()
	seen := make(chan error, 1)
	go func() {
		seen <- log.Wait(context.Background(), func() bool { return len(log.Pods(func(watchlog.Pod) bool { return true })) == 1 })
	}()
	log.RecordPod(member("a", 1).Obj())
	require.NoError(t, <-seen)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, log.Wait(ctx, func() bool { return false }), context.Canceled)
}

// TestAPipelineIsJudgedByWhatMayRun: a Job whose tasks wait for each other runs when its first stage does.
func TestAPipelineIsJudgedByWhatMayRun(t *testing.T) {
	log, c := newLog()
	name := types.NamespacedName{Namespace: "default", Name: "job"}
	job := mustertesting.MakeJob("job").UID("1").Task(mustertesting.MakeTask("", 1)).Task(mustertesting.MakeTask("b", 3).DependsOn("default0"))
	record := func(status batchv1alpha1.JobStatus) {
		c.advance(time.Second)
		status.MinAvailable = 4
		log.RecordJob(job.Status(status).Obj())
	}
	in := func(phase batchv1alpha1.JobPhase) batchv1alpha1.JobState { return batchv1alpha1.JobState{Phase: phase} }
	first := []batchv1alpha1.TaskRecord{{Name: "default0", Created: "0", Succeeded: "0"}}
	both := []batchv1alpha1.TaskRecord{first[0], {Name: "b", Created: "0-2"}}
	record(batchv1alpha1.JobStatus{State: in(batchv1alpha1.Pending)})
	record(batchv1alpha1.JobStatus{State: in(batchv1alpha1.Running), Running: 1, TaskRecords: first})
	record(batchv1alpha1.JobStatus{State: in(batchv1alpha1.Pending), Succeeded: 1, Pending: 3, TaskRecords: both})
	assert.Empty(t, watchlog.StatusViolations(log.JobStates(name)))
	assert.Equal(t, int32(4), log.Job(name).Effective)
	record(batchv1alpha1.JobStatus{State: in(batchv1alpha1.Running), Succeeded: 1, Running: 2, Pending: 1, TaskRecords: both})
	assert.Equal(t, []string{"Pending -> Running with pending 1, running 2, succeeded 1, failed 0, terminating 0: " +
		"fewer run or have succeeded than the minimum of 4"}, watchlog.StatusViolations(log.JobStates(name)))
}

// TestWaitAsksAgainInQuiet: a caller may ask for an object that the log does not record. Then the log does not change with it.
func TestWaitAsksAgainInQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		require.NoError(t, watchlog.New(time.Now).Wait(t.Context(), func() bool {
			asked++
			return asked > 3
		}))
	})
}
