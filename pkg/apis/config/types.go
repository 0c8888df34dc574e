package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AdmissionMode says whether gangs wait for their PodGroup to be admitted.
type AdmissionMode string

// The admission modes.
const (
	// AdmissionRequired holds a gang while its PodGroup's phase is Pending or empty. The default.
	AdmissionRequired AdmissionMode = "Required"
	// AdmissionIgnore schedules gangs whatever the phase: for clusters where no muster-controller runs.
	AdmissionIgnore AdmissionMode = "Ignore"
)

// CoschedulingArgs are the arguments of the Coscheduling plugin.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CoschedulingArgs struct {
	metav1.TypeMeta

	// Admission says whether gangs wait for their PodGroup to be admitted.
	Admission AdmissionMode
	// PermitTimeout is how long members may hold their room while the rest of the minimum is being placed.
	PermitTimeout metav1.Duration
	// PartialGangTimeout is how long a gang found bound below its minimum after a crash, which had never reached
	// it, may try to complete before it is evicted whole.
	PartialGangTimeout metav1.Duration
	// InitialBackoff is how long a gang waits after its members could not be placed although the judgement said they
	// could; it doubles up to MaxBackoff.
	InitialBackoff metav1.Duration
	// MaxBackoff is the longest such wait.
	MaxBackoff metav1.Duration
}

// CapacityArgs are the arguments of the Capacity plugin.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CapacityArgs struct {
	metav1.TypeMeta
}

// TaskPriorityArgs are the arguments of the TaskPriority plugin.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type TaskPriorityArgs struct {
	metav1.TypeMeta
}
