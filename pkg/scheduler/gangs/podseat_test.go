package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// full has a queue "q" of 2 CPUs, used by the pods victim-0 and victim-1 on node0. There is no room and no quota for the pod "mine".
func full(t *testing.T) (tr *gangs.Tracker, clock *clocktesting.FakeClock, mine *corev1.Pod, victims []*corev1.Pod) {
	t.Helper()
	tr, clock = newTestTracker(t)
	tr.Victims.EvictPods()
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	for i := range 2 {
		victim := on(singleNamed(fmt.Sprint("victim-", i), "q").Obj(), "node0")
		victim.Spec.TerminationGracePeriodSeconds = new(int64)
		victims = append(victims, victim)
	}
	setPods(tr, victims...)
	return tr, clock, singleNamed("mine", "q").Priority(10).Obj(), victims
}

// seatOf is a seat on node0 that the evictions of some pods make for another.
func seatOf(t *testing.T, pod *corev1.Pod, victims ...*corev1.Pod) *placement.Seat {
	t.Helper()
	found := &placement.Seat{Places: map[types.UID]string{pod.UID: "node0"}}
	for _, victim := range victims {
		info, err := framework.NewPodInfo(victim)
		require.NoError(t, err)
		found.Victims = append(found.Victims, &placement.Victim{Victim: preemption.NewPodVictim(info, nil, nil), Kind: gang.SinglePod, Rule: quota.ByPriority})
	}
	return found
}

// makeSeat has a pod seated on node0.
func makeSeat(t *testing.T, tr *gangs.Tracker, pod *corev1.Pod, victims ...*corev1.Pod) {
	t.Helper()
	s, _ := tr.Victims.SearchFor(pod)
	require.NotNil(t, s)
	node, ok := tr.Victims.CommitSeat(s, seatOf(t, pod, victims...))
	require.True(t, ok)
	require.Equal(t, "node0", node)
}

// isReady says whether a pod is activated.
func isReady(tr *gangs.Tracker, name string) bool {
	for _, pod := range dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate {
		if pod.Name == name {
			return true
		}
	}
	return false
}

func TestAPodComesWhenItsVictimsHaveGone(t *testing.T) {
	tr, _, mine, victims := full(t)
	require.NotNil(t, tr.Quota.QuotaShortage(mine))
	makeSeat(t, tr, mine, victims[0])
	assert.Equal(t, []string{"victim-0"}, evictions(tr))
	assert.Equal(t, "waiting until 1 pod has gone that was evicted for the pod", tr.Victims.WaitsForSeat(mine.UID))
	_, waits := tr.Victims.SearchFor(mine)
	assert.True(t, waits, "nothing else is evicted for it")
	assert.NotNil(t, tr.Quota.QuotaShortage(mine))
	assert.False(t, isReady(tr, "mine"))
	tr.DeletePod(victims[0])
	assert.True(t, isReady(tr, "mine"))
	assert.Nil(t, tr.Quota.QuotaShortage(mine))
	assert.Empty(t, tr.Victims.WaitsForSeat(mine.UID))
}

func TestAPodDoesNotWaitForVictimsThatHaveGoneAlready(t *testing.T) {
	tr, _, mine, victims := full(t)
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	tr.PodLister = corelisters.NewPodLister(known)
	require.NoError(t, known.Add(victims[1]))
	require.NotNil(t, tr.Quota.QuotaShortage(mine))
	tr.DeletePod(victims[0])
	makeSeat(t, tr, mine, victims[0])
	assert.Empty(t, evictions(tr))
	assert.True(t, isReady(tr, "mine"))
	assert.Nil(t, tr.Quota.QuotaShortage(mine))
	assert.Empty(t, tr.Victims.WaitsForSeat(mine.UID))
}

func TestTheQuotaOfASeatIsKept(t *testing.T) {
	tr, _, mine, victims := full(t)
	other := singleNamed("other", "q").Priority(100).Obj()
	makeSeat(t, tr, mine, victims[0])
	tr.DeletePod(victims[0])
	require.NotNil(t, tr.Quota.QuotaShortage(other), "also from a higher priority")
	require.Nil(t, tr.Quota.QuotaShortage(mine))
	reserve(tr, mine)
	require.NotNil(t, tr.Quota.QuotaShortage(other), "it is charged now")
	unreserve(tr, mine)
	require.NotNil(t, tr.Quota.QuotaShortage(other), "its binding has failed: it is tried again")
	require.Nil(t, tr.Quota.QuotaShortage(mine))
	tr.DeletePod(mine)
	assert.Nil(t, tr.Quota.QuotaShortage(other))
	assert.Empty(t, tr.Quota.Ledger.Differing())
}

