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
	w.createGroup(name, 1, "")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, schedulingv1beta1.RunningEstimateAnnotation, estimate)
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Patch(w.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
	w.createGang(name, 1)
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
