package gangs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are of changes that come at an unlucky moment. Informers, scheduling cycles and the dispatcher are not in step.

// breakGang has a gang of two of which one is bound, in a queue that has room for both. The other's quota is assumed, so a third pod waits
// for quota.
func breakGang(t *testing.T, tr *gangs.Tracker) (waits *corev1.Pod) {
	t.Helper()
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	setPods(tr, memberNamed("bound").Node("node").Obj(), memberNamed("missing").Obj())
	waits = singleNamed("single", "q").Obj()
	require.NotNil(t, tr.Quota.QuotaShortage(waits))
	return waits
}

// TestQuotaThatAPartialGangNoLongerLacksIsFree: the random histories found two faults. Assumed quota outlived the PodGroup, and no pod was
// activated when it became smaller.
func TestQuotaThatAPartialGangNoLongerLacksIsFree(t *testing.T) {
	for name, change := range map[string]func(*gangs.Tracker){
		"PodGroup deleted":     func(tr *gangs.Tracker) { tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2)) },
		"minimum lowered":      func(tr *gangs.Tracker) { tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1)) },
		"member being deleted": func(tr *gangs.Tracker) { tr.SetPod(deleting(memberNamed("missing").Obj())) },
		"queue left": func(tr *gangs.Tracker) {
			left := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			left.Spec.Queue = ""
			tr.SetPodGroup(left)
		},
		"queue changed": func(tr *gangs.Tracker) {
			moved := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			moved.Spec.Queue = "other"
			tr.SetPodGroup(moved)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			single := breakGang(t, tr)
			toLookAt(tr)
			change(tr)
			assert.Contains(t, toLookAt(tr), state.QuotaKey)
			assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.QuotaKey).Activate))
			assert.Nil(t, tr.Quota.QuotaShortage(single))
			used, all := tr.Quota.Ledger.Totals("q")
			assert.Equal(t, used, all, "nothing is assumed")
		})
	}
}

func TestTheQuotaOfAPartialGangOutlivesAnAttemptThatFails(t *testing.T) {
	tr := openTracker(t)
	single := breakGang(t, tr)
	missing := memberNamed("missing").Obj()
	require.Empty(t, tr.Gate(missing))
	begin(t, tr, missing, nil)
	require.True(t, tr.Fail(missing))
	assert.NotNil(t, tr.Quota.QuotaShortage(single), "the gang must be able to complete")
}

func TestTheSurplusOfAGangThatChangesItsQueueTriesTheNewOne(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 0)
	tr.SetPodGroup(group)
	pod := memberNamed("m").Obj()
	tr.SetPod(pod)
	require.Empty(t, tr.Gate(pod))
	require.NotNil(t, tr.Quota.QuotaShortage(pod))
	dispatch.NewDispatcher(tr).NextActions(theGang)
	toLookAt(tr)
	group.Spec.Queue = "other"
	tr.SetPodGroup(group)
	assert.Contains(t, toLookAt(tr), state.QuotaKey)
	assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.QuotaKey).Activate))
}

// TestTheGateLearnsNothingFromTheQueue covers a deleted pod that the scheduling queue still knows. The random histories found that it came
// back as a member, was chosen, and never came.
func TestTheGateLearnsNothingFromTheQueue(t *testing.T) {
	pod := memberNamed("m").Obj()
	for name, tc := range map[string]struct {
		event  func(*gangs.Tracker)
		reason string
	}{
		"the pod is gone":          {func(tr *gangs.Tracker) { tr.DeletePod(pod) }, gangs.NotSeen},
		"the pod is being deleted": {func(tr *gangs.Tracker) { tr.SetPod(deleting(pod)) }, gangs.Terminating},
		"the pod is bound":         {func(tr *gangs.Tracker) { tr.SetPod(on(pod, "node")) }, gangs.AlreadyBound},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			setPods(tr, memberNamed("other").Obj(), pod)
			require.Empty(t, tr.Gate(pod))
			tc.event(tr)
			g := tr.Gangs[theGang]
			before := g.Len()
			assert.Equal(t, tc.reason, tr.Gate(pod))
			assert.Equal(t, isHeld, enter(tr, pod))
			assert.Equal(t, before, g.Len())
			for _, m := range g.Waiting() {
				assert.NotEqual(t, pod.UID, m.UID)
			}
		})
	}
}

