package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// createTimed makes a gang of one pod that is expected to run for so long.
func (w *world) createTimed(name string, estimate time.Duration) {
	w.t.Helper()
	w.createTimedGang(name, 1, estimate)
}

// createTimedGang makes a gang that is expected to run for so long.
func (w *world) createTimedGang(name string, members int, estimate time.Duration) {
	w.t.Helper()
	w.createGroup(name, int32(members), "")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, schedulingv1beta1.RunningEstimateAnnotation, estimate)
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Patch(w.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
	w.createGang(name, members)
}

func (w *world) planOf(name string) *schedulingv1beta1.PodGroupPlan {
	w.t.Helper()
	group, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return group.Status.Plan
}

func TestTheExpectedStartOfAGangIsWritten(t *testing.T) {
	w := newWorld(t, 1)
	w.createTimed("runs", time.Hour)
	w.expectBound("runs", 1)
	w.createTimed("waits", 10*time.Minute)
	w.eventually("its expected start is written", func() bool { return w.planOf("waits") != nil })
	plan := w.planOf("waits")
	require.NotNil(t, plan.ExpectedStart, plan.Message)
	assert.InDelta(t, time.Hour.Minutes(), time.Until(plan.ExpectedStart.At.Time).Minutes(), 2)
	assert.Equal(t, []string{"runs"}, plan.WaitsFor)
	w.remove("runs-0")
	w.expectBound("waits", 1)
	w.eventually("the plan is taken back", func() bool { return w.planOf("waits") == nil })
	assert.Nil(t, w.planOf("runs"))
}

// TestARestartKeepsTheReservationsThatTheAPIShows: the scheduler is killed while a gang waits for its start. Gangs that come meanwhile, and would be
// in its way then, are not let past it. Others are. The API goes on to show the same start.
func TestARestartKeepsTheReservationsThatTheAPIShows(t *testing.T) {
	w, r := newQuietWorld(t, 3), &restarts{}
	w.createTimed("early", time.Hour)
	w.createTimed("late", 2*time.Hour)
	w.expectBound("early", 1)
	w.expectBound("late", 1)
	w.createTimedGang("wide", 3, time.Hour)
	w.eventually("its start is known", func() bool { plan := w.planOf("wide"); return plan != nil && plan.ExpectedStart != nil })
	shown := *w.planOf("wide").ExpectedStart
	assert.InDelta(t, (2 * time.Hour).Minutes(), time.Until(shown.At.Time).Minutes(), 2)

	for i := range 3 {
		brief, greedy := fmt.Sprint("brief", i), fmt.Sprint("greedy", i)
		require.NoError(t, r.restartAfter(w.ctx, func() {
			w.createTimed(greedy, 10*time.Hour)
			w.createTimed(brief, 10*time.Minute)
		}))
		w.expectBound(brief, 1) // on the node that is free until then
		assert.Zero(t, w.bound("greedy"), "it would hold a node when wide starts")
		assert.Zero(t, w.bound("wide"))
		plan := w.planOf("wide")
		require.NotNil(t, plan)
		require.NotNil(t, plan.ExpectedStart, plan.Message)
		assert.WithinDuration(t, shown.At.Time, plan.ExpectedStart.At.Time, time.Minute)
		w.remove(brief + "-0")
		w.eventually("the node is free again", func() bool { return w.bound(brief) == 0 })
	}
	w.eventually("those behind it have a start after it", func() bool {
		plan := w.planOf("greedy2")
		return plan != nil && plan.ExpectedStart != nil && !plan.ExpectedStart.At.Before(&shown.At)
	})
	w.remove("early-0")
	w.remove("late-0")
	w.expectBound("wide", 3)
	assert.Zero(t, w.bound("greedy"))
}
