package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberType says what a member of a HyperNode is.
//
// +kubebuilder:validation:Enum=Node;HyperNode
type MemberType string

// The types of members.
const (
	// MemberTypeNode: the members are nodes.
	MemberTypeNode MemberType = "Node"
	// MemberTypeHyperNode: the member is another HyperNode.
	MemberTypeHyperNode MemberType = "HyperNode"
)

// HyperNode is a set of nodes that share a switch or another fabric.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hypernodes,singular=hypernode,shortName=hn,scope=Cluster
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="Tier",type=string,JSONPath=`.spec.tier`
// +kubebuilder:printcolumn:name="TierName",type=string,JSONPath=`.spec.tierName`
// +kubebuilder:printcolumn:name="NodeCount",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.members) && self.spec.members.size() > 0",fieldPath=".spec",reason=FieldValueRequired,message="member must have at least one member: name nodes or HyperNodes in spec.members"
type HyperNode struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the HyperNode consists of.
	// +optional
	Spec HyperNodeSpec `json:"spec,omitempty"`
	// Status is what is known of it; muster-controller writes it.
	// +optional
	Status HyperNodeStatus `json:"status,omitempty"`
}

// HyperNodeSpec is what a HyperNode consists of.
type HyperNodeSpec struct {
	// Tier is the level in the network. Nodes that share a lower tier are closer to each other.
	// +kubebuilder:validation:Minimum=0
	Tier int `json:"tier"`
	// TierName names the level, for networkTopology.highestTierName.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TierName string `json:"tierName,omitempty"`
	// Members are the nodes or the HyperNodes of the tier below.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	// +optional
	Members []MemberSpec `json:"members,omitempty"`
}

// MemberSpec selects members of a HyperNode.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) && (has(self.selector.exactMatch) || has(self.selector.regexMatch) || has(self.selector.labelMatch))",fieldPath=".selector",reason=FieldValueRequired,message="Either ExactMatch or RegexMatch or LabelMatch must be specified: member selector must have one of exactMatch, regexMatch, or labelMatch"
type MemberSpec struct {
	// Type says what the members are.
	Type MemberType `json:"type"`
	// Selector says which.
	// +optional
	Selector MemberSelector `json:"selector,omitempty"`
}

// MemberSelector has one of three ways to name members. Members of type HyperNode are named by exactMatch.
//
// +kubebuilder:validation:XValidation:rule="[has(self.exactMatch), has(self.regexMatch), has(self.labelMatch)].filter(given, given).size() <= 1",message="Only one of ExactMatch, RegexMatch, or LabelMatch can be specified: cannot specify more than one selector type; remove the others"
type MemberSelector struct {
	// ExactMatch names one member.
	// +optional
	ExactMatch *ExactMatch `json:"exactMatch,omitempty"`
	// RegexMatch selects nodes by a pattern.
	// +optional
	RegexMatch *RegexMatch `json:"regexMatch,omitempty"`
	// LabelMatch selects nodes by their labels. Without a requirement it selects none.
	// +optional
	LabelMatch *metav1.LabelSelector `json:"labelMatch,omitempty"`
}

// ExactMatch names one member.
type ExactMatch struct {
	// Name of the node or HyperNode.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// RegexMatch selects nodes by a pattern.
type RegexMatch struct {
	// Pattern is a regular expression of Go. It selects a node if a part of the node's name matches. Begin it with ^
	// and end it with $ for the whole name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="''.matches(self) in [true, false]",message="member regexMatch pattern is invalid: write a regular expression as Go reads it"
	Pattern string `json:"pattern"`
}

// ConditionValid is the condition of a HyperNode and of a NetworkTopology: whether all of it is used. Its message names what is left out.
const ConditionValid = "Valid"

// HyperNodeStatus is what is known of a HyperNode.
type HyperNodeStatus struct {
	// Conditions of the HyperNode. Valid says whether all of it is used, or what of it is left out, and how to mend that.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeCount is the number of nodes below the HyperNode.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NodeCount int64 `json:"nodeCount,omitempty"`
}

// HyperNodeList is a list of HyperNodes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HyperNodeList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the HyperNodes.
	Items []HyperNode `json:"items"`
}
