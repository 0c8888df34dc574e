package podgroup

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// BenchmarkAdmission is a round of admission over 10,000 PodGroups of 4 pods each in one queue. There are 100 other queues. It counts
// decisions, one for each PodGroup, without what is written to the API server.
func BenchmarkAdmission(b *testing.B) {
	const waiting = 10_000
	for _, c := range []struct {
		name, capability, priority string
		running                    int // PodGroups of 4 pods and a low priority
	}{
		{"all fit", "1000000", "same", 0},
		{"none fits", "4000", "same", 1000},
		{"evictions make room for a few", "4000", "higher", 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				a := admissionFor(b, c.capability, c.priority, waiting, c.running)
				b.StartTimer()
				_, err := a.Sync(b.Context(), allCandidates)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(waiting*b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

func admissionFor(b *testing.B, capability, class string, waiting, running int) *admissions {
	kube := informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0)
	muster := musterinformers.NewSharedInformerFactory(musterfake.NewSimpleClientset(), 0)
	used, err := usage.New(kube, muster)
	require.NoError(b, err)
	c, err := New(Config{KubeInformers: kube, MusterInformers: muster, Usage: used, Recorder: record.NewFakeRecorder(10)})
	require.NoError(b, err)
	add := func(queue *schedulingv1beta1.Queue) {
		require.NoError(b, muster.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
		used.Ledger().SetQueue(queue)
	}
	add(mustertesting.MakeQueue("q").Capability("cpu", capability).State(schedulingv1beta1.QueueStateOpen).Obj())
	for i := range 100 {
		add(mustertesting.MakeQueue(fmt.Sprint("other", i)).State(schedulingv1beta1.QueueStateOpen).Obj())
	}
	for name, value := range map[string]int32{"same": 0, "higher": 10} {
		require.NoError(b, kube.Scheduling().V1().PriorityClasses().Informer().GetIndexer().Add(
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}))
	}
	c.admission.cluster.Set(mustertesting.MakeNode("n").Allocatable("cpu", "1000000", "memory", "1Pi", "pods", "1000000").Obj())
	for i := range running {
		group := mustertesting.MakePodGroup(fmt.Sprint("r", i)).UID(fmt.Sprint("r", i)).Queue("q").MinMember(4).
			Phase(schedulingv1beta1.PodGroupRunning).Obj()
		require.NoError(b, c.admission.groups.Add(group))
		for j := range 4 {
			pod := mustertesting.MakePod(fmt.Sprint("r", i, "-", j)).UID(fmt.Sprint("r", i, "-", j)).Group(group.Name).Node("n").Requests("cpu", "1").Obj()
			require.NoError(b, kube.Core().V1().Pods().Informer().GetIndexer().Add(pod))
			used.Ledger().Charge(pod.UID, "q", resources.PodRequests(pod))
		}
	}
	for i := range waiting {
		group := mustertesting.MakePodGroup(fmt.Sprint("g", i)).UID(fmt.Sprint(i)).Queue("q").PriorityClass(class).MinMember(4).
			MinResources("cpu", "4", "memory", "8Gi", "pods", "4", "requests.cpu", "4", "requests.memory", "8Gi", "count/pods", "4").Obj()
		require.NoError(b, c.admission.groups.Add(group))
		c.admission.takeOver(group)
	}
	return c.admission
}
