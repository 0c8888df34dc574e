package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/topology"
)

// TestAStarvingGangWithoutPlacesLeavesItsTurn: a decision may find neither places to reserve nor a reason why there are none. Members that run in
// too wide a domain have such ones. The gang is not decided again at once, and the next gang of its queue has places chosen.
func TestAStarvingGangWithoutPlacesLeavesItsTurn(t *testing.T) {
	q := newQuotaTest(t)
	first, second := q.gang("first", "q", 2), q.gang("second", "q", 1)
	q.decide(first)
	q.decide(second)
	q.clock.Step(time.Minute)
	s := q.decide(first)
	require.True(t, s.Problem.Reserve && !s.Problem.OnlyWithStart, "it is starving")
	assert.False(t, first.Refusal.Woken, "it would be decided again and again")
	assert.True(t, q.decide(second).Problem.Reserve)
	q.clock.Step(time.Hour)
	dispatch.NewDispatcher(q.Tracker).Tick()
	assert.True(t, first.Refusal.Woken, "places are looked for later")
}

// network are HyperNodes of tier 1, each of one node of its name. They have been read, or not.
type network struct {
	names  []string
	unread bool
}

func (n *network) HyperNodes() (all []topology.HyperNode) {
	for _, name := range n.names {
		all = append(all, topology.HyperNode{Name: name, Tier: 1, TierName: "rack", Members: []topology.Member{{Type: topology.NodeMember, Exact: name}}})
	}
	return all
}

func (*network) Lists() []topology.Labels {
	return []topology.Labels{{Kind: "NetworkTopology", Name: "labels", Levels: []topology.Level{{Key: "block", Tier: 2}}}}
}

func (n *network) Synced() bool { return !n.unread }

// withNetwork is a tracker that has read a network, and nodes a and b. It has a gang of two pods that must be in one domain of tier 1, and
// surplus.
func withNetwork(t *testing.T, seen *network) (tr *gangs.Tracker, nodes cache.Indexer, pods []*corev1.Pod) {
	t.Helper()
	tr = openTracker(t)
	nodes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, nodes.Add(mustertesting.MakeNode(name).Obj()))
	}
	tr.Topology.Use(seen, corelisters.NewNodeLister(nodes))
	group := groupIn(schedulingv1beta1.PodGroupInqueue, 2)
	group.Spec.NetworkTopology = &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode, HighestTierAllowed: new(1)}
	tr.SetPodGroup(group)
	for _, name := range []string{"m0", "m1", "m2"} {
		pods = append(pods, memberNamed(name).Obj())
		tr.SetPod(pods[len(pods)-1])
	}
	return tr, nodes, pods
}

// seat has the minimum of a gang bound to node a.
func seat(t *testing.T, tr *gangs.Tracker, pods []*corev1.Pod) {
	t.Helper()
	setPods(tr, on(pods[0], "a"), on(pods[1], "a"))
	require.Contains(t, toLookAt(tr), theGang)
	dispatch.NewDispatcher(tr).NextActions(theGang)
	require.Equal(t, gang.Running, phaseOf(tr, theGang))
	toLookAt(tr)
}

// TestAChangeOfTheNetworkHelpsSurplus: its members run beyond the bound, no tier has the name, or its domain is full.
func TestAChangeOfTheNetworkHelpsSurplus(t *testing.T) {
	for name, names := range map[string][]string{"no topology": nil, "another domain": {"b"}, "a full domain": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			seen := &network{names: names}
			tr, _, pods := withNetwork(t, seen)
			seat(t, tr, pods)
			require.Empty(t, tr.Gate(pods[2]))
			require.NotNil(t, tr.Enter(pods[2]).Near)
			require.Empty(t, dispatch.NewDispatcher(tr).NextActions(theGang).Activate)
			seen.names = []string{"a"}
			tr.Topology.Changed()
			assert.Contains(t, toLookAt(tr), theGang)
			assert.Equal(t, []string{"m2"}, namesOf(dispatch.NewDispatcher(tr).NextActions(theGang).Activate))
		})
	}
}

// TestSurplusIsTriedAgainUntilTheNetworkIsRead: no event tells that a kind does not exist.
func TestSurplusIsTriedAgainUntilTheNetworkIsRead(t *testing.T) {
	seen := &network{names: []string{"a"}, unread: true}
	tr, _, pods := withNetwork(t, seen)
	seat(t, tr, pods)
	for range 3 {
		require.Contains(t, tr.Enter(pods[2]).Near.Missing, "has not been read yet")
		assert.Equal(t, []string{"m2"}, namesOf(dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate))
	}
	seen.unread = false
	require.Empty(t, tr.Enter(pods[2]).Near.Missing)
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate)
}

// TestNoGangIsKeptThatWaitsForNoDomain: one that has started, and one that is gone.
func TestNoGangIsKeptThatWaitsForNoDomain(t *testing.T) {
	for name, end := range map[string]func(*gangs.Tracker, []*corev1.Pod){
		"it starts": func(tr *gangs.Tracker, pods []*corev1.Pod) {
			tr.Gangs[theGang].Refusal.Woken = true
			require.Empty(t, tr.Gate(pods[0]))
			begin(t, tr, pods[0], nil)
		},
		"it is deleted": func(tr *gangs.Tracker, pods []*corev1.Pod) {
			tr.DeletePodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
			for _, pod := range pods {
				tr.DeletePod(pod)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr, _, pods := withNetwork(t, &network{names: []string{"a"}})
			require.Empty(t, tr.Gate(pods[0]))
			refuse(t, tr, pods[0], "no domain")
			require.Len(t, tr.WaitList.ForDomain, 1)
			end(tr, pods)
			assert.Empty(t, tr.WaitList.ForDomain)
		})
	}
}

// TestAChangeDuringADecisionIsNotLost: the decision was on the tree before it.
func TestAChangeDuringADecisionIsNotLost(t *testing.T) {
	for name, unread := range map[string]bool{"a tree": false, "no tree": true} {
		t.Run(name, func(t *testing.T) {
			tr, _, pods := withNetwork(t, &network{names: []string{"a"}, unread: unread})
			require.Empty(t, tr.Gate(pods[0]))
			s := tr.Decisions.Snapshot(pods[0])
			tr.Topology.Changed()
			_, ok := tr.Decisions.Commit(s, no(s, "no domain", pods[0], "NodeResourcesFit"))
			require.True(t, ok)
			assert.True(t, tr.Gangs[theGang].Refusal.Woken)
		})
	}
}

// TestLabelsThatNameNoDomainChangeNothing: the tree is kept, and no gang is decided again.
func TestLabelsThatNameNoDomainChangeNothing(t *testing.T) {
	tr, nodes, pods := withNetwork(t, &network{names: []string{"a"}})
	require.Empty(t, tr.Gate(pods[0]))
	refuse(t, tr, pods[0], "no domain")
	handler, node := tr.Topology.NodeHandler(), mustertesting.MakeNode("b").Obj()
	relabel := func(key, value string) {
		before := node
		node = node.DeepCopy()
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
		require.NoError(t, nodes.Update(node))
		handler.OnUpdate(before, node)
	}
	tree := tr.Topology.Known()
	require.NotNil(t, tree)
	relabel("feature.node.kubernetes.io/cpu", "fast")
	assert.Same(t, tree, tr.Topology.Known())
	assert.False(t, tr.Gangs[theGang].Refusal.Woken)
	relabel("block", "one")
	assert.Equal(t, "one", tr.Topology.Known().PathOf("b"))
	assert.True(t, tr.Gangs[theGang].Refusal.Woken)
}
