package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// patience is how long a test waits for what happens in a second.
const patience = 2 * time.Minute

// stage is a Controller with the API in memory.
type stage struct {
	*Controller
	t      *testing.T
	kube   *kubefake.Clientset
	muster *musterfake.Clientset
	nodes  cache.Store
	events *record.FakeRecorder
}

func newStage(t *testing.T, objects ...runtime.Object) *stage {
	s := &stage{t: t, kube: kubefake.NewSimpleClientset(), events: record.NewFakeRecorder(10)}
	var ours, theirs []runtime.Object
	for _, object := range objects {
		if _, foreign := object.(*unstructured.Unstructured); foreign {
			theirs = append(theirs, object)
		} else {
			ours = append(ours, object)
		}
	}
	s.muster = musterfake.NewSimpleClientset(ours...)
	kinds := map[schema.GroupVersionResource]string{}
	for _, resource := range watch.Kueue {
		kinds[resource] = "TopologyList"
	}
	factory := informers.NewSharedInformerFactory(s.kube, 0)
	foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, theirs...)
	var err error
	s.Controller, err = New(Config{Muster: s.muster, Watching: s.muster, Foreign: foreign, Nodes: factory.Core().V1().Nodes(), Recorder: s.events})
	require.NoError(t, err)
	s.nodes = factory.Core().V1().Nodes().Informer().GetStore()
	s.objects, err = watch.Start(t.Context(), s.muster, foreign, func() {})
	require.NoError(t, err)
	// The API in memory serves each version of Kueue's kinds for itself. One with no object may be read before the one that has them.
	require.Eventually(t, func() bool { return s.objects.Synced() && len(s.objects.KueueObjects()) == len(theirs) }, patience, time.Millisecond)
	return s
}

// node puts a node where the informer shows it.
func (s *stage) node(name string, labels map[string]string) {
	s.t.Helper()
	require.NoError(s.t, s.nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
}

// sync syncs once, and waits until the informers have what it wrote. It returns how many statuses were written.
func (s *stage) sync() int {
	s.t.Helper()
	s.muster.ClearActions()
	_, err := s.Sync(s.t.Context(), everything)
	require.NoError(s.t, err)
	var written []clienttesting.PatchAction
	for _, action := range s.muster.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			assert.Equal(s.t, "status", patch.GetSubresource())
			written = append(written, patch)
		}
	}
	require.Eventually(s.t, func() bool { return len(s.described().due(metav1.Now())) == 0 || len(written) == maxWrites }, patience, time.Millisecond)
	return len(written)
}

func (s *stage) hyperNode(name string) *topologyv1alpha1.HyperNode {
	s.t.Helper()
	h, err := s.muster.TopologyV1alpha1().HyperNodes().Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return h
}

func valid(t *testing.T, conditions []metav1.Condition) metav1.Condition {
	t.Helper()
	condition := meta.FindStatusCondition(conditions, "Valid")
	require.NotNil(t, condition)
	return *condition
}

func hyperNode(name string, tier int, members ...topologyv1alpha1.MemberSpec) *topologyv1alpha1.HyperNode {
	return &topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       topologyv1alpha1.HyperNodeSpec{Tier: tier, Members: members},
	}
}

func exactly(kind topologyv1alpha1.MemberType, names ...string) (members []topologyv1alpha1.MemberSpec) {
	for _, name := range names {
		members = append(members, topologyv1alpha1.MemberSpec{Type: kind, Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: name}}})
	}
	return members
}

func matching(pattern string) topologyv1alpha1.MemberSpec {
	return topologyv1alpha1.MemberSpec{Type: "Node", Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern}}}
}

func labelled(kind topologyv1alpha1.MemberType, selector *metav1.LabelSelector) topologyv1alpha1.MemberSpec {
	return topologyv1alpha1.MemberSpec{Type: kind, Selector: topologyv1alpha1.MemberSelector{LabelMatch: selector}}
}

func list(name string, keys ...string) *musterv1alpha1.NetworkTopology {
	object := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 1}}
	for _, key := range keys {
		object.Spec.Levels = append(object.Spec.Levels, musterv1alpha1.Level{NodeLabel: key})
	}
	return object
}