// TestAPodThatTheTrackerHasNotSeenIsActivatedOnceItHas: the queue may know a pod before the tracker does.
func TestAPodThatTheTrackerHasNotSeenIsActivatedOnceItHas(t *testing.T) {
	for name, minMember := range map[string]int32{"as the scout": 1, "as surplus": 0} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, minMember))
			dispatch.NewDispatcher(tr).NextActions(theGang)
			pod := memberNamed("m").Obj()
			require.Equal(t, "waiting until the scheduler has read the pod", tr.Gate(pod))
			assert.Zero(t, tr.Gangs[theGang].Len(), "the pod is no member yet")
			assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
			toLookAt(tr)
			tr.SetPod(pod)
			require.Contains(t, toLookAt(tr), theGang)
			assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
			assert.Empty(t, tr.Gate(pod))
		})
	}
	t.Run("in its cycle", func(t *testing.T) {
		tr := openTracker(t)
		tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
		dispatch.NewDispatcher(tr).NextActions(theGang)
		pod := memberNamed("m").Obj()
		require.Equal(t, isHeld, enter(tr, pod))
		dispatch.NewDispatcher(tr).NextActions(theGang)
		tr.SetPod(pod)
		assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	})
	t.Run("without a PodGroup the gate makes no gang", func(t *testing.T) {
		tr := openTracker(t)
		require.Equal(t, gangs.NotSeen, tr.Gate(memberNamed("m").Obj()))
		assert.Empty(t, tr.Gangs)
		actions, _ := dispatch.NewDispatcher(tr).Tick()
		assert.Equal(t, []string{"m"}, namesOf(actions.Activate), "in case it was seen before its gang was known")
		actions, _ = dispatch.NewDispatcher(tr).Tick()
		assert.Empty(t, actions.Activate, "unless the gate holds it again")
	})
}

func TestAPodThatComesBackIsAMemberAgain(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	tr.SetPod(pod)
	tr.DeletePod(pod) // an informer that has to list anew may be told less than it knew
	tr.SetPod(pod)
	assert.Empty(t, tr.Gate(pod))
}

func TestAMemberThatIsFoundBoundWhileItIsTriedKeepsItsCharge(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("m").Obj()
	tr.SetPod(pod)
	require.Empty(t, tr.Gate(pod))
	begin(t, tr, pod, nil)
	tr.SetPod(on(pod, "node")) // an earlier binding succeeded, though its answer was lost
	result, _ := permit(tr, pod)
	assert.Equal(t, gangs.Reject, result)
	unreserve(tr, on(pod, "another"))
	assert.Equal(t, int64(1000), tr.Quota.Ledger.Used("q")[corev1.ResourceCPU])
	assert.Empty(t, tr.Gangs[theGang].Waiting())
	assert.Equal(t, gang.Running, phaseOf(tr, theGang))
}

// TestAPodThatIsFoundBoundWhileItIsBoundKeepsItsCharge: the binding succeeds and the watch shows it, and then the request fails, of which the
// answer was lost.
func TestAPodThatIsFoundBoundWhileItIsBoundKeepsItsCharge(t *testing.T) {
	for name, single := range map[string]*corev1.Pod{
		"without a gang":    singleNamed("p", "q").Obj(),
		"of a native group": singleNamed("p", "q").NativeGroup("native").Obj(),
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			other := singleNamed("other", "q").Obj()
			require.Nil(t, tr.Quota.QuotaShortage(single))
			reserve(tr, single)
			tr.SetPod(on(single, "node"))
			unreserve(tr, on(single, "node"))
			assert.EqualValues(t, 1000, tr.Quota.Ledger.Used("q")[corev1.ResourceCPU])
			assert.NotNil(t, tr.Quota.QuotaShortage(other))

			tr.DeletePod(on(single, "node"))
			assert.Nil(t, tr.Quota.QuotaShortage(other))
			reserve(tr, single) // it was being tried when it was deleted
			unreserve(tr, single)
			assert.Nil(t, tr.Quota.QuotaShortage(other), "the charge of a pod that was never seen bound is taken back")
			assert.Empty(t, tr.Quota.Bound)
		})
	}
}

