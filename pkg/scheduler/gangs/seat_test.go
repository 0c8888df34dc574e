package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
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
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// evicting has theGang of two wait, and a gang "low" of two run on two nodes.
func evicting(t *testing.T) (tr *gangs.Tracker, clock *clocktesting.FakeClock, waiting, low []*corev1.Pod) {
	t.Helper()
	tr, clock = newTestTracker(t)
	tr.Victims.EvictPods()
	for i, pod := range gangOf(tr, "low", 2, 2) {
		pod = on(pod, fmt.Sprintf("node%d", i))
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		low = append(low, pod)
	}
	setPods(tr, low...)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	waiting = []*corev1.Pod{memberNamed("g0").Obj(), memberNamed("g1").Obj()}
	setPods(tr, waiting...)
	return tr, clock, waiting, low
}

// evictAll has the gang decided not to fit unless some pods are evicted, all of them one victim.
func evictAll(t *testing.T, tr *gangs.Tracker, waiting, victims []*corev1.Pod) {
	t.Helper()
	s := tr.Decisions.Snapshot(waiting[0])
	require.NotNil(t, s)
	require.True(t, s.MayEvict)
	infos := make([]fwk.PodInfo, len(victims))
	for i, pod := range victims {
		info, err := framework.NewPodInfo(pod)
		require.NoError(t, err)
		infos[i] = info
	}
	victim, err := preemption.NewVictim(infos, 0, fwk.PodKeyType)
	require.NoError(t, err)
	d := no(s, "no room", waiting[0], "NodeResourcesFit")
	d.Seat = &placement.Seat{
		Victims: []*placement.Victim{{Victim: victim, Kind: gang.WholeGang, Rule: quota.ByPriority}},
		Places:  map[types.UID]string{"g0": "node0", "g1": "node1"},
	}
	_, ok := tr.Decisions.Commit(s, d)
	require.True(t, ok)
}

// evictions are the pods whose evictions are due.
func evictions(tr *gangs.Tracker) (names []string) {
	for tr.Victims.Repairs.Len() > 0 {
		job, _ := tr.Victims.Repairs.Get()
		if dispatch.NewDispatcher(tr).IsDue(job) {
			names = append(names, job.Name)
		}
		tr.Victims.Repairs.Done(job)
	}
	return names
}

func TestTheMembersOfAGangComeWhenItsVictimsHaveGone(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	assert.ElementsMatch(t, []string{"low-0", "low-1"}, evictions(tr))
	for _, pod := range waiting {
		assert.Equal(t, "waiting until pods have gone that were evicted for the gang", tr.Gate(pod))
	}
	assert.Equal(t, report.Explanation{Reason: report.ReasonWaitingForEvictions, Message: "waiting until 2 pods have gone that were evicted for the gang"},
		report.NewReports(tr).TakeReport(theGang).Explanation)
	tr.Fail(waiting[0])
	tr.DeletePod(low[0])
	assert.NotEmpty(t, tr.Gate(waiting[0]), "one is left; and the cycle of the scout is over")
	tr.DeletePod(low[1])
	for i, pod := range waiting {
		require.Empty(t, tr.Gate(pod))
		assert.Equal(t, fmt.Sprintf("node%d", i), tr.Enter(pod).Node)
	}
}

// TestAGangDoesNotWaitForVictimsThatHaveGoneAlready: the search reads the scheduler's snapshot, which may be older.
func TestAGangDoesNotWaitForVictimsThatHaveGoneAlready(t *testing.T) {
	for name, gone := range map[string]int{"one of them": 1, "all": 2} {
		t.Run(name, func(t *testing.T) {
			tr, _, waiting, low := evicting(t)
			known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			tr.PodLister = corelisters.NewPodLister(known)
			for i, pod := range low {
				if i < gone {
					tr.DeletePod(pod)
				} else {
					require.NoError(t, known.Add(pod))
				}
			}
			evictAll(t, tr, waiting, low)
			require.Len(t, evictions(tr), len(low)-gone)
			for _, pod := range low[gone:] {
				require.NotEmpty(t, tr.Gate(waiting[0]))
				tr.DeletePod(pod)
			}
			require.Contains(t, toLookAt(tr), theGang)
			dispatch.NewDispatcher(tr).NextActions(theGang)
			for _, pod := range waiting {
				assert.Empty(t, tr.Gate(pod))
			}
		})
	}
}

