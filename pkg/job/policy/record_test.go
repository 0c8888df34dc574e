package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// TestRenewAllIsRenewForEach: it is there for its cost alone.
func TestRenewAllIsRenewForEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string) indexes.Set {
			return indexes.Of(rapid.SliceOf(rapid.Int32Range(0, 9)).Draw(t, label)...)
		}
		one := Record{Created: some("created"), Succeeded: some("succeeded"), Failed: some("failed"), Completed: rapid.Bool().Draw(t, "completed")}
		all := one.Clone()
		present, renewed := some("present"), some("renewed")
		pods := map[int32]*corev1.Pod{}
		for index := range present.All() {
			pods[index] = pod(PodName("j", "a", index), corev1.PodRunning)
		}
		for index := range renewed.All() {
			one.Renew(index, pods[index])
		}
		all.RenewAll(renewed, pods)
		want, _ := one.Write("a")
		got, _ := all.Write("a")
		require.Equal(t, want, got)
	})
}

// TestRewind: all pods run anew except the succeeded ones.
func TestRewind(t *testing.T) {
	ended := func(indexes ...int32) map[int32]*corev1.Pod {
		pods := map[int32]*corev1.Pod{}
		for _, index := range indexes {
			pods[index] = pod(PodName("j", "a", index), corev1.PodFailed)
			pods[index].Annotations = map[string]string{batchv1alpha1.PodGenerationAnnotation: fmt.Sprint(10 + index)}
		}
		return pods
	}
	m := Record{Created: indexes.Of(0, 1, 2, 3, 4), Succeeded: indexes.Of(0), Failed: indexes.Of(1), Completed: true, Replaced: map[int32]int32{9: 5}}
	m.Rewind(ended(1, 2, 3))
	assert.Equal(t, "0", m.Created.String())
	assert.Equal(t, "0", m.Succeeded.String())
	assert.Empty(t, m.Failed.String())
	assert.True(t, m.Completed, "none of the succeeded pods runs anew")
	assert.Equal(t, map[int32]int32{1: 11, 2: 12, 3: 13, 9: 5}, m.Replaced, "these pods are to go")
}

// TestReopen: a completion that was handled, but whose answer was not executed, is seen again. A failed pod runs anew when the Job is
// resumed.
func TestReopen(t *testing.T) {
	known := func() Record {
		return Record{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0), Failed: indexes.Of(1, 2), Completed: true}
	}
	for name, c := range map[string]struct {
		event     Event
		completed bool
	}{
		"a failure":               {Event{Type: busv1alpha1.PodFailedEvent, Index: 1}, true},
		"a completion":            {Event{Type: busv1alpha1.TaskCompletedEvent, Index: -1}, false},
		"an eviction":             {Event{Type: busv1alpha1.PodEvictedEvent, Index: 1}, true},
		"too many restarts of it": {Event{Type: busv1alpha1.TaskFailedEvent, Index: -1}, true},
	} {
		m := known()
		m.Reopen(c.event)
		assert.Equal(t, "1-2", m.Failed.String(), name)
		assert.Equal(t, c.completed, m.Completed, name)
		assert.Equal(t, "0", m.Succeeded.String(), name)
		assert.Equal(t, "0-2", m.Created.String(), name)
	}
}
