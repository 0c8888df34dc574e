package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// inAMinute is a policy whose timeout is one minute.
func inAMinute(event busv1alpha1.Event, action busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{Event: event, Action: action, Timeout: &metav1.Duration{Duration: time.Minute}}
}

// passes lets time pass and looks until nothing changes.
func (w *world) passes(d time.Duration) {
	w.now = w.now.Add(d)
	w.settle()
}

func TestRestartPartitionTouchesNothingElse(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("m", 1)).
		Task(mustertesting.MakeTask("a", 6).Partitions(3, 2).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPartitionAction)).Obj())
	w.start()
	assert.Equal(t, "1", w.pods["j-a-3"].Labels[batchv1alpha1.PartitionIDKey])
	w.set("j-a-2", corev1.PodFailed, 1)
	w.look()
	assert.Equal(t, batchv1alpha1.Restarting, w.phase())
	assert.Equal(t, int32(2), w.job.Status.Terminating)
	w.reap()
	w.start()
	assert.Equal(t, map[string]int{"j-m-0": 1, "j-a-0": 1, "j-a-1": 1, "j-a-2": 2, "j-a-3": 2, "j-a-4": 1, "j-a-5": 1}, w.ran)
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Equal(t, int32(0), w.job.Status.Version)
}

// TestATimeoutNeverPassesEarly: the API's times are whole seconds. An event at 1000.9 s has the time 1000 s.
func TestATimeoutNeverPassesEarly(t *testing.T) {
	for event, happens := range map[busv1alpha1.Event]func(*world){
		busv1alpha1.PodFailedEvent:  func(w *world) { w.set("j-a-1", corev1.PodFailed, 1) },
		busv1alpha1.PodEvictedEvent: func(w *world) { w.remove("j-a-1") },
	} {
		t.Run(string(event), func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).LifecyclePolicy(inAMinute(event, busv1alpha1.TerminateJobAction)).
				Task(mustertesting.MakeTask("a", 2)).Obj())
			w.start()
			w.now = w.now.Add(900 * time.Millisecond)
			happens(w)
			w.settle()
			require.Len(t, w.job.Status.Delayed, 1)
			w.job.Status.Delayed[0].Since = w.job.Status.Delayed[0].Since.Rfc3339Copy()
			for _, ended := range w.pods {
				for i := range ended.Status.ContainerStatuses {
					ended.Status.ContainerStatuses[i].State.Terminated.FinishedAt = metav1.Unix(1000, 0)
				}
			}
			w.passes(time.Minute - time.Millisecond)
			assert.Equal(t, batchv1alpha1.Running, w.phase())
			w.passes(time.Second)
			assert.Equal(t, batchv1alpha1.Terminating, w.phase())
		})
	}
}

// TestEvictionIsAnsweredUnlessTheNewPodRuns: the new pod of an evicted one comes at once, and has the time of the
// timeout to run.
func TestEvictionIsAnsweredUnlessTheNewPodRuns(t *testing.T) {
	evicted := func(t *testing.T) *world {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).
			LifecyclePolicy(inAMinute(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction)).Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		w.askToGo("j-a-1")
		w.settle()
		w.reap()
		w.settle()
		require.Equal(t, 2, w.ran["j-a-1"], "the new pod comes at once")
		require.Equal(t, []batchv1alpha1.DelayedEvent{{Event: "PodEvicted", Task: "a", Indexes: "1", Since: metav1.NewTime(w.now)}},
			w.job.Status.Delayed)
		w.passes(time.Minute)
		require.Equal(t, batchv1alpha1.Running, w.phase())
		return w
	}
	t.Run("it does not run", func(t *testing.T) {
		w := evicted(t)
		w.passes(time.Second)
		assert.Equal(t, batchv1alpha1.Terminating, w.phase())
		assert.Equal(t, "pod j-a-1 was evicted, and no pod of its name has run since; spec.policies[0]: TerminateJob", w.job.Status.State.Message)
		assert.Empty(t, w.job.Status.Delayed)
	})
	t.Run("it runs", func(t *testing.T) {
		w := evicted(t)
		w.runAll()
		w.settle()
		assert.Empty(t, w.job.Status.Delayed)
		w.passes(time.Hour)
		assert.Equal(t, batchv1alpha1.Running, w.phase())
	})
	t.Run("it goes as well", func(t *testing.T) {
		w := evicted(t)
		w.remove("j-a-1")
		w.passes(time.Second)
		assert.Equal(t, batchv1alpha1.Terminating, w.phase(), "the first eviction counts")
	})
}

// TestFailureIsAnsweredThoughThePodIsGone: all that is known of it then is what the status says.
func TestFailureIsAnsweredThoughThePodIsGone(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).
		LifecyclePolicy(inAMinute(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)).Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.set("j-a-1", corev1.PodFailed, 9)
	w.settle()
	w.remove("j-a-1")
	w.dies()
	w.passes(time.Minute)
	assert.Equal(t, 1, w.ran["j-a-1"], "a finished pod that is removed is no eviction")
	assert.Equal(t, int32(1), w.job.Status.Failed)
	w.passes(time.Second)
	assert.Equal(t, 2, w.ran["j-a-1"])
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Empty(t, w.job.Status.Delayed)
}

