package gangs

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/topology"
)

// TopologyObjects are the objects that name domains of the network.
type TopologyObjects interface {
	// HyperNodes are all HyperNodes.
	HyperNodes() []topology.HyperNode
	// Lists are all lists of labels, the first one counts most.
	Lists() []topology.Labels
	// Synced says whether they have been read, as far as their CRDs exist.
	Synced() bool
}

// Topology has the tree of the network's domains. It is made again when it is needed and an object or a node's labels have changed.
type Topology struct {
	t       *state.State
	objects TopologyObjects // nil if none are watched
	nodes   corelisters.NodeLister
	tree    *topology.Tree   // nil if it must be made again
	inUse   sets.Set[string] // the labels of nodes that the tree depends on
	changes int              // of the objects, and of nodes and their labels
}

func newTopology(t *state.State) *Topology { return &Topology{t: t} }

// Use takes over where the objects and nodes are read.
func (n *Topology) Use(objects TopologyObjects, nodes corelisters.NodeLister) {
	n.t.Lock()
	defer n.t.Unlock()
	n.objects, n.nodes = objects, nodes
}

// Changed notes that objects have changed. Gangs that wait for a domain are decided again, and their surplus is tried again.
func (n *Topology) Changed() {
	n.t.Lock()
	defer n.t.Unlock()
	n.tree = nil
	n.changes++
	for key := range n.t.Waiting.ForDomain {
		g, e := n.t.Gangs[key], gang.Only(gang.ToWake)
		if g.Seated() {
			g.SurplusOpen = false
			e.Add(gang.Only(gang.ToLook))
		}
		n.t.Apply(g, e)
	}
	n.t.Waiting.ForDomain.Clear()
}

// dependsOn says whether the tree depends on labels of a node that have changed. A tree that is not made yet will have them all.
func (n *Topology) dependsOn(before, after map[string]string) bool {
	n.t.Lock()
	defer n.t.Unlock()
	if n.tree == nil {
		return false
	}
	for key := range n.inUse {
		was, had := before[key]
		if is, has := after[key]; is != was || has != had {
			return true
		}
	}
	return false
}

// NodeHandler notes which nodes there are, and what their labels are. A heartbeat changes nothing.
func (n *Topology) NodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { n.Changed() },
		UpdateFunc: func(old, now any) {
			before, ok := old.(*corev1.Node)
			after, isNode := now.(*corev1.Node)
			if !ok || !isNode || !maps.Equal(before.Labels, after.Labels) && n.dependsOn(before.Labels, after.Labels) {
				n.Changed()
			}
		},
		DeleteFunc: func(any) { n.Changed() },
	}
}

// current is the tree, nil if the objects have not been read.
func (n *Topology) current() *topology.Tree {
	if n.objects == nil || n.nodes == nil || !n.objects.Synced() {
		return nil
	}
	if n.tree == nil {
		all, err := n.nodes.List(labels.Everything())
		if err != nil {
			return nil // the informer is in memory and does not fail
		}
		nodes := make([]topology.Node, len(all))
		for i, node := range all {
			nodes[i] = topology.Node{Name: node.Name, Labels: node.Labels}
		}
		hyperNodes, lists := n.objects.HyperNodes(), n.objects.Lists()
		n.tree, n.inUse = topology.Build(hyperNodes, lists, nodes), topology.LabelsInUse(hyperNodes, lists)
	}
	return n.tree
}

// PathFor is the path of a node's lowest domain, for a member of a gang that asks for a topology. It is "" for other pods.
func (n *Topology) PathFor(pod *corev1.Pod, node string) string {
	n.t.Lock()
	defer n.t.Unlock()
	g, _ := n.t.Find(pod.UID)
	if g == nil || g.PodGroup.Topology == nil {
		return ""
	}
	if tree := n.current(); tree != nil {
		return tree.PathOf(node)
	}
	return ""
}

// Known is the tree, nil as long as no domain is known.
func (n *Topology) Known() *topology.Tree {
	n.t.Lock()
	defer n.t.Unlock()
	if tree := n.current(); tree != nil && tree.IsKnown() {
		return tree
	}
	return nil
}

// Binds says whether the gang of a pod asks for a topology.
func (n *Topology) Binds(pod *corev1.Pod) bool {
	n.t.Lock()
	defer n.t.Unlock()
	g, _ := n.t.Find(pod.UID)
	return g != nil && g.PodGroup.Topology != nil
}

