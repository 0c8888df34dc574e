package gangs_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// lackingFour is the shortfall of a gang of four pods of one CPU on a node that is full.
func lackingFour() *placement.Shortfall {
	each := resources.List{corev1.ResourceCPU: 1000}
	nodes := []placement.Node{{Name: "n", Free: resources.List{corev1.ResourceCPU: 0}}}
	return placement.Lacking([]placement.Demand{{Requests: each, Count: 4}}, nodes, placement.IndexOf(nodes, nil), func(int, int) bool { return false })
}

// TestAWakeUpIsLostIfNothingHasHappened: the queue tries an unschedulable pod again after minutes in any case. If its gang fits then though
// no event has woken it, a wake-up was lost.
func TestAWakeUpIsLostIfNothingHasHappened(t *testing.T) {
	scout := memberNamed("a").Obj()
	for name, test := range map[string]struct {
		happens func(*gangs.Tracker)
		lost    int
	}{
		"nothing":                {func(*gangs.Tracker) {}, 1},
		"an event of others":     {func(tr *gangs.Tracker) { tr.Hints.Wake(memberNamed("unknown").Obj()) }, 1},
		"an event that may help": {func(tr *gangs.Tracker) { tr.Hints.Wake(scout) }, 0},
		"the minimum is lowered": {func(tr *gangs.Tracker) { tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1)) }, 0},
		"a member goes":          {func(tr *gangs.Tracker) { tr.DeletePod(memberNamed("c").Obj()) }, 0},
		"its place is written":   {func(tr *gangs.Tracker) { tr.SetPodGroup(withPlace()) }, 1},
		"held room is returned": {func(tr *gangs.Tracker) {
			tr.Lock()
			defer tr.Unlock()
			tr.Apply(nil, gang.Only(gang.RoomFreed))
		}, 0},
		"the PodGroup is created anew": {func(tr *gangs.Tracker) {
			tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			lost := counting(t, tr.Metrics.LostWakeups)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			setPods(tr, scout, memberNamed("b").Obj(), memberNamed("c").Obj())
			require.Empty(t, tr.Gate(scout))
			refuse(t, tr, scout, "no room")
			require.Equal(t, gang.Status{Phase: gang.Unschedulable, Reason: gang.Room}, statusOf(tr, theGang))
			tr.WaitList.Held.Gangs.Insert(theGang)
			clock.Step(state.DecisionPause)

			test.happens(tr)
			begin(t, tr, scout, nil)
			assert.Equal(t, test.lost, tr.LostWakeups())
			assert.InDelta(t, float64(test.lost), lost(), 0)
		})
	}
}

// withPlace is a PodGroup with what is written to its status while it waits.
func withPlace() *schedulingv1beta1.PodGroup {
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	pg.ResourceVersion = "7"
	pg.Status.Place = &schedulingv1beta1.PodGroupPlace{}
	pg.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue}}
	return pg
}

// TestAPodThatIsNoSingleOneAnyMoreIsTriedWithItsGang: it was given a PodGroup, or its gang has lost the members that ran. Its gang waits, and
// no event has helped it.
func TestAPodThatIsNoSingleOneAnyMoreIsTriedWithItsGang(t *testing.T) {
	lists := map[string]func(tr *gangs.Tracker, pod *corev1.Pod){
		"for quota":       func(tr *gangs.Tracker, pod *corev1.Pod) { tr.Quota.Pods[pod.UID] = pod },
		"for held room":   func(tr *gangs.Tracker, pod *corev1.Pod) { tr.WaitList.WaitForReserved(pod, state.Entry{}) },
		"for node groups": func(tr *gangs.Tracker, pod *corev1.Pod) { tr.Quota.Grouped[pod.UID] = pod },
		"for a search": func(tr *gangs.Tracker, pod *corev1.Pod) {
			tr.Victims.EvictPods()
			tr.Victims.Total = resources.List{corev1.ResourceCPU: 1000}
			require.Nil(t, tr.Victims.Searches.Begin(pod, &evict.Claimant{}, 0, 1, tr.Clock.Now()))
		},
	}
	for list, wait := range lists {
		for name, joins := range map[string]func(tr *gangs.Tracker, pod *corev1.Pod){
			"it is single or surplus":  func(*gangs.Tracker, *corev1.Pod) {},
			"it was given a PodGroup":  func(tr *gangs.Tracker, _ *corev1.Pod) { tr.SetPod(memberNamed("a").Obj()) },
			"its gang has lost others": func(tr *gangs.Tracker, _ *corev1.Pod) { tr.DeletePod(memberNamed("b").Node("n").Obj()) },
		} {
			t.Run(list+", "+name, func(t *testing.T) {
				tr, _ := newTestTracker(t)
				pod := memberNamed("a").Obj()
				if name == "it was given a PodGroup" {
					pod = singleNamed("a", "").Obj()
				} else {
					tr.SetPod(memberNamed("b").Node("n").Obj())
				}
				tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
				tr.SetPod(pod)
				wait(tr, pod)
				joins(tr, pod)
				activated, _ := dispatch.NewDispatcher(tr).Tick()
				for _, key := range []state.Key{state.QuotaKey, state.BlockedKey, state.NodeGroupsKey, state.ReadyKey} {
					activated.Add(dispatch.NewDispatcher(tr).NextActions(key))
				}
				assert.Equal(t, name == "it is single or surplus", len(activated.Activate) > 0)
			})
		}
	}
}

