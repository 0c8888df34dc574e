package cluster

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	musterfake "github.com/muster-sched/muster/pkg/client/clientset/versioned/fake"
	"github.com/muster-sched/muster/pkg/explain"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// TestTheDomainsOfTheNetwork: HyperNodes and labels, each domain below the one around it, with the largest gang of each tier.
func TestTheDomainsOfTheNetwork(t *testing.T) {
	var nodes []corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, *mustertesting.MakeNode(name).Label("row", "r"+name).Allocatable("cpu", "4", "pods", "10").Obj())
	}
	nodes = append(nodes, *mustertesting.MakeNode("d").Label("hall", "north").Allocatable("cpu", "4", "pods", "10").Obj())
	nodes[2].Spec.Unschedulable = true
	hyperNode := func(name string, tier int, kind topologyv1alpha1.MemberType, member string) *topologyv1alpha1.HyperNode {
		h := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		h.Spec.Tier = tier
		h.Spec.Members = []topologyv1alpha1.MemberSpec{{Type: kind, Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: member}}}}
		return h
	}
	list := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "rows"}}
	list.Spec.Levels = []musterv1alpha1.Level{{NodeLabel: "row"}}
	muster := musterfake.NewSimpleClientset(
		hyperNode("leaf", 1, topologyv1alpha1.MemberTypeNode, "a"), hyperNode("spine", 2, topologyv1alpha1.MemberTypeHyperNode, "leaf"), list)
	kueue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": map[string]any{"name": "theirs"},
		"spec": map[string]any{"levels": []any{map[string]any{"nodeLabel": "hall"}}},
	}}
	foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), watch.KueueKinds(), kueue)
	tree, err := watch.Read(t.Context(), muster, foreign, nodes)
	require.NoError(t, err)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
	}}}}
	facts := explain.Facts{Nodes: nodes}
	found := answerOf(facts, pod, "")
	found.Domains = domainsOf(tree, facts, pod)
	var text bytes.Buffer
	require.NoError(t, found.print(&text))
	assert.Contains(t, text.String(), `
DOMAIN         TIER     NODES   FREE CPU   FREE PODS   FIT
north          1 hall   1       4          10          2
rb             1 row    1       4          10          2
rc             1 row    1       0          0           0
spine          2        1       4          10          2
  spine/leaf   1        1       4          10          2
`)
	assert.Contains(t, text.String(), "The largest gang of such pods in one domain of tier 2 has 2, in spine.\n")
}
