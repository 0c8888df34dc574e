package gang

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
	policies  []groupPolicy
}

// groupPolicy divides members into groups.
type groupPolicy struct {
	name     string
	selector labels.Selector
	keys     []string
	bound    topology.Bound
}

// TopologyOf is what a PodGroup says of the network, nil for nothing.
func TopologyOf(pg *schedulingv1beta1.PodGroup) *Topology {
	t := &Topology{Bound: boundOf(pg.Spec.NetworkTopology)}
	for _, p := range pg.Spec.SubGroupPolicy {
		if p.NetworkTopology == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
		if err != nil {
			continue // admission refuses it
		}
		t.policies = append(t.policies, groupPolicy{name: p.Name, selector: selector, keys: p.MatchLabelKeys, bound: boundOf(p.NetworkTopology)})
	}
	narrow, err := schedulingv1beta1.ParseNarrowTopology(pg.Annotations[schedulingv1beta1.NarrowTopologyAnnotation])
	if err == nil {
		t.Narrow, t.NarrowFor = topology.Bound{Tier: narrow.Tier, TierName: narrow.TierName}, narrow.For
	}
	if pg.Spec.NetworkTopology == nil && len(t.policies) == 0 && err != nil {
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

// GroupOf is the group of a member with the bound of the group. The first policy that matches the member counts. It is "" for a member
// without a group.
func (t *Topology) GroupOf(m *Member) (name string, bound topology.Bound) {
	for i := range t.policies {
		p := &t.policies[i]
		if !p.selector.Matches(labels.Set(m.Pod.Labels)) {
			continue
		}
		parts := []string{p.name}
		for _, key := range p.keys {
			parts = append(parts, m.Pod.Labels[key])
		}
		return strings.Join(parts, "/"), p.bound
	}
	return "", topology.Bound{}
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
	for i := range t.policies {
		if t.policies[i].bound.IsSet() {
			bounds = append(bounds, t.policies[i].bound)
		}
	}
	return bounds
}
