package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// network are HyperNodes that have been read, or not.
type network struct {
	hyperNodes []topology.HyperNode
	unread     bool
}

func (n *network) HyperNodes() []topology.HyperNode { return n.hyperNodes }
func (*network) Lists() []topology.Labels           { return nil }
func (n *network) Synced() bool                     { return !n.unread }

// rack is a HyperNode of nodes whose name begins with its own.
func rack(name string, tier int) topology.HyperNode {
	return topology.HyperNode{Name: name, Tier: tier, TierName: "rack", Members: []topology.Member{{Type: topology.NodeMember, Pattern: "^" + name + "-"}}}
}

// worldOf has two racks of two nodes for two pods of two CPUs each.
func worldOf(t *testing.T, seen *network, pods ...*corev1.Pod) *world {
	t.Helper()
	nodes, indexer := []*corev1.Node{}, cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, name := range []string{"a-0", "a-1", "b-0", "b-1"} {
		node := mustertesting.MakeNode(name).Allocatable("cpu", "4", "pods", "10").Obj()
		nodes = append(nodes, node)
		require.NoError(t, indexer.Add(node))
	}
	w := newWorld(t, nodes, pods...)
	w.tracker.Topology.Use(seen, corelisters.NewNodeLister(indexer))
	return w
}

// closeGang has a gang come whose members must be in one domain of a tier.
func (w *world) closeGang(name string, minMember, members int, change func(*schedulingv1beta1.PodGroup)) (pods []*corev1.Pod) {
	pg := mustertesting.MakePodGroup(name).UID(name).MinMember(int32(minMember)).Phase(schedulingv1beta1.PodGroupInqueue).Obj()
	pg.CreationTimestamp.Time = time.Unix(1000, 0)
	pg.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode, HighestTierAllowed: ptr.To(1)}
	if change != nil {
		change(pg)
	}
	w.tracker.SetPodGroup(pg)
	for i := range members {
		member := fmt.Sprintf("%s-%02d", name, i)
		pod := mustertesting.MakePod(member).UID(member).Group(name).SchedulerName("muster").Task("w").Annotation("volcano.sh/task-index", fmt.Sprint(i)).Requests("cpu", "2").Obj()
		w.tracker.SetPod(pod)
		pods = append(pods, pod)
	}
	return pods
}

// nodeFor is the only node that PreFilter leaves to a pod.
func (w *world) nodeFor(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	require.Empty(t, w.tracker.Gate(pod), pod.Name)
	_, result, status := w.preFilter(t, pod)
	require.True(t, status.IsSuccess(), "%s: %v", pod.Name, status)
	require.NotNil(t, result, pod.Name)
	require.Len(t, result.NodeNames, 1, pod.Name)
	return result.NodeNames.UnsortedList()[0]
}

// TestRanksFollowEachOtherInOneRack: each member is sent to its own node, in the order of indexes.
func TestRanksFollowEachOtherInOneRack(t *testing.T) {
	old := mustertesting.MakePod("old").Node("b-1").Requests("cpu", "1").Obj()
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}, old)
	pods := w.closeGang("g", 3, 3, nil)
	for i, want := range []string{"b-0", "b-0", "b-1"} {
		assert.Equal(t, want, w.nodeFor(t, pods[i]), "the fuller rack that holds the gang")
	}
}

// TestAllReplicasBeforeTheFullerRack: a rack that holds all members is better than the fuller one that holds the minimum.
func TestAllReplicasBeforeTheFullerRack(t *testing.T) {
	old := mustertesting.MakePod("old").Node("a-1").Requests("cpu", "1").Obj()
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}, old)
	pods := w.closeGang("g", 3, 4, nil)
	for i, want := range []string{"b-0", "b-0", "b-1"} {
		assert.Equal(t, want, w.nodeFor(t, pods[i]))
	}
}

