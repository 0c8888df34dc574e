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
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
)

// The tests below are of Jobs that restart. A fact about one incarnation of a gang does not hold for the next.

// ranAs is the PodGroup of a gang that was bound as a whole, and of which some members have succeeded.
func ranAs(version, succeeded, minMember int32) *schedulingv1beta1.PodGroup {
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, minMember)
	pg.Status.JobVersion, pg.Status.Succeeded = &version, succeeded
	pg.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupScheduled, Status: corev1.ConditionTrue}}
	return pg
}

// toEvict are the pods that a tick has evicted, and toDenominate those whose nomination it drops.
func toEvict(tr *gangs.Tracker) (names []string)      { return repairsAt(tr, true) }
func toDenominate(tr *gangs.Tracker) (names []string) { return repairsAt(tr, false) }

func repairsAt(tr *gangs.Tracker, evictions bool) (names []string) {
	_, repairs := dispatch.NewDispatcher(tr).Tick()
	for _, r := range repairs {
		if (r.Kind == evict.StartOver) == evictions {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestMembersThatSucceededInAnEarlierIncarnationDoNotCount(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(ranAs(0, 2, 2))
	first := memberNamed("first").Version(1).Obj()
	tr.SetPod(first)
	assert.Equal(t, "waiting for the minimum of the gang's pods to be created", tr.Gate(first), "the two that succeeded are of the incarnation before")
	tr.SetPodGroup(ranAs(1, 1, 2))
	assert.Empty(t, tr.Gate(first), "one of its own incarnation has succeeded")
}

func TestAnIncarnationThatNeverReachedItsMinimumIsEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		bound, now int
		evicted    int
	}{
		"the one before was whole": {bound: 0, now: 1, evicted: 1},
		"this one was whole":       {bound: 1, now: 1, evicted: 0},
		"the first, and it was":    {bound: 0, now: 0, evicted: 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, groupFirst := range []bool{true, false} {
				tr, clock := newTestTracker(t)
				pg := ranAs(int32(c.bound), 0, 2)
				if groupFirst {
					tr.SetPodGroup(pg)
				}
				tr.SetPod(memberNamed("m").Version(c.now).Node("node").Obj())
				tr.SetPodGroup(pg)
				require.Empty(t, toEvict(tr))
				clock.Step(2 * time.Hour)
				assert.Len(t, toEvict(tr), c.evicted, "the PodGroup is seen first: %v", groupFirst)
			}
		})
	}
}

// A status that an earlier release wrote is about whatever there is.
func TestAStatusThatDoesNotSayWhichIncarnationIsBelieved(t *testing.T) {
	for _, phase := range []schedulingv1beta1.PodGroupPhase{schedulingv1beta1.PodGroupInqueue, schedulingv1beta1.PodGroupRunning} {
		tr, clock := newTestTracker(t)
		pg := ranAs(0, 1, 3)
		pg.Status.Phase, pg.Status.JobVersion = phase, nil
		tr.SetPodGroup(pg)
		waiting := memberNamed("waiting").Version(3).Obj()
		setPods(tr, memberNamed("m").Version(3).Node("node").Obj(), waiting)
		assert.Empty(t, tr.Gate(waiting), "with the one that has succeeded there are enough")
		require.Empty(t, toEvict(tr))
		clock.Step(2 * time.Hour)
		assert.Empty(t, toEvict(tr), "it has been whole")
	}
}

func TestThePhaseOfTheOldIncarnationSaysNothingAboutTheNewOne(t *testing.T) {
	tr, clock := newTestTracker(t)
	pg := groupIn(schedulingv1beta1.PodGroupRunning, 2)
	pg.Status.JobVersion = ptr.To[int32](1) // the Job has restarted, the phase is that of its old pods
	tr.SetPodGroup(pg)
	tr.SetPod(memberNamed("m").Version(1).Node("node").Obj())
	require.Empty(t, toEvict(tr))
	clock.Step(2 * time.Hour)
	assert.Equal(t, []string{"m"}, toEvict(tr))
}

