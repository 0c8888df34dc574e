package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// groupedGang has a gang come of so many groups of two members, of which one group is the minimum. Each group must be in one rack.
func (w *world) groupedGang(groups int) (pods []*corev1.Pod) {
	pg := mustertesting.MakePodGroup("g").UID("g").Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	pg.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{
		Name: "p", LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"part"}, SubGroupSize: ptr.To[int32](2), MinSubGroups: ptr.To[int32](1),
		NetworkTopology: &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1)},
	}}
	w.tracker.SetPodGroup(pg)
	for i := range 2 * groups {
		name := fmt.Sprintf("g-%d", i)
		pod := mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Task("w").Annotation("volcano.sh/task-index", fmt.Sprint(i)).Requests("cpu", "4").Obj()
		pod.Labels = map[string]string{"part": fmt.Sprint(i / 2)}
		w.tracker.SetPod(pod)
		pods = append(pods, pod)
	}
	return pods
}

// placed is a pod as the scheduler has it after it chose a node.
func placed(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// startGroup starts the minimum, in one rack, and has the API say so.
func (w *world) startGroup(t *testing.T, pods []*corev1.Pod) (rackName string) {
	t.Helper()
	var nodes []string
	for i, pod := range pods[:2] {
		node := w.nodeFor(t, pod)
		nodes = append(nodes, node)
		assert.Equal(t, i == 0, w.permit(t, placed(pod, node)) == fwk.Wait)
	}
	assert.Equal(t, nodes[0][:1], nodes[1][:1])
	for i, pod := range pods[:2] {
		w.tracker.SetPod(placed(pod, nodes[i]))
		w.occupy(t, nodes[i])
	}
	return nodes[0][:1]
}

// TestASurplusGroupStartsWhole: its first member finds places for all, waits in Permit, and the last one releases it. Its rack is another one.
func TestASurplusGroupStartsWhole(t *testing.T) {
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
	pods := w.groupedGang(2)
	first := w.startGroup(t, pods)
	require.Empty(t, w.tracker.Gate(pods[2]))
	cycle, result, status := w.preFilter(t, pods[2])
	require.True(t, status.IsSuccess(), "%v", status)
	require.Len(t, result.NodeNames, 1)
	node := result.NodeNames.UnsortedList()[0]
	assert.NotEqual(t, first, node[:1])
	assert.True(t, activated(t, cycle).Has(pods[3].Namespace+"/g-3"), "%v", activated(t, cycle))
	assert.Equal(t, fwk.Wait, w.permit(t, placed(pods[2], node)))
	other := w.nodeFor(t, pods[3])
	assert.Equal(t, node[:1], other[:1])
	assert.Equal(t, fwk.Success, w.permit(t, placed(pods[3], other)))
	assert.Equal(t, []string{Name}, w.waiting[pods[2].UID].allowedBy)
}

// TestASurplusGroupStartsWholeOrNotAtAll: without room for all of it no member is tried. Members that wait in Permit give their room back when
// another one finds none or does not come.
func TestASurplusGroupStartsWholeOrNotAtAll(t *testing.T) {
	full := mustertesting.MakePod("old").Node("b-1").Requests("cpu", "4").Obj()
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}, full)
	pods := w.groupedGang(2)
	w.startGroup(t, pods)
	require.Empty(t, w.tracker.Gate(pods[2]))
	_, _, status := w.preFilter(t, pods[2])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Contains(t, status.Message(), "the 2 pods of its sub group that start together find no room: no domain within the cluster has room for the 2 members")
	assert.Contains(t, status.Message(), "each sub group within tier 1; tier 1 (rack): 1 of 2 fit in b (short of cpu)")
	assert.True(t, w.tracker.Hints.IsBlocked(pods[2]), "it is tried again when room comes free")

	for name, end := range map[string]func(*world){
		"another finds none": func(w *world) { assert.False(t, w.tracker.Fail(pods[3])) },
		"another is late":    func(w *world) { w.clock.Step(testArgs.PermitTimeout.Duration) },
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
			pods := w.groupedGang(2)
			w.startGroup(t, pods)
			node := w.nodeFor(t, pods[2])
			require.Equal(t, fwk.Wait, w.permit(t, placed(pods[2], node)))
			end(w)
			actions := dispatch.NewDispatcher(w.tracker).NextActions(state.Key{Namespace: pods[2].Namespace, Name: "g"})
			assert.Contains(t, actions.Reject, pods[2].UID)
		})
	}
}

// TestASurplusGroupThatIsLateIsTriedAgain: all of its members are, also the one that has yet to give its room back.
func TestASurplusGroupThatIsLateIsTriedAgain(t *testing.T) {
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
	pods := w.groupedGang(2)
	w.startGroup(t, pods)
	pod, dispatcher, key := placed(pods[2], w.nodeFor(t, pods[2])), dispatch.NewDispatcher(w.tracker), state.Key{Namespace: pods[2].Namespace, Name: "g"}
	require.Equal(t, fwk.Wait, w.permit(t, pod))
	w.clock.Step(testArgs.PermitTimeout.Duration)
	require.Equal(t, []*corev1.Pod{pods[3]}, dispatcher.NextActions(key).Activate)
	w.tracker.Unreserve(pod)
	assert.Contains(t, dispatcher.NextActions(key).Activate, pods[2])
}

// TestAGroupWaitsForItsPods: the gate is closed to surplus of a group that is not there yet.
func TestAGroupWaitsForItsPods(t *testing.T) {
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
	pods := w.groupedGang(2)
	w.startGroup(t, pods)
	w.tracker.DeletePod(pods[3])
	assert.Contains(t, w.tracker.Gate(pods[2]), "enough pods of its sub group")
	w.tracker.SetPod(pods[3])
	assert.Empty(t, w.tracker.Gate(pods[2]))
}

// TestASurplusGroupLeavesRoomToAStart: a gang that ranks before it is to start on all nodes. No pod there has a known end.
func TestASurplusGroupLeavesRoomToAStart(t *testing.T) {
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
	pods := w.groupedGang(2)
	w.startGroup(t, pods)
	large, book, now := state.Key{Namespace: "default", Name: "large"}, w.tracker.WaitList.Book, w.clock.Now()
	whole := resources.List{corev1.ResourceCPU: 4000}
	book.SetBounds(reservations.Bounds{Starts: true})
	book.WaitForRoom(large, reservations.Rank{}, nil, now)
	book.ReserveNodes(large, reservations.Choice{
		Places: map[types.UID]string{"l-0": "a-0", "l-1": "a-1", "l-2": "b-0", "l-3": "b-1"}, Start: now.Add(time.Hour),
		Amounts: map[string]resources.List{"a-0": whole, "a-1": whole, "b-0": whole, "b-1": whole},
	}, now)
	require.Empty(t, w.tracker.Gate(pods[2]))
	_, _, status := w.preFilter(t, pods[2])
	assert.Contains(t, status.Message(), "that start together find no room")
	book.Forget(large)
	_, _, status = w.preFilter(t, pods[2])
	assert.True(t, status.IsSuccess(), "%v", status)
}
