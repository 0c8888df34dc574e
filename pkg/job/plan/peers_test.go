package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests named after a T and a number keep out what other projects' users met: peers.md has the list.

// mark is one thing that a watch may show of a pod that is taken away.
type mark func(w *world, name string)

func disrupted(w *world, name string) {
	pod := w.pods[name].DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(w.now)})
	w.pods[name] = pod
}

func deleted(w *world, name string) { w.askToGo(name) }
func killed(w *world, name string)  { w.set(name, corev1.PodFailed, 143) }
func obeyed(w *world, name string)  { w.set(name, corev1.PodSucceeded, 0) } // the program ends well when it is told to go
func gone(w *world, name string)    { w.remove(name) }

// evictions are the orders in which the marks of an eviction are written. The kill of the pod comes before its end.
var evictions = map[string][]mark{
	"by the API":                       {disrupted, deleted, killed, gone},
	"by the API, unmarked":             {deleted, killed, gone},
	"by the API, and obeyed":           {disrupted, deleted, obeyed, gone},
	"by the API, unmarked, and obeyed": {deleted, obeyed, gone},
	"by the kubelet":                   {disrupted, killed, deleted, gone},
	"by the kubelet, swept":            {disrupted, killed, gone},
	"by the kubelet, and obeyed":       {disrupted, obeyed, deleted, gone},
	"with its node":                    {disrupted, deleted, gone},
	"by force":                         {gone},
}

// TestT9_EvictionIsNoFailureWhateverIsSeenFirst: an eviction also kills the containers. The controller may see, miss or repeat any of its
// marks. It takes the action for evictions, and takes it once.
func TestT9_EvictionIsNoFailureWhateverIsSeenFirst(t *testing.T) {
	for how, marks := range evictions {
		t.Run(how, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, mustertesting.MakeJob("j").MaxRetry(9).
					Policy(busv1alpha1.PodFailedEvent, busv1alpha1.TerminateJobAction).
					Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).
					Task(mustertesting.MakeTask("a", 3)).Obj())
				w.start()
				victim := rapid.SampledFrom([]string{"j-a-0", "j-a-1", "j-a-2"}).Draw(t, "victim")
				for _, happens := range marks {
					if w.pods[victim] != nil && w.pods[victim].Annotations[batchv1alpha1.JobVersionKey] == "0" {
						happens(w, victim)
					}
					watch(t, w)
				}
				w.settle()
				w.reap()
				w.start()
				require.EqualValues(t, 1, w.job.Status.RetryCount)
				require.EqualValues(t, 1, w.job.Status.Version)
			})
		})
	}
}

// TestT10_SucceededPodsAreNotRunAgain: the garbage collector, for example, may remove a pod that has succeeded, before or after it was
// recorded. Once it was seen to have succeeded, no pod takes its place.
func TestT10_SucceededPodsAreNotRunAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
			Task(mustertesting.MakeTask("a", 4)).Obj())
		w.start()
		for _, name := range []string{"j-a-0", "j-a-1", "j-a-2", "j-a-3"} {
			w.set(name, corev1.PodSucceeded, 0)
			w.look()
			if rapid.Bool().Draw(t, "is deleted") {
				w.askToGo(name)
				watch(t, w)
			}
			if rapid.Bool().Draw(t, "goes") {
				w.remove(name)
			}
			if rapid.Bool().Draw(t, "the controller dies") {
				w.dies()
			}
			watch(t, w)
		}
		w.settle()
		require.Equal(t, batchv1alpha1.Completed, w.phase())
		require.EqualValues(t, 4, w.job.Status.Succeeded)
		for name, times := range w.ran {
			require.Equal(t, 1, times, "%s", name)
		}
	})
}