// TestAnUnschedulableGangAnswersToThePluginsThatRejectedIt, for its scout alone, and for all pods that were rejected.
func TestAnUnschedulableGangAnswersToThePluginsThatRejectedIt(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	scout, other := memberNamed("a").Obj(), memberNamed("b").Obj()
	setPods(tr, scout, other)
	require.Empty(t, tr.Gate(scout))
	asks := func(plugin string, pod *corev1.Pod) []string {
		rejected, ask := tr.Hints.RejectedBy(plugin, pod)
		if !ask {
			return nil
		}
		return namesOf(rejected)
	}
	require.Nil(t, asks("NodeAffinity", scout), "not decided yet")
	s := tr.Decisions.Snapshot(scout)
	_, ok := tr.Decisions.Commit(s, no(s, "no node", other, "NodeAffinity"))
	require.True(t, ok)
	assert.Equal(t, []string{"b"}, asks("NodeAffinity", scout))
	assert.Nil(t, asks("VolumeBinding", scout))
	assert.Nil(t, asks("NodeAffinity", other), "the scout stands for all")
	tr.Hints.Wake(scout)
	assert.Nil(t, asks("NodeAffinity", scout), "it is about to be decided again")
}

func TestAGangIsWokenWhenEnoughRoomMayHaveComeFree(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("a").Obj()
	tr.SetPod(scout)
	require.Empty(t, tr.Gate(scout))
	s := tr.Decisions.Snapshot(scout)
	d := no(s, "no room", scout, "NodeResourcesFit")
	d.Shortfall = lackingFour()
	_, ok := tr.Decisions.Commit(s, d)
	require.True(t, ok)
	two := resources.List{corev1.ResourceCPU: 2000}
	assert.False(t, tr.Hints.Free(scout, "n", two))
	assert.True(t, tr.Hints.Free(scout, "n", two), "what comes free is added up")
	assert.True(t, tr.Hints.Free(memberNamed("unknown").Obj(), "n", two), "in doubt it is enough")
}

// TestBlockedPodsAreTriedAgainWhenRoomIsTaken: no event tells that they are in the way of no gang any more. Not all are tried at once.
func TestBlockedPodsAreTriedAgainWhenRoomIsTaken(t *testing.T) {
	tr := openTracker(t)
	for i := range 250 {
		tr.WaitList.WaitForReserved(singleNamed(fmt.Sprint("p", i), "").Obj(), state.Entry{Freed: tr.WaitList.Held.Freed})
	}
	activated := func() int {
		actions, _ := dispatch.NewDispatcher(tr).Tick()
		return len(actions.Activate)
	}
	require.Zero(t, activated())
	tr.Reserve(singleNamed("taker", "").Obj())
	assert.Equal(t, []int{100, 100, 50, 0}, []int{activated(), activated(), activated(), activated()})
}

// TestAPodThatStoodBackIsActivatedWhenReservedRoomIsFree, also if that happens during its cycle.
func TestAPodThatStoodBackIsActivatedWhenReservedRoomIsFree(t *testing.T) {
	for name, during := range map[string]bool{"after its cycle": false, "during its cycle": true} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			scout := gangOf(tr, "big", 1, 1)[0]
			s := tr.Decisions.Snapshot(scout)
			d := no(s, "no room", scout, "NodeResourcesFit")
			d.Reserve = &placement.Places{Of: map[types.UID]string{scout.UID: "n"}}
			_, ok := tr.Decisions.Commit(s, d)
			require.True(t, ok)
			single := singleNamed("single", "").Obj()
			entry := tr.Enter(single)
			require.NotNil(t, entry.Reserved)
			toLookAt(tr)
			if during {
				tr.DeletePod(scout)
			}
			tr.WaitList.WaitForReserved(single, entry)
			assert.True(t, tr.Hints.IsBlocked(single))
			if !during {
				require.NotContains(t, toLookAt(tr), state.BlockedKey)
				tr.DeletePod(scout)
			}
			assert.Contains(t, toLookAt(tr), state.BlockedKey)
			assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.BlockedKey).Activate))
			assert.False(t, tr.Hints.IsBlocked(single))
			assert.Nil(t, tr.Enter(single).Reserved)
		})
	}
}

