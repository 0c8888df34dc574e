package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
)

// TestADeletedJobEndsWhateverHappens: it may be deleted at any time. From then on no pod is created, no policy is asked, and each status is
// consistent.
func TestADeletedJobEndsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawJob(t, 3, later, busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction,
			busv1alpha1.AbortJobAction, busv1alpha1.CompleteJobAction))
		for range rapid.IntRange(0, 30).Draw(t, "steps before") {
			somethingHappens(t, w)
			watch(t, w)
		}
		w.job.DeletionTimestamp = &metav1.Time{Time: w.now}
		created, retries := w.uids, w.job.Status.RetryCount
		for range rapid.IntRange(0, 30).Draw(t, "steps after") {
			somethingHappens(t, w)
			watch(t, w)
		}
		calmDown(w)
		require.True(t, phase.KeepsOnlyFinished(w.phase()), "ends as %s: %+v", w.phase(), w.job.Status)
		require.Equal(t, created, w.uids, "pods were created")
		require.Equal(t, retries, w.job.Status.RetryCount)
	})
}
