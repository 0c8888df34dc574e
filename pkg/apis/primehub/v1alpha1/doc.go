// Package v1alpha1 holds the API of PrimeHub's job submission, group primehub.io. Its kinds are PhJob, PhSchedule, Image and InstanceType,
// with the names that PrimeHub's manifests and clients use.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=primehub.io
package v1alpha1