func TestABoundPodIsChargedOnceForItsSeat(t *testing.T) {
	tr, _, mine, victims := full(t)
	makeSeat(t, tr, mine, victims...)
	tr.DeletePod(victims[0])
	tr.DeletePod(victims[1])
	reserve(tr, mine)
	tr.SetPod(on(mine, "node0"))
	assert.Nil(t, tr.Quota.QuotaShortage(singleNamed("other", "q").Obj()))
	_, all := tr.Quota.Ledger.Totals("q")
	assert.Equal(t, int64(1000), all.List()[corev1.ResourceCPU])
}

func TestAPodIsSearchedForAnewIfItsVictimsDoNotGo(t *testing.T) {
	tr, clock, mine, victims := full(t)
	makeSeat(t, tr, mine, victims[0])
	clock.Step(evict.GoneWithin - 1)
	dispatch.NewDispatcher(tr).Tick()
	require.False(t, isReady(tr, "mine"))
	clock.Step(1)
	dispatch.NewDispatcher(tr).Tick()
	assert.True(t, isReady(tr, "mine"))
	assert.Empty(t, evictions(tr), "nothing had been evicted yet")
	s, waits := tr.Victims.SearchFor(mine)
	assert.NotNil(t, s)
	assert.False(t, waits)
}

// TestASeatWaitsForALongGraceByItsRule: a pod that is evicted by share uses what is not its queue's. So its own grace counts up to a bound.
func TestASeatWaitsForALongGraceByItsRule(t *testing.T) {
	for rule, want := range map[quota.Rule]time.Duration{quota.ByShare: gang.LongestGrace, quota.ByPriority: time.Hour} {
		tr, clock, mine, victims := full(t)
		victims[0].Spec.TerminationGracePeriodSeconds = ptr.To(int64(time.Hour / time.Second))
		found := seatOf(t, mine, victims[0])
		found.Victims[0].Rule = rule
		s, _ := tr.Victims.SearchFor(mine)
		_, ok := tr.Victims.CommitSeat(s, found)
		require.True(t, ok)
		clock.Step(want + evict.GoneWithin - 1)
		dispatch.NewDispatcher(tr).Tick()
		assert.NotEmpty(t, tr.Victims.WaitsForSeat(mine.UID), rule)
		clock.Step(1)
		dispatch.NewDispatcher(tr).Tick()
		assert.Empty(t, tr.Victims.WaitsForSeat(mine.UID), rule)
	}
}

// TestVictimsStayIfThePodOfTheirSeatGoes: they do not count as gone for the rest of the claim's time.
func TestVictimsStayIfThePodOfTheirSeatGoes(t *testing.T) {
	tr, _, mine, _ := full(t)
	surplus := gangOf(tr, "low", 1, 2)
	setPods(tr, on(surplus[0], "node0"), on(surplus[1], "node0"))
	makeSeat(t, tr, mine, surplus[1])
	require.Len(t, tr.Victims.Standing(keyNamed("low")).Holding, 1)
	tr.DeletePod(mine)
	assert.Len(t, tr.Victims.Standing(keyNamed("low")).Holding, 2)
	assert.Empty(t, evictions(tr))
}

func TestAPodThatComesBeforeTheCacheKnowsIsTriedAgain(t *testing.T) {
	tr, clock, mine, victims := full(t)
	makeSeat(t, tr, mine, victims[0])
	tr.DeletePod(victims[0])
	require.True(t, isReady(tr, "mine"))
	_, waits := tr.Victims.SearchFor(mine)
	assert.True(t, waits)
	assert.True(t, isReady(tr, "mine"))
	clock.Step(evict.CacheLag)
	s, waits := tr.Victims.SearchFor(mine)
	assert.False(t, waits)
	assert.NotNil(t, s, "its room was taken: others are evicted")
}

func TestNoGangIsLeftBelowItsMinimumForAPod(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	tr.DeletePod(waiting[0])
	mine := singleNamed("mine", "q").Priority(10).Obj()
	s, _ := tr.Victims.SearchFor(mine)
	require.NotNil(t, s)
	_, ok := tr.Victims.CommitSeat(s, seatOf(t, mine, low[0]))
	assert.False(t, ok)
	assert.Empty(t, evictions(tr))
}

