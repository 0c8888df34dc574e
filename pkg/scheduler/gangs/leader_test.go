package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// newFollower makes a tracker that has seen no scheduling cycle.
func newFollower(t *testing.T) (*gangs.Tracker, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	tr := gangs.New(clock)
	t.Cleanup(tr.Dirty.ShutDown)
	t.Cleanup(tr.Reports.ShutDown)
	require.NoError(t, tr.Configure("muster", testArgs))
	tr.Feed.Open()
	return tr, clock
}

// passing are the pods that may pass the gate.
func passing(tr *gangs.Tracker, pods ...*corev1.Pod) []string {
	names := []string{}
	for _, pod := range pods {
		if tr.Gate(pod) == "" {
			names = append(names, pod.Name)
		}
	}
	return names
}

// heldPods are the members of two gangs that are not complete.
func heldPods(tr *gangs.Tracker) []*corev1.Pod {
	return append(gangOf(tr, "a", 3, 2), gangOf(tr, "b", 3, 2)...)
}

func TestATrackerFollowsUntilItSeesACycle(t *testing.T) {
	tr, _ := newFollower(t)
	require.False(t, tr.Leadership.Leads())
	pods := heldPods(tr)
	passing(tr, pods...)
	require.False(t, tr.Leadership.Leads(), "the gate is asked in a standby, too")
	assert.Equal(t, isHeld, enter(tr, pods[0]))
	assert.True(t, tr.Leadership.Leads())

	single, _ := newFollower(t)
	single.Enter(singleNamed("single", "").Obj())
	assert.True(t, single.Leadership.Leads(), "any cycle shows that this process schedules")
}

func TestExactlyOneHeldMemberPassesTheGateOfAFollower(t *testing.T) {
	tr, _ := newFollower(t)
	pods := heldPods(tr)
	assert.Equal(t, []string{"a-0"}, passing(tr, pods...))
	assert.Equal(t, []string{"a-0"}, passing(tr, pods...), "it stays the same")

	ready := gangOf(tr, "ready", 1, 1)
	assert.Equal(t, []string{"a-0", "ready-0"}, passing(tr, append(pods, ready...)...), "pods that are not held pass as always")

	tr.Leadership.Lead()
	assert.Equal(t, []string{"ready-0"}, passing(tr, append(pods, ready...)...), "a leader needs no probe")
}

func TestThereIsNoProbeBeforeEverythingIsRead(t *testing.T) {
	tr, _ := newFollower(t)
	tr.Synced = false
	pods := heldPods(tr)
	require.Empty(t, passing(tr, pods...))
	tr.Feed.Open()
	assert.Len(t, passing(tr, pods...), 1)
}

func TestTheProbeMovesOn(t *testing.T) {
	for name, gone := range map[string]func(*gangs.Tracker, *corev1.Pod){
		"when the pod is bound":         func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(on(pod, "node")) },
		"when the pod is deleted":       func(tr *gangs.Tracker, pod *corev1.Pod) { tr.DeletePod(pod) },
		"when the pod is being deleted": func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(deleting(pod)) },
	} {
		t.Run(name, func(t *testing.T) {
			tr, _ := newFollower(t)
			pods := heldPods(tr)
			require.Equal(t, []string{"a-0"}, passing(tr, pods...))
			actions, _ := dispatch.NewDispatcher(tr).Tick()
			require.Empty(t, actions.Activate, "there is one")
			gone(tr, pods[0])
			actions, _ = dispatch.NewDispatcher(tr).Tick()
			require.Len(t, actions.Activate, 1, "the gate is asked about another one")
			assert.Contains(t, []string{"a-1", "b-0"}, actions.Activate[0].Name, "the first of its gang that waits")
			assert.Equal(t, namesOf(actions.Activate), passing(tr, append(actions.Activate, pods...)...)[:1])
			assert.Len(t, passing(tr, pods...), 1)
		})
	}
}

