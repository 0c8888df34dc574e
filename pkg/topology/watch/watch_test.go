package watch

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/topology"
)

// patience is how long a test waits for what happens in milliseconds.
const patience = 2 * time.Minute

func kueueTopology(version, name string, keys ...string) *unstructured.Unstructured {
	var levels []any
	for _, key := range keys {
		levels = append(levels, map[string]any{"nodeLabel": key})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/" + version, "kind": "Topology", "metadata": map[string]any{"name": name}, "spec": map[string]any{"levels": levels},
	}}
}

func fakeForeign(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{}
	for _, resource := range Kueue {
		kinds[resource] = "TopologyList"
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
}

func hyperNode(name string, tier int, members ...topologyv1alpha1.MemberSpec) *topologyv1alpha1.HyperNode {
	return &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topologyv1alpha1.HyperNodeSpec{Tier: tier, Members: members}}
}

func list(name string, keys ...string) *musterv1alpha1.NetworkTopology {
	t := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, key := range keys {
		t.Spec.Levels = append(t.Spec.Levels, musterv1alpha1.Level{NodeLabel: key})
	}
	return t
}

// TestEachKindIsReadInItsOrder: HyperNodes, our lists and then those of Kueue, each by name. An object of Kueue that is served in two versions
// counts once.
func TestEachKindIsReadInItsOrder(t *testing.T) {
	muster := musterfake.NewSimpleClientset(hyperNode("b", 1), hyperNode("a", 1), list("z", "rack"), list("y", "rack"))
	foreign := fakeForeign(kueueTopology("v1beta1", "k", "block", "rack", "kubernetes.io/hostname"), kueueTopology("v1beta2", "k", "block", "rack", "kubernetes.io/hostname"),
		kueueTopology("v1beta2", "hosts", "kubernetes.io/hostname"))
	o, err := Start(t.Context(), muster, foreign, func() {})
	require.NoError(t, err)
	require.Eventually(t, o.Synced, patience, time.Millisecond)

	var names []string
	for _, h := range o.HyperNodes() {
		names = append(names, h.Name)
	}
	for _, l := range o.Lists() {
		names = append(names, l.Kind+" "+l.Name)
	}
	assert.Equal(t, []string{"a", "b", "NetworkTopology y", "NetworkTopology z", "Topology.kueue.x-k8s.io k"}, names)
	assert.Equal(t, []topology.Level{{Key: "block", TierName: "block", Tier: 2}, {Key: "rack", TierName: "rack", Tier: 1}}, o.Lists()[2].Levels)
}

// TestAKindThatIsMissingHoldsNothingUp: what is there is read, and what comes later is found.
func TestAKindThatIsMissingHoldsNothingUp(t *testing.T) {
	muster, foreign := musterfake.NewSimpleClientset(list("y", "rack")), fakeForeign(kueueTopology("v1beta2", "k", "rack"))
	var served atomic.Bool
	refuse := func(action clienttesting.Action) (bool, runtime.Object, error) {
		return !served.Load(), nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "")
	}
	muster.PrependReactor("list", "hypernodes", refuse)
	foreign.PrependReactor("list", "topologies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", nil)
	})
	changes := make(chan struct{}, 100)
	o, err := Start(t.Context(), muster, foreign, func() { changes <- struct{}{} })
	require.NoError(t, err)
	require.Eventually(t, o.Synced, patience, time.Millisecond)
	assert.Empty(t, o.HyperNodes())
	assert.Len(t, o.Lists(), 1)
	<-changes

	require.NoError(t, muster.Tracker().Add(hyperNode("a", 1)))
	served.Store(true)
	<-changes
	assert.Len(t, o.HyperNodes(), 1)
}

// TestKueueThatFailsHoldsNothingUp: one version that is read is enough. If none is, the others are waited for no longer than the patience.
func TestKueueThatFailsHoldsNothingUp(t *testing.T) {
	for name, failing := range map[string][]string{"one version": {"v1beta1"}, "all versions": {"v1beta1", "v1beta2"}} {
		t.Run(name, func(t *testing.T) {
			foreign := fakeForeign(kueueTopology("v1beta2", "k", "rack"))
			foreign.PrependReactor("list", "topologies", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return slices.Contains(failing, action.GetResource().Version), nil, apierrors.NewInternalError(errors.New("the webhook is down"))
			})
			o, err := Start(t.Context(), musterfake.NewSimpleClientset(), foreign, func() {})
			require.NoError(t, err)
			if len(failing) < len(Kueue) {
				require.Eventually(t, o.Synced, patience, time.Millisecond)
				assert.Len(t, o.Lists(), 1)
				return
			}
			begun := time.Now()
			require.Eventually(t, func() bool { return o.syncedAt(time.Now().Add(kueuePatience)) }, patience, time.Millisecond)
			assert.False(t, o.syncedAt(begun), "it may recover")
		})
	}
}

