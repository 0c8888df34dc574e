package ended

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// finished makes a pod of that UID that has ended as it says.
func finished(uid types.UID, p corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}, Status: corev1.PodStatus{Phase: p}}
}

func TestPodTracker(t *testing.T) {
	done, failed, cut := finished("done", corev1.PodSucceeded), finished("failed", corev1.PodFailed), finished("cut", corev1.PodRunning)
	all := []*corev1.Pod{done, failed, cut}
	newTracker := func() *Tracker {
		r := &Tracker{}
		r.Open()
		for _, pod := range all {
			r.Came("j", pod)
		}
		return r
	}

	t.Run("what has finished is known until it is dropped", func(t *testing.T) {
		r := newTracker()
		for _, pod := range all {
			r.Left("j", pod, true)
		}
		ended, told := r.Look("j", nil)
		assert.True(t, told)
		assert.ElementsMatch(t, []*corev1.Pod{done, failed}, ended, "one that runs is as good as evicted")
		r.Drop("j", []*corev1.Pod{done})
		ended, _ = r.Look("j", nil)
		assert.Equal(t, []*corev1.Pod{failed}, ended)
		r.Drop("j", ended)
		assert.Empty(t, r.byJob)
	})
	t.Run("the store is ahead of the handlers", func(t *testing.T) {
		r := newTracker()
		_, told := r.Look("j", all)
		assert.True(t, told)
		_, told = r.Look("j", []*corev1.Pod{done, cut})
		assert.False(t, told)
		r.Left("j", failed, true)
		_, told = r.Look("j", []*corev1.Pod{done, cut})
		assert.True(t, told)
		_, told = r.Look("j", []*corev1.Pod{done, cut, finished("new", corev1.PodPending)})
		assert.True(t, told, "that one has come is seen in the store")
	})
	t.Run("the store shows one that has failed as going", func(t *testing.T) {
		r := newTracker()
		going := failed.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{}
		_, told := r.Look("j", []*corev1.Pod{done, going, cut})
		assert.False(t, told, "it may have failed before")
		r.Changed("j", failed, going)
		ended, told := r.Look("j", []*corev1.Pod{done, going, cut})
		assert.True(t, told)
		assert.Equal(t, []*corev1.Pod{failed}, ended)
		r = newTracker()
		before := failed.DeepCopy()
		before.Status.Phase, before.DeletionTimestamp = corev1.PodRunning, going.DeletionTimestamp
		r.Changed("j", before, going)
		ended, told = r.Look("j", []*corev1.Pod{done, going, cut})
		assert.True(t, told)
		assert.Empty(t, ended, "it was told to go")
	})
	t.Run("the store was looked at before the event came", func(t *testing.T) {
		r := newTracker()
		r.Left("j", done, true)
		_, told := r.Look("j", all)
		assert.True(t, told)
	})
	t.Run("another pod has come in its place", func(t *testing.T) {
		r := newTracker()
		r.Left("j", failed, true)
		successor := finished("new", corev1.PodRunning)
		successor.Name = failed.Name
		ended, told := r.Look("j", []*corev1.Pod{done, cut, successor})
		assert.True(t, told)
		assert.Empty(t, ended)
		ended, _ = r.Look("j", []*corev1.Pod{done, cut})
		assert.Empty(t, ended, "it stays forgotten")
	})
	t.Run("of a controller that stands by", func(t *testing.T) {
		r := newTracker()
		r.isOpen = false
		r.Left("j", done, true)
		going := failed.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{}
		r.Changed("j", failed, going)
		r.Open()
		ended, told := r.Look("j", []*corev1.Pod{failed, cut})
		assert.True(t, told, "who is there is known")
		assert.Empty(t, ended, "another has dealt with it")
	})
	t.Run("nothing stays of a Job that is gone", func(t *testing.T) {
		r := newTracker()
		r.Left("j", done, true)
		r.Forget("j")
		r.Left("j", failed, true)
		assert.Empty(t, r.byJob)
		r.Came("j", failed) // after the Job was
		r.Left("j", failed, false)
		assert.Empty(t, r.byJob)
		r.Drop("j", all)
		_, told := r.Look("j", nil)
		assert.True(t, told)
	})
}
