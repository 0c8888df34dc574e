package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestFirstStatusIsPending(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.look()
	assert.Equal(t, batchv1alpha1.Pending, w.phase())
	assert.Equal(t, int32(2), w.job.Status.MinAvailable)
	assert.Zero(t, w.job.Status.Pending)
}

func TestRunsMaxRetryTimesInAll(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(3).
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)).Obj())
	for run := range 3 {
		w.start()
		w.set("j-a-0", corev1.PodFailed, 7)
		v := w.look()
		require.NotNil(t, v.Request)
		assert.Equal(t, int32(run+1), w.job.Status.RetryCount)
		assert.Equal(t, batchv1alpha1.Restarting, w.phase())
		assert.Equal(t, "PodFailed", w.job.Status.State.Reason)
		assert.Equal(t, "pod j-a-0 failed with exit code 7; spec.policies[0]: RestartJob", w.job.Status.State.Message)
		w.reap()
		w.settle()
		w.reap()
		w.settle()
	}
	assert.Equal(t, batchv1alpha1.Failed, w.phase())
	assert.Equal(t, int32(3), w.job.Status.RetryCount)
	assert.Equal(t, 3, w.ran["j-a-0"])
	assert.Equal(t, corev1.PodFailed, w.pods["j-a-0"].Status.Phase, "the last failed pod is kept")
	assert.NotContains(t, w.pods, "j-a-1", "the unfinished pod is not")
	assert.Equal(t, int32(1), w.job.Status.Failed)
	assert.Equal(t, phase.ReasonMaxRetryReached, w.job.Status.State.Reason)
	assert.NotNil(t, w.job.Status.CompletionTime)
}

func TestRestartPodTouchesNothingElse(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(2).
		Task(mustertesting.MakeTask("a", 3).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)).Obj())
	w.start()
	w.set("j-a-1", corev1.PodFailed, 1)
	w.look()
	assert.Equal(t, batchv1alpha1.Restarting, w.phase())
	assert.Equal(t, int32(1), w.job.Status.Terminating)
	assert.Equal(t, int32(2), w.job.Status.Running)
	assert.Equal(t, int32(0), w.job.Status.Version)
	w.settle()
	assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 1, "j-a-2": 1}, w.ran)
	w.reap()
	w.start()
	assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 2, "j-a-2": 1}, w.ran)
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Empty(t, w.job.Status.TaskRecords[0].Replaced)
}

func TestSuspendAndResumeSpendNoRetries(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj()
	w := newWorld(t, job)
	for range 5 {
		w.start()
		yes := true
		w.job.Spec.Suspend = &yes
		w.look()
		assert.Equal(t, batchv1alpha1.Aborting, w.phase())
		w.reap()
		w.settle()
		assert.Equal(t, batchv1alpha1.Aborted, w.phase())
		assert.Empty(t, w.pods)
		w.job.Spec.Suspend = nil
	}
	w.start()
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestEvictionWithoutPolicyIsReplaced(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.remove("j-a-0")
	w.start()
	assert.Equal(t, 2, w.ran["j-a-0"])
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestScalingDownRaisesNothing(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).
		Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).Task(mustertesting.MakeTask("a", 3).MinAvailable(1)).Obj())
	w.start()
	w.job.Spec.Tasks[0].Replicas = 1
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Running, w.phase())
	assert.Len(t, w.pods, 1)
	w.job.Spec.Tasks[0].Replicas = 3
	w.start()
	assert.Len(t, w.pods, 3)
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestCompleteJobOnTaskCompleted(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).
		Task(mustertesting.MakeTask("w", 1).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)).Obj())
	w.start()
	w.set("j-w-0", corev1.PodSucceeded, 0)
	w.look()
	assert.Equal(t, batchv1alpha1.Completing, w.phase())
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
	assert.Contains(t, w.pods, "j-w-0")
	assert.NotContains(t, w.pods, "j-ps-0")
	assert.Equal(t, int32(1), w.job.Status.Succeeded)
	assert.Zero(t, w.job.Status.RetryCount)
}

