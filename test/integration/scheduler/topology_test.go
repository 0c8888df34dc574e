package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// addRack makes a HyperNode of nodes of the test. The name of its tier is the test's own, as HyperNodes of other tests exist.
func (w *world) addRack(name string, nodes ...int) {
	w.t.Helper()
	w.addRackOf(name, 1, exactNodes(w.namespace, nodes...)...)
}

// addRackOf makes a HyperNode of any members, with a tier that has the name of racks.
func (w *world) addRackOf(name string, tier int, members ...topologyv1alpha1.MemberSpec) {
	w.t.Helper()
	rack := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	rack.Spec.Tier, rack.Spec.TierName, rack.Spec.Members = tier, "rack-"+w.namespace, members
	_, err := muster.TopologyV1alpha1().HyperNodes().Create(w.ctx, rack, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = muster.TopologyV1alpha1().HyperNodes().Delete(w.t.Context(), rack.Name, metav1.DeleteOptions{})
	})
}

// createRackGang makes a gang whose pods must be in one rack, with ranks.
func (w *world) createRackGang(name string, minMember int32, pods int) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(minMember).Obj()
	group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{HighestTierName: "rack-" + w.namespace}
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for i := range pods {
		w.create(w.ranked(name, i))
	}
}

func (w *world) ranked(gang string, index int) *corev1.Pod {
	return w.pod(fmt.Sprintf("%s-%d", gang, index), gang, func(p *corev1.Pod) {
		p.Annotations[batchv1alpha1.TaskIndexKey] = fmt.Sprint(index)
	})
}

// placeOf is the node of a pod, without the name of the test, and the path of its domain.
func (w *world) placeOf(name string) (node, path string) {
	w.t.Helper()
	pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return strings.TrimPrefix(pod.Spec.NodeName, w.namespace+"-"), strings.TrimPrefix(pod.Annotations[schedulingv1beta1.TopologyPathAnnotation], w.namespace+"-")
}

// TestAGangIsBoundInOneRack: ranks follow the nodes, each pod has its path, surplus stays, and a replaced pod returns.
func TestAGangIsBoundInOneRack(t *testing.T) {
	w := newWorld(t, 6)
	w.create(w.pod("old", "", func(p *corev1.Pod) { p.Spec.NodeName = w.namespace + "-0" }))
	w.addRack("a", 0, 1, 2)
	w.addRack("b", 3, 4, 5)
	w.createRackGang("g", 3, 3)
	w.expectBound("g-", 3)
	for i := range 3 {
		node, path := w.placeOf(fmt.Sprintf("g-%d", i))
		assert.Equal(t, fmt.Sprint(3+i), node, "rank %d", i)
		assert.Equal(t, "b", path)
	}
	w.create(w.ranked("g", 3))
	w.eventually("surplus waits, as the rack is full", func() bool { return w.reported("g-3", []string{"network topology of the gang"}) })
	w.remove("g-1")
	w.eventually("the surplus takes the place in the rack", func() bool {
		node, _ := w.placeOf("g-3")
		return node == "4"
	})
}

// TestAGangWaitsForARack: the message says which rack lacks what, and a new node in a rack starts the gang. A change of HyperNodes does, too.
func TestAGangWaitsForARack(t *testing.T) {
	w := newWorld(t, 4)
	w.createRackGang("g", 3, 3)
	w.expectHeld("g-", "no domain of the network has the tier name", "correct highestTierName")
	w.addRack("a", 0, 1)
	w.addRack("b", 2, 3, 4)
	w.expectHeld("g-", "no domain within tier \"rack-"+w.namespace+"\" has room for the 3 members that start together", "2 of 3 fit in "+w.namespace+"-a (short of cpu)")
	w.addNode(4)
	w.expectBound("g-", 3)
	for i := range 3 {
		node, path := w.placeOf(fmt.Sprintf("g-%d", i))
		assert.Equal(t, fmt.Sprint(2+i), node)
		assert.Equal(t, "b", path)
	}
}

