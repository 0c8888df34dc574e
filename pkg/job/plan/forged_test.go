package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAPodFromTheFutureDoomsNoSuccessor: a user writes on a pod that it is younger than any can be, and then it is evicted. The next pod of
// its name stays.
func TestAPodFromTheFutureDoomsNoSuccessor(t *testing.T) {
	for _, generation := range []string{"1", "2", "2147483647"} {
		t.Run(generation, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj())
			w.start()
			w.pods["j-a-1"].Annotations[batchv1alpha1.PodGenerationAnnotation] = generation
			w.settle()
			w.askToGo("j-a-1")
			w.settle()
			w.reap()
			for range 10 {
				w.settle()
				w.runAll()
				w.reap()
			}
			assert.Equal(t, 2, w.ran["j-a-1"])
			require.Len(t, w.names(func(p *corev1.Pod) bool { return isRunning(p) && !isGoing(p) }), 2)
			assert.LessOrEqual(t, w.job.Status.PodGeneration, int32(2))
		})
	}
}

// TestASurplusPodIsNotedOnce: also one whose index no task has, and that a finalizer keeps.
func TestASurplusPodIsNotedOnce(t *testing.T) {
	for _, index := range []string{"2", "149999", "150000", "999999999"} {
		t.Run(index, func(t *testing.T) {
			w := newWorld(t, mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2)).Obj())
			w.start()
			surplus := w.pods["j-a-1"].DeepCopy()
			surplus.Name, surplus.Annotations[batchv1alpha1.TaskIndexKey] = "j-a-"+index, index
			w.create(surplus)
			w.settle()
			assert.NotNil(t, w.pods[surplus.Name].DeletionTimestamp)
			assert.LessOrEqual(t, w.job.Status.PodGeneration, int32(1))
		})
	}
}

// TestAJobOfBeforeTheBoundRemembersWhoIsToGo: it was stored when a task might have more replicas.
func TestAJobOfBeforeTheBoundRemembersWhoIsToGo(t *testing.T) {
	records := []batchv1alpha1.TaskRecord{{Name: "a", Replaced: []batchv1alpha1.ReplacedPods{{Generation: 3, Indexes: "7,200000"}}}}
	now := policy.ReadRecord(records, "a", 300_000)
	assert.True(t, now.IsReplaced(200_000, 3))
	scaledDown := policy.ReadRecord(records, "a", 5)
	assert.True(t, scaledDown.IsReplaced(7, 3))
	assert.False(t, scaledDown.IsReplaced(200_000, 3), "no task can have it again")
}