func TestFinishedPodNeverRunsAgain(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	w.remove("j-a-0")
	w.dies() // the status alone tells
	w.settle()
	assert.Equal(t, 1, w.ran["j-a-0"])
	assert.Equal(t, int32(1), w.job.Status.Succeeded)
	w.set("j-a-1", corev1.PodSucceeded, 0)
	w.settle()
	assert.Equal(t, batchv1alpha1.Completed, w.phase())
}

func TestOurOwnDeletionsRaiseNothing(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		job     *mustertesting.JobWrapper
		happens func(*world)
		retries int32
	}{
		"suspend, then resume when all are gone": {
			mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).Task(mustertesting.MakeTask("a", 4)),
			func(w *world) {
				w.job.Spec.Suspend = &yes
				w.settle()
				w.reap()
				w.settle()
				w.job.Spec.Suspend = nil
			}, 0,
		},
		"suspend, then resume before they are gone": {
			mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).
				Task(mustertesting.MakeTask("a", 4).MinAvailable(1)),
			func(w *world) {
				w.job.Spec.Suspend = &yes
				w.lookAndCrash(beforeActing)
				w.job.Spec.Suspend = nil
				w.settle()
				w.remove("j-a-0")
				w.settle()
			}, 0,
		},
		"restart of a pod that was evicted": {
			mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartPodAction).
				Task(mustertesting.MakeTask("a", 4).MinAvailable(1)),
			func(w *world) {
				w.askToGo("j-a-1")
				w.settle()
			}, 1,
		},
		"restart of a pod that has vanished": {
			mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartPodAction).Task(mustertesting.MakeTask("a", 4)),
			func(w *world) {
				w.remove("j-a-1")
				w.lookAndCrash(beforeActing)
				w.lookAndCrash(beforeActing)
			}, 1,
		},
		"restart of a task": {
			mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 4).MinAvailable(1).
				Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartTaskAction)),
			func(w *world) {
				w.set("j-a-1", corev1.PodFailed, 1)
				w.lookAndCrash(whileActing)
				w.remove("j-a-0")
				w.settle()
			}, 1,
		},
		"restart of the Job": {
			mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
				Task(mustertesting.MakeTask("a", 4).MinAvailable(1)),
			func(w *world) {
				w.set("j-a-1", corev1.PodFailed, 1)
				w.lookAndCrash(whileActing)
				w.lookAndCrash(whileActing)
				w.settle()
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.job.Obj())
			w.start()
			c.happens(w)
			w.settle()
			w.reap()
			w.settle()
			w.runAll()
			w.settle()
			assert.Equal(t, batchv1alpha1.Running, w.phase(), "%+v", w.job.Status)
			assert.Len(t, w.pods, 4)
			assert.Equal(t, c.retries, w.job.Status.RetryCount)
			assert.Empty(t, w.names(isGoing))
		})
	}
}

func TestDeadlineEndsTheJob(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	limit := int64(60)
	job.Spec.ActiveDeadlineSeconds = &limit
	w := newWorld(t, job)
	w.start()
	w.now = w.now.Add(time.Minute)
	w.settle()
	assert.Equal(t, batchv1alpha1.Running, w.phase(), "it may have started at the end of the second that the status tells")
	w.now = w.now.Add(time.Second)
	w.settle()
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Terminated, w.phase())
	assert.Equal(t, ReasonDeadlineExceeded, w.job.Status.State.Reason)
	assert.Equal(t, time.Minute+time.Second, w.job.Status.RunningDuration.Duration)
}

// The schema refuses such a deadline now; a Job that was stored before it did may have one.
func TestADeadlineThatNoDurationHoldsIsFarAway(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	limit := int64(1<<63 - 1)
	job.Spec.ActiveDeadlineSeconds = &limit
	w := newWorld(t, job)
	w.start()
	left, limited := timeLeft(w.job, w.now)
	assert.True(t, limited)
	assert.Greater(t, left, 100*365*24*time.Hour)
}

func TestTimesMoveWithThePhaseAlone(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)).Obj())
	w.settle()
	w.set("j-a-0", corev1.PodRunning, 0)
	w.settle()
	since := w.job.Status.State.LastTransitionTime
	w.now = w.now.Add(time.Hour)
	w.set("j-a-1", corev1.PodRunning, 0)
	w.settle()
	assert.Equal(t, int32(2), w.job.Status.Running)
	assert.Equal(t, since, w.job.Status.State.LastTransitionTime)
}

