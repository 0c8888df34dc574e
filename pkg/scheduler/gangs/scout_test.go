package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// waitingGang has three members wait of which two make the minimum. The first has passed the gate.
func waitingGang(t *testing.T, tr *gangs.Tracker) []*corev1.Pod {
	t.Helper()
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	var pods []*corev1.Pod
	for _, name := range []string{"m0", "m1", "m2"} {
		pods = append(pods, memberNamed(name).Obj())
	}
	setPods(tr, pods...)
	require.Empty(t, tr.Gate(pods[0]))
	toLookAt(tr)
	return pods
}

// The gate of another plugin may be closed to the scout alone: its claim does not exist.
func TestAScoutThatDoesNotComeIsReplaced(t *testing.T) {
	tr, clock := newTestTracker(t)
	pods := waitingGang(t, tr)
	called := func() []string {
		dispatch.NewDispatcher(tr).Tick()
		return namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	}
	require.Empty(t, called(), "it has passed the gate: its cycle is expected")
	require.Equal(t, gangs.BehindScout, tr.Gate(pods[1]))
	clock.Step(dispatch.ScoutTimeout - 1)
	require.Empty(t, called())
	clock.Step(1)
	require.Equal(t, []string{"m1"}, called())
	require.Empty(t, tr.Gate(pods[1]))
	clock.Step(dispatch.ScoutTimeout - 1)
	require.Empty(t, called(), "it has as much time")
	clock.Step(1)
	require.Equal(t, []string{"m2"}, called())
	clock.Step(dispatch.ScoutTimeout)
	require.Equal(t, []string{"m0"}, called(), "and so on")

	assert.Equal(t, isScout, enter(tr, pods[1]), "the first that comes has the gang decided")
	require.NotNil(t, tr.Decisions.Snapshot(pods[1]))
	assert.Equal(t, isHeld, enter(tr, pods[2]), "and no other has it decided again")
	assert.Zero(t, tr.LostWakeups())
}

// The gate is closed to a scout whose PodGroup is older than the pod says. It is called again when the PodGroup has come.
func TestAScoutThatTheGateRefusesIsCalledAgain(t *testing.T) {
	tr, _ := newTestTracker(t)
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 1)
	group.ResourceVersion = "9"
	tr.SetPodGroup(group)
	pod := memberNamed("m").Obj()
	pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = "12"
	tr.SetPod(pod)
	require.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	require.Equal(t, gangs.NotCaughtUp, tr.Gate(pod))
	newer := group.DeepCopy()
	newer.ResourceVersion = "12"
	tr.SetPodGroup(newer)
	assert.Equal(t, []string{"m"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	assert.Empty(t, tr.Gate(pod))
}

// A Ready gang whose scout was not called, as if the activation was lost, is found by the next tick.
func TestAGangWhoseScoutWasNotCalledIsFoundByATick(t *testing.T) {
	tr, _ := newTestTracker(t)
	pods := waitingGang(t, tr)
	tr.Gangs[theGang].Scout.Called = time.Time{}
	dispatch.NewDispatcher(tr).Tick()
	require.Contains(t, toLookAt(tr), theGang)
	require.Equal(t, []string{"m0"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
	require.Equal(t, isScout, enter(tr, pods[0]))
	begin(t, tr, pods[0], nil)
	assert.Zero(t, tr.LostWakeups())
}

// A scout whose gang has changed after it had passed the gate is held in its cycle. The gang is decided when that is over.
func TestAScoutThatIsHeldInItsCycleIsCalledAgain(t *testing.T) {
	tr := openTracker(t)
	pods := waitingGang(t, tr)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 4))
	require.Equal(t, isHeld, enter(tr, pods[0]))
	require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	assert.Equal(t, []string{"m0"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
}

func TestTheNextMemberIsTheScoutWhenOneGoes(t *testing.T) {
	for name, goes := range map[string]func(*gangs.Tracker, *corev1.Pod){
		"deleted":       func(tr *gangs.Tracker, pod *corev1.Pod) { tr.DeletePod(pod) },
		"being deleted": func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(deleting(pod)) },
		"bound":         func(tr *gangs.Tracker, pod *corev1.Pod) { tr.SetPod(on(pod, "node")) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			pods := waitingGang(t, tr)
			goes(tr, pods[0])
			assert.Empty(t, tr.Gate(pods[2]), "the first that comes")
			assert.Equal(t, gangs.BehindScout, tr.Gate(pods[1]))
		})
	}
}

// TestAGangThatChangesDuringItsDecisionIsDecidedAgain: the decision is refused, and a scout is called at once.
func TestAGangThatChangesDuringItsDecisionIsDecidedAgain(t *testing.T) {
	queue := mustertesting.MakeQueue("q").Capability("cpu", "3").Obj()
	for name, change := range map[string]func(*gangs.Tracker){
		"another member starts": func(tr *gangs.Tracker) { tr.SetPod(memberNamed("higher").Priority(1).Obj()) },
		"more members start": func(tr *gangs.Tracker) {
			tr.SetPod(memberNamed("m3").Obj())
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 3))
		},
		"it is in another queue": func(tr *gangs.Tracker) {
			moved := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
			moved.Spec.Queue = "other"
			tr.SetPodGroup(moved)
		},
		"another scheduler has taken its quota": func(tr *gangs.Tracker) {
			setPods(tr, singleNamed("a", "q").Node("n").Obj(), singleNamed("b", "q").Node("n").Obj())
		},
		"its queue has become smaller": func(tr *gangs.Tracker) { tr.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj()) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := openTracker(t)
			tr.SetQueue(queue)
			tr.SetQueue(mustertesting.MakeQueue("other").Obj())
			tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			first := memberNamed("m0").Obj()
			setPods(tr, first, memberNamed("m1").Obj())
			require.Empty(t, tr.Gate(first))
			s := tr.Decisions.Snapshot(first)
			require.NotNil(t, s)
			change(tr)
			for _, key := range toLookAt(tr) {
				require.Empty(t, dispatch.NewDispatcher(tr).NextActions(key).Activate, "the scout's cycle goes on")
			}
			_, ok := tr.Decisions.Commit(s, yes(s, nil))
			require.False(t, ok)
			require.Contains(t, toLookAt(tr), theGang)
			activate := dispatch.NewDispatcher(tr).NextActions(theGang).Activate
			require.Len(t, activate, 1)
			assert.NotNil(t, tr.Decisions.Snapshot(activate[0]))
		})
	}
}
