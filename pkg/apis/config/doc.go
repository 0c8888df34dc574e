// Package config holds the arguments of Muster's scheduler plugins.
//
// +k8s:deepcopy-gen=package
package config