func TestASeatIsKeptFromOthers(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	single := singleNamed("single", "").Obj()
	other := gangOf(tr, "other", 1, 1)
	require.Nil(t, tr.Enter(single).Reserved)
	evictAll(t, tr, waiting, low)
	reserved := tr.Enter(single).Reserved
	require.NotNil(t, reserved)
	full := resources.List{corev1.ResourceCPU: 1000}
	assert.True(t, reserved.Bars("node0", full, full, nil))
	assert.False(t, reserved.Bars("node2", full, full, nil))
	assert.Equal(t, int64(1000), tr.Decisions.Snapshot(other[0]).Problem.Held["node1"][corev1.ResourceCPU], "other gangs")
	critical := mustertesting.MakePod("critical").UID("critical").Priority(2_000_001_000).Obj()
	assert.Nil(t, tr.Enter(critical).Reserved, "what the system needs may go there")
	tr.DeletePod(low[0])
	tr.DeletePod(low[1])
	assert.Nil(t, tr.Enter(waiting[0]).Reserved, "its own")
	require.NotNil(t, tr.Enter(single).Reserved, "until the members are there")
	for _, pod := range waiting {
		tr.Reserve(pod)
		tr.Permit(pod)
	}
	assert.Nil(t, tr.Enter(single).Reserved)
}

func TestAGangIsDecidedAnewIfItsVictimsDoNotGo(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	clock.Step(evict.GoneWithin - time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.NotEmpty(t, tr.Gate(waiting[0]))
	clock.Step(time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Empty(t, tr.Gate(waiting[0]), "it is the scout again")
	assert.Empty(t, evictions(tr), "nothing had been evicted yet")
}

// TestASeatWaitsForTheVictimThatMayTakeLongest, whichever comes first.
func TestASeatWaitsForTheVictimThatMayTakeLongest(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	low[0].Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	evictAll(t, tr, waiting, low)
	clock.Step(time.Minute + evict.GoneWithin - time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.NotEmpty(t, tr.Gate(waiting[0]))
	clock.Step(time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Empty(t, tr.Gate(waiting[0]), "it is the scout again")
}

func TestASeatIsKeptAsLongAsVictimsGo(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	clock.Step(evict.GoneWithin - time.Second)
	tr.DeletePod(low[0])
	clock.Step(evict.GoneWithin - time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.NotEmpty(t, tr.Gate(waiting[0]), "the evictions go on")
	assert.True(t, tr.Claims.Claimed(low[1].UID, state.NoUID), "nothing else counts on the pod")
	clock.Step(time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Empty(t, tr.Gate(waiting[0]), "it is the scout again")
}

func TestAGangThatIsBeingEvictedGoesWholeWhateverBecomesOfTheSeat(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	job, _ := tr.Victims.Repairs.Get()
	require.True(t, dispatch.NewDispatcher(tr).IsDue(job), "the first is evicted")
	tr.Victims.Repairs.Done(job)
	tr.DeletePod(waiting[1]) // the waiting gang falls apart
	assert.Len(t, evictions(tr), 1, "the other member follows")
}

func TestMembersThatComeTooEarlyAreTriedAgain(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	tr.DeletePod(low[0])
	tr.DeletePod(low[1])
	require.Empty(t, tr.Gate(waiting[0]))
	tr.Fail(waiting[0])
	assert.Equal(t, "node0", tr.Enter(waiting[0]).Node, "the scheduler's cache may not know yet that the pods have gone")
	clock.Step(evict.CacheLag)
	tr.Fail(waiting[0])
	assert.Empty(t, tr.Enter(waiting[0]).Node, "the attempt is over")
}

func TestTheMembersComeWhenTheQuotaOfOtherVictimsIsFree(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	tr.Quota.EnforceQuota()
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	leaves := on(singleNamed("leaves", "q").Obj(), "node2")
	tr.SetPod(leaves)
	evictAll(t, tr, waiting, low)
	tr.DeletePod(low[0])
	tr.DeletePod(low[1])
	assert.NotEmpty(t, tr.Gate(waiting[0]), "a pod that goes for another gang is charged to the queue still")
	tr.DeletePod(leaves)
	require.Empty(t, tr.Gate(waiting[0]))
	assert.Equal(t, "node0", tr.Enter(waiting[0]).Node)
}

func TestSeatsThatAreMadeLaterKeepNoMemberOut(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	makeSeat(t, tr, mustertesting.MakePod("later").UID("later").Priority(-1).Requests("cpu", "1").Obj(), on(singleNamed("leaves", "").Obj(), "node0"))
	tr.DeletePod(low[0])
	tr.DeletePod(low[1])
	assert.Nil(t, tr.Enter(waiting[0]).Reserved)
}

func TestNoPodIsEvictedForAPodWhereAGangGetsItsSeat(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low)
	pod := func(name string, priority int32) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Priority(priority).Obj()
	}
	single := pod("single", 0)
	assert.True(t, tr.Victims.WaitForSeat(single, "node0"))
	assert.False(t, tr.Victims.WaitForSeat(single, "node2"))
	assert.False(t, tr.Victims.WaitForSeat(pod("less", -1), "node0"), "its nomination does not count against the gang")
	assert.False(t, tr.Victims.WaitForSeat(pod("critical", 2_000_001_000), "node0"))
	tr.DeletePod(low[0])
	tr.DeletePod(low[1])
	for _, member := range waiting {
		tr.Reserve(member)
		tr.Permit(member)
	}
	assert.False(t, tr.Victims.WaitForSeat(single, "node0"))
	assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.BlockedKey).Activate), "it is tried again")
}

func TestNoGangIsLeftBelowItsMinimum(t *testing.T) {
	tr, _, waiting, low := evicting(t)
	evictAll(t, tr, waiting, low[:1])
	assert.Empty(t, evictions(tr), "the plan was made for a gang that could spare the member")
	assert.Equal(t, "no room", report.NewReports(tr).TakeReport(theGang).Message)
}

func TestWhenVictimsMayBeSearched(t *testing.T) {
	mayEvict := func(tr *gangs.Tracker, pod *corev1.Pod) bool {
		s := tr.Decisions.Snapshot(pod)
		require.NotNil(t, s)
		_, ok := tr.Decisions.Commit(s, no(s, "no room", pod, "NodeResourcesFit"))
		require.True(t, ok)
		return s.MayEvict
	}
	t.Run("the pause grows", func(t *testing.T) {
		tr, clock, waiting, _ := evicting(t)
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			require.True(t, mayEvict(tr, waiting[0]))
			clock.Step(pause - time.Millisecond)
			require.False(t, mayEvict(tr, waiting[0]), pause)
			clock.Step(time.Millisecond)
		}
	})
	t.Run("a pod that never preempts", func(t *testing.T) {
		tr, _, waiting, _ := evicting(t)
		never := corev1.PreemptNever
		pod := waiting[0].DeepCopy()
		pod.Spec.PreemptionPolicy = &never
		tr.SetPod(pod)
		assert.False(t, mayEvict(tr, pod))
	})
	t.Run("without the plugin", func(t *testing.T) {
		tr, _, waiting, _ := evicting(t)
		tr.Victims.Enabled = false
		assert.False(t, mayEvict(tr, waiting[0]))
	})
	t.Run("more than the whole capability", func(t *testing.T) {
		tr, _, waiting, _ := evicting(t)
		tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
		s := tr.Decisions.Snapshot(waiting[0])
		assert.False(t, s.MayEvict)
	})
}

