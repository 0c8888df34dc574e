package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/indexes"
)

// TestRenewAllIsRenewForEach: it is there for its cost alone.
func TestRenewAllIsRenewForEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string) indexes.Set {
			return indexes.Of(rapid.SliceOf(rapid.Int32Range(0, 9)).Draw(t, label)...)
		}
		one := Memory{Created: some("created"), Succeeded: some("succeeded"), Failed: some("failed"), Completed: rapid.Bool().Draw(t, "completed")}
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
		want, _ := one.Record("a")
		got, _ := all.Record("a")
		require.Equal(t, want, got)
	})
}

// TestReopen: an event that was handled, but whose answer was not executed, is seen again.
func TestReopen(t *testing.T) {
	known := func() Memory {
		return Memory{Created: indexes.Of(0, 1, 2), Succeeded: indexes.Of(0), Failed: indexes.Of(1, 2), Completed: true}
	}
	for name, c := range map[string]struct {
		happening Happening
		failed    string
		completed bool
	}{
		"a failure":               {Happening{Event: busv1alpha1.PodFailedEvent, Index: 1}, "2", true},
		"a failure not known of":  {Happening{Event: busv1alpha1.PodFailedEvent, Index: 7}, "1-2", true},
		"a completion":            {Happening{Event: busv1alpha1.TaskCompletedEvent, Index: -1}, "1-2", false},
		"an eviction":             {Happening{Event: busv1alpha1.PodEvictedEvent, Index: 1}, "1-2", true},
		"too many restarts of it": {Happening{Event: busv1alpha1.TaskFailedEvent, Index: -1}, "1-2", true},
	} {
		m := known()
		m.Reopen(c.happening)
		assert.Equal(t, c.failed, m.Failed.String(), name)
		assert.Equal(t, c.completed, m.Completed, name)
		assert.Equal(t, "0", m.Succeeded.String(), name)
		assert.Equal(t, "0-2", m.Created.String(), name)
	}
}
