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
	// RequirePodGroup has the pods of the profile wait until they have a PodGroup. Set it where muster-controller makes PodGroups for the
	// profile's pods (its flag --podgroup-scheduler-names). System-critical pods, mirror pods and pods of native pod groups do not wait. It
	// may differ between profiles. Default false.
	RequirePodGroup *bool `json:"requirePodGroup,omitempty"`
	// PermitTimeout is how long members may hold their room while the next one of the minimum is being placed. It
	// begins anew with each member that is placed; no member waits for more than 15m in all.
	// More than 0, at most 15m. Default 60s.
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`
	// PartialGangTimeout bounds the repair of a gang that a crash left bound below its minimum before it ever ran. A gang that is not
	// complete by then is evicted whole. More than 0. Default 60s.
	PartialGangTimeout *metav1.Duration `json:"partialGangTimeout,omitempty"`
	// InitialBackoff is the pause after the members of a gang could not be placed although the decision found places. It doubles up to
	// maxBackoff. More than 0. Default 1s.
	InitialBackoff *metav1.Duration `json:"initialBackoff,omitempty"`
	// MaxBackoff is the longest back-off. At least initialBackoff. Default 10s.
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`
	// MaxOvertakes bounds how many starts of equal or lower priority bypass the first gang that waits for room or quota. After that, room
	// or quota that comes free is reserved for the gang. A start is that of a gang, or of a single pod. 0 sets no bound to their number.
	// Not negative. Default 100.
	MaxOvertakes *int32 `json:"maxOvertakes,omitempty"`
	// MaxOvertakeTime is how long the first gang that waits for room or quota may be bypassed. After that, room or quota that comes free is
	// reserved for it. If it does not start within the same time again, other nodes are chosen. 0 sets no bound to the time. Not negative.
	// Default 10m.
	MaxOvertakeTime *metav1.Duration `json:"maxOvertakeTime,omitempty"`
	// ReservationDepth says whether the first gang of each queue that waits for room gets a reservation with a start. The start is the earliest
	// time at which the gang fits, by the expected ends of what runs. Gangs and pods that end by then, or
	// take no room that it needs then, may start before it. With 0, or where no end is known, only maxOvertakes and maxOvertakeTime protect a waiting gang. 0 or 1.
	// Default 1.
	ReservationDepth *int32 `json:"reservationDepth,omitempty"`
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

// GangPreemptionArgs are the arguments of the GangPreemption plugin: those of the upstream DefaultPreemption, and whom queues may have
// evicted. Preemption is tried on at least the larger of the two numbers of nodes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type GangPreemptionArgs struct {
	metav1.TypeMeta `json:",inline"`

	// MinCandidateNodesPercentage is the share of the nodes, in percent, on which preemption is tried at least.
	// 0 to 100. Default 10.
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage,omitempty"`
	// MinCandidateNodesAbsolute is the number of nodes on which preemption is tried at least. At least 0, and not 0 together
	// with minCandidateNodesPercentage. Default 100.
	MinCandidateNodesAbsolute *int32 `json:"minCandidateNodesAbsolute,omitempty"`
	// EvictOutsideQueues lets gangs and pods in a queue have pods evicted that are in no queue. They must have a lower priority, and they go
	// only if nothing else helps. With false they stay, whatever their priority: set it where other people's services share the cluster. If
	// one profile says false, it holds for all. Default true.
	EvictOutsideQueues *bool `json:"evictOutsideQueues,omitempty"`
}