// TestADeletedPodIsNotActivated, whatever it waited for.
func TestADeletedPodIsNotActivated(t *testing.T) {
	for name, wait := range map[string]func(*gangs.Tracker) *corev1.Pod{
		"reserved room": func(tr *gangs.Tracker) *corev1.Pod {
			pod := singleNamed("single", "").Obj()
			tr.WaitList.WaitForReserved(pod, tr.Enter(pod))
			return pod
		},
		"quota": func(tr *gangs.Tracker) *corev1.Pod {
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
			pod := singleNamed("single", "q").Obj()
			require.NotNil(t, tr.Quota.QuotaShortage(pod))
			return pod
		},
		"the informer of pods": func(tr *gangs.Tracker) *corev1.Pod {
			pod := memberNamed("m").Obj()
			require.Equal(t, isHeld, enter(tr, pod))
			return pod
		},
		"a cycle outside its former gang": func(tr *gangs.Tracker) *corev1.Pod {
			tr.SetPod(memberNamed("m").Obj())
			pod := memberNamed("m").Group("another").Obj()
			tr.SetPod(pod)
			return pod
		},
	} {
		t.Run(name, func(t *testing.T) {
			activated := func(tr *gangs.Tracker) (pods []string) {
				actions, _ := dispatch.NewDispatcher(tr).Tick()
				for _, key := range []state.Key{state.BlockedKey, state.QuotaKey} {
					actions.Add(dispatch.NewDispatcher(tr).NextActions(key))
				}
				return namesOf(actions.Activate)
			}
			tr := openTracker(t)
			pod := wait(tr)
			require.Equal(t, []string{pod.Name}, activated(tr))
			pod = wait(tr)
			tr.DeletePod(pod)
			assert.Empty(t, activated(tr))
		})
	}
}

// TestAGangThatTakesOverAReservationIsDecidedAgain: what was in its way is reserved for it now.
func TestAGangThatTakesOverAReservationIsDecidedAgain(t *testing.T) {
	tr := openTracker(t)
	reserveFor := func(scout *corev1.Pod) (heldByReservation bool) {
		s := tr.Decisions.Snapshot(scout)
		require.NotNil(t, s)
		d := no(s, "no room", scout, "NodeResourcesFit")
		d.Reserve = &placement.Places{Of: map[types.UID]string{scout.UID: "n"}}
		_, ok := tr.Decisions.Commit(s, d)
		require.True(t, ok)
		return s.Problem.HeldByReservation
	}
	require.False(t, reserveFor(gangOf(tr, "earlier", 1, 1)[0]))
	require.False(t, isWoken(tr.Gangs[keyNamed("earlier")]), "nothing has changed for it")
	require.True(t, reserveFor(gangOf(tr, "first", 1, 1)[0]))
	assert.NotNil(t, tr.WaitList.Book.ReservedFor(keyNamed("first")))
	assert.True(t, isWoken(tr.Gangs[keyNamed("first")]))
}

// TestDriftIsFound has the state made wrong in each way that the self-check looks for.
func TestDriftIsFound(t *testing.T) {
	bound, waiting := memberNamed("bound").Node("n").Obj(), memberNamed("waiting").Obj()
	single, plain := singleNamed("single", "q").Node("n").Obj(), singleNamed("plain", "").Node("n").Obj()
	all := []*corev1.Pod{bound, waiting, single, plain}
	for name, tc := range map[string]struct {
		spoil  func(*gangs.Tracker)
		differ []types.UID
	}{
		"nothing":             {func(*gangs.Tracker) {}, nil},
		"a charge is missing": {func(tr *gangs.Tracker) { tr.Quota.Ledger.Release("single") }, []types.UID{"single"}},
		"a charge is too large": {func(tr *gangs.Tracker) {
			tr.Quota.Ledger.Charge("bound", "q", resources.List{corev1.ResourceCPU: 2000})
		}, []types.UID{"bound"}},
		"another queue is charged": {func(tr *gangs.Tracker) {
			tr.Quota.Ledger.Charge("bound", "other", resources.PodRequests(bound))
		}, []types.UID{"bound"}},
		"a pod without a queue is charged": {func(tr *gangs.Tracker) { tr.Quota.Ledger.Charge("plain", "q", resources.PodRequests(plain)) }, []types.UID{"plain"}},
		"a pod that is gone is charged":    {func(tr *gangs.Tracker) { tr.Quota.Ledger.Charge("gone", "q", resources.PodRequests(plain)) }, []types.UID{"gone"}},
		"a member is unknown":              {func(tr *gangs.Tracker) { tr.DeletePod(waiting) }, []types.UID{"waiting"}},
		"a binding was missed": {func(tr *gangs.Tracker) {
			g, m := tr.Find("bound")
			g.SetState(m, gang.Waiting)
		}, []types.UID{"bound"}},
		"a member is being bound": {func(tr *gangs.Tracker) {
			g, m := tr.Find("waiting")
			g.SetState(m, gang.Released)
			tr.Quota.Charge(waiting)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			setPods(tr, all...)
			tc.spoil(tr)
			assert.ElementsMatch(t, tc.differ, report.Drifting(tr, all).UnsortedList())
		})
	}
}