// createGroups makes a gang of groups of two pods with their own minimum, each in one rack.
func (w *world) createGroups(name string, least int32, groups ...int) {
	w.t.Helper()
	w.groupsWithin(nil, w.within("rack"), &least)
	for _, group := range groups {
		w.create(w.inGroup(name, group, 0), w.inGroup(name, group, 1))
	}
}

func (w *world) inGroup(gang string, group, i int) *corev1.Pod {
	pod := w.ranked(gang, 2*group+i)
	pod.Labels = map[string]string{"part": fmt.Sprint(group)}
	return pod
}

// TestGroupsOfAPodGroupStartWhole: the minimum is two groups, each in its rack. A third one has room for one of its pods only, and none
// starts. It starts as soon as there is room for both.
func TestGroupsOfAPodGroupStartWhole(t *testing.T) {
	w := newWorld(t, 5)
	w.addRack("a", 0, 1)
	w.addRack("b", 2, 3)
	w.addRack("c", 4, 5)
	w.createGroups("g", 2, 0)
	w.expectHeld("g-", "fewer than the 2 sub groups of 2 pods of subGroupPolicy \"p\" that start together exist")
	w.create(w.inGroup("g", 1, 0), w.inGroup("g", 1, 1), w.inGroup("g", 2, 0))
	w.expectBound("g-", 4)
	rackOf := func(i int) string { _, path := w.placeOf(fmt.Sprintf("g-%d", i)); return path }
	assert.Equal(t, []string{rackOf(0), rackOf(2)}, []string{rackOf(1), rackOf(3)})
	assert.NotEqual(t, rackOf(0), rackOf(2), "one pod fills a node")
	w.create(w.inGroup("g", 2, 1))
	w.eventually("the third group waits as a whole", func() bool {
		return w.reported("g-4", []string{"the 2 pods of its sub group that start together find no room"}) && w.reported("g-5", []string{"the 2 pods of its sub group"})
	})
	w.addNode(5)
	w.expectBound("g-", 6)
	assert.Equal(t, []string{"c", "c"}, []string{rackOf(4), rackOf(5)})
}

// TestTopologyInAQueueWithoutRoom: the gang waits for quota, and its bound holds up no other gang.
func TestTopologyInAQueueWithoutRoom(t *testing.T) {
	w := newWorld(t, 4)
	w.addRack("a", 0, 1, 2)
	w.createQueue("1")
	group := mustertesting.MakePodGroup("g").Namespace(w.namespace).MinMember(2).Queue(w.namespace).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{HighestTierName: "rack-" + w.namespace}
	groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
	_, err := groups.Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, clients.Change(w.ctx, "g", groups.Get, groups.UpdateStatus, func(group *schedulingv1beta1.PodGroup) {
		group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	}))
	w.create(w.ranked("g", 0), w.ranked("g", 1))
	w.expectHeld("g-", "quota")
	w.createRackGang("other", 3, 3)
	w.expectBound("other-", 3)
}

// TestALabelThatChanges moves a node into a rack, and the gang that waits for it starts.
func TestALabelThatChanges(t *testing.T) {
	w := newWorld(t, 3)
	key := "rack-" + w.namespace
	list := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: musterv1alpha1.NetworkTopologySpec{Levels: []musterv1alpha1.Level{{NodeLabel: key}}}}
	_, err := muster.MusterV1alpha1().NetworkTopologies().Create(w.ctx, list, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = muster.MusterV1alpha1().NetworkTopologies().Delete(t.Context(), list.Name, metav1.DeleteOptions{})
	})
	label := func(n int, value string) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
		_, err := kube.CoreV1().Nodes().Patch(w.ctx, fmt.Sprintf("%s-%d", w.namespace, n), types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label(0, "x")
	label(1, "y")
	w.createRackGang("g", 2, 2)
	w.expectHeld("g-", "1 of 2 fit in")
	label(2, "y")
	w.expectBound("g-", 2)
	for i := range 2 {
		node, path := w.placeOf(fmt.Sprintf("g-%d", i))
		assert.Equal(t, []string{fmt.Sprint(1 + i), "y"}, []string{node, path})
	}
}