// TestNoMemberIsBoundOnRoomThatIsAboutToBeGivenBack: the dispatcher is about to reject the members that hold room, as one of the minimum is
// gone. Before it does so the minimum is lowered to their number.
func TestNoMemberIsBoundOnRoomThatIsAboutToBeGivenBack(t *testing.T) {
	for name, reservesFirst := range map[string]bool{"the last one reserves before": true, "it reserves after": false} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			startAttempt(t, tr, 5)
			waiting := []*corev1.Pod{memberNamed("m0").Obj(), memberNamed("m1").Obj(), memberNamed("m2").Obj()}
			for _, pod := range waiting {
				result, _ := permit(tr, pod)
				require.Equal(t, gangs.Wait, result)
			}
			inFlight := memberNamed("m4").Obj()
			require.Equal(t, isChosen, enter(tr, inFlight))
			if reservesFirst {
				reserve(tr, inFlight)
			}
			tr.DeletePod(memberNamed("m3").Obj())
			require.Subset(t, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, []types.UID{"m0", "m1", "m2"})
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 3))

			if !reservesFirst {
				reserve(tr, inFlight)
			}
			result, _ := tr.Permit(inFlight)
			assert.Equal(t, gangs.Reject, result)
			again := dispatch.NewDispatcher(tr).NextActions(theGang)
			assert.Empty(t, again.Allow)
			assert.Empty(t, again.Activate)
			for _, pod := range append(slices.Clone(waiting), inFlight) {
				require.Equal(t, gang.RollingBack, phaseOf(tr, theGang))
				unreserve(tr, pod)
			}
			assert.True(t, tr.Quota.Ledger.Used("q").IsZero())
			require.Len(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, 1, "the gang is decided anew")

			begin(t, tr, waiting[0], nil)
			for i, pod := range waiting {
				result, _ := permit(tr, pod)
				assert.Equal(t, i == 2, result == gangs.Allow)
			}
		})
	}
}

func TestAMemberIsNotBoundWithoutItsPodGroup(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	last := memberNamed("m1").Obj()
	require.Equal(t, isChosen, enter(tr, last))
	reserve(tr, last)
	tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	result, _ := tr.Permit(last)
	assert.Equal(t, gangs.Reject, result)
	unreserve(tr, last)
	assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, "the member that waits in Permit must leave, too")
}

// TestMembersOfAnAttemptThatFailedComeWhenTheirGangIsSeatedAtOnce covers a gang that loses an attempt between two looks of the dispatcher.
// The random histories found that its members then waited for ever, because the dispatcher saw it running both times.
func TestMembersOfAnAttemptThatFailedComeWhenTheirGangIsSeatedAtOnce(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *gangs.Tracker, *corev1.Pod){
		"rolled back": func(t *testing.T, tr *gangs.Tracker, pod *corev1.Pod) {
			begin(t, tr, pod, nil)
			reserve(tr, pod)
			unreserve(tr, pod)
		},
		"unschedulable": func(t *testing.T, tr *gangs.Tracker, pod *corev1.Pod) { refuse(t, tr, pod, "no room") },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
			pod := memberNamed("m").Obj()
			tr.SetPod(pod)
			require.Empty(t, tr.Gate(pod))
			dispatch.NewDispatcher(tr).NextActions(theGang)
			require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)

			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			require.Equal(t, isScout, enter(tr, pod))
			lose(t, tr, pod)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
			assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
		})
	}
}

