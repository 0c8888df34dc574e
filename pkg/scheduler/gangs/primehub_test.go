package gangs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfPrimeHubAreCharged covers a Jupyter server that PrimeHub labels with a group and a user. It is charged to both, also if the
// group's queue becomes known later.
func TestPodsOfPrimeHubAreCharged(t *testing.T) {
	tr := openTracker(t)
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	tr.PodLister = corelisters.NewPodLister(pods)
	put := func(pod *corev1.Pod) {
		require.NoError(t, pods.Add(pod))
		tr.SetPod(pod)
	}
	jupyter := func(name string) *mustertesting.PodWrapper {
		return mustertesting.MakePod(name).UID(name).Requests("cpu", "1").
			Label(primehubv1alpha1.PodGroupLabel, "escaped-phusers").Label(primehubv1alpha1.PodUserLabel, "escaped-bob")
	}
	chargedTo := func(name string) string {
		account, _, _ := tr.Quota.Ledger.Charged(jupyter(name).Obj().UID)
		return account
	}
	agrees := func() {
		t.Helper()
		all, err := tr.PodLister.List(labels.Everything())
		require.NoError(t, err)
		assert.Empty(t, report.Drifting(tr, all))
	}
	put(jupyter("early").Node("n").Obj())
	put(jupyter("other").Node("n").QueueName("other").Obj())
	assert.Empty(t, chargedTo("early"))

	queue := mustertesting.MakeQueue("q").Capability("cpu", "2").Obj()
	queue.Labels = map[string]string{primehubv1alpha1.GroupNameLabel: "phusers"}
	tr.SetQueue(queue)
	put(jupyter("late").Node("n").Obj())
	assert.Equal(t, "q/bob", chargedTo("early"))
	assert.Equal(t, "q/bob", chargedTo("late"))
	assert.Equal(t, "other", chargedTo("other"))
	agrees()
	waiting := jupyter("waits").Obj()
	require.NotNil(t, tr.Quota.QuotaShortage(waiting), "what the group may have is used")

	twin := queue.DeepCopy()
	twin.Name = "twin"
	tr.SetQueue(twin)
	assert.Empty(t, chargedTo("early"), "two queues say that they are the group: neither is charged")
	agrees()
	tr.DeleteQueue(queue)
	assert.Equal(t, "twin/bob", chargedTo("early"))
	agrees()
}
