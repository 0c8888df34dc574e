package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// addSpine makes a HyperNode of tier 2 around racks of the test.
func (w *world) addSpine(name string, racks ...string) {
	w.t.Helper()
	spine := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	spine.Spec.Tier, spine.Spec.TierName = 2, "spine-"+w.namespace
	for _, rack := range racks {
		member := topologyv1alpha1.MemberSpec{Type: topologyv1alpha1.MemberTypeHyperNode}
		member.Selector.ExactMatch = &topologyv1alpha1.ExactMatch{Name: w.namespace + "-" + rack}
		spine.Spec.Members = append(spine.Spec.Members, member)
	}
	_, err := muster.TopologyV1alpha1().HyperNodes().Create(w.ctx, spine, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = muster.TopologyV1alpha1().HyperNodes().Delete(w.t.Context(), spine.Name, metav1.DeleteOptions{})
	})
}

// exactNodes are nodes of a test as members of a HyperNode.
func exactNodes(namespace string, nodes ...int) (members []topologyv1alpha1.MemberSpec) {
	for _, n := range nodes {
		member := topologyv1alpha1.MemberSpec{Type: topologyv1alpha1.MemberTypeNode}
		member.Selector.ExactMatch = &topologyv1alpha1.ExactMatch{Name: fmt.Sprintf("%s-%d", namespace, n)}
		members = append(members, member)
	}
	return members
}

// racksInSpine makes two racks below a spine.
func (w *world) racksInSpine(a, b []int) {
	w.t.Helper()
	w.addRack("a", a...)
	w.addRack("b", b...)
	w.addSpine("s", "a", "b")
	w.awaitSpine()
}

// awaitSpine waits until the scheduler knows the spine, and so the racks that were made before it. It reads pods and HyperNodes by separate
// watches, and a gang that it sees first may go anywhere.
func (w *world) awaitSpine() {
	w.t.Helper()
	const probe = "probe"
	groups := muster.SchedulingV1beta1().PodGroups(w.namespace)
	w.closeGang(probe, 1, 0, w.within("spine"))
	w.create(w.pod(probe, probe, cpu("1000")))
	w.eventually("the scheduler knows the spine", func() bool { return w.reported(probe, []string{"fit in " + w.namespace + "-s"}) })
	w.remove(probe)
	require.NoError(w.t, groups.Delete(w.ctx, probe, metav1.DeleteOptions{}))
}

// closeGang makes a gang with a network topology, and ranks.
func (w *world) closeGang(name string, minMember, pods int, wants *schedulingv1beta1.NetworkTopologySpec, change ...func(*schedulingv1beta1.PodGroup)) {
	w.t.Helper()
	group := mustertesting.MakePodGroup(name).Namespace(w.namespace).MinMember(int32(minMember)).Obj()
	group.Spec.NetworkTopology = wants
	for _, change := range change {
		change(group)
	}
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
	require.NoError(w.t, err)
	for i := range pods {
		w.create(w.ranked(name, i))
	}
}

// groupsWithin makes a gang of groups of two pods. It has a limit, and each group has one. minimum is that of groups.
func (w *world) groupsWithin(gang, group *schedulingv1beta1.NetworkTopologySpec, minimum *int32) {
	w.t.Helper()
	pg := mustertesting.MakePodGroup("g").Namespace(w.namespace).Obj()
	pg.Spec.NetworkTopology = gang
	pg.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{
		Name: "p", LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"part"}, SubGroupSize: ptr.To[int32](2), MinSubGroups: minimum, NetworkTopology: group,
	}}
	_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, pg, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func soft() *schedulingv1beta1.NetworkTopologySpec {
	return &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode}
}

// within is a hard limit at a tier of the test, by name.
func (w *world) within(tier string) *schedulingv1beta1.NetworkTopologySpec {
	return &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode, HighestTierName: tier + "-" + w.namespace}
}