func TestAPodThatNamesAnotherGangLeavesItsOld(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	other := memberNamed("m1").Group("other").Obj()
	tr.SetPod(other)
	assert.Equal(t, 1, tr.Gangs[theGang].Len())
	assert.Nil(t, tr.Gangs[theGang].Attempt, "the attempt cannot do without it")
	assert.Equal(t, "waiting for the pod's PodGroup to be created", tr.Gate(other))
	none := memberNamed("m1").Obj()
	none.Annotations = nil
	tr.SetPod(none)
	assert.Empty(t, tr.Gate(none))
	assert.NotContains(t, tr.Gangs, keyNamed("other"))
}

// TestAPodThatHasJoinedAGangIsNotTriedForItself: muster-controller gives PodGroups to pods without one. The tracker may hear of that before
// the scheduling queue, or in the middle of the pod's cycle. Such a pod was bound though its queue was full: neither it nor its gang was
// checked.
func TestAPodThatHasJoinedAGangIsNotTriedForItself(t *testing.T) {
	single := singleNamed("m", "q").Obj()
	for name, tc := range map[string]struct {
		before, after func(*testing.T, *gangs.Tracker)
	}{
		"before its cycle": {after: func(t *testing.T, tr *gangs.Tracker) {
			assert.Equal(t, isHeld, enter(tr, single))
		}},
		"in its cycle": {before: func(t *testing.T, tr *gangs.Tracker) {
			require.Equal(t, isSingle, enter(tr, single))
		}, after: func(t *testing.T, tr *gangs.Tracker) {
			require.Nil(t, tr.Quota.QuotaShortage(single), "its gang is checked as a whole")
			_, shortage := tr.Quota.Charge(single)
			require.Nil(t, shortage)
			assert.False(t, tr.Reserve(single))
			unreserve(tr, single)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
			setPods(tr, singleNamed("other", "q").Node("node").Obj(), single)
			require.Empty(t, tr.Gate(single))
			if tc.before != nil {
				tc.before(t, tr)
			}
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			member := memberNamed("m").Obj()
			tr.SetPod(member)
			require.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate), "as the scout")
			toLookAt(tr)
			tc.after(t, tr)
			require.Contains(t, toLookAt(tr), theGang)
			assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate), "again: its cycle was no scout's")
			assert.Equal(t, isScout, enter(tr, member))
			snapshot := tr.Decisions.Snapshot(member)
			require.NotNil(t, snapshot)
			assert.NotNil(t, snapshot.Lacks, "the queue is full")
			used, all := tr.Quota.Ledger.Totals("q")
			assert.EqualValues(t, 1000, used.List()[corev1.ResourceCPU], "only the other pod")
			assert.Equal(t, used, all)
		})
	}
}

// TestAPodThatHasLeftItsGangIsActivatedUntilTheQueueKnows: the queue may not have heard of the change yet, and then holds the pod again.
func TestAPodThatHasLeftItsGangIsActivatedUntilTheQueueKnows(t *testing.T) {
	none := memberNamed("m0").Obj()
	none.Annotations = nil
	for name, tc := range map[string]struct {
		now    *corev1.Pod
		settle func(*gangs.Tracker, *corev1.Pod)
	}{
		"another gang, at the gate": {memberNamed("m0").Group("other").Obj(), func(tr *gangs.Tracker, pod *corev1.Pod) { tr.Gate(pod) }},
		"no gang, tried":            {none, func(tr *gangs.Tracker, pod *corev1.Pod) { tr.Enter(pod) }},
		"no gang, rejected":         {none, unreserve},
		"no gang, bound":            {none, func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(on(pod, "node")) }},
		"another gang, deleted":     {memberNamed("m0").Group("other").Obj(), func(tr *gangs.Tracker, pod *corev1.Pod) { tr.DeletePod(pod) }},
		"another gang, bound there": {memberNamed("m0").Group("other").Obj(), func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(on(pod, "node")) }},
		"another gang, and back": {memberNamed("m0").Group("other").Obj(), func(tr *gangs.Tracker, _ *corev1.Pod) {
			tr.SetPod(memberNamed("m0").Obj())
			tr.Gate(memberNamed("m0").Obj())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			old := memberNamed("m0").Obj()
			tr.SetPod(old)
			toLookAt(tr)
			tr.SetPod(tc.now)
			require.Contains(t, toLookAt(tr), theGang)
			assert.Equal(t, []string{"m0"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
			require.NotEmpty(t, tr.Gate(old), "the queue has an old pod")
			for range 2 {
				actions, _ := dispatch.NewDispatcher(tr).Tick()
				assert.Equal(t, sets.New("m0"), sets.New(namesOf(actions.Activate)...))
			}
			tc.settle(tr, tc.now)
			actions, _ := dispatch.NewDispatcher(tr).Tick()
			assert.Empty(t, actions.Activate)
			assert.Empty(t, actions.Reject)
		})
	}
}