func TestHeldJobSaysWhy(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj()
	v := newPlan(&Snapshot{Job: defaults.Job(job, ""), Blockers: []Blocker{{Finding: Finding{"NotSupported", "spec.x"}, Blocks: BlocksStart}}, Now: time.Unix(1000, 0)})
	assert.Equal(t, batchv1alpha1.Pending, v.Status.State.Phase)
	assert.Equal(t, "NotSupported", v.Status.State.Reason)
	assert.Equal(t, "spec.x", v.Status.State.Message)
}

// TestLongWordsOfOthersAreCut: a status of eleven messages that are as long as an object may be could not be written.
func TestLongWordsOfOthersAreCut(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj())
	w.start()
	long := strings.Repeat("ö", 1<<20)
	w.command = &busv1alpha1.Command{Action: string(busv1alpha1.AbortJobAction), Reason: long, Message: long}
	w.look()
	w.command = nil
	w.reap()
	w.settle()
	assert.Equal(t, batchv1alpha1.Aborted, w.phase())
	status, err := json.Marshal(&w.job.Status)
	require.NoError(t, err)
	assert.Less(t, len(status), 16<<10)
	before := w.job.Status.DeepCopy()
	w.look()
	assert.Equal(t, before, &w.job.Status, "it is cut once")

	held := newPlan(&Snapshot{Job: w.job, Blockers: []Blocker{{Finding: Finding{long, long}, Blocks: BlocksStart}}, Now: w.now})
	assert.LessOrEqual(t, len(held.Status.State.Message), 1024)
	failing := newPlan(&Snapshot{Job: w.job, Blockers: []Blocker{{Finding: Finding{"FailedDelete", long}, While: Always}}, Now: w.now})
	assert.LessOrEqual(t, len(failing.Status.State.Message), 1024)
}

func TestUnknownGangIsAnswered(t *testing.T) {
	job := mustertesting.MakeJob("j").Policy(busv1alpha1.JobUnknownEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)).Obj()
	w := newWorld(t, job)
	w.start()
	w.remove("j-a-0")
	w.settle()
	look := func() *Plan {
		var pods []*corev1.Pod
		for _, pod := range w.pods {
			pods = append(pods, pod)
		}
		unknown := &schedulingv1beta1.PodGroup{Status: schedulingv1beta1.PodGroupStatus{Phase: schedulingv1beta1.PodGroupUnknown}}
		return newPlan(&Snapshot{Job: defaults.Job(w.job, ""), Pods: pods, Group: unknown, Now: w.now})
	}
	assert.NotNil(t, look().Request, "one runs, one waits for a node")
	w.runAll()
	assert.Nil(t, look().Request, "all run: the PodGroup's phase is of before")
}

func TestWhatHappensToARefusedJobIsAnsweredOnceItIsMended(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(5).MinAvailable(1).
		Task(mustertesting.MakeTask("a", 4).MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartPodAction)).Obj())
	w.start()
	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas = 1 })
	w.refused = true
	w.set("j-a-3", corev1.PodFailed, 1)
	w.remove("j-a-2")
	for _, name := range []string{"j-a-0", "j-a-1"} {
		w.set(name, corev1.PodSucceeded, 0)
	}
	w.settle()
	assert.Equal(t, batchv1alpha1.Running, w.phase(), "what will be restarted has not failed")
	assert.Len(t, w.job.Status.Delayed, 2)
	w.remove("j-a-1")
	w.settle()
	assert.Equal(t, int32(2), w.job.Status.Succeeded)
	assert.Zero(t, w.job.Status.RetryCount)

	w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas = 4 })
	w.refused = false
	v := w.look()
	require.NotNil(t, v.Request)
	assert.Equal(t, busv1alpha1.RestartPodAction, v.Request.Action)
	w.reap()
	w.settle()
	assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 1, "j-a-2": 2, "j-a-3": 2}, w.ran)
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
}

