package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

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
