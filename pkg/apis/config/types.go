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
	// RequirePodGroup has the pods of the profile wait until they have a PodGroup. muster-controller makes one for pods that name none. It
	// may differ between profiles.
	RequirePodGroup bool
	// PermitTimeout is how long members may hold their room while the next one of the minimum is being placed. It
	// begins anew with each member that is placed; no member waits for more than 15m in all.
	PermitTimeout metav1.Duration
	// PartialGangTimeout bounds the repair of a gang that a crash left bound below its minimum before it ever ran. A gang that is not
	// complete by then is evicted whole.
	PartialGangTimeout metav1.Duration
	// InitialBackoff is the pause after the members of a gang could not be placed although the decision found places. It doubles up to
	// MaxBackoff.
	InitialBackoff metav1.Duration
	// MaxBackoff is the longest back-off.
	MaxBackoff metav1.Duration
	// MaxOvertakes bounds how many starts of equal or lower priority bypass the first gang that waits for room or quota. After that, room
	// or quota that comes free is reserved for the gang. A start is that of a gang, or of a single pod. 0 sets no bound to their number.
	MaxOvertakes int32
	// MaxOvertakeTime is how long the first gang that waits for room or quota may be bypassed. After that, room or quota that comes free is
	// reserved for it. 0 sets no bound to the time.
	MaxOvertakeTime metav1.Duration
	// ReservationDepth says how many waiting gangs of each queue get a reservation with a start. The start is the earliest time at which they
	// fit, by the expected ends of what runs. Pods that end by then, or take no room that is needed then, may start before them.
	ReservationDepth int32
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

// GangPreemptionArgs are the arguments of the GangPreemption plugin: those of the upstream DefaultPreemption, and whom queues may have
// evicted.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type GangPreemptionArgs struct {
	metav1.TypeMeta

	// MinCandidateNodesPercentage is the share of the nodes, in percent, on which preemption is tried at least.
	MinCandidateNodesPercentage int32
	// MinCandidateNodesAbsolute is the number of nodes on which preemption is tried at least.
	MinCandidateNodesAbsolute int32
	// EvictOutsideQueues lets gangs and pods in a queue have pods evicted that are in no queue. These have a lower priority, and go last.
	EvictOutsideQueues bool
}