func TestARefusedJobCanBeEnded(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*world)
		want batchv1alpha1.JobPhase
	}{
		"by a Command": {func(w *world) {
			w.command = &busv1alpha1.Command{Action: string(busv1alpha1.AbortJobAction)}
		}, batchv1alpha1.Aborted},
		"by a policy": {func(w *world) { w.set("j-a-2", corev1.PodFailed, 9) }, batchv1alpha1.Terminated},
		"by itself": {func(w *world) {
			for name := range w.pods {
				w.set(name, corev1.PodSucceeded, 0)
			}
		}, batchv1alpha1.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.TerminateJobAction).
				Task(mustertesting.MakeTask("a", 3)).Obj())
			w.start()
			w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Tasks[0].Replicas = 1 })
			w.refused = true
			w.settle()
			require.Len(t, w.names(isRunning), 3)
			c.do(w)
			w.look()
			w.command = nil
			w.reap()
			w.settle()
			assert.Equal(t, c.want, w.phase())
		})
	}
}

// TestAnEvictionIsNoticedThoughNoStatusHasToldOfThePod: the status that counts a new pod may wait; a pod that goes meanwhile still counts
// as evicted.
func TestAnEvictionIsNoticedThoughNoStatusHasToldOfThePod(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)).Obj())
	w.look()
	require.Len(t, w.pods, 2)
	require.True(t, mayWait(w.job, w.lookAndCrash(statusDeferred)))
	require.Empty(t, w.job.Status.TaskRecords)
	w.remove("j-a-0")
	v := w.look()
	require.NotNil(t, v.Request)
	assert.Equal(t, busv1alpha1.RestartJobAction, v.Request.Action)
	assert.Equal(t, batchv1alpha1.Restarting, w.phase())
}

// TestAJobGoesOnThoughNoStatusHasToldOfItsBeginning: the first status may wait; all that happens to a Pending Job happens meanwhile.
func TestAJobGoesOnThoughNoStatusHasToldOfItsBeginning(t *testing.T) {
	begun := func(t *testing.T) *world {
		w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", 2)).Obj())
		for range 2 {
			require.True(t, givesWay(w.job, &w.job.Status, w.lookAndCrash(statusDeferred)))
		}
		require.Len(t, w.pods, 2, "the pods do not wait for it")
		require.Empty(t, w.phase())
		return w
	}
	t.Run("all run", func(t *testing.T) {
		w := begun(t)
		w.set("j-a-0", corev1.PodRunning, 0)
		w.set("j-a-1", corev1.PodRunning, 0)
		w.look()
		assert.Equal(t, batchv1alpha1.Pending, w.phase(), "people see it begin")
		w.look()
		assert.Equal(t, batchv1alpha1.Running, w.phase())
		assert.NotNil(t, w.job.Status.StartTime)
		require.Len(t, w.job.Status.Conditions, 2)
		assert.Equal(t, batchv1alpha1.Pending, w.job.Status.Conditions[0].Status)
		assert.Equal(t, batchv1alpha1.Running, w.job.Status.Conditions[1].Status)
	})
	t.Run("a policy acts", func(t *testing.T) {
		w := begun(t)
		w.set("j-a-0", corev1.PodFailed, 1)
		w.look()
		v := w.look()
		require.NotNil(t, v.Request)
		assert.Equal(t, busv1alpha1.RestartJobAction, v.Request.Action)
		assert.Equal(t, batchv1alpha1.Restarting, w.phase())
		assert.EqualValues(t, 1, w.job.Status.RetryCount)
	})
	t.Run("a pod is evicted", func(t *testing.T) {
		w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", 2)).Obj())
		w.lookAndCrash(statusDeferred)
		w.lookAndCrash(statusDeferred)
		w.remove("j-a-0")
		w.look()
		assert.Equal(t, batchv1alpha1.Pending, w.phase())
		v := w.look()
		require.NotNil(t, v.Request)
		assert.Equal(t, busv1alpha1.RestartJobAction, v.Request.Action)
	})
	t.Run("a Command acts", func(t *testing.T) {
		w := begun(t)
		w.command = &busv1alpha1.Command{Action: string(busv1alpha1.AbortJobAction)}
		w.look()
		w.look()
		assert.Equal(t, batchv1alpha1.Aborting, w.phase())
		assert.Equal(t, []string{"j-a-0", "j-a-1"}, w.names(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }))
	})
}

