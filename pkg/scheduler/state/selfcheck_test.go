package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// TestAWakeUpIsLostIfNothingHasHappened: a gang that nobody has woken is judged again, for the sake of its report, say. While its
// scout is on its way nobody asks it about events: if one of them lets the gang fit, no wake-up was lost. The random histories found
// that it counted as one.
func TestAWakeUpIsLostIfNothingHasHappened(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*Store)
		lost    int
	}{
		"nothing":                          {func(*Store) {}, 1},
		"an event that helps others":       {func(s *Store) { s.Happens(framework.EventAssignedPodAdd) }, 1},
		"an event that may help":           {func(s *Store) { s.Happens(framework.EventAssignedPodDelete) }, 0},
		"an event that others heard of":    {func(s *Store) { s.Happened(klog.Background(), framework.EventAssignedPodDelete, nil, nil, nil) }, 0},
		"the minimum is lowered":           {func(s *Store) { s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1)) }, 0},
		"a member goes":                    {func(s *Store) { s.DeletePod(memberNamed("c").Obj()) }, 0},
		"what stood back for others helps": {func(s *Store) { s.wakeParked(s.promiseParked) }, 0},
		"the PodGroup is made anew": {func(s *Store) {
			s.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newTestStore()
			s.Listen("muster", []Hint{{Plugin: "NodeResourcesFit", Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}})
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			for _, member := range []string{"a", "b", "c"} {
				s.SetPod(memberNamed(member).Obj())
			}
			scout := memberNamed("a").Obj()
			require.Empty(t, s.Gate(scout))
			s.Park(s.Judge(scout), scout, "no room", scout, "NodeResourcesFit")
			s.promiseParked.Insert(theGang)
			clock.Step(netPause)
			s.castNet()

			test.happens(s)
			_, fits := s.Admit(s.Judge(scout), nil)
			require.True(t, fits)
			assert.Equal(t, test.lost, s.LostWakeups())
		})
	}
}
