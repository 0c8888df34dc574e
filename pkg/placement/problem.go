package placement

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/topology"
)

// Problem is a gang to be placed, with the room that other gangs hold. It does not change while it is solved.
type Problem struct {
	// Members are the pods that start together: the minimum, at least one.
	Members []*gang.Member
	// Nodes are the only nodes that the members may go to, nil for all.
	Nodes sets.Set[string]
	// Topology is how close the members must be in the network, nil if that does not matter.
	Topology *Topology
	// Cycle is the state of a cycle of the only member in which PreFilter has run; nil for others.
	Cycle fwk.CycleState
	// Spare are the members that wait and need not start.
	Spare []*gang.Member
	// Choose returns the members that start if only the given ones wait. It is nil if these are too few, or if the queue has no quota for
	// them.
	Choose func(waiting []*gang.Member) []*gang.Member
	// SameGang says whether a pod on a node is of this gang; nil if none is.
	SameGang func(*corev1.Pod) bool
	// InGang says whether a pod on a node is of any gang, which ends with its job. It is nil if none is. A reservation waits for other pods that
	// are always restarted only if there is no other way.
	InGang func(*corev1.Pod) bool
	// OwnQueue says whether a pod on a node is of the gang's own queue; nil if none is. A reservation waits for these pods only if there is no
	// other way.
	OwnQueue func(*corev1.Pod) bool
	// Priority of the gang.
	Priority int32
	// Held is, for each node, what is assumed by other gangs' attempts and reserved against this gang.
	Held map[string]resources.List
	// Kept are reservations of other gangs that have a start, and hold against this gang.
	Kept []Kept
	// HeldByReservation says that part of Held is a reservation of another gang, or that there are Kept ones.
	HeldByReservation bool
	// EndOf says when a pod on a node is expected to end. It is false if that is not known. Places to reserve have a start where that is known. It is
	// nil if nothing is known of any.
	EndOf func(*corev1.Pod) (end time.Time, known bool)
	// Quota is made anew for each search of a start. It is nil for a gang that has quota now.
	Quota func() Quota
	// Now is the time of the problem.
	Now time.Time
	// OnlyWithStart asks for places to reserve only if their start is known.
	OnlyWithStart bool
	// NoStart asks for places to reserve as if the end of nothing were known.
	NoStart bool
	// Exact: the members must go exactly where the decision says. The last time they went to other nodes and failed.
	Exact bool
	// Reserved are the places that are reserved for the gang already, nil if there are none.
	Reserved map[types.UID]string
	// Reserve asks for places to reserve if the gang does not fit.
	Reserve bool
	// Renew: the reserved places have not come free in time; other places are chosen.
	Renew bool
	// Avoid are nodes whose room has not come free in time before.
	Avoid sets.Set[string]
	// NoPlaces: no places could be reserved, not even if all pods of the gang's priority and below had ended.
	NoPlaces bool
}

// Quota counts the quota that comes free for a gang that lacks it now.
type Quota interface {
	// Pods lists the pods that use quota.
	Pods() []types.UID
	// End counts what a pod uses as given back.
	End(pod types.UID)
	// Suffices says whether the gang has quota then.
	Suffices() bool
	// IsOwn says whether only the gang's own queue uses what it lacks.
	IsOwn() bool
}

// Kept is a reservation of another gang that has a start.
type Kept struct {
	// Amounts is the reserved room on each node.
	Amounts map[string]resources.List
	// On is what is kept on a node now. ending is what runs there and ends by a time.
	On func(node string, ending func(by time.Time) resources.List) resources.List
	// Until is when its gang will have ended; zero for never.
	Until time.Time
}

// Topology is how close the members of a gang must be in the network.
type Topology struct {
	// Tree of the domains.
	Tree *topology.Tree
	// Bound of the whole gang.
	Bound topology.Bound
	// Note is added to the reason why no domain holds the gang.
	Note string
	// Holding are the members that hold room already, and their nodes.
	Holding map[*gang.Member]string
	// GroupOf is the group of a member, with the bound of the group. It is "" for a member without one.
	GroupOf func(*gang.Member) (name string, bound topology.Bound)
}

// within are those of some nodes that the members may go to.
func (p *Problem) within(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	if p.Nodes == nil {
		return nodes
	}
	var some []fwk.NodeInfo
	for _, node := range nodes {
		if p.Nodes.Has(node.Node().Name) {
			some = append(some, node)
		}
	}
	return some
}

// on is the view of the members on some nodes.
func (p *Problem) on(ctx context.Context, profile Profile, m *members, nodes []fwk.NodeInfo) *view {
	v := p.among(ctx, profile, m, nodes)
	v.grow(len(nodes))
	for _, node := range nodes {
		v.add(node)
	}
	return v
}

// among is the view of the members on some nodes, of which none has been added yet.
func (p *Problem) among(ctx context.Context, profile Profile, m *members, nodes []fwk.NodeInfo) *view {
	v := newView(ctx, profile, m, nodes, p.heldOn, p.leavesRoomTo)
	if p.Cycle != nil {
		v.filters[0] = &filterState{cycle: p.Cycle.Clone()}
	}
	return v
}

// heldOn is what is assumed by other gangs on a node, and what is kept there for others.
func (p *Problem) heldOn(node fwk.NodeInfo) resources.List {
	name := node.Node().Name
	held, used := p.Held[name], resources.List{}
	for _, kept := range p.Kept {
		amounts := kept.Amounts[name]
		if len(amounts) == 0 {
			continue
		}
		ending := EndingOn(node, slices.Collect(maps.Keys(amounts)), p.EndOf)
		own := kept.On(name, func(by time.Time) resources.List {
			left := ending(by)
			left.Sub(used)
			return left
		})
		held = held.Clone()
		held.Add(own)
		used.Add(amounts) // what comes free does so for one of them
		used.Sub(own)
	}
	return held
}

// EndingOn is what pods free on a node that are expected to end by a time.
func EndingOn(node fwk.NodeInfo, names []corev1.ResourceName, endOf func(*corev1.Pod) (time.Time, bool)) func(by time.Time) resources.List {
	return func(by time.Time) resources.List {
		frees := resources.List{}
		for _, pod := range node.GetPods() {
			if end, known := endOf(pod.GetPod()); known && !end.After(by) {
				frees.Add(freedBy(pod, names))
			}
		}
		return frees
	}
}

// leavesRoomTo says whether the gang must leave room to a pod that is nominated to a node.
func (p *Problem) leavesRoomTo(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) >= p.Priority && (p.SameGang == nil || !p.SameGang(pod))
}
