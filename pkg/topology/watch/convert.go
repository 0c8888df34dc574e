package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	topologyv1alpha1 "github.com/muster-sched/muster/pkg/apis/topology/v1alpha1"
	"github.com/muster-sched/muster/pkg/topology"
)

// Kinds of the objects that lists of labels come from.
const (
	NetworkTopologyKind = "NetworkTopology"
	KueueKind           = "Topology.kueue.x-k8s.io"
)

// invalidSelector is the reason of a fault that only the API's form of an object can have.
const invalidSelector = "InvalidSelector"

// FromHyperNode translates a HyperNode. A member whose selector is invalid selects nothing.
func FromHyperNode(object *topologyv1alpha1.HyperNode) (topology.HyperNode, []topology.Fault) {
	h := topology.HyperNode{
		Name: object.Name, Created: object.CreationTimestamp.Time, Tier: object.Spec.Tier, TierName: object.Spec.TierName,
		Members: make([]topology.Member, len(object.Spec.Members)),
	}
	var faults []topology.Fault
	for i := range object.Spec.Members {
		member, selector := &h.Members[i], &object.Spec.Members[i].Selector
		member.Type = topology.MemberType(object.Spec.Members[i].Type)
		if selector.ExactMatch != nil {
			member.Exact = selector.ExactMatch.Name
		}
		if selector.RegexMatch != nil {
			member.Pattern = selector.RegexMatch.Pattern
		}
		if selector.LabelMatch == nil {
			continue
		}
		var err error
		if member.Labels, err = metav1.LabelSelectorAsSelector(selector.LabelMatch); err != nil {
			member.Labels = labels.Nothing()
			faults = append(faults, wrongSelector(topology.HyperNodeKind, object.Name, fmt.Sprintf("spec.members[%d].selector.labelMatch", i), err))
		}
	}
	return h, faults
}

// FromNetworkTopology translates a NetworkTopology. One whose selector is invalid has no levels.
func FromNetworkTopology(object *musterv1alpha1.NetworkTopology) (topology.Labels, []topology.Fault) {
	list := topology.Labels{Kind: NetworkTopologyKind, Name: object.Name}
	if object.Spec.NodeSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(object.Spec.NodeSelector)
		if err != nil {
			return list, []topology.Fault{wrongSelector(list.Kind, list.Name, "spec.nodeSelector", err)}
		}
		list.Selector = selector
	}
	list.Levels = levels(object.Spec.Levels)
	return list, nil
}

func wrongSelector(kind, name, field string, err error) topology.Fault {
	return topology.Fault{
		Kind: kind, Object: name, Field: field, Reason: invalidSelector,
		Message: fmt.Sprintf("the selector is invalid, so it selects no node: %v", err), Remedy: "Correct the selector.",
	}
}

// fromKueue translates a Topology of Kueue, which has the same levels.
func fromKueue(object *unstructured.Unstructured) (topology.Labels, error) {
	var theirs musterv1alpha1.NetworkTopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &theirs); err != nil {
		return topology.Labels{}, fmt.Errorf("reading Topology %s: %w", object.GetName(), err)
	}
	return topology.Labels{Kind: KueueKind, Name: object.GetName(), Levels: levels(theirs.Spec.Levels)}, nil
}

// levels fills in the defaults. The level of the node itself is no domain.
func levels(given []musterv1alpha1.Level) []topology.Level {
	if n := len(given); n > 0 && given[n-1].NodeLabel == corev1.LabelHostname {
		given = given[:n-1]
	}
	all := make([]topology.Level, len(given))
	for i, level := range given {
		all[i] = topology.Level{Key: level.NodeLabel, TierName: level.TierName, Tier: len(given) - i}
		if level.TierName == "" {
			all[i].TierName = level.NodeLabel
		}
		if level.Tier != nil {
			all[i].Tier = *level.Tier
		}
	}
	return all
}
