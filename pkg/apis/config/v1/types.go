package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoschedulingArgs are the arguments of the Coscheduling plugin.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CoschedulingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Admission says whether gangs wait for their PodGroup to be admitted: Required (default) or Ignore.
	Admission *string `json:"admission,omitempty"`
	// PermitTimeout is how long members may hold their room while the rest of the minimum is being placed.
	// More than 0, at most 15m. Default 60s.
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`
	// PartialGangTimeout is how long a gang found bound below its minimum after a crash, which had never reached
	// it, may try to complete before it is evicted whole. More than 0. Default 60s.
	PartialGangTimeout *metav1.Duration `json:"partialGangTimeout,omitempty"`
	// InitialBackoff is how long a gang waits after its members could not be placed although the judgement said they
	// could; it doubles up to maxBackoff. More than 0. Default 1s.
	InitialBackoff *metav1.Duration `json:"initialBackoff,omitempty"`
	// MaxBackoff is the longest such wait. At least initialBackoff. Default 10s.
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`
}

// CapacityArgs are the arguments of the Capacity plugin. It has none yet.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CapacityArgs struct {
	metav1.TypeMeta `json:",inline"`
}

// TaskPriorityArgs are the arguments of the TaskPriority plugin. It has none yet.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type TaskPriorityArgs struct {
	metav1.TypeMeta `json:",inline"`
}
