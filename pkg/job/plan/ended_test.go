package plan

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestARemovedPodIsKnownToHaveFinished: it finishes and is removed before any sync.
func TestARemovedPodIsKnownToHaveFinished(t *testing.T) {
	make2 := func(t *testing.T, action busv1alpha1.Action) *world {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction).
			Policy(busv1alpha1.PodFailedEvent, action).Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		return w
	}
	finish := func(w *world, p corev1.PodPhase) {
		w.set("j-a-0", p, 3)
		w.remove("j-a-0")
	}
	once := map[string]int{"j-a-0": 1, "j-a-1": 1}
	t.Run("well", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		finish(w, corev1.PodSucceeded)
		w.settle()
		assert.Equal(t, int32(1), w.job.Status.Succeeded)
		w.set("j-a-1", corev1.PodSucceeded, 0)
		w.settle()
		assert.Equal(t, batchv1alpha1.Completed, w.phase())
		assert.Equal(t, once, w.ran)
	})
	t.Run("badly", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		finish(w, corev1.PodFailed)
		w.look()
		assert.Equal(t, "pod j-a-0 failed with exit code 3; spec.policies[1]: RestartPod", w.lastWord())
		assert.Equal(t, int32(1), w.job.Status.RetryCount)
		w.start()
		assert.Equal(t, map[string]int{"j-a-0": 2, "j-a-1": 1}, w.ran)
		assert.Equal(t, int32(1), w.job.Status.RetryCount, "once")
	})
	t.Run("badly, with no policy for it", func(t *testing.T) {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		finish(w, corev1.PodFailed)
		w.set("j-a-1", corev1.PodSucceeded, 0)
		w.settle()
		assert.Equal(t, int32(1), w.job.Status.Failed)
		assert.Equal(t, once, w.ran)
	})
	t.Run("badly, and it is going", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		w.set("j-a-0", corev1.PodFailed, 3)
		w.askToGo("j-a-0")
		w.look()
		assert.Equal(t, "PodFailed", w.job.Status.State.Reason)
		w.reap()
		w.start()
		assert.Equal(t, map[string]int{"j-a-0": 2, "j-a-1": 1}, w.ran)
		assert.Equal(t, int32(1), w.job.Status.RetryCount, "once")
	})
	t.Run("badly, and it is gone before anybody looks", func(t *testing.T) {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction).
			Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		w.set("j-a-0", corev1.PodFailed, 3)
		w.askToGo("j-a-0")
		w.remove("j-a-0")
		w.settle()
		assert.Equal(t, batchv1alpha1.Running, w.phase())
		assert.Equal(t, int32(1), w.job.Status.Failed)
		assert.Equal(t, once, w.ran)
	})
	t.Run("before it was seen at all", func(t *testing.T) {
		w := newWorld(t, mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Obj())
		w.look()
		w.set("j-a-0", corev1.PodSucceeded, 0)
		w.remove("j-a-0")
		w.settle()
		assert.Equal(t, batchv1alpha1.Completed, w.phase())
		assert.Equal(t, 1, w.ran["j-a-0"])
	})
	t.Run("while others restart", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		w.job.Spec.Tasks[0].Replicas = 3
		w.start()
		w.set("j-a-1", corev1.PodFailed, 1)
		w.look()
		require.Equal(t, batchv1alpha1.Restarting, w.phase())
		finish(w, corev1.PodSucceeded)
		w.set("j-a-2", corev1.PodFailed, 1)
		w.remove("j-a-2")
		w.look()
		w.reap()
		w.look()
		assert.Equal(t, batchv1alpha1.Pending, w.phase())
		w.look()
		assert.Equal(t, int32(2), w.job.Status.RetryCount, "it is answered once the Job runs again")
		w.start()
		assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 2, "j-a-2": 2}, w.ran)
		assert.Equal(t, int32(2), w.job.Status.RetryCount)
	})
	t.Run("while the Job is aborted", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		w.ask(busv1alpha1.AbortJobAction)
		w.look()
		require.Equal(t, batchv1alpha1.Aborting, w.phase())
		w.pods["j-a-0"].DeletionTimestamp, w.pods["j-a-0"].DeletionGracePeriodSeconds = nil, nil // it had ended before it was told to go
		finish(w, corev1.PodSucceeded)
		w.reap()
		w.settle()
		require.Equal(t, batchv1alpha1.Aborted, w.phase())
		w.ask(busv1alpha1.ResumeJobAction)
		w.start()
		assert.Equal(t, map[string]int{"j-a-0": 1, "j-a-1": 2}, w.ran)
	})
	t.Run("to be replaced, for the Job restarts", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartJobAction)
		finish(w, corev1.PodFailed)
		w.settle()
		w.reap()
		w.start()
		assert.Equal(t, map[string]int{"j-a-0": 2, "j-a-1": 2}, w.ran)
		assert.Equal(t, int32(1), w.job.Status.RetryCount)
	})
	t.Run("told to go", func(t *testing.T) {
		w := make2(t, busv1alpha1.RestartPodAction)
		w.askToGo("j-a-0")
		finish(w, corev1.PodSucceeded)
		w.settle()
		assert.Equal(t, batchv1alpha1.Terminating, w.phase(), "that is an eviction")
	})
}

