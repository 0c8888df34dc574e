// Package v1beta1 holds the PodGroup and Queue APIs, group scheduling.volcano.sh, wire-compatible with
// Volcano's.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=scheduling.volcano.sh
package v1beta1
