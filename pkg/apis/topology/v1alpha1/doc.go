// Package v1alpha1 holds the API of the network's topology, group topology.volcano.sh. Its kind is HyperNode. Manifests and clients of
// Volcano work with it unchanged.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=topology.volcano.sh
package v1alpha1
