// Package v1alpha1 holds the Command API, group bus.volcano.sh, wire-compatible with Volcano's. It also holds the events and actions that
// lifecycle policies and Commands share.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=bus.volcano.sh
package v1alpha1
