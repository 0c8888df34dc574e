package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// The tests below are what random histories through the real scheduling queue have found, one at a time.

func TestMembersOfAGangWithMinimumZeroAreActivatedWhenItIsAdmitted(t *testing.T) {
	tr := openTracker(t)
	pod := memberNamed("m").Obj()
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 0))
	tr.SetPod(pod)
	require.Equal(t, "waiting for the PodGroup to be admitted by its queue", tr.Gate(pod))
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, "once is enough")
}

func TestMembersThatCameBeforeTheCachesWereReadAreActivatedWhenTheirGangIsAdmitted(t *testing.T) {
	tr := openTracker(t)
	tr.Synced = false
	pod := memberNamed("m").Obj()
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupPending, 0))
	tr.SetPod(pod)
	require.Equal(t, gangs.NotSynced, tr.Gate(pod))
	tr.Feed.Open()
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
}

// TestOnlyTheStatusAdmitsAPodGroup: every user who may create pods can name a Job as their owner. That opens the gate for no gang.
func TestOnlyTheStatusAdmitsAPodGroup(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("job").Obj()
	tr, _ := newTestTracker(t)
	group := mustertesting.MakePodGroup("g").UID("g").Queue("q").Owner(job)
	tr.SetPodGroup(group.Obj())
	own := memberNamed("own").Owner(job).Obj()
	tr.SetPod(own)
	require.NotEmpty(t, tr.Gate(own))
	require.Equal(t, gang.NotAdmitted, phaseOf(tr, theGang))
	tr.SetPodGroup(group.Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	assert.Empty(t, tr.Gate(own))
}

// TestAMemberThatReturnsItsRoomToAGangThatRunsIsActivated: the minimum is lowered after an attempt was rolled back, and the gang runs. The
// members that wait are activated before one that is rejected in Permit has given its room back. No event helps that one later.
func TestAMemberThatReturnsItsRoomToAGangThatRunsIsActivated(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	require.True(t, tr.Fail(memberNamed("m1").Obj()), "no node had room for it")
	require.Equal(t, gang.RollingBack, phaseOf(tr, theGang))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	actions := dispatch.NewDispatcher(tr).NextActions(theGang)
	require.Equal(t, []string{"m1"}, namesOf(actions.Activate))
	require.Equal(t, []types.UID{"m0"}, actions.Reject)

	unreserve(tr, memberNamed("m0").Obj())
	assert.Contains(t, toLookAt(tr), theGang)
	assert.Contains(t, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate), "m0")
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, "once is enough")
}

// TestRoomOfAnAttemptThatWasRolledBackIsNoPartOfTheNext: a member could not be placed. It may be back in the queue before the others have
// lost their room. Decided then, the gang needed a place for that one only, was released, and lost the others.
func TestRoomOfAnAttemptThatWasRolledBackIsNoPartOfTheNext(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 3)
	tr.Gangs[theGang].Attempt.Certain = true // there was a place for each: the next attempt goes exactly there, at once
	reserved, failed := memberNamed("m0").Obj(), memberNamed("m1").Obj()
	require.Empty(t, tr.Gate(failed))
	require.True(t, tr.Fail(failed), "no node had room for it")
	require.Equal(t, gang.RollingBack, phaseOf(tr, theGang))

	assert.Equal(t, "waiting until the gang has given back the room of its last attempt", tr.Gate(failed))
	assert.Equal(t, isHeld, enter(tr, failed))
	assert.Nil(t, tr.Decisions.Snapshot(failed))
	actions := dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Equal(t, []types.UID{"m0"}, actions.Reject)
	assert.Empty(t, actions.Activate)

	unreserve(tr, reserved)
	assert.Equal(t, []string{"m1"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	require.Empty(t, tr.Gate(failed))
	s := tr.Decisions.Snapshot(failed)
	require.NotNil(t, s)
	assert.Len(t, s.Problem.Members, 3, "all are placed anew")
	assert.True(t, s.Problem.Exact)
}

func TestAMinimumRaisedAboveTheChosenMembersRollsBack(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	assert.Nil(t, tr.Gangs[theGang].Attempt)
	assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
}

func TestAMinimumThatStaysDoesNotRollBack(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.Equal(t, gang.Attempting, phaseOf(tr, theGang))
}

func TestANewIncarnationRollsBack(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPod(memberNamed("new").Version(1).Obj())
	assert.Nil(t, tr.Gangs[theGang].Attempt)
	assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
}

// TestAnAttemptThatAMemberLeavesRollsBack: a user writes on a pod in Permit that it is of an earlier incarnation, or of another task. Without
// it the minimum never gets its room. The attempt would hold what it has for the whole of its time.
func TestAnAttemptThatAMemberLeavesRollsBack(t *testing.T) {
	for name, changed := range map[string]*mustertesting.PodWrapper{
		"earlier incarnation": memberNamed("m0").Task("a").Version(0), "another task": memberNamed("m0").Task("b").Version(1),
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			group.Spec.MinTaskMember = map[string]int32{"a": 2}
			tr.SetPodGroup(group)
			pods := []*corev1.Pod{memberNamed("m0").Task("a").Version(1).Obj(), memberNamed("m1").Task("a").Version(1).Obj()}
			setPods(tr, pods...)
			begin(t, tr, pods[0], nil)
			result, _ := permit(tr, pods[0])
			require.Equal(t, gangs.Wait, result)
			tr.SetPod(changed.Obj())
			assert.Nil(t, tr.Gangs[theGang].Attempt)
			assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
		})
	}
}

