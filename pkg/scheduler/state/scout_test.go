package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// waitingGang has three members wait of which two make the minimum. The first has passed the gate.
func waitingGang(t *testing.T, s *Store) []*corev1.Pod {
	t.Helper()
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	var pods []*corev1.Pod
	for _, name := range []string{"m0", "m1", "m2"} {
		pods = append(pods, memberNamed(name).Obj())
		s.SetPod(pods[len(pods)-1])
	}
	require.Empty(t, s.Gate(pods[0]))
	woken(s)
	return pods
}

// The gate of another plugin may be closed to the scout alone: its claim does not exist.
func TestAScoutThatDoesNotComeIsRelieved(t *testing.T) {
	s, fake := newTestStore()
	pods := waitingGang(t, s)
	called := func() []string {
		s.check()
		return namesOf(s.next(theGang).activate)
	}
	require.Equal(t, []string{"m0"}, called())
	require.Equal(t, behindScout, s.Gate(pods[1]))
	fake.Step(scoutPatience)
	require.Equal(t, []string{"m1"}, called())
	require.Equal(t, []string{"m1"}, called(), "it has as much time")
	fake.Step(scoutPatience)
	require.Equal(t, []string{"m2"}, called())
	fake.Step(scoutPatience)
	require.Equal(t, []string{"m0"}, called(), "and so on")

	assert.Equal(t, Scout, s.Enter(pods[1]).Role, "who comes first has the gang judged")
	require.NotNil(t, s.Judge(pods[1]))
	assert.Equal(t, Held, s.Enter(pods[2]).Role, "and nobody has it judged again")
	assert.Zero(t, s.LostWakeups())
}

// The net catches gangs that nobody has parked, too, and counts them.
func TestAGangThatNobodyHasCalledIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		called bool
		lost   int
	}{
		"called":     {true, 0},
		"not called": {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, fake := newTestStore()
			pods := waitingGang(t, s)
			if !tc.called {
				s.gangs[theGang].called = time.Time{} // as if the bug were there
			}
			for range 2 {
				fake.Step(reconcilePeriod / 2)
				s.check()
			}
			require.NotEmpty(t, s.next(theGang).activate)
			require.Equal(t, Scout, s.Enter(pods[0]).Role)
			_, ok := s.Admit(s.Judge(pods[0]), nil)
			require.True(t, ok)
			assert.Equal(t, tc.lost, s.LostWakeups())
		})
	}
}
