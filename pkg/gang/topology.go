package gang

import (
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/topology"
)

// Topology is how close the members of a gang must be in the network.
type Topology struct {
	// Bound of all members. It is zero if only closeness is wished for.
	Bound topology.Bound
	// Narrow is a limit that holds while the gang has waited for less than NarrowFor.
	Narrow    topology.Bound
	NarrowFor time.Duration
	// groups are the limits of groups by themselves.
	groups []topology.Bound
}

// TopologyOf is what a PodGroup says of the network, nil for nothing.
func TopologyOf(pg *schedulingv1beta1.PodGroup) *Topology {
	t := &Topology{Bound: boundOf(pg.Spec.NetworkTopology)}
	isAsked := pg.Spec.NetworkTopology != nil
	for i := range pg.Spec.SubGroupPolicy {
		if of := pg.Spec.SubGroupPolicy[i].NetworkTopology; of != nil {
			isAsked = true
			t.groups = append(t.groups, boundOf(of))
		}
	}
	narrow, err := schedulingv1beta1.ParseNarrowTopology(pg.Annotations[schedulingv1beta1.NarrowTopologyAnnotation])
	if err == nil {
		t.Narrow, t.NarrowFor = topology.Bound{Tier: narrow.Tier, TierName: narrow.TierName}, narrow.For
	}
	if !isAsked && err != nil {
		return nil
	}
	return t
}

// boundOf is the limit that must hold. A soft topology, and a hard one that names no tier, limit nothing.
func boundOf(spec *schedulingv1beta1.NetworkTopologySpec) topology.Bound {
	if spec == nil || spec.Mode == schedulingv1beta1.SoftNetworkTopologyMode {
		return topology.Bound{}
	}
	return topology.Bound{Tier: spec.HighestTierAllowed, TierName: spec.HighestTierName}
}

// BoundAt is the bound of all members when the gang has waited for some time. It stays so for still; 0 is for ever.
func (t *Topology) BoundAt(waited time.Duration) (bound topology.Bound, still time.Duration) {
	if waited < t.NarrowFor {
		return t.Narrow, t.NarrowFor - waited
	}
	return t.Bound, 0
}

// Bounds are all limits that must hold when the gang has waited for some time.
func (t *Topology) Bounds(waited time.Duration) (bounds []topology.Bound) {
	if bound, _ := t.BoundAt(waited); bound.IsSet() {
		bounds = append(bounds, bound)
	}
	for _, bound := range t.groups {
		if bound.IsSet() {
			bounds = append(bounds, bound)
		}
	}
	return bounds
}