// TestPodsWhoseEvictionIsAnsweredAreNoReport: the controller may be killed, and the pods may have gone before the next one starts. Then
// only the status says that they were evicted. Without a policy, an unknown pod is still replaced.
func TestPodsWhoseEvictionIsAnsweredAreNoReport(t *testing.T) {
	for name, c := range map[string]struct {
		job  *mustertesting.JobWrapper
		task *mustertesting.TaskWrapper
		want bool
	}{
		"no policy":           {mustertesting.MakeJob("j"), mustertesting.MakeTask("b", 2), true},
		"of other events":     {mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction), mustertesting.MakeTask("b", 2), true},
		"the Job's":           {mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction), mustertesting.MakeTask("b", 2), false},
		"of every failure":    {mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction), mustertesting.MakeTask("b", 2), false},
		"the task's":          {mustertesting.MakeJob("j"), mustertesting.MakeTask("b", 2).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartPodAction), false},
		"the task's, delayed": {mustertesting.MakeJob("j"), mustertesting.MakeTask("b", 2).LifecyclePolicy(inAMinute(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartPodAction)), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.job.Task(mustertesting.MakeTask("a", 1)).Task(c.task.DependsOn("a")).Obj())
			w.start()
			w.succeedAll()
			w.settle()
			require.Len(t, w.pods, 3, "the second task has started while the Job runs")
			before := w.job.Status.DeepCopy()
			before.TaskRecords, before.TaskStatusCount, before.Pending = before.TaskRecords[:1], nil, 0
			assert.Equal(t, c.want, givesWay(w.job, before, w.look()), "pods have come")
			before = w.job.Status.DeepCopy()
			w.set("j-b-0", corev1.PodRunning, 0)
			assert.True(t, givesWay(w.job, before, w.look()), "one of them runs")
		})
	}
}

// TestWhatIsOnlyAReport: phases, and what would run again if it were forgotten, are written at once.
func TestWhatIsOnlyAReport(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(2).Task(mustertesting.MakeTask("a", 4)).Obj())
	report := func() bool {
		before := w.job.Status.DeepCopy()
		return givesWay(w.job, before, w.look())
	}
	assert.True(t, report(), "the Job begins")
	updates := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 1)).Obj())
	assert.False(t, givesWay(updates.job, updates.job.Status.DeepCopy(), updates.look()), "a Job begins whose later specs are compared with this one")
	begun := &Plan{Status: &batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: batchv1alpha1.Pending}}, Members: &Members{}}
	begun.Status.ControlledResources = map[string]string{"plugin-svc": "svc"}
	assert.True(t, givesWay(w.job, &batchv1alpha1.JobStatus{}, begun), "a Job with a plugin begins")
	begun.Status.ControlledResources[volumes.EmptyDirKey("data")] = "data"
	assert.False(t, givesWay(w.job, &batchv1alpha1.JobStatus{}, begun), "a Job begins whose pods have empty directories in a claim's place")
	assert.True(t, report(), "pods have come")
	w.set("j-a-0", corev1.PodRunning, 0)
	assert.True(t, report(), "one runs")
	w.set("j-a-1", corev1.PodRunning, 0)
	assert.False(t, report(), "the Job runs")
	w.set("j-a-2", corev1.PodRunning, 0)
	assert.True(t, report(), "one more runs")
	w.set("j-a-2", corev1.PodSucceeded, 0)
	assert.False(t, report(), "one has succeeded")
	w.set("j-a-1", corev1.PodFailed, 1)
	assert.False(t, report(), "one has failed")
	w.job.Spec.Tasks[0].Replicas = 3
	assert.False(t, report(), "one is to go")
}

