package coscheduling

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAMemberThatIsBoundHasNoPlaceInTheQueue: with tens of thousands of pods the memory for it would be felt.
func TestAMemberThatIsBoundHasNoPlaceInTheQueue(t *testing.T) {
	store := state.New(clock.RealClock{})
	store.Serve("muster")
	store.Open()
	store.SetPodGroup(mustertesting.MakePodGroup("g").UID("gang").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Obj()
	require.Empty(t, store.Gate(pod))
	require.EqualValues(t, "gang", store.OrderKey(pod, time.Unix(0, 0)).Gang)
	(&Coscheduling{store: store}).PostBind(context.Background(), framework.NewCycleState(), pod, "n")
	assert.Empty(t, store.OrderKey(pod, time.Unix(0, 0)).Gang)
}