// TestSurplusStaysInTheRack of the members that hold room, also before the API says that they are bound.
func TestSurplusStaysInTheRack(t *testing.T) {
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(w.tracker.Metrics.Tiers, w.tracker.Metrics.Leaves)
	pods := w.closeGang("g", 2, 5, nil)
	first := w.nodeFor(t, pods[0])
	for _, pod := range pods[:2] {
		assert.Equal(t, "a-0", w.nodeForChosen(t, pod, first))
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = "a-0"
		w.permit(t, assumed)
	}
	assert.Equal(t, map[string]float64{"muster_topology_gangs_total 1": 1, "muster_topology_leaves_total fewest": 1, "muster_topology_leaves_total used": 1}, counted(t, registry))
	require.Empty(t, w.tracker.Gate(pods[2]))
	cycle, result, status := w.preFilter(t, pods[2])
	require.True(t, status.IsSuccess(), "%v", status)
	for name := range result.NodeNames {
		assert.Equal(t, "a-", name[:2])
	}
	for _, node := range w.nodes {
		refused := w.plugin.Filter(t.Context(), cycle, pods[2], node)
		assert.Equal(t, node.Node().Name[:1] == "a", refused.IsSuccess(), node.Node().Name)
	}
	_, status = w.plugin.SignPod(t.Context(), pods[2])
	assert.False(t, status.IsSuccess(), "its node follows from its rank")
	assert.Equal(t, "a", w.tracker.Topology.PathFor(pods[0], "a-0"))
}

// counted are the counters of a registry, each by its name and label.
func counted(t *testing.T, registry metrics.KubeRegistry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			values[family.GetName()+" "+metric.Label[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return values
}

// nodeForChosen is the node of a member whose cycle may have begun.
func (w *world) nodeForChosen(t *testing.T, pod *corev1.Pod, first string) string {
	t.Helper()
	if _, result, status := w.preFilter(t, pod); status.IsSuccess() && result != nil {
		return result.NodeNames.UnsortedList()[0]
	}
	return first
}

// TestAGangWaitsForItsTopology: without one, and for a tier name that no domain has. A change of the topology helps it, and other gangs do not
// wait.
func TestAGangWaitsForItsTopology(t *testing.T) {
	byName := func(pg *schedulingv1beta1.PodGroup) {
		pg.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{HighestTierName: "rakc"}
	}
	for name, test := range map[string]struct {
		seen   *network
		change func(*schedulingv1beta1.PodGroup)
		want   string
	}{
		"not read":      {&network{unread: true}, nil, "the topology of the network has not been read yet"},
		"no HyperNodes": {&network{}, nil, "no topology of the network is known"},
		"a wrong name":  {&network{hyperNodes: []topology.HyperNode{rack("a", 1)}}, byName, `no domain of the network has the tier name "rakc"`},
		"too narrow":    {&network{hyperNodes: []topology.HyperNode{rack("a", 3)}}, nil, "no domain within tier 1 has room for the 2 members that start together; no domain is that close"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, test.seen)
			pods := w.closeGang("g", 2, 2, test.change)
			require.Empty(t, w.tracker.Gate(pods[0]))
			_, _, status := w.preFilter(t, pods[0])
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.Contains(t, status.Message(), test.want)
			w.start(t, w.gangOf("other", 2, 2, "2")[0])

			good := rack("a", 1)
			good.TierName = "rakc"
			test.seen.unread, test.seen.hyperNodes = false, []topology.HyperNode{good}
			w.tracker.Topology.Changed()
			require.Empty(t, w.tracker.Gate(pods[0]))
			assert.Equal(t, "a-", w.nodeFor(t, pods[0])[:2])
		})
	}
}

// TestTiersOutOfRange: a tier above all domains allows any nodes, and one below all of them none.
func TestTiersOutOfRange(t *testing.T) {
	for tier, want := range map[int]string{99: "", 3: "", 0: "no domain within tier 0 has room for the 5 members that start together; no domain is that close"} {
		w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 2), rack("b", 2)}})
		pods := w.closeGang("g", 5, 5, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.NetworkTopology.HighestTierAllowed = &tier })
		require.Empty(t, w.tracker.Gate(pods[0]))
		_, _, status := w.preFilter(t, pods[0])
		assert.Equal(t, want == "", status.IsSuccess(), tier)
		assert.Contains(t, status.Message(), want, tier)
	}
}

