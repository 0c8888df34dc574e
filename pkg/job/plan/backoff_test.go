package plan

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
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// failureOf is the failure of a pod of that generation; a negative one stands for a pod that is gone.
func failureOf(generation int) policy.Event {
	if generation < 0 {
		return policy.Event{Type: busv1alpha1.PodFailedEvent}
	}
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{batchv1alpha1.PodGenerationAnnotation: fmt.Sprint(generation)}
	return policy.Event{Type: busv1alpha1.PodFailedEvent, Pod: pod}
}

func TestCountRestart(t *testing.T) {
	const start = 10 * time.Second
	base := time.Unix(10_000, 0)
	at := func(seconds int) metav1.Time { return metav1.NewTime(base.Add(time.Duration(seconds) * time.Second)) }
	backoff := func(count int32, last int, until int) *batchv1alpha1.RestartBackoff {
		b := &batchv1alpha1.RestartBackoff{Count: count, Generation: 5, Succeeded: 2, Last: at(last)}
		if until != 0 {
			ends := at(until)
			b.Until = &ends
		}
		return b
	}
	for name, c := range map[string]struct {
		before       *batchv1alpha1.RestartBackoff
		causes       []int // generations
		succeeded    int32
		runningSince int // 0: it is not
		count        int32
		until        int // 0: none
	}{
		"the first":                               {causes: []int{3}, count: 1},
		"one of the same wave":                    {before: backoff(1, 995, 0), causes: []int{4}, succeeded: 2, count: 1},
		"one of the same wave, long after":        {before: backoff(1, 600, 0), causes: []int{4}, succeeded: 2, count: 1},
		"a pod that was created since":            {before: backoff(1, 995, 0), causes: []int{4, 5}, succeeded: 2, count: 2, until: 1010},
		"the third":                               {before: backoff(2, 985, 995), causes: []int{9}, succeeded: 2, count: 3, until: 1020},
		"the fourth":                              {before: backoff(3, 900, 920), causes: []int{9}, succeeded: 2, count: 4, until: 1040},
		"the longest pause":                       {before: backoff(30, 300, 900), causes: []int{9}, succeeded: 2, count: 31, until: 1600},
		"while no pods are created":               {before: backoff(3, 990, 1010), causes: []int{9, -1}, succeeded: 2, count: 3, until: 1010},
		"a pod that is gone, of the same wave":    {before: backoff(1, 990, 0), causes: []int{-1}, succeeded: 2, count: 1},
		"a pod that is gone, later":               {before: backoff(1, 989, 0), causes: []int{-1}, succeeded: 2, count: 2, until: 1010},
		"a pod has succeeded since":               {before: backoff(9, 900, 910), causes: []int{9}, succeeded: 3, count: 1},
		"the pods that had succeeded start anew":  {before: backoff(9, 900, 910), causes: []int{9}, succeeded: 0, count: 10, until: 1600},
		"it has run for long":                     {before: backoff(2, 380, 400), causes: []int{9}, succeeded: 2, runningSince: 390, count: 1},
		"it has run for less since it was paused": {before: backoff(2, 380, 401), causes: []int{9}, succeeded: 2, runningSince: 390, count: 3, until: 1020},
		"it waits":                                {before: backoff(2, 300, 310), causes: []int{9}, succeeded: 2, count: 3, until: 1020},
	} {
		t.Run(name, func(t *testing.T) {
			r := restart{succeeded: c.succeeded}
			for _, generation := range c.causes {
				r.causes = append(r.causes, failureOf(generation))
			}
			if c.runningSince > 0 {
				r.runningSince = at(c.runningSince).Time
			}
			after, counts := countRestart(c.before, r, start, at(1000).Time)
			assert.Equal(t, c.count, after.Count)
			assert.Equal(t, c.before == nil || *after != *c.before, counts)
			if c.until == 0 {
				assert.Nil(t, after.Until)
			} else if assert.NotNil(t, after.Until) {
				assert.Equal(t, at(c.until).Time, after.Until.Time)
			}
		})
	}
}