func TestTheRoomOfASeatIsKept(t *testing.T) {
	cpu := resources.List{corev1.ResourceCPU: 1000}
	keeping := func(t *testing.T) (tr *gangs.Tracker, clock *clocktesting.FakeClock, pod, important *corev1.Pod) {
		tr, clock, pod, victims := full(t)
		makeSeat(t, tr, pod, victims[0])
		return tr, clock, pod, mustertesting.MakePod("important").UID("important").Priority(1000).Obj()
	}
	t.Run("from a higher priority but what the system needs", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		reserved := tr.Enter(important).Reserved
		require.NotNil(t, reserved)
		assert.True(t, reserved.Bars("node0", cpu, cpu, nil))
		assert.False(t, reserved.Bars("node1", cpu, cpu, nil))
		assert.Equal(t, reserved, tr.LimitsOf(important).Reserved, "it evicts nothing for that room")
		tr.SetPodGroup(mustertesting.MakePodGroup("other").UID("other").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		other := mustertesting.MakePod("other-0").UID("other-0").Group("other").SchedulerName("muster").Priority(1000).Obj()
		tr.SetPod(other)
		assert.Equal(t, int64(1000), tr.Decisions.Snapshot(other).Problem.Held["node0"][corev1.ResourceCPU])
		assert.Nil(t, tr.Enter(pod).Reserved, "its own")
		assert.Nil(t, tr.Enter(mustertesting.MakePod("critical").UID("critical").Priority(2_000_001_000).Obj()).Reserved)
	})
	t.Run("once from the same or a lower priority, as it is nominated", func(t *testing.T) {
		tr, _, _, _ := keeping(t)
		assert.Nil(t, tr.Enter(singleNamed("equal", "").Priority(10).Obj()).Reserved)
		assert.Empty(t, tr.Decisions.Snapshot(gangOf(tr, "other", 1, 1)[0]).Problem.Held)
	})
	t.Run("until it is bound", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		tr.SetPod(on(pod, "node0"))
		assert.Nil(t, tr.Enter(important).Reserved)
	})
	t.Run("until it is deleted, and then others are tried", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		tr.WaitList.WaitForReserved(important, tr.Enter(important))
		tr.DeletePod(pod)
		assert.Nil(t, tr.Enter(important).Reserved)
		assert.Equal(t, []string{"important"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.BlockedKey).Activate))
		assert.Empty(t, evictions(tr), "nothing is evicted for it any more")
	})
	t.Run("for a time when the victims have gone", func(t *testing.T) {
		tr, clock, _, important := keeping(t)
		tr.DeletePod(on(singleNamed("victim-0", "q").Obj(), "node0"))
		clock.Step(evict.UseWithin - 1)
		dispatch.NewDispatcher(tr).Tick()
		require.NotNil(t, tr.Enter(important).Reserved)
		clock.Step(1)
		dispatch.NewDispatcher(tr).Tick()
		assert.Nil(t, tr.Enter(important).Reserved)
	})
}

func TestNoVictimsAreSearchedForAPod(t *testing.T) {
	searches := func(tr *gangs.Tracker, pod *corev1.Pod) bool {
		s, _ := tr.Victims.SearchFor(pod)
		return s != nil
	}
	t.Run("that never preempts", func(t *testing.T) {
		tr, _, mine, _ := full(t)
		never := corev1.PreemptNever
		mine.Spec.PreemptionPolicy = &never
		assert.False(t, searches(tr, mine))
	})
	t.Run("that asks for more than the whole capability", func(t *testing.T) {
		tr, _, _, _ := full(t)
		assert.False(t, searches(tr, singleNamed("mine", "q").Requests("cpu", "3").Obj()))
	})
	t.Run("before the delay of its queue is over", func(t *testing.T) {
		tr, clock, mine, _ := full(t)
		q := mustertesting.MakeQueue("q").Capability("cpu", "2").Obj()
		q.Spec.Muster = &schedulingv1beta1.QueueExtension{PreemptionDelay: &metav1.Duration{Duration: time.Minute}}
		tr.SetQueue(q)
		tr.Victims.Total = resources.List{corev1.ResourceCPU: 2000}
		require.False(t, searches(tr, mine))
		clock.Step(time.Minute - 1)
		dispatch.NewDispatcher(tr).Tick()
		require.False(t, isReady(tr, "mine"))
		require.False(t, searches(tr, mine))
		clock.Step(1)
		dispatch.NewDispatcher(tr).Tick()
		assert.True(t, isReady(tr, "mine"))
		assert.True(t, searches(tr, mine))
	})
	t.Run("while a gang before it gets what comes free", func(t *testing.T) {
		tr, _, _, _ := full(t)
		surplus := gangOf(tr, "s", 1, 2)
		group := mustertesting.MakePodGroup("s").UID("s").MinMember(1).Queue("q").Phase(schedulingv1beta1.PodGroupInqueue).Obj()
		tr.SetPodGroup(group)
		tr.SetPod(on(surplus[0], "node1"))
		require.True(t, searches(tr, surplus[1]))
		tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
		tr.SetPod(memberNamed("g0").Obj())
		refuse(t, tr, memberNamed("g0").Obj(), "no quota")
		assert.False(t, searches(tr, surplus[1]), "the minimum of another waits for the same quota")
	})
	t.Run("that no queue is charged for", func(t *testing.T) {
		tr, _, mine, _ := full(t)
		assert.True(t, tr.Victims.SearchesFor(mine))
		assert.False(t, tr.Victims.SearchesFor(singleNamed("free", "").Obj()))
		tr.Victims.Enabled = false
		assert.False(t, tr.Victims.SearchesFor(mine), "the plugin is missing")
	})
}