// A gang that lacks one member is complete as soon as the status says that one has succeeded. Until then that is not known.
func TestAGangWaitsForTheOutcomeOfATerminatedMember(t *testing.T) {
	const outcomeUnknown = "waiting to learn how a member of the gang has ended"
	tr, clock := newTestTracker(t)
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	tr.SetPodGroup(pg)
	ends, stays, surplus := on(memberNamed("ends").Obj(), "node"), on(memberNamed("stays").Obj(), "node"), memberNamed("surplus").Obj()
	setPods(tr, ends, stays, surplus)
	tr.DeletePod(ends) // as its watch shows a pod that has succeeded
	require.Equal(t, outcomeUnknown, tr.Gate(surplus))
	assert.Equal(t, gang.Status{Phase: gang.Incomplete, Reason: gang.OutcomeUnknown, Until: clock.Now().Add(gangs.OutcomePause)}, statusOf(tr, theGang))
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	assert.Zero(t, report.NewReports(tr).TakeReport(theGang).Explanation, "nothing is reported that is over in a moment")

	known := pg.DeepCopy()
	known.Status.Succeeded = 1
	tr.SetPodGroup(known)
	assert.Equal(t, []string{"surplus"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Empty(t, tr.Gate(surplus))
	assert.Equal(t, isSingle, enter(tr, surplus), "the minimum has what it needs")

	tr.DeletePod(stays) // and its outcome is never written
	require.Equal(t, outcomeUnknown, tr.Gate(surplus))
	toLookAt(tr)
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	clock.Step(gangs.OutcomePause)
	require.Contains(t, lookAgain(t, tr), theGang, "the dispatcher looks again by itself")
	assert.Equal(t, []string{"surplus"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Equal(t, isScout, enter(tr, surplus), "it takes the place of the member that is gone")
}

func TestAMemberThatFailedIsReplacedAtOnce(t *testing.T) {
	tr := openTracker(t)
	pg := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	tr.SetPodGroup(pg)
	ends, stays, comes := on(memberNamed("ends").Obj(), "node"), on(memberNamed("stays").Obj(), "node"), memberNamed("comes").Obj()
	setPods(tr, ends, stays, comes)
	tr.DeletePod(ends)
	require.Equal(t, gang.OutcomeUnknown, statusOf(tr, theGang).Reason)
	known := pg.DeepCopy()
	known.Status.Failed = 1
	tr.SetPodGroup(known)
	assert.Empty(t, tr.Gate(comes))
	assert.Equal(t, isScout, enter(tr, comes))
}

func TestAMemberThatIsDeletedIsReplacedAtOnce(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	goes, stays, comes := on(memberNamed("goes").Obj(), "node"), on(memberNamed("stays").Obj(), "node"), memberNamed("comes").Obj()
	setPods(tr, goes, stays, deleting(goes))
	tr.DeletePod(deleting(goes))
	tr.SetPod(comes)
	assert.Empty(t, tr.Gate(comes))
}

// Two of three are bound and the third is being bound, which may take minutes: its volume is made. That does not hold up the replacement of
// one that is lost.
func TestAMemberThatIsBeingBoundHoldsUpNoOther(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 3)
	var pods []*corev1.Pod
	for i := range 3 {
		pods = append(pods, memberNamed(fmt.Sprint("m", i)).Obj())
	}
	result, _ := permit(tr, pods[1])
	require.Equal(t, gangs.Wait, result)
	result, released := permit(tr, pods[2])
	require.Equal(t, gangs.Allow, result)
	require.Len(t, released, 3)
	setPods(tr, on(pods[0], "node"), on(pods[1], "node"), deleting(on(pods[0], "node")))
	tr.DeletePod(deleting(on(pods[0], "node")))

	replacement := memberNamed("replacement").Obj()
	tr.SetPod(replacement)
	require.Empty(t, tr.Gate(replacement))
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Reject, "the member that is being bound keeps its room")
	s := tr.Decisions.Snapshot(replacement)
	require.NotNil(t, s)
	assert.Len(t, s.Problem.Members, 1)
	_, ok := tr.Decisions.Commit(s, yes(s, nil))
	require.True(t, ok)
	result, _ = permit(tr, replacement)
	assert.Equal(t, gangs.Allow, result)
}

// A pod of the incarnation before, which is still being bound, does not end an attempt of the next.
func TestAMemberOfAnEarlierIncarnationEndsNoAttempt(t *testing.T) {
	tr := openTracker(t)
	startAttempt(t, tr, 1)
	old := memberNamed("m0").Obj()
	result, _ := tr.Permit(old)
	require.Equal(t, gangs.Allow, result)
	pods := []*corev1.Pod{memberNamed("n0").Version(1).Obj(), memberNamed("n1").Version(1).Obj()}
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	setPods(tr, pods...)
	require.Empty(t, tr.Gate(pods[0]), "the old pod holds up nothing either")
	begin(t, tr, pods[0], nil)
	reserve(tr, pods[0])
	tr.SetPod(deleting(old))
	unreserve(tr, old)
	tr.DeletePod(deleting(old))
	assert.Equal(t, gang.Attempting, phaseOf(tr, theGang))
	assert.Zero(t, tr.Gangs[theGang].Retry.Failures)
	result, _ = permit(tr, pods[1])
	assert.Equal(t, gangs.Allow, result)
}

// A member may be released before it waits in Permit. The next tick allows it again, unless the minimum has lost its room meanwhile.
func TestAMemberThatWasReleasedTooEarlyIsReleasedAgainWhileTheMinimumIsThere(t *testing.T) {
	for name, tc := range map[string]struct {
		lost   bool
		allow  []types.UID
		reject []types.UID
	}{
		"the minimum is there": {false, []types.UID{"m0", "m1"}, nil},
		"it is not":            {true, nil, []types.UID{"m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			startAttempt(t, tr, 2)
			_, released := permit(tr, memberNamed("m1").Obj())
			require.Len(t, released, 2)
			if tc.lost {
				tr.SetPod(deleting(memberNamed("m0").Obj()))
				unreserve(tr, memberNamed("m0").Obj())
				tr.DeletePod(deleting(memberNamed("m0").Obj()))
			}
			dispatch.NewDispatcher(tr).Tick()
			actions := dispatch.NewDispatcher(tr).NextActions(theGang)
			assert.ElementsMatch(t, tc.allow, actions.Allow)
			assert.ElementsMatch(t, tc.reject, actions.Reject)
		})
	}
}

// TestAnIncarnationThatWasWholeSaysNothingOfAnEarlierOne: a user may write a later incarnation on a pod, and remove the pod.
func TestAnIncarnationThatWasWholeSaysNothingOfAnEarlierOne(t *testing.T) {
	for name, c := range map[string]struct {
		said    bool // the status says that the minimum of the earlier one was bound
		evicted []string
	}{
		"the earlier one was never whole": {evicted: []string{"m"}},
		"the status says that it was":     {said: true},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			pg := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
			if c.said {
				pg = ranAs(0, 0, 1)
			}
			later := on(memberNamed("later").Version(1).Obj(), "node")
			tr.SetPodGroup(pg)
			setPods(tr, later, on(memberNamed("m").Obj(), "node"))
			raised := pg.DeepCopy()
			raised.Spec.MinMember = 3
			tr.SetPodGroup(raised)
			tr.DeletePod(later)
			require.Empty(t, toEvict(tr))
			clock.Step(2 * time.Hour)
			assert.Equal(t, c.evicted, toEvict(tr))
		})
	}
}

// TestMembersOfAnEarlierIncarnationThatComesBackAreActivated: a user has written a later incarnation on a pod, and removes the pod.
func TestMembersOfAnEarlierIncarnationThatComesBackAreActivated(t *testing.T) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 0))
	later, waits := memberNamed("later").Version(1).Obj(), memberNamed("waits").Obj()
	setPods(tr, later, waits)
	require.Equal(t, gangs.OldIncarnation, tr.Gate(waits))
	require.Equal(t, []string{"later"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	tr.DeletePod(later)
	assert.Equal(t, []string{"waits"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
}