// started counts how close the members of a gang are that has its nodes. The gang may ask for no topology.
func (n *Topology) started(g *gang.Group) {
	if g.PodGroup.Topology == nil {
		return
	}
	var nodes []string
	for _, m := range g.Members() {
		if g.Counts(m) && m.State.Holds() {
			nodes = append(nodes, m.Node)
		}
	}
	if tree := n.current(); tree != nil && tree.IsKnown() {
		if spread, known := tree.SpreadOf(nodes); known {
			n.t.Metrics.ReachDomain(spread)
		}
	}
}

// of is the topology of a gang. If it cannot be known yet what the gang asks for, the text says why.
func (n *Topology) of(g *gang.Group) (asked *placement.Topology, missing string) {
	wants := g.PodGroup.Topology
	if wants == nil {
		return nil, ""
	}
	waited := n.waited(g)
	tree, bounds := n.current(), wants.Bounds(waited)
	switch {
	case len(bounds) == 0 && (tree == nil || !tree.IsKnown()):
		return nil, "" // a wish only
	case tree == nil:
		return nil, "the topology of the network has not been read yet"
	case !tree.IsKnown():
		return nil, "no topology of the network is known: an administrator has to make HyperNodes or a NetworkTopology, or remove networkTopology"
	}
	for _, b := range bounds {
		if b.TierName != "" && !tree.HasTierName(b.TierName) {
			return nil, fmt.Sprintf("no domain of the network has the tier name %q: correct highestTierName, or have an administrator name a tier so", b.TierName)
		}
	}
	bound, still := wants.BoundAt(waited)
	spec := g.Spec // it changes under the lock only
	asked = &placement.Topology{Tree: tree, Bound: bound, GroupOf: spec.GroupOf, Holding: map[*gang.Member]string{}}
	asked.Note = n.noteOn(g, waited, still)
	for _, m := range g.Members() {
		if g.Counts(m) && m.State.Holds() && !m.Terminating && m.Node != "" {
			asked.Holding[m] = m.Node
		}
	}
	return asked, ""
}

// waited is how long a gang has waited for room. A gang that has started waits no more: it may have started in a wider domain.
func (n *Topology) waited(g *gang.Group) time.Duration {
	if g.Seated() || g.MinimumBound {
		return g.PodGroup.Topology.NarrowFor
	}
	return g.WaitedFor(n.t.Clock.Now())
}

// noteOn says when a narrow limit ends or has ended, and which member has no group. It stays the same while the gang waits.
func (n *Topology) noteOn(g *gang.Group, waited, still time.Duration) (note string) {
	wants := g.PodGroup.Topology
	ends := n.t.Clock.Now().Add(wants.NarrowFor - waited).UTC().Truncate(time.Second).Format(time.RFC3339)
	switch {
	case still > 0:
		note = fmt.Sprintf("; from %s on, %s will do", ends, wants.Bound)
	case wants.NarrowFor > 0 && !g.Seated() && !g.MinimumBound:
		note = fmt.Sprintf("; it has kept to %s until %s", wants.Narrow, ends)
	}
	if pod, label := g.LacksLabel(); pod != "" {
		note += fmt.Sprintf("; pod %s is in no sub group, as it lacks the label %s of matchLabelKeys", pod, label)
	}
	return note
}

// readPause is the pause until it is seen again whether the objects have been read. No event tells that a kind does not exist.
const readPause = time.Second

// retryIn is when a gang is decided again without an event. It is 0 for never. A narrower bound may end, or the objects have not been read.
func (n *Topology) retryIn(g *gang.Group) time.Duration {
	if g.PodGroup.Topology == nil {
		return 0
	}
	if n.current() == nil {
		return readPause
	}
	_, still := g.PodGroup.Topology.BoundAt(n.waited(g))
	return still
}

// limitFor keeps a pod that is placed by itself within the bounds of its gang and group. It is nil for a pod without bounds.
func (n *Topology) limitFor(g *gang.Group, m *gang.Member) *placement.Near {
	asked, missing := n.of(g)
	if asked == nil && missing == "" {
		return nil
	}
	if asked == nil {
		return &placement.Near{Missing: missing}
	}
	return asked.NearFor(m)
}

// surplusWaits notes that a surplus pod is tried within bounds. If it finds no node in them, a change of the topology may help it.
func (n *Topology) surplusWaits(g *gang.Group, pod *corev1.Pod, near *placement.Near) (e gang.Effects) {
	if near == nil {
		return e
	}
	n.t.Waiting.ForDomain.Insert(g.Key)
	if near.Missing != "" && n.current() == nil {
		return n.t.TryAgain(pod, readPause)
	}
	return e
}
