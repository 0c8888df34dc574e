package gangs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// counterNamed makes a counter to be registered in place of one of a tracker.
func counterNamed(name, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, []string{"result"})
}

func TestMetricsThatCannotBeRegisteredAreAnError(t *testing.T) {
	const conflict = "muster_test_conflict"
	_ = legacyregistry.Register(counterNamed(conflict, "Of another program.")) // an error where the test runs again
	for name, counter := range map[string]*metrics.CounterVec{
		"an invalid name":       counterNamed("\xff", "Not UTF-8."),
		"a conflict of another": counterNamed(conflict, "Of this program."),
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.Metrics.Collectors[0] = counter
			require.ErrorContains(t, tr.Metrics.Register(tr.CountGangs, tr.Quota.Ledger), "registering the metrics of gangs: ")
		})
	}
}

func TestTheMetricsOfTheFirstTrackerAreServed(t *testing.T) {
	first := openTracker(t)
	require.NoError(t, first.Metrics.Register(first.CountGangs, first.Quota.Ledger))
	again := openTracker(t)
	require.NoError(t, again.Metrics.Register(again.CountGangs, again.Quota.Ledger), "a test or a benchmark makes another tracker")
}

// gather reads a collector or a metric.
func gather(t *testing.T, register func(metrics.KubeRegistry)) map[string]float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	register(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestGangsAndQuotaAreCountedWhenTheyAreCollected(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
	startAttempt(t, tr, 2)
	gangOf(tr, "short", 2, 1)
	running := gangOf(tr, "running", 1, 1)[0]
	tr.SetPod(on(running, "n"))
	values := gather(t, func(r metrics.KubeRegistry) {
		r.CustomMustRegister(&gangmetrics.Gauges{Metrics: tr.Metrics, Count: tr.CountGangs, Books: tr.Quota.Ledger})
	})
	assert.Subset(t, values, map[string]float64{
		"muster_gangs Attempting q": 1, "muster_gangs Incomplete ": 1, "muster_gangs Running ": 1,
		"muster_queue_used q cpu": 1, "muster_queue_assumed q cpu": 1,
	})
}

// TestTheTimesOfAGang creates a gang at 0 s. It is complete at 2 s, fits at 5 s and is bound at 9 s.
func TestTheTimesOfAGang(t *testing.T) {
	tr, clock := newTestTracker(t)
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(tr.Metrics.Quorum, tr.Metrics.Admit, tr.Metrics.Bind, tr.Metrics.Start)
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	group.CreationTimestamp.Time = clock.Now()
	tr.SetPodGroup(group)
	first, second := memberNamed("m0").Obj(), memberNamed("m1").Obj()
	tr.SetPod(first)
	require.NotEmpty(t, tr.Gate(first))
	clock.Step(2 * time.Second)
	tr.SetPod(second)
	require.Empty(t, tr.Gate(second))
	clock.Step(3 * time.Second)
	begin(t, tr, second, nil)
	for _, member := range []string{"m0", "m1"} {
		permit(tr, memberNamed(member).Obj())
	}
	tr.SetPod(on(first, "n"))
	clock.Step(4 * time.Second)
	tr.SetPod(on(second, "n"))
	tr.SetPod(on(second, "n")) // once only

	families, err := registry.Gather()
	require.NoError(t, err)
	sums := map[string]float64{}
	for _, family := range families {
		require.Len(t, family.Metric, 1)
		require.EqualValues(t, 1, family.Metric[0].GetHistogram().GetSampleCount(), family.GetName())
		sums[family.GetName()] = family.Metric[0].GetHistogram().GetSampleSum()
	}
	assert.Equal(t, map[string]float64{
		"muster_gang_quorum_duration_seconds": 2, "muster_gang_admit_duration_seconds": 3, "muster_gang_bind_duration_seconds": 4,
		"muster_queue_start_wait_seconds": 9,
	}, sums)
}

func TestTheResultsOfAttemptsAreCounted(t *testing.T) {
	tr, clock := newTestTracker(t)
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(tr.Metrics.Attempts)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	tr.SetPod(pod)
	s := tr.Decisions.Snapshot(pod)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	_, ok := tr.Decisions.Commit(s, yes(s, nil))
	require.False(t, ok)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	refuse(t, tr, pod, "no room")
	tr.Hints.Wake(pod)
	begin(t, tr, pod, map[types.UID]string{"m": "n"})
	require.True(t, tr.Fail(pod))
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
	refuse(t, tr, pod, "no quota")
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	clock.Step(time.Minute)
	begin(t, tr, pod, nil)
	result, _ := permit(tr, pod)
	require.Equal(t, gangs.Allow, result)
	counts := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, metric := range families[0].Metric {
		counts[metric.Label[0].GetValue()] = metric.Counter.GetValue()
	}
	assert.Equal(t, map[string]float64{"changed": 1, "no_room": 1, "no_quota": 1, "admitted": 2, "rolled_back": 1, "seated": 1}, counts)
}

// TestOnlyQueuesThatExistHaveSeries: users can name queues that do not exist, and queues come and go.
func TestOnlyQueuesThatExistHaveSeries(t *testing.T) {
	tr := openTracker(t)
	queue := mustertesting.MakeQueue("q").Obj()
	tr.SetQueue(queue)
	collect := func(r metrics.KubeRegistry) {
		r.MustRegister(tr.Metrics.Quorum, tr.Metrics.Evictions)
		r.CustomMustRegister(&gangmetrics.Gauges{Metrics: tr.Metrics, Count: tr.CountGangs, Books: tr.Quota.Ledger})
	}
	registry := metrics.NewKubeRegistry()
	collect(registry)
	for name, of := range map[string]string{"known": "q", "invented": "invented"} {
		group := mustertesting.MakePodGroup(name).UID(name).Queue(of).MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
		tr.SetPodGroup(group)
		pod := mustertesting.MakePod(name).UID(name).Group(name).Requests("cpu", "1").Node("n").Obj()
		tr.SetPod(pod)
		tr.Metrics.ReachQuorum(tr.Gangs[state.Key{Name: name, Namespace: group.Namespace}], tr.Clock.Now())
		tr.Victims.Evicted(pod, gangmetrics.Reclaimed)
	}
	series := func() (found []string) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			for _, metric := range family.Metric {
				for _, label := range metric.Label {
					if label.GetName() == "queue" && label.GetValue() != "root" {
						found = append(found, family.GetName()+" "+label.GetValue())
					}
				}
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	none := []string{"muster_gang_quorum_duration_seconds ", "muster_gangs ", "muster_queue_evictions_total "}
	assert.Equal(t, []string{
		"muster_gang_quorum_duration_seconds ", "muster_gang_quorum_duration_seconds q", "muster_gangs ", "muster_gangs q", "muster_queue_assumed q",
		"muster_queue_evictions_total ", "muster_queue_evictions_total q", "muster_queue_used q",
	}, series())
	tr.DeleteQueue(queue)
	assert.Equal(t, none, series())
}