// TestAMemberThatGoesInItsCycleDoesNotStayInPermit: upstream's handler rejects a deleted pod from Permit, unless it sees the deletion before the
// pod waits there. Then only the tracker can, whenever it hears of it. The random histories found a pod that held its room for good.
func TestAMemberThatGoesInItsCycleDoesNotStayInPermit(t *testing.T) {
	member := memberNamed("m1").Obj()
	gone := func(tr *gangs.Tracker) { tr.DeletePod(member) }
	rejected := func(t *testing.T, tr *gangs.Tracker) {
		require.Contains(t, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, member.UID)
		for range 2 { // the framework lists the pod as waiting only after Permit has returned
			actions, _ := dispatch.NewDispatcher(tr).Tick()
			require.Contains(t, actions.Reject, member.UID)
		}
	}
	gaveBack := func(tr *gangs.Tracker) { unreserve(tr, member) }
	for name, tc := range map[string]struct {
		change func(*gangs.Tracker)
		end    func(*gangs.Tracker)
	}{
		"it is deleted":                         {gone, gaveBack},
		"it is being deleted, and then gone":    {func(tr *gangs.Tracker) { tr.SetPod(deleting(member)); gone(tr) }, gaveBack},
		"it leaves the gang":                    {func(tr *gangs.Tracker) { tr.SetPod(memberNamed("m1").Group("other").Obj()) }, gaveBack},
		"it leaves the gang, and is deleted":    {func(tr *gangs.Tracker) { tr.SetPod(memberNamed("m1").Group("other").Obj()); gone(tr) }, gaveBack},
		"it is deleted and its gang with it":    {func(tr *gangs.Tracker) { tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 3)); gone(tr) }, gaveBack},
		"it is deleted and was bound meanwhile": {gone, func(tr *gangs.Tracker) { tr.Order.Bound(member.UID) }},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			startAttempt(t, tr, 3)
			require.Equal(t, isChosen, enter(tr, member))
			result, _ := permit(tr, member)
			require.Equal(t, gangs.Wait, result)
			tc.change(tr)
			rejected(t, tr)
			tc.end(tr)
			actions, _ := dispatch.NewDispatcher(tr).Tick()
			assert.NotContains(t, actions.Reject, member.UID)
			assert.Empty(t, tr.Leaving)
		})
	}
	for name, change := range map[string]func(*gangs.Tracker){
		"before Reserve": func(tr *gangs.Tracker) { gone(tr); reserve(tr, member) },
		"before Permit":  func(tr *gangs.Tracker) { reserve(tr, member); gone(tr) },
	} {
		t.Run("it is deleted "+name, func(t *testing.T) {
			tr := openTracker(t)
			startAttempt(t, tr, 3)
			require.Equal(t, isChosen, enter(tr, member))
			change(tr)
			result, _ := tr.Permit(member)
			assert.Equal(t, gangs.Reject, result)
			unreserve(tr, member)
			assert.Empty(t, tr.Leaving)
		})
	}
}

// TestAPodThatLeftItsGangWhenItWasBoundIsForgotten: the tracker hears last that the pod had left its gang. The random histories found it.
func TestAPodThatLeftItsGangWhenItWasBoundIsForgotten(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 3)
	member := memberNamed("m1").Obj()
	require.Equal(t, isChosen, enter(tr, member))
	permit(tr, member)
	tr.Order.Bound(member.UID)
	left := memberNamed("m1").Group("other").Obj()
	tr.SetPod(left)
	tr.SetPod(on(left, "node"))
	tr.DeletePod(on(left, "node"))
	assert.Empty(t, tr.Leaving)
}