// TestPausesOfACrashLoop: pods that fail at any time and never succeed are created after pauses. These never shrink, and have a limit. Once
// the Job has run for long enough, the next restart is the first again.
func TestPausesOfACrashLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "start, in ms")) * time.Millisecond
		now, generation := time.Unix(10_000, 0), int32(0)
		var b *batchv1alpha1.RestartBackoff
		var last time.Duration
		for range rapid.IntRange(1, 30).Draw(t, "failures") {
			before := b
			after, counts := countRestart(b, restart{causes: []policy.Event{failureOf(int(generation))}}, start, now)
			require.True(t, counts)
			generation++
			after.Generation = generation
			b = after
			pause := BackoffLeft(b, now)
			require.GreaterOrEqual(t, pause+time.Second, last, "whole seconds")
			require.LessOrEqual(t, pause, 60*start+time.Second)
			if before != nil {
				require.GreaterOrEqual(t, pause, min(start<<min(before.Count-1, 6), 60*start))
			}
			// Pods of before fail meanwhile, too.
			late := now.Add(time.Duration(rapid.Int64Range(0, int64(pause)).Draw(t, "late")))
			joined, counts := countRestart(b, restart{causes: []policy.Event{failureOf(int(generation) - 1)}}, start, late)
			require.False(t, counts)
			require.Equal(t, b, joined)
			last = pause
			now = now.Add(pause).Add(time.Duration(rapid.Int64Range(0, int64(40*start)).Draw(t, "runs for")))
		}
		long := now.Add(61*start + 2*time.Second)
		after, _ := countRestart(b, restart{causes: []policy.Event{failureOf(int(generation))}, runningSince: now}, start, long.Add(BackoffLeft(b, now)))
		require.Equal(t, int32(1), after.Count)
	})
}

// crashLoop makes all pods of a Job fail as soon as they run, that many times. It returns the seconds without new pods, each time.
func crashLoop(w *world, times int) []float64 {
	var pauses []float64
	for range times {
		w.runAll()
		w.settle()
		for _, name := range w.names(isRunning) {
			w.set(name, corev1.PodFailed, 1)
		}
		w.settle()
		w.reap()
		w.settle()
		since := w.now
		for range 10_000 {
			if len(w.names(isWaiting)) > 0 {
				break
			}
			w.now = w.now.Add(500 * time.Millisecond)
			w.settle()
		}
		pauses = append(pauses, w.now.Sub(since).Seconds())
		w.now = w.now.Add(5 * time.Second)
	}
	return pauses
}

func newBackoffWorld(t *testing.T, action busv1alpha1.Action) *world {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(1000).
		Task(mustertesting.MakeTask("a", 3).Policy(busv1alpha1.PodFailedEvent, action)).Obj())
	w.restartBackoff = 10 * time.Second
	w.settle()
	return w
}

// TestACrashLoopingJobBacksOff: this holds for any restart, of any number of pods.
func TestACrashLoopingJobBacksOff(t *testing.T) {
	for _, action := range []busv1alpha1.Action{busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction} {
		w := newBackoffWorld(t, action)
		assert.Equal(t, []float64{0, 10, 20, 40, 80, 160, 320, 600, 600}, crashLoop(w, 9), action)
	}
}

func TestThePauseIsToldOf(t *testing.T) {
	w := newBackoffWorld(t, busv1alpha1.RestartJobAction)
	crashLoop(w, 2)
	w.runAll()
	w.settle()
	w.set("j-a-0", corev1.PodFailed, 1)
	w.settle()
	w.reap()
	w.settle()
	state := w.job.Status.State
	assert.Equal(t, batchv1alpha1.Pending, state.Phase)
	assert.Equal(t, "BackOff", state.Reason)
	assert.Equal(t, "restarted 3 times in a row; pods are created again at 1970-01-01T00:17:20Z", state.Message)
	assert.Empty(t, w.pods)
	assert.Equal(t, time.Unix(1040, 0).UTC(), w.job.Status.RestartBackoff.Until.UTC())
}