func TestAScoutThatIsNotChosenHasTheChosenMembersActivated(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("scout").Obj()
	tr.SetPod(scout)
	require.Empty(t, tr.Gate(scout))
	tr.SetPod(memberNamed("higher").Priority(10).Obj())
	s := tr.Decisions.Snapshot(scout)
	toLookAt(tr)
	_, ok := tr.Decisions.Commit(s, yes(s, nil))
	require.True(t, ok)
	assert.Contains(t, toLookAt(tr), theGang, "the cycle of the scout fails, and activates none")
	assert.Equal(t, []string{"higher"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
}

// TestTheDeletionOfAnEarlierPodGroupIsIgnored: the events of two PodGroups of one name may come in any order.
func TestTheDeletionOfAnEarlierPodGroupIsIgnored(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	earlier := groupIn(schedulingv1beta1.PodGroupRunning, 2)
	earlier.UID = "earlier"
	tr.DeletePodGroup(earlier)
	assert.Equal(t, gang.Attempting, phaseOf(tr, theGang))
	tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.Equal(t, gang.Status{Phase: gang.Incomplete, Reason: gang.NoPodGroup}, statusOf(tr, theGang))
}

// TestPodsOfADeletedPodGroupStayCharged: these were bound without an account. account_test.go has the ones that were bound with one.
func TestPodsOfADeletedPodGroupStayCharged(t *testing.T) {
	tr := openTracker(t)
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	tr.SetPodGroup(group)
	tr.SetPod(memberNamed("m").Node("node").Obj())
	require.Equal(t, int64(1000), tr.Quota.Ledger.Used("q")[corev1.ResourceCPU])
	tr.DeletePodGroup(group)
	assert.Equal(t, int64(1000), tr.Quota.Ledger.Used("q")[corev1.ResourceCPU])
	tr.DeletePod(memberNamed("m").Node("node").Obj())
	assert.True(t, tr.Quota.Ledger.Used("q").IsZero())
}

func TestAGangThatMovesToAnotherQueueMakesRoomInItsOld(t *testing.T) {
	tr := openTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	group := groupIn(schedulingv1beta1.PodGroupRunning, 1)
	tr.SetPodGroup(group)
	tr.SetPod(memberNamed("m").Node("node").Obj())
	single := singleNamed("single", "q").Obj()
	require.NotNil(t, tr.Quota.QuotaShortage(single))
	require.True(t, report.NewReports(tr).WaitsForQuota(single))
	group.Spec.Queue = "other"
	tr.SetPodGroup(group)
	assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.QuotaKey).Activate))
	assert.Nil(t, tr.Quota.QuotaShortage(single))
	assert.False(t, report.NewReports(tr).WaitsForQuota(single))
}

func TestQuotaThatWasReservedInTheOldQueueIsFreeWhenThePodIsBound(t *testing.T) {
	for _, queue := range []string{"other", ""} {
		tr := openTracker(t)
		tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
		startAttempt(t, tr, 1)
		single := singleNamed("single", "q").Obj()
		moved := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
		moved.Spec.Queue = queue
		tr.SetPodGroup(moved)
		dispatch.NewDispatcher(tr).NextActions(state.QuotaKey)
		require.NotNil(t, tr.Quota.QuotaShortage(single), "the pod was charged to the old queue")
		tr.SetPod(memberNamed("m0").Node("node").Obj())
		assert.Equal(t, []string{"single"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.QuotaKey).Activate), queue)
		assert.Nil(t, tr.Quota.QuotaShortage(single))
	}
}