// askingQueue is a scheduling queue that is in the middle of asking hints about an event. Its lock is free when all have been asked.
type askingQueue struct {
	fwk.Handle
	askRest   func()
	activated chan []string
}

func (q *askingQueue) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	if q.askRest(); len(pods) > 0 {
		q.activated <- slices.Sorted(maps.Keys(pods))
	}
}

func (*askingQueue) ClientSet() kubernetes.Interface { return fake.NewClientset() }
func (q *askingQueue) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(q.ClientSet(), 0)
}
func (*askingQueue) EventRecorder() events.EventRecorderLogger { return nil }

// assertFirst waits for the pods that are activated first.
func (q *askingQueue) assertFirst(t *testing.T, pods ...string) {
	t.Helper()
	select {
	case activated := <-q.activated:
		assert.Equal(t, pods, activated)
	case <-time.After(mustertesting.Timeout):
		t.Error("nothing was activated")
	}
}

// TestGangsThatOneEventWakesAreTriedTogether: on a busy machine the older gang was woken after the younger had been activated. The younger
// took the room.
func TestGangsThatOneEventWakesAreTriedTogether(t *testing.T) {
	tr, clock := newTestTracker(t)
	older, younger := gangOf(tr, "older", 1, 1)[0], gangOf(tr, "younger", 1, 1)[0]
	for _, pod := range []*corev1.Pod{older, younger} {
		require.Empty(t, tr.Gate(pod))
		refuse(t, tr, pod, "no room")
	}
	clock.Step(state.DecisionPause)
	toLookAt(tr)
	queue := &askingQueue{askRest: func() { tr.Hints.Wake(older) }, activated: make(chan []string, 10)}
	tr.Hints.Wake(younger)
	readTime(tr.Dirty)
	clock.Step(state.WakeDelay)
	done := make(chan struct{})
	go func() {
		defer close(done)
		dispatch.NewDispatcher(tr).Dispatch(t.Context(), queue)
	}()
	queue.assertFirst(t, "default/older-0", "default/younger-0")
	tr.Dirty.ShutDown()
	<-done
}

// TestGangsThatAreMarkedTogetherAreTriedTogether: the dispatcher takes the first that is marked while the others still are to be. It was activated
// alone, and took the room of one before it when a scheduler had just started.
func TestGangsThatAreMarkedTogetherAreTriedTogether(t *testing.T) {
	tr, _ := newTestTracker(t)
	gangOf(tr, "older", 1, 1)
	gangOf(tr, "younger", 1, 1)
	toLookAt(tr)
	queue := &askingQueue{askRest: func() {}, activated: make(chan []string, 10)}
	done := make(chan struct{})
	tr.Lock()
	go func() {
		defer close(done)
		dispatch.NewDispatcher(tr).Dispatch(t.Context(), queue)
	}()
	tr.Apply(tr.Gangs[keyNamed("younger")], gang.Only(gang.ToLook))
	require.Eventually(t, func() bool { return tr.Dirty.Len() == 0 }, mustertesting.Timeout, time.Millisecond)
	tr.Apply(tr.Gangs[keyNamed("older")], gang.Only(gang.ToLook))
	tr.Unlock()
	queue.assertFirst(t, "default/older-0", "default/younger-0")
	tr.Dirty.ShutDown()
	<-done
}

// TestTheProbeIsNotActivatedBeforeGangsThatAreDue: it may be any member, and would be tried before gangs that rank before its own.
func TestTheProbeIsNotActivatedBeforeGangsThatAreDue(t *testing.T) {
	for range 20 {
		tr, _ := newFollower(t)
		gangOf(tr, "older", 1, 1)
		gangOf(tr, "younger", 1, 1)
		toLookAt(tr)
		queue := &askingQueue{askRest: func() {}, activated: make(chan []string, 10)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			dispatch.Dispatch(ctx, queue, tr, time.Hour) // its first tick marks both
		}()
		queue.assertFirst(t, "default/older-0", "default/younger-0")
		stop()
		tr.Dirty.ShutDown()
		<-done
	}
}