// TestJobThatWillBeRestartedHasNotFailed: all pods have failed, and the policy's action is still to come.
func TestJobThatWillBeRestartedHasNotFailed(t *testing.T) {
	for action, want := range map[busv1alpha1.Action]batchv1alpha1.JobPhase{
		busv1alpha1.RestartJobAction: batchv1alpha1.Running, busv1alpha1.RestartPodAction: batchv1alpha1.Running,
		busv1alpha1.AbortJobAction: batchv1alpha1.Failed,
	} {
		w := newWorld(t, mustertesting.MakeJob("j").LifecyclePolicy(inAMinute(busv1alpha1.PodFailedEvent, action)).
			Task(mustertesting.MakeTask("a", 1)).Obj())
		w.start()
		w.set("j-a-0", corev1.PodFailed, 1)
		w.settle()
		assert.Equal(t, want, w.phase(), "%s", action)
		if want == batchv1alpha1.Failed {
			assert.Empty(t, w.job.Status.Delayed)
			continue
		}
		w.passes(time.Minute + time.Second)
		w.reap()
		w.settle()
		assert.Equal(t, 2, w.ran["j-a-0"], "%s", action)
	}
}

func TestCompletionIsAnsweredLater(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("ps", 1)).Task(mustertesting.MakeTask("worker", 2).
		LifecyclePolicy(inAMinute(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction))).Obj())
	w.start()
	w.set("j-worker-0", corev1.PodSucceeded, 0)
	w.set("j-worker-1", corev1.PodSucceeded, 0)
	w.settle()
	w.passes(time.Minute)
	assert.Equal(t, batchv1alpha1.Running, w.phase())
	w.passes(time.Second)
	assert.Equal(t, batchv1alpha1.Completing, w.phase())
	assert.Equal(t, "all 2 pods of task worker have succeeded; spec.tasks[1].policies[0]: CompleteJob", w.job.Status.State.Message)
}

// restart makes a pod one whose containers were restarted so often.
func (w *world) restart(name string, times int32) {
	pod := w.pods[name].DeepCopy()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: times}}
	w.pods[name] = pod
}

func TestRestartedContainersAreAnsweredLater(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).
		LifecyclePolicy(inAMinute(busv1alpha1.TaskFailedEvent, busv1alpha1.RestartTaskAction))).Obj())
	w.start()
	w.restart("j-a-0", 3)
	w.settle()
	w.passes(30 * time.Second)
	w.restart("j-a-0", 4)
	w.passes(30 * time.Second)
	assert.Equal(t, batchv1alpha1.Running, w.phase())
	w.passes(time.Second)
	assert.Equal(t, batchv1alpha1.Restarting, w.phase(), "the first time counts")
	w.reap()
	w.start()
	assert.Equal(t, map[string]int{"j-a-0": 2, "j-a-1": 2}, w.ran)
	w.passes(time.Hour)
	assert.Equal(t, batchv1alpha1.Running, w.phase())
}

// TestAnActionSparesWhatItIsNotAbout: the restart of one pod leaves the deadlines of other pods alone, and the restart of all does not.
func TestAnActionSparesWhatItIsNotAbout(t *testing.T) {
	for action, want := range map[busv1alpha1.Action]string{busv1alpha1.RestartPodAction: "1", busv1alpha1.RestartTaskAction: "", busv1alpha1.RestartJobAction: ""} {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).MaxRetry(9).LifecyclePolicy(inAMinute(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction)).
			Policy(busv1alpha1.PodFailedEvent, action).Task(mustertesting.MakeTask("a", 3)).Obj())
		w.start()
		w.askToGo("j-a-1")
		w.settle()
		require.Len(t, w.job.Status.Delayed, 1)
		w.set("j-a-0", corev1.PodFailed, 1)
		w.settle()
		left := ""
		for _, entry := range w.job.Status.Delayed {
			left += entry.Indexes
		}
		assert.Equal(t, want, left, "%s", action)
	}
}

