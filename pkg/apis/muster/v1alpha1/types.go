package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkTopology names the labels of nodes that say where in the network a node is. It stands for a HyperNode for each value of each label.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networktopologies,singular=networktopology,shortName=nettopo,scope=Cluster
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="NODES",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="VALID",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="has(self.spec)",fieldPath=".spec",reason=FieldValueRequired,message="name the labels in spec.levels"
type NetworkTopology struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which labels, of which nodes.
	// +optional
	Spec NetworkTopologySpec `json:"spec,omitempty"`
	// Status is what is known of it; muster-controller writes it.
	// +optional
	Status NetworkTopologyStatus `json:"status,omitempty"`
}

// NetworkTopologySpec says which labels name the domains of which nodes.
type NetworkTopologySpec struct {
	// NodeSelector selects nodes by their labels. Default: all nodes that have the first label of levels.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Levels are the labels, from the widest domain to the closest. Nodes are in one domain if they have the same values of its label and of
	// all labels before it. A node without a label belongs to the domain of the label before.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.map(l, l.nodeLabel).distinct().size() == self.size()",message="duplicated nodeLabel: name each label once"
	// +kubebuilder:validation:XValidation:rule="self.all(i, l, l.nodeLabel != 'kubernetes.io/hostname' || i > 0 && i == self.size() - 1 && !has(l.tier))",message="kubernetes.io/hostname stands for the node itself: leave it out, or make it the last of several levels, without a tier"
	// +kubebuilder:validation:XValidation:rule="self.all(i, l, i == 0 || l.nodeLabel == 'kubernetes.io/hostname' || has(l.tier) == has(self[0].tier) && (!has(l.tier) || l.tier < self[i-1].tier))",message="the tiers must fall from level to level: lower them, or leave tier out in all levels"
	Levels []Level `json:"levels"`
}

// Level is a label that names domains of one tier.
type Level struct {
	// NodeLabel is the key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	NodeLabel string `json:"nodeLabel"`
	// TierName names the level, for networkTopology.highestTierName. Default: the key of the label.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TierName string `json:"tierName,omitempty"`
	// Tier is the number of the level, for networkTopology.highestTierAllowed. Default: 1 for the last level, 2 for the one before it, and
	// so on. Set it in all levels where nodes of other topologies have more levels or fewer.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Tier *int `json:"tier,omitempty"`
}

// NetworkTopologyStatus is what is known of a NetworkTopology.
type NetworkTopologyStatus struct {
	// Conditions of the NetworkTopology. Valid says whether all of it is used, or what of it is left out, and how to mend that.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeCount is the number of nodes whose place it tells.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NodeCount int64 `json:"nodeCount,omitempty"`
}

// NetworkTopologyList is a list of NetworkTopologies.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type NetworkTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the NetworkTopologies.
	Items []NetworkTopology `json:"items"`
}