// T12: the members of a gang do not come in time. Its places and its queue's quota are then given back.
func TestT12_AnAttemptTimesOutAndGivesQuotaBack(t *testing.T) {
	tr, clock := newTestTracker(t)
	tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "2").Obj())
	startAttempt(t, tr, 2)
	one := resources.List{corev1.ResourceCPU: 1000}
	require.NotNil(t, tr.Quota.Ledger.Room("q", one), "one member is charged, for the other quota is assumed")
	clock.Step(time.Minute - time.Second)
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
	clock.Step(time.Second)
	require.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, "the one that waits for the other is rejected")
	require.Nil(t, tr.Quota.Ledger.Room("q", one), "nothing is assumed any more")
	unreserve(tr, memberNamed("m0").Obj())
	require.Nil(t, tr.Quota.Ledger.Room("q", resources.List{corev1.ResourceCPU: 2000}), "nothing is charged any more")
	other := gangOf(tr, "other", 1, 1)[0]
	require.Empty(t, tr.Gate(other))
	require.Empty(t, tr.Decisions.Snapshot(other).Problem.Held, "no room on nodes is assumed any more")
}

// When a member changes, the queue tells the plugins that rejected that member. The gang is unschedulable under the name of its scout,
// which may be another. Here it waits for the claim of g-0.
func TestAnUnschedulableGangIsDecidedAgainWhenAMemberChanges(t *testing.T) {
	claimed := func(pod *corev1.Pod) {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: ptr.To("g-0-device")}}
	}
	reported := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"it has got its claim":       {claimed, []string{"g-1"}},
		"its condition is written":   {reported, []string{}},
		"it tolerates another taint": {func(pod *corev1.Pod) { pod.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, []string{"g-1"}},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while it is decided: %t", name, late), func(t *testing.T) {
				tr, clock := newTestTracker(t)
				pods := gangOf(tr, "g", 2, 2)
				scout := pods[1]
				require.Empty(t, tr.Gate(scout))
				dispatch.NewDispatcher(tr).NextActions(theGang)
				s := tr.Decisions.Snapshot(scout)
				require.NotNil(t, s)
				changed := pods[0].DeepCopy()
				tc.change(changed)
				if late {
					tr.SetPod(changed)
					dispatch.NewDispatcher(tr).NextActions(theGang) // the dispatcher is quicker than the decision
				}
				_, ok := tr.Decisions.Commit(s, no(s, "one has no claim", pods[0], "DynamicResources"))
				require.True(t, ok)
				if !late {
					tr.SetPod(changed)
				}
				require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, "not again within a moment")
				clock.Step(state.DecisionPause)
				assert.Equal(t, tc.want, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate), "the scout is called again")
			})
		}
	}
}

// TestAPodWaitsForThePodGroupItWasCreatedFor: pods and PodGroups are watched apart. A gang runs and its minimum is raised; new members that
// the scheduler sees before that are not surplus.
func TestAPodWaitsForThePodGroupItWasCreatedFor(t *testing.T) {
	tr := openTracker(t)
	group := func(version string, minMember int32) *schedulingv1beta1.PodGroup {
		pg := groupIn(schedulingv1beta1.PodGroupRunning, minMember)
		pg.ResourceVersion = version
		return pg
	}
	tr.SetPodGroup(group("9", 2))
	setPods(tr, memberNamed("m0").Node("n").Obj(), memberNamed("m1").Node("n").Obj())
	surplus := memberNamed("surplus").Obj()
	raised := memberNamed("raised").Annotation(schedulingv1beta1.GroupResourceVersionAnnotation, "12").Obj()
	setPods(tr, surplus, raised)
	require.Empty(t, tr.Gate(surplus), "beyond the minimum")
	require.Equal(t, gangs.NotCaughtUp, tr.Gate(raised))
	tr.SetPodGroup(group("11", 2))
	require.Equal(t, gangs.NotCaughtUp, tr.Gate(raised), "something else has changed")
	tr.SetPodGroup(group("12", 5))
	require.Equal(t, "waiting for the minimum of the gang's pods to be created", tr.Gate(raised))
	tr.SetPodGroup(group("30", 2))
	require.Empty(t, tr.Gate(raised), "what comes later says what holds now")

	raised.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "nonsense"
	require.Empty(t, tr.Gate(raised))
}

// An attempt's assumed quota is that of the queue in which the attempt began.
func TestAGangThatChangesItsQueueInAnAttemptIsRolledBack(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	moved := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	moved.Spec.Queue = "other"
	tr.SetPodGroup(moved)
	assert.Nil(t, tr.Gangs[theGang].Attempt)
	assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
	for _, queue := range []string{"q", "other"} {
		used, all := tr.Quota.Ledger.Totals(queue)
		assert.Equal(t, used, all, "nothing is assumed of either")
	}
}

