package job

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
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
