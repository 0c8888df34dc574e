// Package v1alpha1 holds the kinds of group muster.sh, which Volcano has no counterpart of. Its kinds are NetworkTopology and StartReview.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=muster.sh
package v1alpha1