func TestADecisionOnAGangThatHasChangedIsRefused(t *testing.T) {
	for name, change := range map[string]func(*gangs.Tracker, *schedulingv1beta1.PodGroup){
		"its PodGroup is gone":   func(tr *gangs.Tracker, pg *schedulingv1beta1.PodGroup) { tr.DeletePodGroup(pg) },
		"it is in another queue": func(tr *gangs.Tracker, pg *schedulingv1beta1.PodGroup) { pg.Spec.Queue = "other"; tr.SetPodGroup(pg) },
		"another one is not admitted yet": func(tr *gangs.Tracker, pg *schedulingv1beta1.PodGroup) {
			pg.UID, pg.Status.Phase = "another", schedulingv1beta1.PodGroupPending
			tr.SetPodGroup(pg)
		},
		"its member is gone": func(tr *gangs.Tracker, _ *schedulingv1beta1.PodGroup) { tr.DeletePod(memberNamed("m").Obj()) },
		"another member starts": func(tr *gangs.Tracker, _ *schedulingv1beta1.PodGroup) {
			tr.SetPod(memberNamed("higher").Priority(1).Obj())
		},
		"more members start":           func(tr *gangs.Tracker, pg *schedulingv1beta1.PodGroup) { pg.Spec.MinMember = 2; tr.SetPodGroup(pg) },
		"it is seated in the meantime": func(tr *gangs.Tracker, _ *schedulingv1beta1.PodGroup) { tr.SetPod(memberNamed("m").Node("n").Obj()) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			pod := memberNamed("m").Obj()
			tr.SetPod(pod)
			require.Empty(t, tr.Gate(pod))
			s := tr.Decisions.Snapshot(pod)
			require.NotNil(t, s)
			change(tr, groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			_, ok := tr.Decisions.Commit(s, yes(s, map[types.UID]string{"m": "node"}))
			assert.False(t, ok)
			if g := tr.Gangs[theGang]; g != nil {
				assert.Nil(t, g.Attempt)
			}
			used, all := tr.Quota.Ledger.Totals("q")
			assert.Equal(t, used, all, "nothing is assumed")
		})
	}
}

// A pod that waits in Permit serves neither the gang that it has left nor its new gang.
func TestAPodThatLeavesItsGangWhileItHoldsRoomGivesItBack(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPod(memberNamed("m0").Group("another").Obj())
	assert.Equal(t, []types.UID{"m0"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
	actions, _ := dispatch.NewDispatcher(tr).Tick()
	assert.Equal(t, []types.UID{"m0"}, actions.Reject, "it may have been on its way to Permit")
	unreserve(tr, memberNamed("m0").Obj())
	assert.True(t, tr.Quota.Ledger.Used("q").IsZero())
	actions, _ = dispatch.NewDispatcher(tr).Tick()
	assert.Empty(t, actions.Reject)
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Reject)
}

// An attempt of thousands of members takes as long as it takes, as long as they come.
func TestAnAttemptThatGoesOnHasTime(t *testing.T) {
	tr, clock := newTestTracker(t)
	startAttempt(t, tr, 3)
	clock.Step(time.Minute - time.Second)
	result, _ := permit(tr, memberNamed("m1").Obj())
	require.Equal(t, gangs.Wait, result)
	clock.Step(time.Minute - time.Second)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Equal(t, gang.Attempting, phaseOf(tr, theGang))
	clock.Step(time.Second)
	assert.ElementsMatch(t, []types.UID{"m0", "m1"}, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, "the last has not come")
}

// TestNoAttemptCountsOnMembersThatAreRejectedFromPermit: the minimum is lowered, which releases the members that wait. It is raised again
// before they go on.
func TestNoAttemptCountsOnMembersThatAreRejectedFromPermit(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	require.Equal(t, gang.Running, phaseOf(tr, theGang))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	actions := dispatch.NewDispatcher(tr).NextActions(theGang)
	require.Equal(t, []types.UID{"m0"}, actions.Reject)
	assert.Equal(t, gang.RollingBack, phaseOf(tr, theGang))
	assert.Nil(t, tr.Decisions.Snapshot(memberNamed("m1").Obj()), "the gang is decided when m0 has given back its room")
	unreserve(tr, memberNamed("m0").Obj())
	s := tr.Decisions.Snapshot(memberNamed("m1").Obj())
	require.NotNil(t, s)
	assert.Len(t, s.Problem.Members, 2)
}

// TestAMemberThatIsBeingDeletedIsNotAllowed: its gang runs without it, as the minimum was lowered.
func TestAMemberThatIsBeingDeletedIsNotAllowed(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 2)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	require.Equal(t, gang.Running, phaseOf(tr, theGang), "m0 is released")
	tr.SetPod(deleting(memberNamed("m0").Obj()))
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	actions := dispatch.NewDispatcher(tr).NextActions(theGang)
	assert.Empty(t, actions.Allow)
	assert.Equal(t, []types.UID{"m0"}, actions.Reject)
}
