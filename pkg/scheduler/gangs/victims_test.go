package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// trackerWithGang has theGang with a minimum and so many bound members, g0 and so on, and one that waits: surplus.
func trackerWithGang(t *testing.T, minMember int32, bound int) (*gangs.Tracker, *clocktesting.FakeClock, *corev1.Pod) {
	t.Helper()
	tr, clock := newTestTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, minMember))
	for i := range bound {
		tr.SetPod(memberNamed(fmt.Sprint("g", i)).Node("node").Obj())
	}
	waiting := memberNamed("late").Obj()
	tr.SetPod(waiting)
	return tr, clock, waiting
}

func TestVictimsOfOthersCountAsGone(t *testing.T) {
	tr, clock, _ := trackerWithGang(t, 2, 4)
	held := func() int {
		standing := tr.Victims.Standing(theGang)
		require.NotNil(t, standing)
		return len(standing.Holding)
	}
	require.Equal(t, 4, held())
	tr.Victims.ClaimVictims("a", []types.UID{"g0"})
	require.Equal(t, 3, held())
	assert.True(t, tr.Victims.BeginEviction("b", "g1", []types.UID{"g1"}, false), "two are left")
	assert.False(t, tr.Victims.BeginEviction("c", "g2", []types.UID{"g2"}, false), "one would be left")
	assert.False(t, tr.Victims.BeginEviction("c", "g2", []types.UID{"g2", "g3"}, false), "g0 would be left if a gives it up")
	assert.True(t, tr.Victims.BeginEviction("a", "g0", []types.UID{"g0"}, false), "two are left")
	assert.True(t, tr.Victims.BeginEviction("c", "g2", []types.UID{"g2", "g3"}, false), "none would be left")
	tr.Victims.DropClaims("b", "g1") // as its eviction has failed
	tr.Victims.DropClaims("c", "g2", "g3")
	require.Equal(t, 3, held())
	clock.Step(evict.ClaimFor)
	require.Equal(t, 4, held(), "a claim that is not followed by an eviction does not stand for ever")
}

// TestAnEvictionThatGoesOnIsNotGivenUpByAnother: the pod counts as gone, whatever becomes of others that wait for its room, too.
func TestAnEvictionThatGoesOnIsNotGivenUpByAnother(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	require.True(t, tr.Victims.BeginEviction("a", "g0", []types.UID{"g0"}, false))
	tr.Victims.ClaimVictims("b", []types.UID{"g0"})
	tr.Victims.DropClaims("b")
	assert.False(t, tr.Victims.BeginEviction("c", "g1", []types.UID{"g1"}, false), "one would be left")
}

// TestAPodThatWasEvictedIsGone: its preemptor may choose other victims before the informer shows it.
func TestAPodThatWasEvictedIsGone(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	require.True(t, tr.Victims.BeginEviction("a", "g0", []types.UID{"g0"}, false))
	tr.Victims.Evicted(memberNamed("g0").Node("node").Obj(), "preempted")
	tr.Victims.DropClaims("a")
	assert.False(t, tr.Victims.BeginEviction("a", "g1", []types.UID{"g1"}, false), "one would be left")
	assert.False(t, tr.Victims.BeginEviction("a", "g0", []types.UID{"g0", "g1"}, false), "the same, with a pod that is gone")
}