// TestADrainIsOneRestart: pods are evicted one after the other for a minute, and each is replaced at once.
func TestADrainIsOneRestart(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 60).MinAvailable(1)).MinAvailable(1).Obj())
	w.restartBackoff = 10 * time.Second
	w.start()
	for index := range int32(60) {
		name := policy.PodName("j", "a", index)
		w.askToGo(name)
		w.settle()
		w.remove(name)
		w.settle()
		require.NotNil(t, w.pods[name])
		w.runAll()
		w.now = w.now.Add(time.Second)
	}
	assert.Equal(t, int32(1), w.job.Status.RestartBackoff.Count)

	w.askToGo("j-a-7") // it has been replaced before
	w.settle()
	w.remove("j-a-7")
	w.settle()
	assert.Nil(t, w.pods["j-a-7"])
	assert.Equal(t, batchv1alpha1.Running, w.phase(), "the others run on")
	assert.Equal(t, "BackOff", w.job.Status.State.Reason)
	w.now = w.now.Add(10 * time.Second)
	w.settle()
	assert.NotNil(t, w.pods["j-a-7"])
	assert.Empty(t, w.job.Status.State.Reason)
}

// TestTwoPodsThatFailInTurnsBackOff: no pod has to fail twice in a row.
func TestTwoPodsThatFailInTurnsBackOff(t *testing.T) {
	w := newBackoffWorld(t, busv1alpha1.RestartPodAction)
	w.start()
	for range 8 {
		for index := range int32(2) {
			name := policy.PodName("j", "a", index)
			for w.pods[name] == nil {
				w.now = w.now.Add(time.Second)
				w.settle()
			}
			w.runAll()
			w.settle()
			w.set(name, corev1.PodFailed, 1)
			w.settle()
			w.reap()
			w.settle()
			w.now = w.now.Add(time.Second)
		}
	}
	assert.Greater(t, w.job.Status.RestartBackoff.Count, int32(7))
}

// TestWhatTheUserAsksForNeverWaits: a Command forgets what was before, and so does a change of the spec that a policy answers.
func TestWhatTheUserAsksForNeverWaits(t *testing.T) {
	w := newBackoffWorld(t, busv1alpha1.RestartJobAction)
	crashLoop(w, 4)
	w.runAll()
	w.settle()
	w.set("j-a-0", corev1.PodFailed, 1)
	w.settle()
	w.reap()
	w.settle()
	require.Empty(t, w.pods)
	w.ask(busv1alpha1.RestartJobAction)
	assert.Len(t, w.pods, 3)
	assert.Nil(t, w.job.Status.RestartBackoff)
	assert.Equal(t, []float64{0, 10}, crashLoop(w, 2))

	w.ask(busv1alpha1.AbortJobAction)
	w.reap()
	w.settle()
	w.ask(busv1alpha1.ResumeJobAction)
	assert.Len(t, w.names(isWaiting), 3)
}

// TestProgressEndsTheBackOff: pods that have succeeded for good, or a long run; pods whose success is thrown away do not.
func TestProgressEndsTheBackOff(t *testing.T) {
	failAfterSuccess := func(action busv1alpha1.Action) *world {
		w := newBackoffWorld(t, action)
		crashLoop(w, 3)
		w.runAll()
		w.settle()
		w.set("j-a-1", corev1.PodSucceeded, 0)
		w.settle()
		w.set("j-a-0", corev1.PodFailed, 1)
		w.settle()
		return w
	}
	assert.Equal(t, int32(1), failAfterSuccess(busv1alpha1.RestartPodAction).job.Status.RestartBackoff.Count)
	assert.Equal(t, int32(4), failAfterSuccess(busv1alpha1.RestartTaskAction).job.Status.RestartBackoff.Count)

	w := newBackoffWorld(t, busv1alpha1.RestartJobAction)
	crashLoop(w, 5)
	w.start()
	w.now = w.now.Add(10 * time.Minute)
	assert.Equal(t, []float64{0, 10}, crashLoop(w, 2))
	w.runAll()
	w.settle()
	w.succeedAll()
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
	assert.Nil(t, w.job.Status.RestartBackoff)
}