func TestAMemberWhoseBindingFailsTakesItsRoomThoughItIsReserved(t *testing.T) {
	tr := openTracker(t)
	pods := gangOf(tr, "g", 2, 2)
	scout := gangOf(tr, "big", 1, 1)[0]
	s := tr.Decisions.Snapshot(scout)
	d := no(s, "no room", scout, "NodeResourcesFit")
	d.Reserve = &placement.Places{Of: map[types.UID]string{scout.UID: "g-1"}}
	_, ok := tr.Decisions.Commit(s, d)
	require.True(t, ok)
	require.Empty(t, tr.Gate(pods[0]))
	begin(t, tr, pods[0], nil)
	reserved := tr.Enter(pods[0]).Reserved
	require.NotNil(t, reserved)
	require.True(t, reserved.On("g-1"))
	for i, pod := range pods {
		result, _ := permit(tr, pod)
		require.Equal(t, i == 1, result == gangs.Allow)
	}
	unreserve(tr, on(pods[1], "g-1"))
	again := tr.Enter(pods[1])
	require.Equal(t, isChosen, roleOf(tr, pods[1], again))
	assert.Nil(t, again.Reserved)
}

// TestAPodThatWasCreatedAnewUnseenTakesTheOldOnesPlace: after a lost watch an informer tells of both in one update.
func TestAPodThatWasCreatedAnewUnseenTakesTheOldOnesPlace(t *testing.T) {
	tr := openTracker(t)
	again := gangOf(tr, "g", 1, 1)[0]
	old := on(again, "n")
	tr.SetPod(old)
	require.Equal(t, gang.Running, phaseOf(tr, keyNamed("g")))
	again = again.DeepCopy()
	again.UID = "another"
	gangs.HandlerFor(tr.SetPod, tr.DeletePod).OnUpdate(old, again)
	assert.Equal(t, 1, tr.Gangs[keyNamed("g")].Len())
	assert.NotEqual(t, gang.Running, phaseOf(tr, keyNamed("g")))
	assert.Equal(t, gangs.NotSeen, tr.Gate(old))
}

// TestAGangThatWaitsIsDecidedWhenAPodJoins: the gate is closed to the pod behind the scout. The dispatcher calls the scout, which may be
// unschedulable.
func TestAGangThatWaitsIsDecidedWhenAPodJoins(t *testing.T) {
	for name, before := range map[string]func(*gangs.Tracker){
		"one more":                func(*gangs.Tracker) {},
		"for one that is deleted": func(tr *gangs.Tracker) { tr.DeletePod(memberNamed("b").Obj()) },
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			scout := memberNamed("a").Obj()
			setPods(tr, scout, memberNamed("b").Obj())
			require.Empty(t, tr.Gate(scout))
			refuse(t, tr, scout, "no room")
			before(tr)
			for _, key := range toLookAt(tr) {
				require.Empty(t, dispatch.NewDispatcher(tr).NextActions(key).Activate)
			}

			joins := memberNamed("c").Obj()
			tr.SetPod(joins)
			require.Equal(t, gangs.BehindScout, tr.Gate(joins))
			for _, key := range toLookAt(tr) {
				require.Empty(t, dispatch.NewDispatcher(tr).NextActions(key).Activate, "not again within a moment")
			}
			clock.Step(state.DecisionPause)
			require.Contains(t, lookAgain(t, tr), theGang)
			assert.Equal(t, []string{"a"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
		})
	}
}