// TestADecisionOnAnEarlierTreeIsRefused: labels have changed between the snapshot and the commit. The gang is decided again.
func TestADecisionOnAnEarlierTreeIsRefused(t *testing.T) {
	seen := &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}}
	w := worldOf(t, seen)
	pods := w.closeGang("g", 2, 2, nil)
	require.Empty(t, w.tracker.Gate(pods[0]))
	snapshot := w.tracker.Decisions.Snapshot(pods[0])
	require.NotNil(t, snapshot)
	decision := w.plugin.planner.DecideWithin(t.Context(), &snapshot.Problem, w.nodes)
	require.Equal(t, placement.Possible, decision.Feasibility)
	seen.hyperNodes = seen.hyperNodes[1:]
	w.tracker.Topology.Changed()
	_, ok := w.tracker.Decisions.Commit(snapshot, decision)
	assert.False(t, ok)
	require.Empty(t, w.tracker.Gate(pods[0]))
	assert.Equal(t, "b-", w.nodeFor(t, pods[0])[:2])
}

// TestANarrowBoundHoldsForATime, and then the wider one.
func TestANarrowBoundHoldsForATime(t *testing.T) {
	row := topology.HyperNode{Name: "row", Tier: 2, Members: []topology.Member{{Type: topology.HyperNodeMember, Exact: "a"}, {Type: topology.HyperNodeMember, Exact: "b"}}}
	w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1), row}})
	pods := w.closeGang("g", 5, 5, func(pg *schedulingv1beta1.PodGroup) {
		pg.Spec.NetworkTopology.HighestTierAllowed = ptr.To(2)
		pg.Annotations = map[string]string{schedulingv1beta1.NarrowTopologyAnnotation: "rack@10m"}
	})
	require.Empty(t, w.tracker.Gate(pods[0]))
	_, _, status := w.preFilter(t, pods[0])
	assert.Contains(t, status.Message(), `no domain within tier "rack" has room for the 5 members`)
	assert.Contains(t, status.Message(), "; from 1970-01-01T00:26:40Z on, tier 2 will do")
	w.clock.Step(10 * time.Minute)
	require.Empty(t, w.tracker.Gate(pods[0]))
	w.nodeFor(t, pods[0])
}

// TestTheNarrowBoundOutlivesARestart: the condition has the time since when the gang waits. The time before its admission does not count.
func TestTheNarrowBoundOutlivesARestart(t *testing.T) {
	for name, test := range map[string]struct {
		phase   schedulingv1beta1.PodGroupPhase
		waits   int64
		relaxed bool
	}{
		"just admitted":    {schedulingv1beta1.PodGroupInqueue, 0, false},
		"waits for five":   {schedulingv1beta1.PodGroupInqueue, 700, false},
		"waits for eleven": {schedulingv1beta1.PodGroupInqueue, 340, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, &network{hyperNodes: []topology.HyperNode{rack("a", 1), rack("b", 1)}})
			pods := w.closeGang("g", 9, 9, func(pg *schedulingv1beta1.PodGroup) {
				pg.Spec.NetworkTopology = nil
				pg.CreationTimestamp.Time = time.Unix(10, 0)
				pg.Annotations = map[string]string{schedulingv1beta1.NarrowTopologyAnnotation: "rack@10m"}
				if test.waits > 0 {
					pg.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, LastTransitionTime: metav1.Unix(test.waits, 0)}}
				}
			})
			require.Empty(t, w.tracker.Gate(pods[0]))
			_, _, status := w.preFilter(t, pods[0])
			if test.relaxed {
				assert.Contains(t, status.Message(), `; it has kept to tier "rack" until 1970-01-01T00:15:40Z`)
				return
			}
			assert.Contains(t, status.Message(), " on, the cluster will do")
		})
	}
}