// nodesOf are the nodes of the members of a gang, sorted.
func (w *world) nodesOf(gang string, members int) (nodes []string) {
	w.t.Helper()
	for i := range members {
		if node, _ := w.placeOf(fmt.Sprintf("%s-%d", gang, i)); node != "" {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// gpus gives a node or a pod GPUs.
func gpus(list corev1.ResourceList, n int64) {
	list["nvidia.com/gpu"] = *resource.NewQuantity(n, resource.DecimalSI)
}

// topologyRow is something that users of Volcano observe, on nodes of the test's own.
type topologyRow struct {
	nodes int
	play  func(t *testing.T, w *world)
}

// topologyRows are named by what they are about, the wire (1) or the behaviour (2). The second number is the row. Other rows have tests of their own:
//
//	1.1 HyperNodes, their schema and policy      test/admission, rows "topology 1.1"; test/integration/api
//	1.2 networkTopology, its schema and checks   test/admission, "both tiers" and "one tier"
//	1.3 from the Job to the PodGroup             TestTheTopologyOfAJob in test/integration/job
//	1.3 annotations of plain pods                TestTopologyOfAPod in pkg/apis/scheduling/v1beta1, adoption_test.go in pkg/controllers/podgroup
//	1.4 discovery by labels                      TestATreeOfLabels in pkg/topology, TestFromNetworkTopology in pkg/topology/watch
//	1.5 labels in the field                      TestTheLabelsOfProviders in pkg/controllers/topology
//	2.3 ranks, 2.6 surplus, 2.7 replacement      TestAGangIsBoundInOneRack
//	2.5 too small, and what helps                TestAGangWaitsForARack
//	2.9 bad objects, each with its condition     TestEachFaultNamesFieldAndRemedy in pkg/controllers/topology, TestTheTopologyIsJudged in test/integration/program
//	2.13 groups in domains of their own          TestGroupsHaveTheirOwnRacks in pkg/placement, TestGroupsBeforeSinglePods in pkg/topology
//	2.15 victims in one domain                   TestVictimsAreInOneRack in pkg/placement
var topologyRows = map[string]topologyRow{
	"1-1 members by pattern and by labels": {6, func(t *testing.T, w *world) {
		labelled := w.addNode(6, func(n *corev1.Node) { n.Labels["row"] = w.namespace })
		selects := func(name string, selector topologyv1alpha1.MemberSelector) {
			w.addRackOf(name, 1, topologyv1alpha1.MemberSpec{Type: topologyv1alpha1.MemberTypeNode, Selector: selector})
		}
		selects("none", topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{}})
		selects("labels", topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{MatchLabels: map[string]string{"row": w.namespace}}})
		selects("pattern", topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "^" + w.namespace + "-[2-4]$"}})
		w.closeGang("one", 1, 1, w.within("rack"))
		w.expectBound("one-", 1)
		assert.Equal(t, labelled, w.nodeOf("one-0"), "the tightest is that of the labels")
		w.closeGang("g", 3, 3, w.within("rack"))
		w.expectBound("g-", 3)
		assert.Equal(t, []string{"2", "3", "4"}, w.nodesOf("g", 3))
	}},
	"2-1 a tier above all is no limit": {3, func(_ *testing.T, w *world) {
		w.racksInSpine([]int{0}, []int{1})
		w.closeGang("g", 3, 3, &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1000)})
		w.expectBound("g-", 3)
	}},
	"2-8 a soft group stays within the tier of its gang": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2})
		w.groupsWithin(w.within("rack"), soft(), ptr.To[int32](2))
		w.create(w.inGroup("g", 0, 0), w.inGroup("g", 0, 1), w.inGroup("g", 1, 0), w.inGroup("g", 1, 1))
		w.expectHeld("g-", fmt.Sprintf("2 of 4 fit in %[1]s-s/%[1]s-a (short of cpu)", w.namespace))
	}},
	"2-11 a tier by name in trees of unequal depth": {5, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0}, []int{1, 2})
		w.addRackOf("deep", 3, exactNodes(w.namespace, 3, 4)...) // racks of this kind have tier 3
		w.closeGang("g", 2, 2, w.within("rack"))
		w.expectBound("g-", 2)
		assert.Equal(t, []string{"1", "2"}, w.nodesOf("g", 2), "the lower tier first")
		w.closeGang("h", 2, 2, w.within("rack"))
		w.expectBound("h-", 2)
		assert.Equal(t, []string{"3", "4"}, w.nodesOf("h", 2))
	}},
	"2-12 the gang says that its members are beyond its bound": {3, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1, 2)
		w.closeGang("g", 2, 2, w.within("rack"))
		w.expectBound("g-", 2)
		hyperNodes := muster.TopologyV1alpha1().HyperNodes()
		require.NoError(t, clients.Change(w.ctx, w.namespace+"-a", hyperNodes.Get, hyperNodes.Update, func(rack *topologyv1alpha1.HyperNode) {
			rack.Spec.Members = rack.Spec.Members[1:]
		}))
		w.create(w.ranked("g", 2))
		w.eventually("the new pod says that the others are too far apart", func() bool {
			return w.reported("g-2", []string{"the gang runs in the cluster, which is wider than its network topology allows: restart it"})
		})
		assert.Equal(t, 2, w.bound("g-"))
	}},
	"2-13 groups may share a domain": {4, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1, 2, 3)
		w.createGroups("g", 2, 0, 1)
		w.expectBound("g-", 4)
		for i := range 4 {
			_, path := w.placeOf(fmt.Sprintf("g-%d", i))
			assert.Equal(t, "a", path)
		}
	}},
	"2-13 no least number of groups": {2, func(_ *testing.T, w *world) {
		w.addRack("a", 0, 1)
		w.createGroups("g", 0, 0, 1)
		w.expectBound("g-", 2) // a whole group, although none is asked for
		w.eventually("the other group waits as a whole", func() bool {
			return w.reported("g-", []string{"the 2 pods of its sub group that start together find no room"})
		})
	}},
	"2-13 a pod without the label of its group says so": {2, func(t *testing.T, w *world) {
		w.addRack("a", 0)
		w.createGroups("g", 1, 0)
		w.create(w.ranked("g", 2))
		w.expectHeld("g-", "pod g-2 is in no sub group, as it lacks the label part of matchLabelKeys")
	}},
	"2-13 groups that claim devices": {6, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1, 2)
		w.addRack("b", 3, 4, 5)
		w.createDeviceClass()
		for _, node := range []int{0, 1, 4, 5} {
			w.addDevices(node, 1)
		}
		claims := w.claimTemplate()
		w.groupsWithin(nil, w.within("rack"), ptr.To[int32](2))
		for i := range 4 {
			pod := w.inGroup("g", i/2, i%2)
			claims(pod)
			w.create(pod)
		}
		w.expectBound("g-", 4)
		assert.Equal(t, []string{"0", "1", "4", "5"}, w.nodesOf("g", 4))
		for i := range 4 {
			_, path := w.placeOf(fmt.Sprintf("g-%d", i))
			_, neighbour := w.placeOf(fmt.Sprintf("g-%d", i^1))
			assert.Equal(t, neighbour, path)
		}
	}},
	"2-14 the domain of a group is inside that of its gang": {8, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1)
		w.addRack("b", 2)
		w.addSpine("s", "a", "b")
		w.addRack("c", 3, 4)
		w.addRack("d", 5, 6, 7)
		w.addSpine("t", "c", "d")
		w.groupsWithin(w.within("spine"), w.within("rack"), ptr.To[int32](2))
		w.create(w.inGroup("g", 0, 0), w.inGroup("g", 0, 1), w.inGroup("g", 1, 0), w.inGroup("g", 1, 1))
		w.expectBound("g-", 4)
		nodes := w.nodesOf("g", 4)
		assert.Equal(t, []string{"3", "4"}, nodes[:2])
		assert.Subset(t, []string{"5", "6", "7"}, nodes[2:])
	}},
	"2-15 victims are in one domain": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3})
		for n := range 4 { // one is dear in the first rack, none in the second
			class := w.class(10)
			if n == 1 {
				class = w.class(50)
			}
			w.create(w.pod(fmt.Sprintf("old-%d", n), "", class, w.pinTo(n)))
		}
		w.expectBound("old-", 4)
		group := mustertesting.MakePodGroup("g").Namespace(w.namespace).MinMember(2).Obj()
		group.Spec.NetworkTopology = w.within("rack")
		_, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Create(w.ctx, group, metav1.CreateOptions{})
		require.NoError(t, err)
		for i := range 2 {
			pod := w.ranked("g", i)
			w.class(100)(pod)
			w.create(pod)
		}
		w.expectBound("g-", 2)
		assert.Equal(t, []string{"2", "3"}, w.nodesOf("g", 2))
		assert.Equal(t, 2, w.bound("old-"), "none is evicted in the other rack")
	}},
	"1-2 hard without a tier is no limit": {2, func(_ *testing.T, w *world) {
		w.closeGang("g", 2, 2, &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode})
		w.expectBound("g-", 2)
	}},
	"1-2 soft ignores the tier": {2, func(_ *testing.T, w *world) {
		w.closeGang("g", 2, 2, &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode, HighestTierName: "no-such-tier"})
		w.expectBound("g-", 2)
	}},
	"1-2 a tier by number": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0}, []int{1, 2})
		w.closeGang("g", 2, 2, &schedulingv1beta1.NetworkTopologySpec{HighestTierAllowed: ptr.To(1)})
		w.expectBound("g-", 2)
		assert.Equal(t, []string{"1", "2"}, w.nodesOf("g", 2))
	}},
	"1-4 labels are enough also of unequal depth": {0, func(t *testing.T, w *world) {
		for i, rack := range []string{"", "r1", "r1", "r2"} {
			w.addNode(i, func(n *corev1.Node) {
				n.Labels["block-"+w.namespace] = "b"
				if rack != "" {
					n.Labels["rack-"+w.namespace] = rack
				}
			})
		}
		list := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		list.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{pool: w.namespace}}
		list.Spec.Levels = []musterv1alpha1.Level{{NodeLabel: "block-" + w.namespace}, {NodeLabel: "rack-" + w.namespace}}
		_, err := muster.MusterV1alpha1().NetworkTopologies().Create(w.ctx, list, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = muster.MusterV1alpha1().NetworkTopologies().Delete(t.Context(), list.Name, metav1.DeleteOptions{})
		})
		w.closeGang("g", 2, 2, w.within("rack"))
		w.expectBound("g-", 2)
		_, path := w.placeOf("g-0")
		assert.Equal(t, "b/r1", path)
		assert.Equal(t, []string{"1", "2"}, w.nodesOf("g", 2))
	}},
	"2-2 one leaf if one fits": {5, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3, 4})
		w.closeGang("g", 3, 3, soft())
		w.expectBound("g-", 3)
		assert.Equal(t, []string{"2", "3", "4"}, w.nodesOf("g", 3))
	}},
	"2-2 a wider tier if no leaf fits": {6, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3})
		w.closeGang("g", 3, 3, w.within("spine"))
		w.expectBound("g-", 3)
		assert.Subset(t, []string{"0", "1", "2", "3"}, w.nodesOf("g", 3), "not on nodes in no HyperNode")
	}},
	"2-3 the fuller of two that fit": {6, func(t *testing.T, w *world) {
		w.create(w.pod("old", "", func(p *corev1.Pod) { p.Spec.NodeName = w.namespace + "-3" }))
		w.racksInSpine([]int{0, 1, 2}, []int{3, 4, 5})
		w.closeGang("g", 2, 2, w.within("rack"))
		w.expectBound("g-", 2)
		assert.Equal(t, []string{"4", "5"}, w.nodesOf("g", 2))
	}},
	"2-4 ranks by number neighbours in one leaf": {11, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1, 2, 3)
		w.addRack("b", 4, 5, 6, 7)
		w.addRack("c", 8, 9, 10)
		w.addSpine("s", "a", "b", "c")
		w.awaitSpine()
		w.closeGang("g", 11, 11, soft())
		w.expectBound("g-", 11)
		var leaves []string
		for i := range 11 {
			_, path := w.placeOf(fmt.Sprintf("g-%d", i))
			leaves = append(leaves, path[len(path)-1:])
		}
		assert.Equal(t, []string{"a", "a", "a", "a", "b", "b", "b", "b", "c", "c", "c"}, leaves)
	}},
	"2-6 the minimum decides if a leaf lacks room for all": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3})
		w.closeGang("g", 2, 4, w.within("rack"))
		w.expectBound("g-", 2)
		w.eventually("the rest says why it waits", func() bool { return w.reported("g-", []string{"network topology of the gang"}) })
		assert.Contains(t, [][]string{{"0", "1"}, {"2", "3"}}, w.nodesOf("g", 4))
	}},
	"2-6 a leaf for all replicas if there is one": {6, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3, 4, 5})
		for i := range 4 {
			w.create(w.ranked("g", i))
		}
		w.eventually("all pods are known before the gang is", func() bool {
			return w.reported("g-0", nil) && w.reported("g-1", nil) && w.reported("g-2", nil) && w.reported("g-3", nil)
		})
		w.closeGang("g", 2, 0, w.within("rack"))
		w.expectBound("g-", 4)
		assert.Equal(t, []string{"2", "3", "4", "5"}, w.nodesOf("g", 4))
	}},
	"2-7 a replaced pod returns to its leaf": {6, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3, 4})
		w.closeGang("g", 3, 3, soft())
		w.expectBound("g-", 3)
		gone, path := w.placeOf("g-1")
		w.remove("g-1")
		w.eventually("the pod is gone", func() bool { return w.bound("g-1") == 0 })
		w.create(w.ranked("g", 1))
		w.expectBound("g-", 3)
		node, again := w.placeOf("g-1")
		assert.Equal(t, []string{gone, path}, []string{node, again})
	}},
	"2-8 soft goes wider in few leaves": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2})
		w.closeGang("g", 4, 4, soft())
		w.expectBound("g-", 4)
		assert.Equal(t, []string{"0", "1", "2", "3"}, w.nodesOf("g", 4))
	}},
	"2-8 hard for a time and then wider": {4, func(t *testing.T, w *world) {
		w.racksInSpine([]int{0, 1}, []int{2, 3})
		w.closeGang("g", 3, 3, w.within("spine"), func(pg *schedulingv1beta1.PodGroup) {
			pg.Annotations = map[string]string{schedulingv1beta1.NarrowTopologyAnnotation: "rack-" + w.namespace + "@" + (3 * time.Second).String()}
		})
		w.expectBound("g-", 3)
		group, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Get(w.ctx, "g", metav1.GetOptions{})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(group.CreationTimestamp.Time), 3*time.Second)
	}},
	"2-9 a bad object harms no other": {4, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1)
		w.addRack("b", 1, 2) // of the node in both only the older one has it
		w.addSpine("s", "a", "t")
		w.addSpine("t", "s")
		w.closeGang("g", 2, 2, w.within("rack"))
		w.expectBound("g-", 2)
		assert.Equal(t, []string{"0", "1"}, w.nodesOf("g", 2))
	}},
	"2-10 a node in no HyperNode is in no domain": {3, func(_ *testing.T, w *world) {
		w.addRack("a", 0, 1)
		w.closeGang("g", 3, 3, w.within("rack"))
		w.expectHeld("g-", "2 of 3 fit in "+w.namespace+"-a")
	}},
	"2-12 running pods stay when their HyperNode goes": {2, func(t *testing.T, w *world) {
		w.addRack("a", 0, 1)
		w.closeGang("g", 1, 1, w.within("rack"))
		w.expectBound("g-", 1)
		require.NoError(t, muster.TopologyV1alpha1().HyperNodes().Delete(w.ctx, w.namespace+"-a", metav1.DeleteOptions{}))
		w.create(w.ranked("g", 1))
		w.eventually("new pods say that the tier is gone", func() bool { return w.reported("g-1", []string{"no domain of the network has the tier name"}) })
		assert.Equal(t, 1, w.bound("g-"))
	}},
	"2-17 pods without a topology fill used leaves": {0, func(t *testing.T, w *world) {
		for i := range 4 {
			w.addNode(i, func(n *corev1.Node) { gpus(n.Status.Allocatable, 4) })
		}
		w.racksInSpine([]int{0, 1}, []int{2, 3})
		single := func(name string) *corev1.Pod {
			return w.pod(name, "", func(p *corev1.Pod) {
				container := &p.Spec.Containers[0]
				container.Resources.Requests = mustertesting.Resources("cpu", "1")
				gpus(container.Resources.Requests, 1)
				container.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": container.Resources.Requests["nvidia.com/gpu"]}
			})
		}
		old := single("old-0")
		old.Spec.NodeName = w.namespace + "-2"
		w.create(old)
		for i := range 5 {
			w.create(single(fmt.Sprintf("p-%d", i)))
			w.expectBound("p-", i+1)
		}
		assert.Equal(t, []string{"2", "2", "2", "3", "3"}, w.nodesOf("p", 5), "the used node, then its rack, though others are empty")
	}},
}

// TestTopologyRows plays each row on the real API server and scheduler.
func TestTopologyRows(t *testing.T) {
	t.Parallel()
	for name, row := range topologyRows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, row.nodes)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the pods say %q", w.waiting(""))
				}
			})
			row.play(t, w)
		})
	}
}