// TestAChangeOfTheDomainsIsTold: once for each, and also if there are none.
func TestAChangeOfTheDomainsIsTold(t *testing.T) {
	s, told := newStage(t), 0
	s.Watch(func() { told++ })
	require.Nil(t, s.Tree())
	s.sync()
	assert.Equal(t, 1, told)
	assert.False(t, s.Tree().IsKnown())
	s = newStage(t, hyperNode("leaf", 1, exactly("Node", "n")...))
	s.node("n", nil)
	s.Watch(func() { told++ })
	s.sync()
	s.sync()
	assert.Equal(t, 2, told)
	leaf, known := s.Tree().OfPath("leaf")
	assert.True(t, known)
	assert.Equal(t, 1, leaf.Tier)
}

// TestEachFaultNamesFieldAndRemedy: on the object that has it, while all others are valid.
func TestEachFaultNamesFieldAndRemedy(t *testing.T) {
	node, hyper := topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberTypeHyperNode
	near := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}}
	wrongList := list("wrong", "rack")
	wrongList.Spec.NodeSelector = near
	for name, c := range map[string]struct {
		objects       []runtime.Object
		wrong, reason string
		says          []string
	}{
		"two parents": {[]runtime.Object{hyperNode("leaf", 1, exactly(node, "n0")...), hyperNode("a", 2, exactly(hyper, "leaf")...), hyperNode("b", 2, exactly(hyper, "leaf")...)},
			"b", "TwoParents", []string{"spec.members[0]", `"leaf"`, `"a"`, "Remove the member from one of them."}},
		"a cycle": {[]runtime.Object{hyperNode("a", 2, exactly(hyper, "b")...), hyperNode("b", 1, append(exactly(hyper, "a"), exactly(node, "n0")...)...)},
			"b", "Cycle", []string{"spec.members[0]", `"a"`, "Remove the member."}},
		"itself":         {[]runtime.Object{hyperNode("a", 2, append(exactly(hyper, "a"), exactly(node, "n0")...)...)}, "a", "Cycle", []string{"spec.members[0]", "Remove the member."}},
		"equal tiers":    {[]runtime.Object{hyperNode("a", 1, exactly(hyper, "b")...), hyperNode("b", 1, exactly(node, "n0")...)}, "a", "TierNotAbove", []string{"spec.members[0]", "Raise spec.tier"}},
		"a bad pattern":  {[]runtime.Object{hyperNode("a", 1, matching("n("))}, "a", "InvalidPattern", []string{"spec.members[0].selector.regexMatch.pattern", "missing closing )", "Correct the regular expression."}},
		"an absent node": {[]runtime.Object{hyperNode("a", 1, exactly(node, "n0", "gone")...)}, "a", "MemberNotFound", []string{"spec.members[1].selector.exactMatch.name", `"gone" does not exist`, "Add the node"}},
		"an absent HyperNode": {[]runtime.Object{hyperNode("a", 2, exactly(hyper, "gone")...)}, "a", "MemberNotFound",
			[]string{"spec.members[0].selector.exactMatch.name", `HyperNode "gone" does not exist`, "Create it"}},
		"a pattern of no node": {[]runtime.Object{hyperNode("a", 1, matching("^gpu"))}, "a", "MemberNotFound", []string{"regexMatch.pattern", `"^gpu"`}},
		"a node in two leaves": {[]runtime.Object{hyperNode("a", 1, exactly(node, "n0")...), hyperNode("b", 1, exactly(node, "n0", "n1")...)},
			"b", "NodeInTwoDomains", []string{"spec.members[0]", `"n0"`, `"a"`, "Remove the nodes from one of the HyperNodes"}},
		"HyperNodes by labels": {[]runtime.Object{hyperNode("a", 2, labelled(hyper, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}))}, "a", "UnsupportedSelector",
			[]string{"spec.members[0].selector", "exactMatch"}},
		"a wrong selector":                  {[]runtime.Object{hyperNode("a", 1, labelled(node, near))}, "a", "InvalidSelector", []string{"spec.members[0].selector.labelMatch", `"Near"`, "Correct the selector."}},
		"a list of labels that no node has": {[]runtime.Object{list("wrong", "block")}, "wrong", "NoNodes", []string{"spec.levels", "Label the nodes"}},
		"a list with a gap": {[]runtime.Object{list("wrong", "zone", "block", "rack")}, "wrong", "LabelMissing",
			[]string{"spec.levels[1].nodeLabel", `"block"`, "2 nodes", "Label the nodes"}},
		"a list whose nodes are in HyperNodes": {[]runtime.Object{hyperNode("a", 1, matching("n")), list("wrong", "rack")}, "wrong", "AllNodesTaken", []string{"Delete it"}},
		"a list with a wrong selector":         {[]runtime.Object{wrongList}, "wrong", "InvalidSelector", []string{"spec.nodeSelector", "Correct the selector."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.objects...)
			s.node("n0", map[string]string{"zone": "z", "rack": "1"})
			s.node("n1", map[string]string{"zone": "z", "rack": "2"})
			assert.Equal(t, len(c.objects), s.sync())
			assert.Zero(t, s.sync(), "nothing has changed")
			said := map[string]metav1.Condition{}
			for _, h := range s.objects.HyperNodeObjects() {
				said[h.Name] = valid(t, h.Status.Conditions)
			}
			for _, l := range s.objects.NetworkTopologyObjects() {
				said[l.Name] = valid(t, l.Status.Conditions)
			}
			require.Len(t, said, len(c.objects))
			for object, condition := range said {
				if object != c.wrong {
					assert.Equal(t, metav1.ConditionTrue, condition.Status, "%s: %s", object, condition.Message)
					continue
				}
				assert.Equal(t, metav1.ConditionFalse, condition.Status)
				assert.Equal(t, c.reason, condition.Reason)
				assert.Equal(t, int64(1), condition.ObservedGeneration)
				for _, part := range c.says {
					assert.Contains(t, condition.Message, part)
				}
			}
		})
	}
}

