package program_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
)

// kueueCRD is the API of Kueue's Topology, as far as it is read.
const kueueCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: topologies.kueue.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/kueue"}
spec:
  group: kueue.x-k8s.io
  names: {kind: Topology, listKind: TopologyList, plural: topologies, singular: topology}
  scope: Cluster
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const kueueTopology = `
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata: {name: default}
spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: kubernetes.io/hostname}]}
`

// TestTheTopologyIsJudged: the CRDs are missing when the program starts, and nothing waits for them. They come while it runs. Each object says
// what is wrong with it. Kueue's Topology gets an event.
func TestTheTopologyIsJudged(t *testing.T) {
	restore := removeAPI(t, "crds/topology.volcano.sh_*.yaml", "crds/muster.sh_*.yaml")
	later := func(what string, holds func() bool) {
		t.Helper()
		require.Eventually(t, holds, 5*time.Minute, 50*time.Millisecond, what) // the program looks for a missing kind about every half minute
	}
	foreign, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	later("the API is gone", func() bool {
		_, err := muster.TopologyV1alpha1().HyperNodes().List(t.Context(), metav1.ListOptions{})
		_, alsoErr := muster.MusterV1alpha1().NetworkTopologies().List(t.Context(), metav1.ListOptions{})
		return err != nil && alsoErr != nil
	})
	p := start(t, "--leader-elect=false")
	p.awaitReady()
	awaitWork(t)
	assert.Empty(t, p.errors())

	restore(t.Context())
	kueue := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "topologies"}
	install(t, foreign, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, kueueCRD)
	install(t, foreign, kueue, kueueTopology)
	hyperNodes, lists := muster.TopologyV1alpha1().HyperNodes(), muster.MusterV1alpha1().NetworkTopologies()
	rack := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: topologyv1alpha1.HyperNodeSpec{Tier: 1, Members: []topologyv1alpha1.MemberSpec{{
		Type: topologyv1alpha1.MemberTypeNode, Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: "gone"}},
	}}}}
	blocks := &musterv1alpha1.NetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "blocks"}, Spec: musterv1alpha1.NetworkTopologySpec{Levels: []musterv1alpha1.Level{{NodeLabel: "block"}}}}
	later("HyperNodes are served", func() bool { _, err := hyperNodes.Create(t.Context(), rack, metav1.CreateOptions{}); return err == nil })
	later("NetworkTopologies are served", func() bool { _, err := lists.Create(t.Context(), blocks, metav1.CreateOptions{}); return err == nil })
	t.Cleanup(func() {
		assert.NoError(t, hyperNodes.Delete(context.Background(), "rack", metav1.DeleteOptions{}))
		assert.NoError(t, lists.Delete(context.Background(), "blocks", metav1.DeleteOptions{}))
	})
	says := func(status metav1.ConditionStatus, rackSays, blocksSay string) {
		t.Helper()
		later("both say what is wrong with them", func() bool {
			rack, err := hyperNodes.Get(t.Context(), "rack", metav1.GetOptions{})
			require.NoError(t, err)
			blocks, err := lists.Get(t.Context(), "blocks", metav1.GetOptions{})
			require.NoError(t, err)
			of := func(conditions []metav1.Condition, text string) bool {
				c := meta.FindStatusCondition(conditions, topologyv1alpha1.ConditionValid)
				return c != nil && c.Status == status && strings.Contains(c.Message, text)
			}
			return of(rack.Status.Conditions, rackSays) && of(blocks.Status.Conditions, blocksSay)
		})
	}
	says(metav1.ConditionFalse, `spec.members[0].selector.exactMatch.name: node "gone" does not exist.`, "spec.levels: ")
	later("Kueue's object has an event about its fault", func() bool {
		events, err := kube.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Topology"})
		require.NoError(t, err)
		return len(events.Items) == 1 && events.Items[0].Reason == "NoNodes"
	})

	for _, node := range []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"block": "1"}}}} {
		_, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, kube.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}))
		})
	}
	says(metav1.ConditionTrue, "It has 1 node.", "It has 1 node.")
	assert.Equal(t, 0, p.stop())
	assert.Empty(t, p.errors())
}

// install creates an object, as soon as its kind is served, until the test ends.
func install(t *testing.T, client dynamic.Interface, resource schema.GroupVersionResource, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), object))
	require.Eventually(t, func() bool {
		_, err := client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{})
		return err == nil
	}, 5*time.Minute, 50*time.Millisecond, "%s can be created", object.GetName())
	t.Cleanup(func() {
		assert.NoError(t, client.Resource(resource).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}))
	})
}
