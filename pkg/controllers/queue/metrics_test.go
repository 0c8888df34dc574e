package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheMetricsOfAQueue: they show the terms that count, which differ from the spec if the queues contradict each other. They tell nothing
// on a replica that does not lead.
func TestTheMetricsOfAQueue(t *testing.T) {
	s := newStage(t)
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(s.Gauges())
	expect := func(want string) {
		t.Helper()
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "muster_queue_deserved", "muster_queue_capability",
			"muster_queue_guarantee", "muster_queue_reserved", "muster_queue_pending", "muster_queue_podgroups"))
	}
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	queue := mustertesting.MakeQueue("q").Capability("cpu", "1").State(open).Obj()
	queue.Spec.Guarantee.Resource = cpu("2")
	queue.Status.Pending, queue.Status.Running = 3, 1
	queue.Status.Muster = &schedulingv1beta1.QueueStatusExtension{
		Deserved: cpu("2500m"), LastValid: &schedulingv1beta1.QueueTerms{Guarantee: cpu("2"), Capability: cpu("4")},
	}
	require.NoError(t, s.informers.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
	s.usage.Ledger().SetQueue(queue)
	s.usage.Ledger().Assume("group", "q", map[corev1.ResourceName]int64{corev1.ResourceCPU: 500})
	expect("")
	s.gauges.leads.Store(true)
	expect(`
# HELP muster_queue_capability [ALPHA] The most that the pods of a queue and its children may use, by resource. Base units: cores, bytes. A resource without a limit has no series.
# TYPE muster_queue_capability gauge
muster_queue_capability{queue="q",resource="cpu"} 4
# HELP muster_queue_deserved [ALPHA] Present share of the cluster of a queue and its children, by resource. Base units: cores, bytes. It is computed every 5 seconds.
# TYPE muster_queue_deserved gauge
muster_queue_deserved{queue="q",resource="cpu"} 2.5
# HELP muster_queue_guarantee [ALPHA] Amount guaranteed to a queue and its children, by resource. Base units: cores, bytes. Other queues never use it.
# TYPE muster_queue_guarantee gauge
muster_queue_guarantee{queue="q",resource="cpu"} 2
# HELP muster_queue_podgroups [ALPHA] PodGroups of a queue, by phase. PodGroups of its children do not count. In phase Pending they wait until the queue admits them.
# TYPE muster_queue_podgroups gauge
muster_queue_podgroups{phase="Completed",queue="q"} 0
muster_queue_podgroups{phase="Inqueue",queue="q"} 0
muster_queue_podgroups{phase="Pending",queue="q"} 3
muster_queue_podgroups{phase="Running",queue="q"} 1
muster_queue_podgroups{phase="Unknown",queue="q"} 0
# HELP muster_queue_reserved [ALPHA] Amount kept for admitted PodGroups of a queue and its children that have not started, by resource. Base units: cores, bytes.
# TYPE muster_queue_reserved gauge
muster_queue_reserved{queue="q",resource="cpu"} 0.5
`)
}

// TestWhatIsPending: a queue's metric includes its children, and is gone when nothing waits. A queue that does not exist has none.
func TestWhatIsPending(t *testing.T) {
	s := newStage(t)
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(s.Gauges())
	s.gauges.leads.Store(true)
	for _, queue := range []*schedulingv1beta1.Queue{
		mustertesting.MakeQueue("parent").State(open).Obj(), mustertesting.MakeQueue("child").Parent("parent").State(open).Obj(),
	} {
		require.NoError(t, s.informers.Scheduling().V1beta1().Queues().Informer().GetIndexer().Add(queue))
		s.usage.Ledger().SetQueue(queue)
	}
	waits := func(milliCPU int64) resources.Sums {
		sums := resources.Sums{}
		sums.Add(resources.List{corev1.ResourceCPU: milliCPU})
		return sums
	}
	s.waiting = map[string]resources.Sums{"parent": waits(500), "child": waits(1000), "invented": waits(3000)}
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muster_queue_pending [ALPHA] Amount that PodGroups of a queue and its children request while they wait for admission, by resource. Base units: cores, bytes.
# TYPE muster_queue_pending gauge
muster_queue_pending{queue="child",resource="cpu"} 1
muster_queue_pending{queue="parent",resource="cpu"} 1.5
`), "muster_queue_pending"))
	s.waiting = nil
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(""), "muster_queue_pending"))
}

// TestAdmissionsAreCounted: once each, by the replica that leads, in queues that exist. The series goes with the queue.
func TestAdmissionsAreCounted(t *testing.T) {
	s := newStage(t)
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(s.AdmissionWait())
	s.add("q", "root")
	now := metav1.Unix(1000, 0)
	group := func(queue string, phase schedulingv1beta1.PodGroupPhase) *schedulingv1beta1.PodGroup {
		g := mustertesting.MakePodGroup("g").Queue(queue).Phase(phase).Obj()
		g.CreationTimestamp = metav1.NewTime(now.Add(-7 * time.Second))
		return g
	}
	pending, admitted := schedulingv1beta1.PodGroupPending, schedulingv1beta1.PodGroupInqueue
	s.countAdmission(group("q", pending), group("q", admitted), now.Time)
	s.gauges.leads.Store(true)
	s.countAdmission(group("q", pending), group("q", pending), now.Time)
	s.countAdmission(group("q", pending), group("q", admitted), now.Time)
	s.countAdmission(group("q", admitted), group("q", schedulingv1beta1.PodGroupRunning), now.Time)
	s.countAdmission(group("invented", pending), group("invented", admitted), now.Time)

	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Len(t, families[0].Metric, 1)
	assert.Equal(t, "q", families[0].Metric[0].Label[0].GetValue())
	assert.EqualValues(t, 1, families[0].Metric[0].GetHistogram().GetSampleCount())
	assert.InDelta(t, 7, families[0].Metric[0].GetHistogram().GetSampleSum(), 0)
	s.dropSeries("q")
	families, err = registry.Gather()
	require.NoError(t, err)
	assert.Empty(t, families)
}
