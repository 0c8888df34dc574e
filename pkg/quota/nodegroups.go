package quota

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// NodeGroupPlugin is the name of the scheduler plugin that asks NodeGroups. Its answers depend on a pod's queue and a node's label only.
const NodeGroupPlugin = "NodeGroup"

// NodeGroups are the groups of nodes that a queue names.
type NodeGroups struct {
	queue                                   string
	required, forbidden, preferred, avoided []string
}

// NodeGroupsOf are the node groups of a queue; nil if it names none.
func NodeGroupsOf(queue *schedulingv1beta1.Queue) *NodeGroups {
	affinity := queue.Spec.Affinity
	if affinity == nil {
		return nil
	}
	g := &NodeGroups{queue: queue.Name}
	if to := affinity.NodeGroupAffinity; to != nil {
		g.required, g.preferred = to.RequiredDuringSchedulingIgnoredDuringExecution, to.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if from := affinity.NodeGroupAntiAffinity; from != nil {
		g.forbidden, g.avoided = from.RequiredDuringSchedulingIgnoredDuringExecution, from.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if len(g.required)+len(g.forbidden)+len(g.preferred)+len(g.avoided) == 0 {
		return nil
	}
	return g
}

// Equal says whether two queues name the same groups. Either may be nil.
func (g *NodeGroups) Equal(other *NodeGroups) bool {
	if g == nil || other == nil {
		return g == other
	}
	return slices.Equal(g.required, other.required) && slices.Equal(g.forbidden, other.forbidden) &&
		slices.Equal(g.preferred, other.preferred) && slices.Equal(g.avoided, other.avoided)
}

// NodeGroupPath has the node groups of a queue and of its ancestors, the queue first. Queues that name none are left out.
type NodeGroupPath []*NodeGroups

// Refuses says why no pod of the queue may go to the nodes of a group; "" if it may. Each queue of the path can refuse, so a child cannot
// leave the groups of its parent. A node without a group has the name "".
func (p NodeGroupPath) Refuses(group string) string {
	for _, g := range p {
		switch {
		case slices.Contains(g.forbidden, group):
			return fmt.Sprintf("node(s) are in a node group that queue %q keeps off (%s)", g.queue, namesOf(g.forbidden))
		case len(g.required) > 0 && !slices.Contains(g.required, group):
			return fmt.Sprintf("node(s) are not in the node groups of queue %q (%s)", g.queue, namesOf(g.required))
		}
	}
	return ""
}

// HasPreferences says whether Prefers may differ between nodes.
func (p NodeGroupPath) HasPreferences() bool { return p.preferring() != nil }

// Prefers is 1 for a preferred group, -1 for one that comes last, and 0 for all others. The nearest queue of the path that has preferences
// decides.
func (p NodeGroupPath) Prefers(group string) int64 {
	g := p.preferring()
	switch {
	case g == nil:
	case slices.Contains(g.avoided, group):
		return -1
	case slices.Contains(g.preferred, group):
		return 1
	}
	return 0
}

func (p NodeGroupPath) preferring() *NodeGroups {
	if i := slices.IndexFunc(p, func(g *NodeGroups) bool { return len(g.preferred)+len(g.avoided) > 0 }); i >= 0 {
		return p[i]
	}
	return nil
}

// String is equal for paths that treat nodes alike.
func (p NodeGroupPath) String() string {
	var text strings.Builder
	for _, g := range p {
		fmt.Fprintf(&text, "%q %q %q %q %q\n", g.queue, g.required, g.forbidden, g.preferred, g.avoided)
	}
	return text.String()
}

// mostNamed is how many groups a message names.
const mostNamed = 3

func namesOf(groups []string) string {
	if more := len(groups) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(groups[:mostNamed], ", "), more)
	}
	return strings.Join(groups, ", ")
}
