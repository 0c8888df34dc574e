package placement

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/topology"
)

// Near keeps a pod that is placed by itself close to the members of its gang that hold room.
type Near struct {
	// Missing says why it is not known where the pod may go, "" if it is.
	Missing string
	// Beyond says in which domain the members run, if that is wider than the bound allows. It is "" otherwise.
	Beyond string

	tree   *topology.Tree
	member *gang.Member
	limits []limit
	from   int // the lowest domain that is tried, -1 for none
}

// limit is a bound, with the domain of the pods that it is about.
type limit struct {
	bound  topology.Bound
	inside int // -1 for none
}

// NearFor is the limits of a member that is placed by itself. It is nil if there are none, and no other member holds room.
func (t *Topology) NearFor(m *gang.Member) *Near {
	d := &domains{topology: t}
	name, bound := d.groupOf(m)
	group := d.heldBy(name)
	near := &Near{tree: t.Tree, member: m, from: t.Tree.Common(d.neighbourOf(m, group))}
	near.add(t.Bound, t.Tree.Common(t.held()))
	near.add(bound, t.Tree.Common(group))
	if len(near.limits) == 0 && near.from < 0 {
		return nil
	}
	return near
}

func (n *Near) add(bound topology.Bound, inside int) {
	if !bound.IsSet() {
		return
	}
	n.limits = append(n.limits, limit{bound, inside})
	if inside >= 0 && !n.tree.Allows(bound, inside) {
		n.Beyond = pathOf(n.tree, inside)
	}
}

// Allows says whether the limits let the pod go to a node.
func (n *Near) Allows(node string) bool {
	at := n.tree.IndexOf(node)
	if at < 0 {
		return len(n.limits) == 0
	}
	for _, l := range n.limits {
		d := n.tree.DomainOf(at)
		for d >= 0 && (!n.tree.Allows(l.bound, d) || l.inside >= 0 && !n.tree.Contains(d, l.inside)) {
			d = n.tree.Domains[d].Parent
		}
		if d < 0 {
			return false
		}
	}
	return true
}

// Nearest returns the nodes with room for the pod in the lowest domain that has any. It looks around the members next to the pod. It is nil
// for no preference.
func (p *Planner) Nearest(ctx context.Context, near *Near, nodes []fwk.NodeInfo) sets.Set[string] {
	for d := near.from; d > topology.Root; d = near.tree.Domains[d].Parent {
		problem := &Problem{Members: []*gang.Member{near.member}, Priority: near.member.Priority, Nodes: sets.New(near.tree.Names(d)...)}
		for name := range problem.Nodes {
			if !near.Allows(name) {
				problem.Nodes.Delete(name)
			}
		}
		counts := p.Count(ctx, problem, nodes, nil)
		found := sets.New[string]()
		for i, name := range counts.Nodes {
			if counts.Slots[0][i] > 0 {
				found.Insert(name)
			}
		}
		if found.Len() > 0 {
			return found
		}
	}
	return nil
}