// TestAGangBacksOffForNoLongerThanItMust: of several times for one gang the dispatcher's queue keeps the first only.
func TestAGangBacksOffForNoLongerThanItMust(t *testing.T) {
	tr, clock := newTestTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	pod := memberNamed("a").Obj()
	tr.SetPod(pod)
	tr.Gangs[theGang].Retry.Until = clock.Now().Add(time.Second)
	toLookAt(tr)
	assert.Equal(t, gang.Status{Phase: gang.BackingOff, Reason: gang.BackOff, Until: clock.Now().Add(time.Second)}, statusOf(tr, theGang))
	assert.Equal(t, "the gang could not be placed and backs off", tr.Gate(pod))
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, "it is looked at for another reason")
	clock.Step(time.Second)
	lookAgain(t, tr)
	assert.Equal(t, []string{"a"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
}

func TestAnAttemptEndsInTimeWhateverElseTheDispatcherWasToLookFor(t *testing.T) {
	tr, clock := newTestTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("a").Obj()
	tr.SetPod(scout)
	require.Empty(t, tr.Gate(scout))
	toLookAt(tr)
	tr.Dirty.AddAfter(theGang, time.Millisecond)
	begin(t, tr, scout, nil)
	toLookAt(tr)
	tr.Dirty.AddAfter(state.Key{Name: "marker"}, time.Microsecond) // when it comes the queue has taken in what was added before
	clock.Step(time.Microsecond)
	lookAgain(t, tr)
	for _, wait := range []time.Duration{time.Millisecond, time.Minute} {
		require.Equal(t, gang.Attempting, phaseOf(tr, theGang))
		clock.Step(wait)
		for _, key := range lookAgain(t, tr) {
			dispatch.NewDispatcher(tr).NextActions(key)
		}
	}
	assert.Nil(t, tr.Gangs[theGang].Attempt)
}

// TestAGangIsNotDecidedAgainAtEveryEvent: on a busy cluster every pod that ends is an event. But a gang whose last decision is older is
// called with all other gangs that the event may help. Otherwise it would find the room taken by gangs of lower rank.
func TestAGangIsNotDecidedAgainAtEveryEvent(t *testing.T) {
	for searched, pause := range map[time.Duration]time.Duration{0: state.DecisionPause, 100 * time.Millisecond: 20 * 100 * time.Millisecond} {
		tr, clock := newTestTracker(t)
		tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
		scout := memberNamed("a").Obj()
		tr.SetPod(scout)
		require.Empty(t, tr.Gate(scout))
		decide := func() {
			s := tr.Decisions.Snapshot(scout)
			d := no(s, "no room", scout, "NodeResourcesFit")
			d.SearchTime = searched
			_, ok := tr.Decisions.Commit(s, d)
			require.True(t, ok)
			toLookAt(tr)
		}
		called := func(keys []state.Key) bool {
			return slices.Contains(keys, theGang) && len(dispatch.NewDispatcher(tr).NextActions(theGang).Activate) > 0
		}
		requireCalledIn := func(d time.Duration) {
			clock.Step(d)
			require.Eventually(t, func() bool {
				readTime(tr.Dirty)
				return called(toLookAt(tr))
			}, 10*time.Second, time.Millisecond)
		}
		requireNotCalledIn := func(d time.Duration) {
			marker := state.Key{Name: "marker"}
			tr.Dirty.AddAfter(marker, d)
			clock.Step(d)
			require.Eventually(t, func() bool {
				readTime(tr.Dirty)
				keys := toLookAt(tr)
				assert.False(t, called(keys))
				return slices.Contains(keys, marker)
			}, 10*time.Second, time.Millisecond)
		}
		decide()
		clock.Step(pause)
		tr.Hints.Wake(scout)
		requireCalledIn(state.WakeDelay)
		decide()
		tr.Hints.Wake(scout)
		requireNotCalledIn(pause - time.Millisecond)
		requireCalledIn(time.Millisecond)
	}
}

// TestAPodThatLeavesItsGangWhileItGivesBackItsRoomIsActivated: its rejection was under way.
func TestAPodThatLeavesItsGangWhileItGivesBackItsRoomIsActivated(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	free := singleNamed("m0", "q").Obj()
	tr.SetPod(free)
	unreserve(tr, memberNamed("m0").Obj())
	assert.Equal(t, []string{"m0"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Equal(t, isSingle, enter(tr, free))
	assert.Empty(t, tr.Detached)
}
