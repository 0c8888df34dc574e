package coscheduling

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

const gpus = "nvidia.com/gpu"

// racksOfGPUs has two racks of two nodes of eight GPUs each, and a node in no rack.
func racksOfGPUs(t *testing.T, seen *network, cordoned string, pods ...*corev1.Pod) *world {
	t.Helper()
	nodes, indexer := []*corev1.Node{}, cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, name := range []string{"a-0", "a-1", "b-0", "b-1", "c-0"} {
		node := mustertesting.MakeNode(name).Allocatable("cpu", "64", "pods", "10", gpus, "8").Obj()
		node.Spec.Unschedulable = name == cordoned
		nodes = append(nodes, node)
		require.NoError(t, indexer.Add(node))
	}
	w := newWorld(t, nodes, pods...)
	w.tracker.Topology.Use(seen, corelisters.NewNodeLister(indexer))
	return w
}

// named are the nodes with some names.
func (w *world) named(names ...string) []fwk.NodeInfo {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n fwk.NodeInfo) bool { return !slices.Contains(names, n.Node().Name) })
}

// scored are the scores of the nodes for a pod; nil if it is skipped.
func (w *world) scored(t *testing.T, pod *corev1.Pod, nodes []fwk.NodeInfo) map[string]int64 {
	t.Helper()
	cycle := newCycle()
	status := w.plugin.PreScore(t.Context(), cycle, pod, nodes)
	if status.IsSkip() {
		return nil
	}
	require.True(t, status.IsSuccess(), "%v", status)
	got := map[string]int64{}
	for _, node := range nodes {
		score, status := w.plugin.Score(t.Context(), cycle, pod, node)
		require.True(t, status.IsSuccess(), "%v", status)
		got[node.Node().Name] = score
	}
	return got
}

// TestPodsWithoutATopologyFillUsedDomains: first nodes in no domain, then the rack in use, and there the node in use.
func TestPodsWithoutATopologyFillUsedDomains(t *testing.T) {
	used := mustertesting.MakePod("used").Node("b-1").Requests(gpus, "2").Obj()
	pod := mustertesting.MakePod("p").SchedulerName("muster").Requests("cpu", "1", gpus, "1").Obj()
	w := racksOfGPUs(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}, "", used)
	assert.Equal(t, map[string]int64{"c-0": 100, "b-1": 50, "b-0": 33, "a-0": 25, "a-1": 25}, w.scored(t, pod, w.nodes))
	assert.Equal(t, map[string]int64{"b-1": 100, "b-0": 50, "a-0": 33, "a-1": 33}, w.scored(t, pod, w.named("a-0", "a-1", "b-0", "b-1")), "c-0 does not pass the filters")

	w = racksOfGPUs(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}, "a-1", used)
	assert.Equal(t, map[string]int64{"a-0": 100, "b-1": 50, "b-0": 33}, w.scored(t, pod, w.named("a-0", "b-0", "b-1")), "a cordoned node has no room")
}

// TestAPodIsNotScored if it asks for nothing that is scarce, or if its gang has a topology. Nor is it as long as no domain is known.
func TestAPodIsNotScored(t *testing.T) {
	seen := &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}
	w := racksOfGPUs(t, seen, "")
	pod := mustertesting.MakePod("p").SchedulerName("muster").Requests("cpu", "1", gpus, "1").Obj()
	require.NotNil(t, w.scored(t, pod, w.nodes))
	assert.Nil(t, w.scored(t, mustertesting.MakePod("cpu").SchedulerName("muster").Requests("cpu", "1").Obj(), w.nodes))

	member := w.closeGang("close", 1, 1, nil)[0].DeepCopy()
	member.Spec.Containers[0].Resources.Requests = mustertesting.Resources(gpus, "1")
	assert.Nil(t, w.scored(t, member, w.nodes))
	loose := w.gangOf("loose", 1, 1, "1")[0].DeepCopy()
	loose.Spec.Containers[0].Resources.Requests = mustertesting.Resources(gpus, "1")
	assert.NotNil(t, w.scored(t, loose, w.nodes), "a gang without a topology")

	seen.hyperNodes = nil
	w.tracker.Topology.Changed()
	assert.Nil(t, w.scored(t, pod, w.nodes))
}
