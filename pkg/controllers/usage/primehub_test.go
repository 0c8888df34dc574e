package usage

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestJupyterServersAreCharged: a pod that PrimeHub labels with a group and a user is charged to both. Either the pod or the queue may come
// first.
func TestJupyterServersAreCharged(t *testing.T) {
	w := newWorld(t)
	q := mustertesting.MakeQueue("q").Capability("cpu", "10").Obj()
	q.Labels = map[string]string{primehubv1alpha1.GroupNameLabel: "phusers"}
	jupyter := func(name, user string) *corev1.Pod {
		pod := bound(name).Group("").Obj()
		pod.Labels = map[string]string{primehubv1alpha1.PodGroupLabel: "escaped-phusers", primehubv1alpha1.PodUserLabel: user}
		return pod
	}
	w.putPod(jupyter("a", "escaped-bob"))
	w.deliverAll()
	assert.Zero(t, w.usedCPU("q"))

	put := func(queue *schedulingv1beta1.Queue) {
		require.NoError(t, w.queues.GetIndexer().Add(queue))
		w.later(func() { w.onQueue(queue) })
		w.deliverAll()
	}
	put(q)
	w.putPod(jupyter("b", "escaped-bob-40x"))
	named := jupyter("c", "escaped-bob")
	named.Annotations = map[string]string{schedulingv1beta1.QueueNameAnnotation: "other"}
	w.putPod(named)
	w.deliverAll()
	assert.EqualValues(t, 2000, w.usedCPU("q"), "children included")
	assert.EqualValues(t, 1000, w.usedCPU("q/bob"), "the user as the label muster.sh/user has it")
	assert.EqualValues(t, 1000, w.usedCPU("q/escaped-bob-40x"), "a name that no label can have stays escaped")
	assert.EqualValues(t, 1000, w.usedCPU("other"), "the queue that a pod names comes first")

	renamed := q.DeepCopy()
	renamed.Labels[primehubv1alpha1.GroupNameLabel] = "others"
	require.NoError(t, w.queues.GetIndexer().Update(renamed))
	w.onQueue(renamed)
	assert.Zero(t, w.usedCPU("q"), "it is another group now")

	require.NoError(t, w.queues.GetIndexer().Update(q))
	w.onQueue(q)
	assert.EqualValues(t, 2000, w.usedCPU("q"))
	twin := mustertesting.MakeQueue("twin").Obj()
	twin.Labels = q.Labels
	put(twin)
	assert.Zero(t, w.usedCPU("q"), "two queues say that they are the group: neither is charged")
	pods, groups := w.differing()
	assert.Empty(t, pods)
	assert.Empty(t, groups)
	assert.Empty(t, w.ledger.Differing())
}
