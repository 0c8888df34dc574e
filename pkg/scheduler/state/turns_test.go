package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// startInTurns has a gang admitted whose members must come in the given order; m0 is the scout.
func startInTurns(t *testing.T, s *Store, turns ...types.UID) map[types.UID]*corev1.Pod {
	t.Helper()
	pods, places := map[types.UID]*corev1.Pod{}, map[types.UID]string{}
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, int32(len(turns))))
	for i := range turns {
		pod := memberNamed(fmt.Sprint("m", i)).Obj()
		pods[pod.UID], places[pod.UID] = pod, "node-of-"+pod.Name
		s.SetPod(pod)
	}
	require.Empty(t, s.Gate(pods["m0"]))
	round := s.Judge(pods["m0"])
	require.NotNil(t, round)
	round.Turns = turns
	activate, ok := s.Admit(round, places)
	require.True(t, ok)
	require.Empty(t, activate, "each calls the next")
	return pods
}

func TestMembersComeInTheOrderOfTheirRound(t *testing.T) {
	s := openStore()
	pods := startInTurns(t, s, "m2", "m0", "m1")
	assert.Equal(t, Held, s.Enter(pods["m0"]).Role)
	assert.True(t, s.Fail(pods["m0"]))
	require.Equal(t, admitted, s.gangs[theGang].phase, "the scout was only too early")
	assert.Equal(t, []string{"m2"}, namesOf(s.next(theGang).activate))

	assert.Equal(t, Entry{Role: Chosen, Node: "node-of-m2", Next: pods["m0"]}, s.Enter(pods["m2"]))
	s.Reserve(pods["m2"], "node-of-m2")
	assert.Equal(t, behindFellow, s.Gate(pods["m1"]))
	assert.Empty(t, s.Gate(pods["m0"]))
	assert.Equal(t, []string{"m0"}, namesOf(s.next(theGang).activate), "also if nobody has called it")
	assert.Equal(t, Entry{Role: Chosen, Node: "node-of-m0", Next: pods["m1"]}, s.Enter(pods["m0"]))
	s.Reserve(pods["m0"], "node-of-m0")
	assert.Equal(t, Entry{Role: Chosen, Node: "node-of-m1"}, s.Enter(pods["m1"]))
	s.Reserve(pods["m1"], "node-of-m1")
	verdict, _, release := s.Permit(pods["m1"])
	assert.Equal(t, Allow, verdict)
	assert.Len(t, release, 3)
}

// TestARoundInTurnsThatFailsBacksOff: its members were held to their places, so there is no other way to try the same plan.
func TestARoundInTurnsThatFailsBacksOff(t *testing.T) {
	s := openStore()
	pods := startInTurns(t, s, "m0", "m1")
	s.Reserve(pods["m0"], "node-of-m0")
	assert.True(t, s.Fail(pods["m1"]))
	g := s.gangs[theGang]
	assert.Equal(t, idle, g.phase)
	assert.False(t, g.pin)
	assert.True(t, g.backsOff(s.clock.Now().Add(time.Millisecond)))
	s.Unreserve(pods["m0"])
	assert.Equal(t, backingOff, s.Gate(pods["m0"]))
}

func TestAfterALaboriousJudgementAGangIsLeftAloneForLonger(t *testing.T) {
	for laborious, want := range map[bool]time.Duration{false: wakeDelay, true: (labourPause - 1) * 100 * time.Millisecond} {
		s, clock := newTestStore()
		s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
		pod := memberNamed("m0").Obj()
		s.SetPod(pod)
		require.Empty(t, s.Gate(pod))
		round := s.Judge(pod)
		clock.Step(100 * time.Millisecond)
		round.Laborious = laborious
		s.Park(round, pod, "no room", pod, "InterPodAffinity")
		assert.Equal(t, want, s.pauseFor(s.gangs[theGang]))
	}
}
