package taskpriority

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/apis/config"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func newPlugin(t *testing.T) (*TaskPriority, *gangs.Tracker) {
	t.Helper()
	tracker := gangs.New(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	require.NoError(t, tracker.Configure("muster", config.CoschedulingArgs{Admission: config.AdmissionRequired}))
	tracker.Feed.Open()
	tracker.Leadership.Lead()
	return &TaskPriority{tracker: tracker}, tracker
}

// addGang has a gang come that was created at a time, with members whose priority is that of their task.
func addGang(tracker *gangs.Tracker, name string, created int64, minMember int32, pods ...*mustertesting.PodWrapper) (members []*corev1.Pod) {
	group := mustertesting.MakePodGroup(name).UID(name).MinMember(minMember).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	group.CreationTimestamp.Time = time.Unix(created, 0)
	tracker.SetPodGroup(group)
	for _, pod := range pods {
		member := pod.Group(name).SchedulerName("muster").Requests("cpu", "1").Obj()
		tracker.SetPod(member)
		members = append(members, member)
	}
	return members
}

func pod(name string) *mustertesting.PodWrapper { return mustertesting.MakePod(name).UID(name) }

// queued is a pod in the queue since a time.
func queued(t *testing.T, pod *corev1.Pod, since int64) *framework.QueuedPodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	require.NoError(t, err)
	entity := &framework.QueuedPodInfo{PodInfo: info}
	entity.Timestamp = time.Unix(since, 0)
	return entity
}

// TestTheGateHoldsGangsWhoseTurnHasNotCome: single pods pass, one member of a complete gang passes, and the other members wait.
func TestTheGateHoldsGangsWhoseTurnHasNotCome(t *testing.T) {
	p, tracker := newPlugin(t)
	passes := func(pod *corev1.Pod) bool {
		status := p.PreEnqueue(t.Context(), pod)
		if !status.IsSuccess() {
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.NotEmpty(t, status.Message())
		}
		return status.IsSuccess()
	}
	assert.True(t, passes(pod("single").Obj()))
	incomplete := addGang(tracker, "incomplete", 1, 2, pod("i-0"))
	assert.False(t, passes(incomplete[0]))
	complete := addGang(tracker, "complete", 1, 2, pod("c-0"), pod("c-1"))
	assert.True(t, passes(complete[0]), "the scout")
	assert.False(t, passes(complete[1]))
}

// TestTheOrderOfTheQueue sorts pods of all sorts.
func TestTheOrderOfTheQueue(t *testing.T) {
	p, tracker := newPlugin(t)
	enter := func(pods ...*corev1.Pod) {
		for _, pod := range pods {
			require.True(t, p.PreEnqueue(t.Context(), pod).IsSuccess(), pod.Name)
		}
	}
	// Gangs of one member each pass the gate at once.
	old := addGang(tracker, "old", 10, 1, pod("old-0").Priority(5))
	young := addGang(tracker, "young", 20, 1, pod("young-0").Priority(5))
	important := addGang(tracker, "important", 30, 1, pod("important-0").Priority(7))
	// All pass of a gang whose minimum runs: these are surplus.
	surplus := addGang(tracker, "surplus", 1, 1, pod("surplus-run").Priority(5).Node("n"), pod("surplus-1").Priority(5), pod("surplus-0").Priority(6))
	enter(old[0], young[0], important[0], surplus[1], surplus[2])
	want := []string{"critical", "important-0", "surplus-0", "surplus-1", "old-0", "young-0", "early", "late", "low"}
	// The PodGroup "surplus" has the priority of its most important member, 6.
	entities := []fwk.QueuedEntityInfo{
		queued(t, pod("low").Priority(0).Obj(), 0), queued(t, pod("late").Priority(4).Obj(), 25), queued(t, pod("early").Priority(4).Obj(), 15),
		queued(t, pod("critical").Priority(2_000_000_000).Obj(), 99),
		queued(t, young[0], 1), queued(t, old[0], 2), queued(t, important[0], 3), queued(t, surplus[1], 4), queued(t, surplus[2], 5),
	}
	slices.SortFunc(entities, func(a, b fwk.QueuedEntityInfo) int {
		switch {
		case p.Less(a, b):
			return -1
		case p.Less(b, a):
			return 1
		}
		return 0
	})
	var names []string
	for _, entity := range entities {
		names = append(names, entity.(*framework.QueuedPodInfo).Pod.Name)
	}
	assert.Equal(t, want, names)
}

// TestMinimumsGoBeforeSurplusOfTheSamePriority, however old the gang of the surplus is.
func TestMinimumsGoBeforeSurplusOfTheSamePriority(t *testing.T) {
	p, tracker := newPlugin(t)
	surplus := addGang(tracker, "surplus", 1, 1, pod("s-run").Priority(5).Node("n"), pod("s-0").Priority(5))
	minimum := addGang(tracker, "minimum", 9, 1, pod("m-0").Priority(5))
	for _, pod := range []*corev1.Pod{surplus[1], minimum[0]} {
		require.True(t, p.PreEnqueue(t.Context(), pod).IsSuccess())
	}
	assert.True(t, p.Less(queued(t, minimum[0], 9), queued(t, surplus[1], 1)))
	assert.False(t, p.Less(queued(t, surplus[1], 1), queued(t, minimum[0], 9)))
}

// nativeGroup is a native pod group in the queue.
type nativeGroup struct {
	fwk.QueuedEntityInfo
	priority int32
	since    int64
}

func (g nativeGroup) GetPriority() int32      { return g.priority }
func (g nativeGroup) GetTimestamp() time.Time { return time.Unix(g.since, 0) }

// TestNativePodGroupsAreOrderedLikePods: by priority, then by the time they came.
func TestNativePodGroupsAreOrderedLikePods(t *testing.T) {
	p, _ := newPlugin(t)
	group := func(priority int32, since int64) fwk.QueuedEntityInfo {
		return nativeGroup{priority: priority, since: since}
	}
	single := queued(t, pod("single").Priority(5).Obj(), 10)
	for name, test := range map[string]struct {
		group fwk.QueuedEntityInfo
		first bool
	}{
		"more important": {group(6, 99), true},
		"less important": {group(4, 1), false},
		"older":          {group(5, 9), true},
		"younger":        {group(5, 11), false},
	} {
		assert.Equal(t, test.first, p.Less(test.group, single), name)
		assert.Equal(t, !test.first, p.Less(single, test.group), name)
	}
	assert.True(t, p.Less(group(2_000_000_000, 99), single))
}

// TestNoEventOfTheClusterConcernsTheGate: the queue would ask about every gated pod at every event.
func TestNoEventOfTheClusterConcernsTheGate(t *testing.T) {
	p, _ := newPlugin(t)
	events, err := p.EventsToRegister(t.Context())
	require.NoError(t, err)
	assert.Empty(t, events)
}
