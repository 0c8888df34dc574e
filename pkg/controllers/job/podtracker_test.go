package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// finished makes a pod of that UID that has ended as it says.
func finished(uid types.UID, p corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}, Status: corev1.PodStatus{Phase: p}}
}

func TestPodTracker(t *testing.T) {
	done, failed, cut := finished("done", corev1.PodSucceeded), finished("failed", corev1.PodFailed), finished("cut", corev1.PodRunning)
	all := []*corev1.Pod{done, failed, cut}
	newTracker := func() *podTracker {
		r := &podTracker{}
		r.open()
		for _, pod := range all {
			r.came("j", pod)
		}
		return r
	}

	t.Run("what has finished is known until it is dropped", func(t *testing.T) {
		r := newTracker()
		for _, pod := range all {
			r.left("j", pod, true)
		}
		ended, told := r.look("j", nil)
		assert.True(t, told)
		assert.ElementsMatch(t, []*corev1.Pod{done, failed}, ended, "one that runs is as good as evicted")
		r.drop("j", []*corev1.Pod{done})
		ended, _ = r.look("j", nil)
		assert.Equal(t, []*corev1.Pod{failed}, ended)
		r.drop("j", ended)
		assert.Empty(t, r.byJob)
	})
	t.Run("the store is ahead of the handlers", func(t *testing.T) {
		r := newTracker()
		_, told := r.look("j", all)
		assert.True(t, told)
		_, told = r.look("j", []*corev1.Pod{done, cut})
		assert.False(t, told)
		r.left("j", failed, true)
		_, told = r.look("j", []*corev1.Pod{done, cut})
		assert.True(t, told)
		_, told = r.look("j", []*corev1.Pod{done, cut, finished("new", corev1.PodPending)})
		assert.True(t, told, "that one has come is seen in the store")
	})
	t.Run("the store shows one that has failed as going", func(t *testing.T) {
		r := newTracker()
		going := failed.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{}
		_, told := r.look("j", []*corev1.Pod{done, going, cut})
		assert.False(t, told, "it may have failed before")
		r.changed("j", failed, going)
		ended, told := r.look("j", []*corev1.Pod{done, going, cut})
		assert.True(t, told)
		assert.Equal(t, []*corev1.Pod{failed}, ended)
		r = newTracker()
		before := failed.DeepCopy()
		before.Status.Phase, before.DeletionTimestamp = corev1.PodRunning, going.DeletionTimestamp
		r.changed("j", before, going)
		ended, told = r.look("j", []*corev1.Pod{done, going, cut})
		assert.True(t, told)
		assert.Empty(t, ended, "it was told to go")
	})
	t.Run("the store was looked at before the event came", func(t *testing.T) {
		r := newTracker()
		r.left("j", done, true)
		_, told := r.look("j", all)
		assert.True(t, told)
	})
	t.Run("another pod has come in its place", func(t *testing.T) {
		r := newTracker()
		r.left("j", failed, true)
		successor := finished("new", corev1.PodRunning)
		successor.Name = failed.Name
		ended, told := r.look("j", []*corev1.Pod{done, cut, successor})
		assert.True(t, told)
		assert.Empty(t, ended)
		ended, _ = r.look("j", []*corev1.Pod{done, cut})
		assert.Empty(t, ended, "it stays forgotten")
	})
	t.Run("of a controller that stands by", func(t *testing.T) {
		r := newTracker()
		r.isOpen = false
		r.left("j", done, true)
		going := failed.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{}
		r.changed("j", failed, going)
		r.open()
		ended, told := r.look("j", []*corev1.Pod{failed, cut})
		assert.True(t, told, "who is there is known")
		assert.Empty(t, ended, "another has dealt with it")
	})
	t.Run("nothing stays of a Job that is gone", func(t *testing.T) {
		r := newTracker()
		r.left("j", done, true)
		r.forget("j")
		r.left("j", failed, true)
		assert.Empty(t, r.byJob)
		r.came("j", failed) // after the Job was
		r.left("j", failed, false)
		assert.Empty(t, r.byJob)
		r.drop("j", all)
		_, told := r.look("j", nil)
		assert.True(t, told)
	})
}

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