// TestJobUpdated: a change by the user is answered; suspending, and values that the controller fills in, are not.
func TestJobUpdated(t *testing.T) {
	started := func(action busv1alpha1.Action) *world {
		job := mustertesting.MakeJob("j").MaxRetry(9).Policy(busv1alpha1.JobUpdatedEvent, action).
			Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}).
			Task(mustertesting.MakeTask("a", 2)).Obj()
		job.Generation = 1
		w := newWorld(t, job)
		w.start()
		return w
	}
	yes, no := true, false
	for name, c := range map[string]struct {
		edit func(*batchv1alpha1.JobSpec)
		want batchv1alpha1.JobPhase
	}{
		"a scaled task":  {func(s *batchv1alpha1.JobSpec) { s.Tasks[0].Replicas = 3 }, batchv1alpha1.Restarting},
		"another class":  {func(s *batchv1alpha1.JobSpec) { s.PriorityClassName = "high" }, batchv1alpha1.Restarting},
		"nothing":        {func(*batchv1alpha1.JobSpec) {}, batchv1alpha1.Running},
		"not suspended":  {func(s *batchv1alpha1.JobSpec) { s.Suspend = &no }, batchv1alpha1.Running},
		"suspended":      {func(s *batchv1alpha1.JobSpec) { s.Suspend = &yes }, batchv1alpha1.Aborting},
		"no such policy": {func(s *batchv1alpha1.JobSpec) { s.Policies = nil }, batchv1alpha1.Running},
		"a claim's name ": {func(s *batchv1alpha1.JobSpec) {
			s.Volumes[0].VolumeClaimName = volumes.GeneratedName(mustertesting.MakeJob("j").Obj(), &s.Volumes[0])
		}, batchv1alpha1.Running},
	} {
		t.Run(name, func(t *testing.T) {
			w := started(busv1alpha1.RestartJobAction)
			w.edit(c.edit)
			w.settle()
			assert.Equal(t, c.want, w.phase())
			if c.want == batchv1alpha1.Restarting {
				assert.Equal(t, "the spec was changed; spec.policies[0]: RestartJob", w.job.Status.State.Message)
				w.reap()
				w.start()
				assert.Equal(t, int32(1), w.job.Status.RetryCount, "a change is answered once")
			}
		})
	}
}

// TestResumeByAnEdit: an aborted Job whose spec is changed goes on if a policy says so, but not against spec.suspend.
func TestResumeByAnEdit(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.AbortJobAction).
		Policy(busv1alpha1.JobUpdatedEvent, busv1alpha1.ResumeJobAction).Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.edit(func(s *batchv1alpha1.JobSpec) { s.PriorityClassName = "low" })
	w.settle()
	assert.Equal(t, batchv1alpha1.Running, w.phase(), "what runs need not be resumed")
	w.set("j-a-0", corev1.PodFailed, 1)
	w.settle()
	w.reap()
	w.settle()
	require.Equal(t, batchv1alpha1.Aborted, w.phase())
	w.edit(func(s *batchv1alpha1.JobSpec) { s.PriorityClassName = "high" })
	w.settle()
	assert.Equal(t, batchv1alpha1.Pending, w.phase())
	w.reap()
	w.start()
	assert.Equal(t, map[string]int{"j-a-0": 2, "j-a-1": 2}, w.ran)
	assert.Zero(t, w.job.Status.RetryCount)

	yes := true
	w.edit(func(s *batchv1alpha1.JobSpec) { s.Suspend = &yes })
	w.settle()
	w.reap()
	w.settle()
	require.Equal(t, batchv1alpha1.Aborted, w.phase())
	w.edit(func(s *batchv1alpha1.JobSpec) { s.PriorityClassName = "low" })
	w.settle()
	assert.Equal(t, batchv1alpha1.Aborted, w.phase())
}

// TestACommandThatDoesNothingHidesNothing: a Command that the phase does not honour does not swallow what a policy
// answers at the same look.
func TestACommandThatDoesNothingHidesNothing(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)).Obj())
	w.start()
	w.set("j-a-0", corev1.PodFailed, 1)
	w.command = &busv1alpha1.Command{ObjectMeta: metav1.ObjectMeta{UID: "c"}, Action: string(busv1alpha1.ResumeJobAction)}
	v := w.look()
	assert.True(t, v.CommandIgnored)
	assert.Equal(t, "c", w.job.Status.HandledCommand)
	assert.Equal(t, batchv1alpha1.Restarting, w.phase())
	assert.Equal(t, "PodFailed", w.job.Status.State.Reason)
}

// TestAnActionIsNotPutOff: an action that leads back to its own phase, as no pod has to end, counts as a run. If it were put off, only the
// memory of its effect would be left.
func TestAnActionIsNotPutOff(t *testing.T) {
	w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(3).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartPodAction).
		Task(mustertesting.MakeTask("a", 2)).Obj())
	w.settle()
	require.Equal(t, batchv1alpha1.Pending, w.phase())
	w.remove("j-a-1")
	w.lookAndCrash(statusPaced)
	w.settle()
	assert.Equal(t, batchv1alpha1.Pending, w.phase())
	assert.Equal(t, int32(1), w.job.Status.RetryCount)
	assert.Contains(t, w.pods, "j-a-1")
}

// TestWhatWasSeenIsForgottenWithTheStatusThatItWasToFollow: it is not added to another, of a later run, say.
func TestWhatWasSeenIsForgottenWithTheStatusThatItWasToFollow(t *testing.T) {
	before := batchv1alpha1.JobStatus{Running: 1}
	seen := NewUnwritten(&before, &batchv1alpha1.JobStatus{TaskRecords: []batchv1alpha1.TaskRecord{{Name: "a", Failed: "0"}}})
	same, other := before.DeepCopy(), batchv1alpha1.JobStatus{Version: 1}
	seen.addTo(same)
	seen.addTo(&other)
	assert.Equal(t, "0", same.TaskRecords[0].Failed)
	assert.Empty(t, other.TaskRecords)
}
