package podgroup

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// BenchmarkRoundOverBlocked is one round of admission over 5000 PodGroups none of which fits: what each piece of news
// costs while a crowd waits.
func BenchmarkRoundOverBlocked(b *testing.B) {
	kube := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)
	muster := musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0)
	used, err := usage.New(kube, muster)
	require.NoError(b, err)
	c, err := New(Config{KubeInformers: kube, MusterInformers: muster, Usage: used, Recorder: record.NewFakeRecorder(10), OvercommitFactor: 1.2})
	require.NoError(b, err)
	queue := mustertesting.MakeQueue("q").Capability("cpu", "1").State(schedulingv1beta1.QueueStateOpen).Obj()
	require.NoError(b, muster.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
	used.Ledger().SetQueue(queue)
	c.admission.cluster.set(mustertesting.MakeNode("n").Allocatable("cpu", "1000", "memory", "1Ti", "pods", "1000").Obj())
	for i := range 5000 {
		group := mustertesting.MakePodGroup(fmt.Sprint("g", i)).UID(fmt.Sprint(i)).Queue("q").MinMember(4).
			MinResources("cpu", "4", "memory", "8Gi", "pods", "4", "requests.cpu", "4", "requests.memory", "8Gi", "count/pods", "4").Obj()
		require.NoError(b, c.admission.groups.Add(group))
		c.admission.notice(group)
	}
	for b.Loop() {
		_, err := c.admission.Sync(context.Background(), allCandidates)
		require.NoError(b, err)
	}
}
