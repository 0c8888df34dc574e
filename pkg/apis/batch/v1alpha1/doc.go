// Package v1alpha1 holds the Job API, group batch.volcano.sh, wire-compatible with Volcano's.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=batch.volcano.sh
package v1alpha1