// TestARunIsTimedOnlyWhileItGoesOn: time between an abort and the end, or the next run, does not count.
func TestARunIsTimedOnlyWhileItGoesOn(t *testing.T) {
	const ran, waited = time.Minute, 240 * time.Hour
	yes := true
	suspend := func(w *world) {
		w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = &yes })
		w.settle()
	}
	abort := func(w *world) {
		suspend(w)
		w.reap()
		w.settle()
		require.Equal(t, batchv1alpha1.Aborted, w.phase())
	}
	resume := func(w *world) {
		w.edit(func(spec *batchv1alpha1.JobSpec) { spec.Suspend = nil })
		w.settle()
		w.reap()
		w.start()
	}
	for name, c := range map[string]struct {
		lives func(w *world)
		want  time.Duration
	}{
		"it just ends":                         {func(*world) {}, ran},
		"terminated long after it was aborted": {func(w *world) { abort(w); w.passes(waited) }, ran},
		"resumed twice": {func(w *world) {
			for range 2 {
				abort(w)
				w.passes(waited)
				resume(w)
				w.passes(ran)
			}
		}, 3 * ran},
		"restarted": {func(w *world) {
			w.ask(busv1alpha1.RestartJobAction)
			w.reap()
			w.start()
			w.passes(ran)
		}, 2 * ran},
		"restarted after it was resumed": {func(w *world) {
			abort(w)
			w.passes(waited)
			resume(w)
			w.ask(busv1alpha1.RestartJobAction)
			w.reap()
			w.start()
			w.passes(ran)
		}, 2 * ran},
		"its pods take their time to go": {func(w *world) { suspend(w); w.passes(ran); w.reap(); w.settle(); w.passes(waited) }, 2 * ran},
		"resumed before its pods are gone": {func(w *world) {
			suspend(w)
			require.Equal(t, batchv1alpha1.Aborting, w.phase())
			w.passes(ran)
			resume(w)
			w.passes(ran)
		}, 3 * ran},
		"terminated before its pods are gone": {func(w *world) { suspend(w); w.passes(ran) }, 2 * ran},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)).Obj())
			w.start()
			w.passes(ran)
			c.lives(w)
			w.ask(busv1alpha1.TerminateJobAction)
			w.reap()
			w.settle()
			require.Equal(t, batchv1alpha1.Terminated, w.phase())
			assert.Equal(t, c.want, w.job.Status.RunningDuration.Duration)
		})
	}
}

// TestATerminatedJobIsTimedOnce: a Job that is Aborted may have to wait for pods once more.
func TestATerminatedJobIsTimedOnce(t *testing.T) {
	start := metav1.Unix(1000, 0)
	status := &batchv1alpha1.JobStatus{StartTime: &start, State: batchv1alpha1.JobState{Phase: batchv1alpha1.Running}}
	for second, p := range []batchv1alpha1.JobPhase{batchv1alpha1.Aborting, batchv1alpha1.Aborted, batchv1alpha1.Terminating, batchv1alpha1.Terminated} {
		before := status.DeepCopy()
		status.State.Phase = p
		stamp(status, before, start.Add(time.Duration(second+1)*time.Second))
	}
	assert.Equal(t, 2*time.Second, status.RunningDuration.Duration)
}

// TestAFailedJobNamesAPodThatFailed: the first failed pod that is still there, with its exit code; users need not look for it.
func TestAFailedJobNamesAPodThatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		removed string
		want    string
	}{
		"the first":                 {"", "1 of 4 pods have succeeded, minSuccess is 3; pod j-worker-1 failed with exit code 3"},
		"one whose object is there": {"j-worker-1", "1 of 4 pods have succeeded, minSuccess is 3; pod j-worker-2 failed with exit code 4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").MinSuccess(3).MinAvailable(1).Task(mustertesting.MakeTask("worker", 4)).Obj())
			w.start()
			w.set("j-worker-1", corev1.PodFailed, 3)
			w.settle()
			if c.removed != "" {
				w.remove(c.removed)
			}
			w.set("j-worker-3", corev1.PodFailed, 5)
			w.set("j-worker-2", corev1.PodFailed, 4)
			w.set("j-worker-0", corev1.PodSucceeded, 0)
			w.settle()
			require.Equal(t, batchv1alpha1.Failed, w.phase())
			assert.Equal(t, phase.ReasonPodsFailed, w.job.Status.State.Reason)
			assert.Equal(t, c.want, w.job.Status.State.Message)
			conditions := w.job.Status.Conditions
			assert.Equal(t, c.want, conditions[len(conditions)-1].Message)
			w.remove("j-worker-2")
			w.settle()
			assert.Equal(t, c.want, w.job.Status.State.Message, "it stays as it was said")
		})
	}
}

