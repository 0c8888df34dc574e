package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestAJobInOneRackSaysWhereItRuns: the PodGroup of a Job names the domain and its tier. The pods have the path, in the order of their ranks. The
// tier gets another name, and the PodGroup follows. So it is for a Job whose partitions have racks of their own.
func TestAJobInOneRackSaysWhereItRuns(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(5, "cpu", "1")
	hyperNodes := s.Muster.TopologyV1alpha1().HyperNodes()
	add := func(name, tierName string, tier int, kind topologyv1alpha1.MemberType, pattern string, members ...string) {
		object := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + name}}
		object.Spec.Tier, object.Spec.TierName = tier, tierName
		if pattern != "" {
			object.Spec.Members = []topologyv1alpha1.MemberSpec{{Type: kind, Selector: topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: "^" + s.Namespace + pattern}}}}
		}
		for _, member := range members {
			exact := &topologyv1alpha1.ExactMatch{Name: s.Namespace + "-" + member}
			object.Spec.Members = append(object.Spec.Members, topologyv1alpha1.MemberSpec{Type: kind, Selector: topologyv1alpha1.MemberSelector{ExactMatch: exact}})
		}
		_, err := hyperNodes.Create(s.Ctx, object, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, hyperNodes.Delete(context.Background(), object.Name, metav1.DeleteOptions{}))
		})
	}
	add("a", "rack-"+s.Namespace, 1, topologyv1alpha1.MemberTypeNode, "-[0-1]$")
	add("b", "rack-"+s.Namespace, 1, topologyv1alpha1.MemberTypeNode, "-[2-4]$")
	add("s", "", 2, topologyv1alpha1.MemberTypeHyperNode, "", "a", "b")
	path := func(rack string) string { return s.Namespace + "-s/" + s.Namespace + "-" + rack }
	says := func(name string, pods int, message string) {
		t.Helper()
		s.Pods(pods, name+" starts", s.In(harness.Of(name), harness.Bound))
		condition := func() *schedulingv1beta1.PodGroupCondition {
			return schedulingv1beta1.CurrentCondition(s.GroupOf(s.Name(name)).Status.Conditions)
		}
		s.Soon(name+" says where it runs", func() bool { c := condition(); return c != nil && c.Message == message }, func() any { return condition() })
	}

	s.CreateJob(mustertesting.MakeJob("whole").NetworkTopology(batchv1alpha1.NetworkTopologySpec{HighestTierName: "rack-" + s.Namespace}).
		Task(mustertesting.MakeTask("rank", 3).Requests("cpu", "1")))
	says("whole", 3, fmt.Sprintf("the gang runs in domain %s of the network, tier 1 (rack-%s)", path("b"), s.Namespace))
	for i := range 3 {
		pod := s.Pod(fmt.Sprintf("whole-rank-%d", i))
		assert.Equal(t, fmt.Sprintf("%s-%d", s.Namespace, 2+i), pod.Spec.NodeName)
		assert.Equal(t, path("b"), pod.Annotations[schedulingv1beta1.TopologyPathAnnotation])
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"tierName": "nvlink-" + s.Namespace}})
	require.NoError(t, err)
	_, err = hyperNodes.Patch(s.Ctx, s.Namespace+"-b", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	says("whole", 3, fmt.Sprintf("the gang runs in domain %s of the network, tier 1 (nvlink-%s)", path("b"), s.Namespace))
	require.NoError(t, s.Muster.BatchV1alpha1().Jobs(s.Namespace).Delete(s.Ctx, "whole", metav1.DeleteOptions{}))

	s.CreateJob(mustertesting.MakeJob("parts").NetworkTopology(batchv1alpha1.NetworkTopologySpec{Mode: schedulingv1beta1.SoftNetworkTopologyMode}).
		Task(mustertesting.MakeTask("rank", 4).Partitions(2, 2).Requests("cpu", "1")))
	says("parts", 4, fmt.Sprintf("the gang runs in domain %s-s of the network, tier 2", s.Namespace))
	for i := range 4 {
		assert.Equal(t, fmt.Sprint(i/2), s.Pod(fmt.Sprintf("parts-rank-%d", i)).Labels["volcano.sh/partition-id"])
	}
}