// TestAWriteOfUnknownOutcomeTellsOfEnds: the API server has written the status and says that it took too long. A pod that had succeeded
// was swept away meanwhile, and is to run again with its task.
func TestAWriteOfUnknownOutcomeTellsOfEnds(t *testing.T) {
	for name, isWritten := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.podTracker.open()
			job := d.runsTwo(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction).
				Task(mustertesting.MakeTask("a", 2)).Obj(), batchv1alpha1.TaskRecord{Name: "a", Created: "0-1", Succeeded: "0"})
			pods, err := d.podsOf(job)
			require.NoError(t, err)
			for _, pod := range pods {
				last := pod.DeepCopy()
				if pod.Annotations[batchv1alpha1.TaskIndexKey] == "0" {
					last.Status.Phase = corev1.PodSucceeded
					require.NoError(t, d.podIndex.Delete(pod))
					d.podHandler().OnDelete(last)
					continue
				}
				last.Status.Phase = corev1.PodFailed
				d.shows(last)
			}
			once := true
			d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if !once {
					return false, nil, nil
				}
				once = false
				if isWritten {
					update := action.(clienttesting.UpdateAction)
					require.NoError(t, d.muster.Tracker().Update(update.GetResource(), update.GetObject(), update.GetNamespace()))
				}
				return true, nil, apierrors.NewTimeoutError("it took too long", 1)
			})
			_, err = d.looks()
			require.Error(t, err)
			if isWritten {
				require.Equal(t, batchv1alpha1.Restarting, d.job().Status.State.Phase)
			}
			_, err = d.looks()
			require.NoError(t, err)
			status := d.job().Status
			assert.Equal(t, int32(1), status.RetryCount)
			require.Len(t, status.TaskRecords, 1)
			assert.Empty(t, status.TaskRecords[0].Succeeded, "it runs again with its task")
		})
	}
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

// TestTheStatusTellsBeforeAnEndIsForgotten: a look whose status could not be written, or waits, leaves it to the next.
func TestTheStatusTellsBeforeAnEndIsForgotten(t *testing.T) {
	for name, at := range map[string]crash{"not written": beforeWrite, "written later": statusDeferred} {
		w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj())
		w.start()
		w.set("j-a-0", corev1.PodSucceeded, 0)
		w.remove("j-a-0")
		w.lookAndCrash(at)
		require.Len(t, w.podTracker.byJob[w.job.UID].ends, 1, name)
		w.unwritten = nil // whatever is known of what is not written
		w.settle()
		assert.Empty(t, w.podTracker.byJob[w.job.UID].ends)
		assert.Equal(t, int32(1), w.job.Status.Succeeded, name)
		assert.Equal(t, 1, w.ran["j-a-0"], name)
	}
}

// came has the informer report a pod.
func (d *desk) came(pod *corev1.Pod) { d.podHandler().OnAdd(pod, false) }

// runsTwo shows a Job that runs two pods of its task a.
func (d *desk) runsTwo(job *batchv1alpha1.Job, record batchv1alpha1.TaskRecord) *batchv1alpha1.Job {
	job.UID, job.Generation = "job-uid", 1
	job.Status = d.since(batchv1alpha1.Running, time.Hour, "")
	job.Status.TaskRecords = []batchv1alpha1.TaskRecord{record}
	d.shows(job)
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).UID("group").Obj()
	group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)}
	group.Status.Phase = schedulingv1beta1.PodGroupRunning
	d.shows(group)
	for index := range int32(2) {
		pod := newPod(job, &job.Spec.Tasks[0], index)
		pod.UID, pod.Status.Phase = types.UID(pod.Name), corev1.PodRunning
		d.shows(pod)
		d.came(pod)
	}
	return job
}