// TestAPlanThatHasBegunIsNotEndedByAnotherGang: a victim was given back in memory, and its gang needs it now. The other gang goes whole, as planned.
func TestAPlanThatHasBegunIsNotEndedByAnotherGang(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	tr.SetPodGroup(mustertesting.MakePodGroup("h").UID("h").MinMember(2).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for _, name := range []string{"h0", "h1"} {
		tr.SetPod(mustertesting.MakePod(name).UID(name).Group("h").Node("node").Obj())
	}
	plan := []types.UID{"g0", "h0", "h1"}
	tr.Victims.ClaimVictims("a", plan)
	require.True(t, tr.Victims.BeginEviction("a", "g0", plan, false))
	tr.Victims.DropClaims("a", "g0") // it held nothing in the API
	tr.DeletePod(memberNamed("g1").Node("node").Obj())
	require.True(t, tr.Victims.BeginEviction("a", "h0", plan, false))
	assert.True(t, tr.Victims.BeginEviction("a", "h1", plan, false), "h0 would be left alone")
	assert.False(t, tr.Victims.BeginEviction("a", "g0", plan, false), "one would be left")
}

// TestWhatIsLeftOfAnEarlierPlanBeginsNoOther: the informer does not show yet that g0 was evicted, and the next plan has it, too.
func TestWhatIsLeftOfAnEarlierPlanBeginsNoOther(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 4)
	tr.SetPodGroup(mustertesting.MakePodGroup("h").UID("h").MinMember(2).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for _, name := range []string{"h0", "h1", "h2"} {
		tr.SetPod(mustertesting.MakePod(name).UID(name).Group("h").Node("node").Obj())
	}
	require.True(t, tr.Victims.BeginEviction("a", "g0", []types.UID{"g0"}, false))
	tr.Victims.DropClaims("a")
	plan := []types.UID{"g0", "h0"}
	tr.Victims.ClaimVictims("a", plan)
	tr.DeletePod(mustertesting.MakePod("h2").UID("h2").Group("h").Node("node").Obj())
	assert.False(t, tr.Victims.BeginEviction("a", "g0", plan, false), "h1 would be left alone")
	assert.False(t, tr.Victims.BeginEviction("a", "h0", plan, false), "the same")
}

// TestWhatAForcedPlanGaveBackIsNotClaimedAgain when the turn of a pod without a gang comes: such a pod has no claim.
func TestWhatAForcedPlanGaveBackIsNotClaimedAgain(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	plan := []types.UID{"g0", "single"}
	tr.Victims.ClaimVictims("critical", plan)
	require.True(t, tr.Victims.BeginEviction("critical", "g0", plan, true))
	tr.Victims.DropClaims("critical", "g0")
	require.True(t, tr.Victims.BeginEviction("critical", "single", plan, true))
	assert.Contains(t, tr.Victims.Standing(theGang).Holding, types.UID("g0"))
}

func TestClaimsEndWithTheirPods(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 3)
	tr.Victims.ClaimVictims("a", []types.UID{"g0", "g1", "unknown"})
	require.Len(t, tr.Claims.Of, 2)
	tr.SetPod(memberNamed("g0").Node("node").Terminating(time.Unix(1000, 0)).Obj())
	tr.DeletePod(memberNamed("g1").Obj())
	dispatch.NewDispatcher(tr).Tick()
	assert.Empty(t, tr.Claims.Of)
	assert.Empty(t, tr.Claims.OnGang)
}

func TestSurplusDoesNotJoinAGangThatIsBeingEvicted(t *testing.T) {
	tr, clock, late := trackerWithGang(t, 2, 3)
	require.Empty(t, tr.Gate(late), "surplus may come")
	tr.Victims.ClaimVictims("a", []types.UID{"g0"})
	require.Empty(t, tr.Gate(late), "the gang stays")
	tr.Victims.ClaimVictims("a", []types.UID{"g0", "g1", "g2"})
	require.Equal(t, "the gang is being preempted", tr.Gate(late))
	require.Equal(t, gang.Status{Phase: gang.Running, Reason: gang.Preemption}, statusOf(tr, theGang))

	isCalled := func() bool { return len(dispatch.NewDispatcher(tr).NextActions(theGang).Activate) > 0 }
	isCalled() // what was to be done before
	require.False(t, isCalled())
	clock.Step(evict.ClaimFor)
	dispatch.NewDispatcher(tr).Tick()
	require.Empty(t, tr.Gate(late))
	assert.True(t, isCalled(), "pods that were held at the gate are activated when the claim ends")
}

func TestAGangWithoutPodGroupNeedsNoCare(t *testing.T) {
	tr, _, _ := trackerWithGang(t, 2, 2)
	tr.SetPod(mustertesting.MakePod("h0").UID("h0").Group("h").Node("node").Obj())
	assert.Nil(t, tr.Victims.Standing(keyNamed("h")))
	assert.True(t, tr.Victims.BeginEviction("a", "h0", []types.UID{"h0", "single"}, false))
}