func TestAGangIsDecidedAgainWhenAnotherQueueIsAboveItsShare(t *testing.T) {
	tr, clock, waiting, _ := evicting(t)
	share := func(name, cpus string) *schedulingv1beta1.Queue {
		q := mustertesting.MakeQueue(name).Obj()
		q.Spec.Deserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
		return q
	}
	tr.SetQueue(share("q", "2"))
	tr.SetQueue(share("other", "2"))
	s := tr.Decisions.Snapshot(waiting[0])
	tr.Victims.Rules(s.Claimant(), resources.List{corev1.ResourceCPU: 4000}, nil)
	tr.Decisions.Commit(s, no(s, "no room", waiting[0], "NodeResourcesFit"))
	woken := func() bool { return tr.Gangs[theGang].Refusal.Woken }
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	require.False(t, woken(), "no queue has more than its share")
	for i := range 3 {
		tr.SetPod(on(singleNamed(fmt.Sprint("s", i), "other").Obj(), "node"))
	}
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	assert.True(t, woken())
}

func TestATickAsksForSomeOfThousandsOfGangs(t *testing.T) {
	tr, clock, waiting, _ := evicting(t)
	s := tr.Decisions.Snapshot(waiting[0])
	tr.Victims.Rules(s.Claimant(), resources.List{corev1.ResourceCPU: 4000}, nil)
	const gangs = evict.AskedAtOnce + 50
	for i := range gangs {
		pod := gangOf(tr, fmt.Sprint("w", i), 1, 1)[0]
		s := tr.Decisions.Snapshot(pod)
		s.MayEvict = false
		tr.Decisions.Commit(s, no(s, "no room", pod, "NodeResourcesFit"))
	}
	woken := func() (n int) {
		for _, g := range tr.Gangs {
			if g.Refusal != nil && g.Refusal.Woken {
				n++
			}
		}
		return n
	}
	clock.Step(gang.LongestSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	assert.Equal(t, evict.AskedAtOnce, woken())
	dispatch.NewDispatcher(tr).Tick()
	assert.Equal(t, gangs, woken())
}