// A pod that the scheduler does not try tells nothing, and nothing else would come.
func TestOnlyAMemberThatWaitsIsTheProbe(t *testing.T) {
	tr, _ := newFollower(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	bound, goes := memberNamed("bound").Obj(), memberNamed("goes").Obj()
	setPods(tr, on(bound, "node"), deleting(goes))
	gated := memberNamed("gated").Obj()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	tr.SetPod(gated)
	unseen := memberNamed("unseen").Obj()
	assert.Empty(t, passing(tr, bound, goes, gated, unseen))
	assert.Empty(t, tr.Leadership.NextProbe(tr.Clock.Now()))

	waits := memberNamed("waits").Obj()
	tr.SetPod(waits)
	assert.Equal(t, []string{"waits"}, namesOf(tr.Leadership.NextProbe(tr.Clock.Now())))
	actions, _ := dispatch.NewDispatcher(tr).Tick()
	assert.Contains(t, namesOf(actions.Activate), "waits")
	assert.Equal(t, []string{"waits"}, passing(tr, bound, goes, gated, unseen, waits))
}

func TestALeaderActivatesNoProbe(t *testing.T) {
	tr, _ := newFollower(t)
	heldPods(tr)
	tr.Leadership.Lead()
	actions, _ := dispatch.NewDispatcher(tr).Tick()
	assert.Empty(t, actions.Activate)
}

// TestAFollowerWritesNothing: a standby does not know of attempts, and would evict a gang whose members are being bound.
func TestAFollowerWritesNothing(t *testing.T) {
	tr, clock := newFollower(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	nominated := memberNamed("nominated").Obj()
	nominated.Status.NominatedNodeName = "node"
	setPods(tr, memberNamed("bound").Node("node").Obj(), nominated)
	clock.Step(2 * time.Hour)
	for range 2 {
		_, repairs := dispatch.NewDispatcher(tr).Tick()
		require.Empty(t, repairs)
	}
	tr.Leadership.Lead()
	assert.Empty(t, toEvict(tr), "this process has yet to try to complete the gang")
	assert.Equal(t, []string{"nominated"}, toDenominate(tr))
	clock.Step(2 * time.Hour)
	assert.Equal(t, []string{"bound"}, toEvict(tr))
}

// TestAFollowerReplacesNoScout: no scout comes in a standby, and one member after the other would enter its queue.
func TestAFollowerReplacesNoScout(t *testing.T) {
	tr, clock := newFollower(t)
	waitingGang(t, tr)
	for range 3 {
		clock.Step(dispatch.ScoutTimeout)
		dispatch.NewDispatcher(tr).Tick()
		require.NotContains(t, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate), "m1")
	}
}

// TestAProbeThatDoesNotComeIsReplaced: another plugin's gate may be closed to it.
func TestAProbeThatDoesNotComeIsReplaced(t *testing.T) {
	tr, clock := newFollower(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 5))
	first := memberNamed("first").Obj()
	tr.SetPod(first)
	require.Empty(t, tr.Gate(first))
	require.Empty(t, tr.Leadership.NextProbe(tr.Clock.Now()))
	clock.Step(state.ProbeTimeout)
	assert.Equal(t, []string{"first"}, namesOf(tr.Leadership.NextProbe(tr.Clock.Now())), "there is no other")
	second := memberNamed("second").Obj()
	tr.SetPod(second)
	require.Empty(t, tr.Gate(second), "the first that comes is the next probe")
}

// TestTheProbeIsNotDecidedInTheCycleThatBegins: it has passed the gate out of turn. It would take the room of gangs before its own.
func TestTheProbeIsNotDecidedInTheCycleThatBegins(t *testing.T) {
	tr, _ := newFollower(t)
	held := gangOf(tr, "held", 2, 1)
	require.Equal(t, []string{"held-0"}, passing(tr, held...))
	held = gangOf(tr, "held", 2, 2)
	first := gangOf(tr, "first", 1, 1)
	entry := tr.Enter(held[0])
	assert.False(t, entry.Scout)
	assert.Equal(t, "waiting until the gangs that rank before its own have been tried", entry.Reason)
	actions, _ := dispatch.NewDispatcher(tr).Tick()
	activate := namesOf(actions.Activate)
	for _, key := range toLookAt(tr) {
		activate = append(activate, namesOf(dispatch.NewDispatcher(tr).NextActions(key).Activate)...)
	}
	assert.Contains(t, activate, "first-0")
	assert.Contains(t, activate, "held-0")
	assert.Equal(t, isScout, enter(tr, first[0]))
	assert.Equal(t, isScout, enter(tr, held[0]), "once is enough")

	tr, _ = newFollower(t)
	held = gangOf(tr, "held", 2, 1)
	require.Equal(t, []string{"held-0"}, passing(tr, held...))
	require.Equal(t, isHeld, enter(tr, held[0]))
	held = gangOf(tr, "held", 2, 2)
	assert.Equal(t, isScout, enter(tr, held[0]), "its first cycle has decided nothing already")
}

func TestAllGangsAreLookedAtWhenThisProcessBeginsToLead(t *testing.T) {
	tr, clock := newFollower(t)
	heldPods(tr)
	toLookAt(tr)
	for _, name := range []string{"a", "b"} {
		report.NewReports(tr).TakeReport(keyNamed(name)) // the reporter has looked, and has written nothing
	}
	for tr.Reports.Len() > 0 {
		key, _ := tr.Reports.Get()
		tr.Reports.Done(key)
	}
	tr.Leadership.Lead()
	assert.ElementsMatch(t, []state.Key{keyNamed("a"), keyNamed("b")}, toLookAt(tr))
	clock.Step(state.ReportDelay)
	readTime(tr.Reports)
	require.Eventually(t, func() bool { return tr.Reports.Len() == 2 }, mustertesting.Timeout, time.Millisecond)
}