// TestNodesAreCountedAsTheyComeAndGo: direct members, as Volcano counts them. The condition has all nodes below.
func TestNodesAreCountedAsTheyComeAndGo(t *testing.T) {
	s := newStage(t, hyperNode("leaf", 1, matching("^n")), hyperNode("spine", 2, exactly("HyperNode", "leaf")...), list("others", "rack"))
	s.node("n0", nil)
	s.node("n1", nil)
	s.node("x", map[string]string{"rack": "r"})
	s.sync()
	assert.Equal(t, int64(2), s.hyperNode("leaf").Status.NodeCount)
	assert.Equal(t, int64(1), s.hyperNode("spine").Status.NodeCount)
	assert.Equal(t, "It has 2 nodes.", valid(t, s.hyperNode("spine").Status.Conditions).Message)
	others, err := s.muster.MusterV1alpha1().NetworkTopologies().Get(t.Context(), "others", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, int64(1), others.Status.NodeCount)

	require.NoError(t, s.nodes.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	assert.Equal(t, 2, s.sync(), "the leaf and the spine")
	assert.Equal(t, int64(1), s.hyperNode("leaf").Status.NodeCount)
	assert.Equal(t, "It has 1 node.", valid(t, s.hyperNode("spine").Status.Conditions).Message)
}

// TestFaultsAreWrittenFirst: 10,000 HyperNodes get their first status in many steps. Those with faults do not wait for the others.
func TestFaultsAreWrittenFirst(t *testing.T) {
	var objects []runtime.Object
	for i := range 10_000 {
		objects = append(objects, hyperNode(fmt.Sprintf("leaf-%05d", i), 1, matching(fmt.Sprintf("^n-%d$", i))))
	}
	objects = append(objects, hyperNode("z", 1, matching("n(")))
	s := newStage(t, objects...)
	for i := range 10_000 {
		s.node(fmt.Sprintf("n-%d", i), nil)
	}
	written := map[string]string{} // the fake client calls its reactors one by one
	s.muster.PrependReactor("patch", "hypernodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		written[patch.GetName()] = string(patch.GetPatch())
		return true, &topologyv1alpha1.HyperNode{}, nil
	})
	after, err := s.Sync(t.Context(), everything)
	require.NoError(t, err)
	assert.Equal(t, writePause, after)
	assert.Len(t, written, maxWrites)
	assert.Contains(t, written["z"], "InvalidPattern")
}