func TestPodsThatAreAlikeShareTheirPauses(t *testing.T) {
	tr, clock, mine, _ := full(t)
	similar, other := singleNamed("similar", "q").Priority(10).Obj(), singleNamed("other", "q").Priority(11).Obj()
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		s, _ := tr.Victims.SearchFor(mine)
		require.NotNil(t, s)
		_, ok := tr.Victims.CommitSeat(s, nil)
		require.False(t, ok)
		clock.Step(pause - 1)
		s, _ = tr.Victims.SearchFor(similar)
		require.Nil(t, s)
		clock.Step(1)
	}
	s, _ := tr.Victims.SearchFor(other)
	assert.NotNil(t, s)
}

func TestThePauseIsAPartOfTheTimeThatASearchTakes(t *testing.T) {
	tr, clock, mine, _ := full(t)
	s, _ := tr.Victims.SearchFor(mine)
	clock.Step(time.Second)
	tr.Victims.CommitSeat(s, nil)
	clock.Step(state.SearchPause*time.Second - 1)
	s, _ = tr.Victims.SearchFor(mine)
	require.Nil(t, s)
	clock.Step(1)
	s, _ = tr.Victims.SearchFor(mine)
	assert.NotNil(t, s)
}

// TestPodsAreTriedAgainWhenASearchIsDue: a search failed, or a queue uses more than its share.
func TestPodsAreTriedAgainWhenASearchIsDue(t *testing.T) {
	tr, clock, mine, victims := full(t)
	tr.Victims.Total = resources.List{corev1.ResourceCPU: 2000}
	s, _ := tr.Victims.SearchFor(mine)
	tr.Victims.CommitSeat(s, nil)
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	require.False(t, isReady(tr, "mine"), "no search is pending")
	tr.Victims.SearchFor(mine) // an event has it tried before the pause is over
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	require.True(t, isReady(tr, "mine"))
	s, _ = tr.Victims.SearchFor(mine)
	require.NotNil(t, s)
	tr.Victims.CommitSeat(s, nil)
	deserve := func(name, cpus string) *schedulingv1beta1.Queue {
		return mustertesting.MakeQueue(name).Deserved("cpu", cpus).Obj()
	}
	tr.SetQueue(deserve("q", "2"))
	tr.SetQueue(deserve("other", "0"))
	for _, victim := range victims {
		moved := victim.DeepCopy()
		moved.Annotations[schedulingv1beta1.QueueNameAnnotation] = "other"
		tr.SetPod(moved)
	}
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	assert.True(t, isReady(tr, "mine"), "the other queue is above its share")
}

// TestPodsThatFoundVictimsHaveTheOthersTried, a few at a time.
func TestPodsThatFoundVictimsHaveTheOthersTried(t *testing.T) {
	tr, clock, mine, victims := full(t)
	tr.Victims.Total = resources.List{corev1.ResourceCPU: 2000}
	s, _ := tr.Victims.SearchFor(mine)
	tr.Victims.CommitSeat(s, nil)
	for i := range 2 * evict.RetriedSimilar {
		tr.Victims.SearchFor(singleNamed(fmt.Sprint("similar-", i), "q").Priority(10).Obj())
	}
	clock.Step(time.Second)
	makeSeat(t, tr, mine, victims[0])
	dispatch.NewDispatcher(tr).Tick()
	assert.Len(t, dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate, evict.RetriedSimilar)
}

func TestPodsThatNeedNoSearchAreForgotten(t *testing.T) {
	tr, _, mine, victims := full(t)
	for name, end := range map[string]func(*corev1.Pod){
		"deleted": tr.DeletePod,
		"bound":   func(pod *corev1.Pod) { tr.SetPod(on(pod, "node1")) },
		"seated":  func(pod *corev1.Pod) { makeSeat(t, tr, pod, victims[0]) },
	} {
		pod := singleNamed(name, "q").Priority(10).Obj()
		s, _ := tr.Victims.SearchFor(pod)
		require.NotNil(t, s, name)
		end(pod)
		assert.Empty(t, tr.Victims.Searches.Of, name)
		assert.Empty(t, tr.Victims.Searches.Backoffs, name)
	}
	assert.NotNil(t, mine)
}