// TestTheHandlersKeepThePodTracker: through the Controller, with a store that is ahead of its handlers.
func TestTheHandlersKeepThePodTracker(t *testing.T) {
	d := newDesk(t)
	d.podTracker.open()
	job := d.runsTwo(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj(), batchv1alpha1.TaskRecord{Name: "a", Created: "0-1"})
	pods := make([]*corev1.Pod, 2)
	for index := range pods {
		one, _, err := d.podIndex.GetByKey(fmt.Sprintf("default/j-a-%d", index))
		require.NoError(t, err)
		pods[index] = one.(*corev1.Pod)
	}
	_, err := d.looks()
	require.NoError(t, err)

	require.NoError(t, d.podIndex.Delete(pods[0]))
	before := d.job().Status
	after, err := d.looks()
	require.NoError(t, err)
	assert.Equal(t, retrySoon, after)
	assert.Equal(t, before, d.job().Status, "it is not known yet how the pod ended")
	created, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, created.Items, 2, "none was created in its place")

	last := pods[0].DeepCopy()
	last.Status.Phase = corev1.PodSucceeded
	d.podHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "default/j-a-0", Obj: last})
	d.time.SetTime(d.time.Now().Add(time.Minute))
	_, err = d.looks()
	require.NoError(t, err)
	assert.Equal(t, "0", d.job().Status.TaskRecords[0].Succeeded)
	ended, told := d.podTracker.look(job.UID, pods[1:])
	assert.True(t, told)
	assert.Empty(t, ended, "the status tells")

	// A client removes a pod that has failed.
	failed := pods[1].DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	going := failed.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: d.time.Now()}
	d.podHandler().OnUpdate(failed, going)
	d.podHandler().OnDelete(going)
	ended, told = d.podTracker.look(job.UID, nil)
	assert.True(t, told)
	assert.Equal(t, []*corev1.Pod{failed}, ended, "as it was before it was told to go")
	d.came(pods[1])
	d.podTracker.drop(job.UID, ended)

	// The informer has missed the end of one and the beginning of another, and shows a change. The creator of that knew of the end.
	next := pods[1].DeepCopy()
	next.UID = "another"
	d.podHandler().OnUpdate(failed, next)
	ended, told = d.podTracker.look(job.UID, []*corev1.Pod{next})
	assert.True(t, told)
	assert.Empty(t, ended)

	// A client detaches a pod.
	detached := next.DeepCopy()
	detached.OwnerReferences = nil
	d.podHandler().OnUpdate(next, detached)
	_, told = d.podTracker.look(job.UID, nil)
	assert.True(t, told, "no event of its deletion is to come")
	d.podHandler().OnUpdate(detached, next)
	_, told = d.podTracker.look(job.UID, nil)
	assert.False(t, told)

	d.jobHandler().OnDelete(job)
	assert.Empty(t, d.podTracker.byJob)

	d.came(next)
	over := d.job()
	over.Status = d.since(batchv1alpha1.Completed, time.Hour, "")
	d.shows(over)
	_, err = d.looks()
	require.NoError(t, err)
	assert.Empty(t, d.podTracker.byJob, "nothing is kept of a Job that has ended")
}

// TestALargeJobIsLookedAtLessOften: one look at 50,000 pods after each change would occupy a processor.
func TestALargeJobIsLookedAtLessOften(t *testing.T) {
	c := &Controller{}
	assert.Zero(t, c.lookPause("j"), "a Job without pods is looked at at once")
	assert.Equal(t, 20*time.Millisecond, c.gatherPause("j"))
	for i := range 5000 {
		c.podTracker.came("j", finished(types.UID(fmt.Sprint(i)), corev1.PodRunning))
	}
	assert.Equal(t, 150*time.Millisecond, c.lookPause("j"))
	assert.Equal(t, 170*time.Millisecond, c.gatherPause("j"))
	assert.Zero(t, c.lookPause("other"))
	c.podTracker.left("j", finished("0", corev1.PodRunning), true)
	assert.Equal(t, 4999, c.podTracker.count("j"))
}