// TestAPipelineSaysWhatWaits: it says which task waits for which. The Job is Pending because a task starts, which is no problem.
func TestAPipelineSaysWhatWaits(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 2).DependsOn("a")).
		Task(mustertesting.MakeTask("c", 1).DependsOn("b")).Obj())
	said := func() string { return w.job.Status.State.Reason + ": " + w.job.Status.State.Message }
	w.start()
	assert.Equal(t, "WaitingForDependency: task b waits for task a; tasks that wait beside it: 1", said())
	w.set("j-a-0", corev1.PodSucceeded, 0)
	w.settle()
	require.Equal(t, batchv1alpha1.Pending, w.phase())
	assert.Equal(t, "DependentTaskStarting: task b starts: 2 pods are pending; task c waits for task b", said())
	w.start()
	assert.Equal(t, "WaitingForDependency: task c waits for task b", said())
	w.set("j-b-0", corev1.PodSucceeded, 0)
	w.set("j-b-1", corev1.PodSucceeded, 0)
	w.settle()
	w.start()
	assert.Equal(t, ": ", said(), "all run")
}

// TestTheFirstBlockerIsSaid: the status of a Job names the first blocker that holds in its phase.
func TestTheFirstBlockerIsSaid(t *testing.T) {
	const pending, running, aborting = batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting
	blocker := func(reason string, while While) Blocker {
		return Blocker{Finding: Finding{Reason: reason, Message: "text of " + reason}, While: while}
	}
	queue, waiting := blocker("queue", WhileLive), blocker("waiting", WhilePending)
	failed, overdue := blocker("failed", Always), blocker(ReasonPodOverdue, Always)
	for name, c := range map[string]struct {
		phase       batchv1alpha1.JobPhase
		terminating int32
		blockers    []Blocker
		reason      string
		message     string
	}{
		"the first":                           {pending, 0, []Blocker{queue, failed, waiting}, "queue", "text of queue"},
		"before what a Pending Job waits for": {pending, 0, []Blocker{failed, waiting}, "failed", "text of failed"},
		"what a Pending Job waits for":        {pending, 0, []Blocker{waiting}, "waiting", "text of waiting"},
		"but not a Running one":               {running, 0, []Blocker{waiting}, "", ""},
		"an overdue pod of a Running Job":     {running, 0, []Blocker{overdue}, ReasonPodOverdue, "text of " + ReasonPodOverdue},
		"an error of a Job that stops":        {aborting, 1, []Blocker{queue, failed, overdue}, "why", "it stops; not done yet: text of failed"},
		"an overdue pod of a Job that stops":  {aborting, 1, []Blocker{queue, overdue, waiting}, "why", "it stops; not done yet: text of " + ReasonPodOverdue},
		"a pod that does not count":           {aborting, 0, []Blocker{overdue}, "why", "it stops"},
	} {
		t.Run(name, func(t *testing.T) {
			job := mustertesting.MakeJob("j").Obj()
			job.Status.State.Phase = c.phase
			status := job.Status.DeepCopy()
			status.Terminating = c.terminating
			if c.phase == aborting {
				status.State.Reason, status.State.Message = "why", "it stops"
			}
			explain(&Snapshot{Job: job, Blockers: c.blockers}, status, dependency.Stage{})
			assert.Equal(t, c.reason, status.State.Reason)
			assert.Equal(t, c.message, status.State.Message)
		})
	}
}

// TestABlockerIncludesLesserOnes: a Job that gets nothing gets no pod either.
func TestABlockerIncludesLesserOnes(t *testing.T) {
	extents := []Extent{BlocksNothing, BlocksPods, BlocksObjects, BlocksRestarts, BlocksStart}
	for i, blocked := range extents {
		s := &Snapshot{}
		s.Block(nil, BlocksStart, WhileLive)
		assert.Empty(t, s.Blockers)
		s.Block(&Finding{Reason: "r"}, blocked, WhileLive)
		for j, extent := range extents {
			assert.Equal(t, j <= i, s.Blocks(extent), "%d blocks %d", i, j)
		}
		assert.Equal(t, blocked == BlocksRestarts, s.isRefused(), "a Job that has not started has nothing to restart")
	}
}
