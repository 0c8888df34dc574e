package gangs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestTheRoomThatAPodTookByShareIsKept(t *testing.T) {
	full := resources.List{corev1.ResourceCPU: 1000}
	keeping := func(t *testing.T) (tr *Tracker, clock *clocktesting.FakeClock, pod, important *corev1.Pod) {
		tr, clock = newTestTracker(t)
		pod, important = singleNamed("single", "").Obj(), mustertesting.MakePod("important").UID("important").Priority(1000).Obj()
		victim := mustertesting.MakePod("victim").UID("victim").Obj()
		victim.Spec.TerminationGracePeriodSeconds = new(int64)
		tr.Victims.KeepSeat(pod, "node0", []*corev1.Pod{victim})
		return tr, clock, pod, important
	}
	t.Run("from a higher priority but what the system needs", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		reserved := tr.Enter(important).Reserved
		require.NotNil(t, reserved)
		assert.True(t, reserved.Bars("node0", full, full))
		assert.False(t, reserved.Bars("node1", full, full))
		tr.SetPodGroup(mustertesting.MakePodGroup("other").UID("other").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		other := mustertesting.MakePod("other-0").UID("other-0").Group("other").SchedulerName("muster").Priority(1000).Obj()
		tr.SetPod(other)
		assert.Equal(t, int64(1000), tr.Decisions.Snapshot(other).Problem.Held["node0"][corev1.ResourceCPU])
		assert.Nil(t, tr.Enter(pod).Reserved, "its own")
		assert.Nil(t, tr.Enter(mustertesting.MakePod("critical").UID("critical").Priority(2_000_001_000).Obj()).Reserved)
	})
	t.Run("once from the same or a lower priority, as it is nominated", func(t *testing.T) {
		tr, _, _, _ := keeping(t)
		assert.Nil(t, tr.Enter(singleNamed("equal", "").Obj()).Reserved)
		assert.Empty(t, tr.Decisions.Snapshot(gangOf(tr, "other", 1, 1)[0]).Problem.Held)
	})
	t.Run("until it is bound", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		tr.SetPod(on(pod, "node0"))
		assert.Nil(t, tr.Enter(important).Reserved)
	})
	t.Run("until it is deleted", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		tr.DeletePod(pod)
		assert.Nil(t, tr.Enter(important).Reserved)
	})
	t.Run("for a time", func(t *testing.T) {
		tr, clock, _, important := keeping(t)
		clock.Step(useWithin - 1)
		(&dispatcher{tr}).tick()
		require.NotNil(t, tr.Enter(important).Reserved)
		clock.Step(1)
		(&dispatcher{tr}).tick()
		assert.Nil(t, tr.Enter(important).Reserved)
	})
	t.Run("and it knows what must go first", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		node, victims := tr.Victims.SeatOf(pod.UID)
		assert.Equal(t, "node0", node)
		assert.Equal(t, sets.New[types.UID]("victim"), victims)
		node, _ = tr.Victims.SeatOf(important.UID)
		assert.Empty(t, node)
	})
	t.Run("until nothing is evicted for it any more, and then others are tried", func(t *testing.T) {
		tr, _, pod, important := keeping(t)
		tr.WaitList.WaitForReserved(important, tr.Enter(important))
		tr.Victims.EndSeat(pod.UID)
		assert.Equal(t, []string{"important"}, namesOf((&dispatcher{tr}).nextActions(heldBackKey).Activate))
	})
}
