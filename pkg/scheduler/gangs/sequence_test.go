package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// beginInSequence has an attempt begun whose members must come in the given order; m0 is the scout.
func beginInSequence(t *testing.T, tr *gangs.Tracker, order ...types.UID) map[types.UID]*corev1.Pod {
	t.Helper()
	pods, places := map[types.UID]*corev1.Pod{}, map[types.UID]string{}
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(len(order))))
	for i := range order {
		pod := memberNamed(fmt.Sprint("m", i)).Obj()
		pods[pod.UID], places[pod.UID] = pod, "node-of-"+pod.Name
		tr.SetPod(pod)
	}
	require.Empty(t, tr.Gate(pods["m0"]))
	s := tr.Decisions.Snapshot(pods["m0"])
	require.NotNil(t, s)
	d := yes(s, places)
	d.Order = order
	activate, ok := tr.Decisions.Commit(s, d)
	require.True(t, ok)
	require.Empty(t, activate, "one after the other")
	return pods
}

func TestMembersComeInTheOrderOfTheirAttempt(t *testing.T) {
	tr := openTracker(t)
	pods := beginInSequence(t, tr, "m2", "m0", "m1")
	assert.Equal(t, isHeld, enter(tr, pods["m0"]))
	assert.True(t, tr.Fail(pods["m0"]))
	require.Equal(t, gang.Attempting, phaseOf(tr, theGang), "the scout was only too early")
	assert.Equal(t, []string{"m2"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))

	assertChosen(t, tr, pods["m2"], state.Entry{Node: "node-of-m2"})
	toLookAt(tr)
	result, _ := permit(tr, pods["m2"])
	require.Equal(t, gangs.Wait, result)
	require.Contains(t, toLookAt(tr), theGang)
	assert.Equal(t, "waiting until a member that must be placed before has its room", tr.Gate(pods["m1"]))
	assert.Empty(t, tr.Gate(pods["m0"]))
	assert.Equal(t, []string{"m0"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assertChosen(t, tr, pods["m0"], state.Entry{Node: "node-of-m0"})
	result, _ = permit(tr, pods["m0"])
	require.Equal(t, gangs.Wait, result)
	assertChosen(t, tr, pods["m1"], state.Entry{Node: "node-of-m1"})
	result, release := permit(tr, pods["m1"])
	assert.Equal(t, gangs.Allow, result)
	assert.ElementsMatch(t, []types.UID{"m0", "m1", "m2"}, release)
}

// TestTheOrderOfAnAttemptLeavesOutAMemberThatAnotherClientHasBound: the last member waited for the turn of the bound one, until the attempt
// timed out. The random histories found it.
func TestTheOrderOfAnAttemptLeavesOutAMemberThatAnotherClientHasBound(t *testing.T) {
	tr := openTracker(t)
	pods := beginInSequence(t, tr, "m0", "m1", "m2")
	tr.SetPod(on(pods["m1"], "elsewhere"))
	result, _ := permit(tr, pods["m0"])
	require.Equal(t, gangs.Wait, result)
	assert.Equal(t, []string{"m2"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assertChosen(t, tr, pods["m2"], state.Entry{Node: "node-of-m2"})
}

// TestAnAttemptInSequenceThatFailsBacksOff: its members were held to their places, so there is no other way to try the same decision.
func TestAnAttemptInSequenceThatFailsBacksOff(t *testing.T) {
	tr, clock := newTestTracker(t)
	pods := beginInSequence(t, tr, "m0", "m1")
	reserve(tr, pods["m0"])
	assert.True(t, tr.Fail(pods["m1"]))
	assert.Equal(t, gang.RollingBack, phaseOf(tr, theGang))
	unreserve(tr, pods["m0"])
	assert.Equal(t, gang.Status{Phase: gang.BackingOff, Reason: gang.BackOff, Until: clock.Now().Add(time.Second)}, statusOf(tr, theGang))
	assert.Equal(t, "the gang could not be placed and backs off", tr.Gate(pods["m0"]))
	clock.Step(time.Second)
	require.Empty(t, tr.Gate(pods["m1"]))
	assert.False(t, tr.Decisions.Snapshot(pods["m1"]).Problem.Exact)
}

// failAttempt has the gang of one pod decided to fit, and the pod find no node. It says whether the attempt was exact.
func failAttempt(t *testing.T, tr *gangs.Tracker, pod *corev1.Pod, places map[types.UID]string) (exact bool) {
	t.Helper()
	require.Empty(t, tr.Gate(pod))
	s := tr.Decisions.Snapshot(pod)
	require.NotNil(t, s)
	_, ok := tr.Decisions.Commit(s, yes(s, places))
	require.True(t, ok)
	entry := tr.Enter(pod)
	require.Equal(t, isChosen, roleOf(tr, pod, entry))
	require.Equal(t, s.Problem.Exact, entry.Node != "")
	require.True(t, tr.Fail(pod))
	return s.Problem.Exact
}

func TestTheBackOffDoubles(t *testing.T) {
	tr, clock := newTestTracker(t)
	pod := gangOf(tr, "g", 1, 1)[0]
	for _, wait := range []int{1, 2, 4, 8, 10, 10} {
		require.False(t, failAttempt(t, tr, pod, nil))
		clock.Step(time.Duration(wait)*time.Second - 1)
		require.Equal(t, gang.Status{Phase: gang.BackingOff, Reason: gang.BackOff, Until: clock.Now().Add(1)}, statusOf(tr, keyNamed("g")), wait)
		require.Nil(t, tr.Decisions.Snapshot(pod))
		clock.Step(1)
		require.Equal(t, gang.Ready, phaseOf(tr, keyNamed("g")), wait)
	}
	release(t, tr, []*corev1.Pod{pod})
	tr.DeletePod(on(pod, "g-0"))
	tr.SetPod(pod)
	failAttempt(t, tr, pod, nil)
	clock.Step(time.Second)
	assert.Equal(t, gang.Ready, phaseOf(tr, keyNamed("g")), "a start ends the series")
}

// TestAnAttemptWithCertainPlacesIsRepeatedExactlyAtOnce: there was a place for each member, but they went to other nodes.
func TestAnAttemptWithCertainPlacesIsRepeatedExactlyAtOnce(t *testing.T) {
	tr, clock := newTestTracker(t)
	pod := gangOf(tr, "g", 1, 1)[0]
	places := map[types.UID]string{"g-0": "node"}
	for _, wait := range []int{1, 2} {
		require.False(t, failAttempt(t, tr, pod, places))
		require.Equal(t, gang.Ready, phaseOf(tr, keyNamed("g")))
		require.True(t, failAttempt(t, tr, pod, places))
		clock.Step(time.Duration(wait)*time.Second - 1)
		require.Equal(t, gang.BackingOff, phaseOf(tr, keyNamed("g")))
		clock.Step(1)
	}
}

func TestAfterALongSearchAGangIsLeftAloneForLonger(t *testing.T) {
	const took = 100 * time.Millisecond
	for searched, pause := range map[time.Duration]time.Duration{0: 0, took: state.SearchPause * took} {
		tr, clock := newTestTracker(t)
		tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
		pod := memberNamed("m0").Obj()
		tr.SetPod(pod)
		require.Empty(t, tr.Gate(pod))
		s := tr.Decisions.Snapshot(pod)
		clock.Step(took)
		d := no(s, "no room", pod, "InterPodAffinity")
		d.SearchTime = searched
		_, ok := tr.Decisions.Commit(s, d)
		require.True(t, ok)
		tr.Hints.Wake(pod)
		if pause > 0 {
			clock.Step(pause - 1)
			require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
			clock.Step(1)
		}
		assert.Len(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate, 1)
	}
}