// TestAStatusIsNoChange: the controller writes it, and the scheduler must not begin anew for it.
func TestAStatusIsNoChange(t *testing.T) {
	muster := musterfake.NewSimpleClientset()
	changes := make(chan struct{}, 100)
	o, err := Start(t.Context(), muster, fakeForeign(), func() { changes <- struct{}{} })
	require.NoError(t, err)
	require.Eventually(t, o.Synced, patience, time.Millisecond)
	client := muster.TopologyV1alpha1().HyperNodes()
	h, err := client.Create(t.Context(), hyperNode("a", 1), metav1.CreateOptions{})
	require.NoError(t, err)
	<-changes
	h.Status.NodeCount = 3
	_, err = client.Update(t.Context(), h, metav1.UpdateOptions{})
	require.NoError(t, err)
	h.Spec.Tier, h.Generation = 2, 2
	_, err = client.Update(t.Context(), h, metav1.UpdateOptions{})
	require.NoError(t, err)
	<-changes
	assert.Equal(t, 2, o.HyperNodes()[0].Tier)
	require.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	<-changes
	assert.Empty(t, o.HyperNodes())
	assert.Empty(t, changes, "the status was taken for a change")
}

func TestFromHyperNode(t *testing.T) {
	created := metav1.NewTime(time.Unix(1000, 0))
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	object := hyperNode("a", 2,
		topologyv1alpha1.MemberSpec{Type: "HyperNode", Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: "leaf"}}},
		topologyv1alpha1.MemberSpec{Type: "Node", Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "^n"}}},
		topologyv1alpha1.MemberSpec{Type: "Node", Selector: topologyv1alpha1.MemberSelector{LabelMatch: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}}},
		topologyv1alpha1.MemberSpec{Type: "Node", Selector: topologyv1alpha1.MemberSelector{LabelMatch: wrong}})
	object.CreationTimestamp, object.Spec.TierName = created, "spine"
	got, faults := FromHyperNode(object)
	assert.Equal(t, topology.HyperNode{Name: "a", Created: created.Time, Tier: 2, TierName: "spine", Members: []topology.Member{
		{Type: topology.HyperNodeMember, Exact: "leaf"}, {Type: topology.NodeMember, Pattern: "^n"},
		{Type: topology.NodeMember, Labels: labels.SelectorFromSet(labels.Set{"rack": "1"})}, {Type: topology.NodeMember, Labels: labels.Nothing()},
	}}, got)
	require.Len(t, faults, 1)
	assert.Equal(t, "spec.members[3].selector.labelMatch", faults[0].Field)
	assert.Contains(t, faults[0].Message, `"Near" is not a valid label selector operator`)
}

func TestFromNetworkTopology(t *testing.T) {
	object := list("eks", "layer-1", "layer-2", "kubernetes.io/hostname")
	object.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cloud": "eks"}}
	object.Spec.Levels[1].TierName = "leaf"
	got, faults := FromNetworkTopology(object)
	assert.Empty(t, faults)
	assert.Equal(t, topology.Labels{Kind: "NetworkTopology", Name: "eks", Selector: labels.SelectorFromSet(labels.Set{"cloud": "eks"}),
		Levels: []topology.Level{{Key: "layer-1", TierName: "layer-1", Tier: 2}, {Key: "layer-2", TierName: "leaf", Tier: 1}}}, got)

	object.Spec.Levels[0].Tier, object.Spec.Levels[1].Tier = ptr.To(7), ptr.To(3)
	got, _ = FromNetworkTopology(object)
	assert.Equal(t, []topology.Level{{Key: "layer-1", TierName: "layer-1", Tier: 7}, {Key: "layer-2", TierName: "leaf", Tier: 3}}, got.Levels)

	object.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
	got, faults = FromNetworkTopology(object)
	assert.Empty(t, got.Levels)
	require.Len(t, faults, 1)
	assert.Equal(t, topology.Fault{Kind: "NetworkTopology", Object: "eks", Field: "spec.nodeSelector", Reason: "InvalidSelector",
		Message: faults[0].Message, Remedy: "Correct the selector."}, faults[0])
}
