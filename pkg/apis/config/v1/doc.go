// Package v1 is how the arguments of Muster's scheduler plugins are written in a KubeSchedulerConfiguration.
//
// +k8s:deepcopy-gen=package
package v1