// TestAnEndIsDealtWithOnce: the new pod in its place is evicted before any status has recorded that.
func TestAnEndIsDealtWithOnce(t *testing.T) {
	for name, c := range map[string]struct {
		action busv1alpha1.Action
		first  corev1.PodPhase
		want   map[string]int
	}{
		"a failed pod": {busv1alpha1.RestartPodAction, corev1.PodFailed, map[string]int{"j-a-0": 3, "j-a-1": 1}},
		"one that had succeeded before its task did": {busv1alpha1.RestartTaskAction, corev1.PodSucceeded, map[string]int{"j-a-0": 3, "j-a-1": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, c.action).Task(mustertesting.MakeTask("a", 2)).Obj())
			w.start()
			w.set("j-a-0", c.first, 1)
			if c.first == corev1.PodSucceeded {
				w.look()
				w.set("j-a-1", corev1.PodFailed, 1)
			}
			w.look()
			require.Equal(t, batchv1alpha1.Restarting, w.phase())
			w.reap()
			w.look()
			w.lookAndCrash(statusDeferred)
			require.Equal(t, 2, w.ran["j-a-0"])
			w.askToGo("j-a-0")
			w.lookAndCrash(statusDeferred)
			assert.NotEqual(t, batchv1alpha1.Failed, w.phase())
			assert.Zero(t, w.job.Status.Failed+w.job.Status.Succeeded)
			w.reap()
			w.start()
			assert.Equal(t, c.want, w.ran)
			assert.Equal(t, int32(1), w.job.Status.RetryCount)
		})
	}
}

// lastWord is what the latest condition says.
func (w *world) lastWord() string {
	return w.job.Status.Conditions[len(w.job.Status.Conditions)-1].Message
}

// ends are the removed pods whose end is kept.
func (w *world) ends() []*corev1.Pod {
	ended, _ := w.podTracker.Look(w.job.UID, slices.Collect(maps.Values(w.pods)))
	return ended
}

// TestTheStatusTellsBeforeAnEndIsForgotten: a look whose status could not be written, or waits, leaves it to the next.
func TestTheStatusTellsBeforeAnEndIsForgotten(t *testing.T) {
	for name, at := range map[string]crash{"not written": beforeWrite, "written later": statusDeferred} {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		w.set("j-a-0", corev1.PodSucceeded, 0)
		w.remove("j-a-0")
		w.lookAndCrash(at)
		require.Len(t, w.ends(), 1, name)
		w.unwritten = nil // whatever is known of what is not written
		w.settle()
		assert.Empty(t, w.ends())
		assert.Equal(t, int32(1), w.job.Status.Succeeded, name)
		assert.Equal(t, 1, w.ran["j-a-0"], name)
	}
}
