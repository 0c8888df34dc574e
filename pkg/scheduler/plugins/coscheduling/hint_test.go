package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAScoutThatOnceWaitedAloneWakesItsGang: a pod that found no place beside what was set aside for another may be given to a gang
// later, and become its scout. An event is put to it for its gang then, whose members may be outside the queue.
func TestAScoutThatOnceWaitedAloneWakesItsGang(t *testing.T) {
	store := state.New(clock.RealClock{})
	store.Serve("muster")
	store.Open()
	c := &Coscheduling{store: store}
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
	hint := c.hintFor(names.NodeResourcesFit, func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil })
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()

	store.WaitBehind(pod, &state.Aside{})
	answer, err := hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.Queue, answer, "alone, the queue moves it")

	store.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	store.SetPod(pod)
	require.Empty(t, store.Gate(pod))
	store.Park(store.Judge(pod), pod, "no room", pod, names.NodeResourcesFit)
	answer, err = hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, answer, "the Store calls the gang")
	_, parked := store.MayBeHelpedBy(pod, names.NodeResourcesFit)
	assert.False(t, parked, "the gang is to be judged again")
}