// TestWhatAnotherProgramWroteIsMended, and its own conditions stay.
func TestWhatAnotherProgramWroteIsMended(t *testing.T) {
	s := newStage(t, hyperNode("leaf", 1, matching("^n")))
	s.node("n0", nil)
	s.sync()
	h := s.hyperNode("leaf")
	h.Status.NodeCount = 7
	h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Other"})
	_, err := s.muster.TopologyV1alpha1().HyperNodes().UpdateStatus(t.Context(), h, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.objects.HyperNodeObjects()[0].Status.NodeCount == 7 }, patience, time.Millisecond)
	assert.Equal(t, 1, s.sync())
	assert.Equal(t, int64(1), s.hyperNode("leaf").Status.NodeCount)
	assert.Len(t, s.hyperNode("leaf").Status.Conditions, 2)
}

// TestANamesakeOfAHyperNodeIsLeftAlone: only the object with the UID gets the status. One that is gone is no error.
func TestANamesakeOfAHyperNodeIsLeftAlone(t *testing.T) {
	s := newStage(t, hyperNode("leaf", 1, matching("^n")))
	for _, refusal := range []error{
		apierrors.NewConflict(topologyv1alpha1.Resource("hypernodes"), "leaf", nil), apierrors.NewNotFound(topologyv1alpha1.Resource("hypernodes"), "leaf"),
	} {
		s.muster.PrependReactor("patch", "hypernodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			assert.Contains(t, string(action.(clienttesting.PatchAction).GetPatch()), `"uid":"uid-leaf"`)
			return true, nil, refusal
		})
		_, err := s.Sync(t.Context(), everything)
		require.NoError(t, err)
	}
	s.muster.PrependReactor("patch", "hypernodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("away")
	})
	_, err := s.Sync(t.Context(), everything)
	require.ErrorContains(t, err, "writing the status of HyperNode leaf")
}

// TestATopologyOfKueueIsTold: by an event, once. Its status is Kueue's.
func TestATopologyOfKueueIsTold(t *testing.T) {
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": map[string]any{"name": "default", "uid": "k"},
		"spec": map[string]any{"levels": []any{map[string]any{"nodeLabel": "block"}}},
	}}
	s := newStage(t, theirs)
	for range 2 {
		assert.Zero(t, s.sync())
	}
	require.Len(t, s.events.Events, 1)
	event := <-s.events.Events
	assert.True(t, strings.HasPrefix(event, "Warning NoNodes spec.levels: "), event)
}

// TestConditionsFollowObjectsAndNodes runs the whole controller, with informers.
func TestConditionsFollowObjectsAndNodes(t *testing.T) {
	t.Parallel()
	kube, muster := kubefake.NewSimpleClientset(), musterfake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(kube, 0)
	kinds := map[schema.GroupVersionResource]string{}
	for _, resource := range watch.Kueue {
		kinds[resource] = "TopologyList"
	}
	c, err := New(Config{Muster: muster, Watching: muster, Nodes: factory.Core().V1().Nodes(), Recorder: record.NewFakeRecorder(10),
		Foreign: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	go c.Run(t.Context())
	says := func(status metav1.ConditionStatus, count int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			h, err := muster.TopologyV1alpha1().HyperNodes().Get(t.Context(), "leaf", metav1.GetOptions{})
			return err == nil && h.Status.NodeCount == count && meta.IsStatusConditionPresentAndEqual(h.Status.Conditions, "Valid", status)
		}, patience, 10*time.Millisecond)
	}
	_, err = muster.TopologyV1alpha1().HyperNodes().Create(t.Context(), hyperNode("leaf", 1, matching("^n")), metav1.CreateOptions{})
	require.NoError(t, err)
	says(metav1.ConditionFalse, 0)
	_, err = kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	says(metav1.ConditionTrue, 1)
	require.NoError(t, kube.CoreV1().Nodes().Delete(t.Context(), "n0", metav1.DeleteOptions{}))
	says(metav1.ConditionFalse, 0)
}
