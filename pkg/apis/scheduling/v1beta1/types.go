package v1beta1

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupPhase says where a PodGroup is in its life.
//
// +kubebuilder:validation:Enum="";Pending;Running;Unknown;Inqueue;Completed
type PodGroupPhase string

// The phases of a PodGroup. The empty phase means Pending.
const (
	// PodGroupPending means that the PodGroup waits to be admitted by its Queue. Where a Job's pods are there, it is admitted,
	// and that is written down later.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupInqueue means that the PodGroup is admitted: its pods may be created and wait for room.
	PodGroupInqueue PodGroupPhase = "Inqueue"
	// PodGroupRunning means that at least spec.minMember members are bound.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupUnknown means that some members run and the rest of the minimum cannot be scheduled.
	PodGroupUnknown PodGroupPhase = "Unknown"
	// PodGroupCompleted means that at least spec.minMember members were bound, and all of these have finished.
	PodGroupCompleted PodGroupPhase = "Completed"
)

// PodGroupConditionType is the type of a PodGroup's condition.
type PodGroupConditionType string

// The conditions of a PodGroup. The one with the latest transition is current; a status never becomes False.
const (
	// PodGroupUnschedulableType says that the gang waits, and why.
	PodGroupUnschedulableType PodGroupConditionType = "Unschedulable"
	// PodGroupScheduled says that the gang's minimum is bound.
	PodGroupScheduled PodGroupConditionType = "Scheduled"
)

// Reasons of PodGroup conditions and events.
const (
	// NotEnoughResourcesReason: the gang does not fit, or may not start yet.
	NotEnoughResourcesReason = "NotEnoughResources"
	// QuotaExceededReason: the Queue, an ancestor of it or its user has no quota left for the minimum.
	QuotaExceededReason = "QuotaExceeded"
	// WaitingForQuotaReason is the reason of a member's condition PodScheduled for the same.
	WaitingForQuotaReason = "WaitingForQuota"
	// NotSupportedReason: the PodGroup asks for something that Muster does not have yet. The message names the field.
	NotSupportedReason = "NotSupported"
	// NotEnoughPodsReason: fewer members exist than the minimum asks for.
	NotEnoughPodsReason = "NotEnoughTasks"
	// NotEnoughPodsOfTaskReason: fewer members of a task exist than its minimum asks for.
	NotEnoughPodsOfTaskReason = "NotEnoughPodsOfTask"
	// PodGroupReadyReason: the minimum is bound.
	PodGroupReadyReason = "tasks in gang are ready to be scheduled"
)

// PodGroupCondition is one observation about a PodGroup.
type PodGroupCondition struct {
	// Type of the condition.
	// +optional
	Type PodGroupConditionType `json:"type,omitempty"`
	// Status of the condition.
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`
	// TransitionID identifies the decision that set the condition.
	// +optional
	TransitionID string `json:"transitionID,omitempty"`
	// LastTransitionTime is when the condition became current.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is a one-word reason for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the explanation for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// NetworkTopologyMode says how binding a topology constraint is.
//
// +kubebuilder:validation:Enum=hard;soft
type NetworkTopologyMode string

// The modes of a network topology constraint.
const (
	// HardNetworkTopologyMode: the constraint must hold.
	HardNetworkTopologyMode NetworkTopologyMode = "hard"
	// SoftNetworkTopologyMode: the constraint should hold.
	SoftNetworkTopologyMode NetworkTopologyMode = "soft"
)

// NetworkTopologySpec asks for members to be near each other in the network.
type NetworkTopologySpec struct {
	// Mode says whether the constraint must hold (hard) or should (soft).
	// +kubebuilder:default=hard
	// +optional
	Mode NetworkTopologyMode `json:"mode,omitempty"`
	// HighestTierAllowed is the highest network tier that members may span. A lower tier is closer.
	// +kubebuilder:validation:Minimum=0
	// +optional
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`
	// HighestTierName names the highest network tier that members may span; not together with highestTierAllowed.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HighestTierName string `json:"highestTierName,omitempty"`
}

// SubGroupPolicySpec divides the members of a PodGroup into sub groups, each a small gang of its own.
//
// +kubebuilder:validation:XValidation:rule="!has(self.networkTopology) || !(has(self.networkTopology.highestTierAllowed) && has(self.networkTopology.highestTierName))",fieldPath=".networkTopology",messageExpression="\"in subGroupPolicy '\" + (has(self.name) ? self.name : \"\") + \"': must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously; remove one\"",message="in subGroupPolicy: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: remove one"
type SubGroupPolicySpec struct {
	// Name of the policy.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// NetworkTopology asks for the members of each sub group to be near each other.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
	// SubGroupSize is the number of members of each sub group. A sub group starts with so many members, or not at all.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	SubGroupSize *int32 `json:"subGroupSize,omitempty"`
	// MinSubGroups is the number of sub groups that must start together.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinSubGroups *int32 `json:"minSubGroups,omitempty"`
	// LabelSelector selects the members that the policy is for.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// MatchLabelKeys are the labels whose values tell the sub groups apart. Without any, all members of the policy are one sub group. A member that
	// lacks one of the labels has no sub group.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +optional
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
}

// PodGroupSpec is what the members of a PodGroup need.
type PodGroupSpec struct {
	// MinMember is the number of members that start together, or not at all.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinMember int32 `json:"minMember,omitempty"`
	// MinTaskMember is, per task (annotation volcano.sh/task-spec), the number of members that the minimum must include. It binds only if
	// minMember is at least the sum of its values.
	// +kubebuilder:validation:MaxProperties=1000
	// +optional
	MinTaskMember map[string]int32 `json:"minTaskMember,omitempty"`
	// Queue whose quota the members use.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	Queue string `json:"queue,omitempty"`
	// PriorityClassName names the PriorityClass that orders the gang among other gangs. Once the gang has pods, its priority is never higher
	// than the highest of its pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// MinResources is what the minimum needs in all; the PodGroup is admitted when its Queue has room for it.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	MinResources *corev1.ResourceList `json:"minResources,omitempty"`
	// NetworkTopology asks for members to be near each other in the network.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
	// SubGroupPolicy divides the members into sub groups. The first policy that selects a member counts. The minimums of sub groups belong to the
	// minimum of the gang.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	SubGroupPolicy []SubGroupPolicySpec `json:"subGroupPolicy,omitempty"`
}

// Minimum is the number of members that start together. It is minMember, or more if the least sub groups need more.
func (s *PodGroupSpec) Minimum() int32 {
	inGroups := int64(0)
	for i := range s.SubGroupPolicy {
		p := &s.SubGroupPolicy[i]
		if p.MinSubGroups != nil {
			size := int64(1)
			if p.SubGroupSize != nil {
				size = max(1, int64(*p.SubGroupSize))
			}
			inGroups = min(math.MaxInt32, inGroups+min(math.MaxInt32, size*int64(*p.MinSubGroups)))
		}
	}
	return max(s.MinMember, int32(inGroups))
}

// PodGroupStatus is what is known of a PodGroup.
type PodGroupStatus struct {
	// Phase of the PodGroup; empty means Pending.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`
	// Conditions, one of a type. The one with the latest transition is current.
	// +listType=atomic
	// +optional
	Conditions []PodGroupCondition `json:"conditions,omitempty"`
	// Running is the number of running members.
	// +optional
	Running int32 `json:"running"`
	// JobVersion is the incarnation of the Job's pods, as in their annotation volcano.sh/job-version. The fields running, succeeded and
	// failed and the condition Scheduled count only this incarnation. Unset where there is no Job, or where an older release wrote the
	// status.
	// +optional
	JobVersion *int32 `json:"jobVersion,omitempty"`
	// Succeeded is the number of members that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Failed is the number of members that have failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Reserved is what the Queue keeps for the members of a started gang, with what they use. It is set if spec.minResources exceed the
	// requests of the members that have started. It is unset when members have used all of it, or none was bound for the hold timeout.
	// +optional
	Reserved corev1.ResourceList `json:"reserved,omitempty"`
	// Place is where the PodGroup waits in its Queue, and what the Queue lacks. It is set after some seconds of waiting, and unset at
	// the start. It names no other PodGroup and no other namespace.
	// +optional
	Place *PodGroupPlace `json:"place,omitempty"`
	// Estimate is how long the PodGroup is expected to run. It plans the starts of others. Nothing is ended for it.
	// +optional
	Estimate *PodGroupEstimate `json:"estimate,omitempty"`
	// Plan is when the PodGroup is expected to start, as muster-scheduler has found. It is set after some seconds of waiting, and unset at the
	// start.
	// +optional
	Plan *PodGroupPlan `json:"plan,omitempty"`
}

// PodGroupPlan is when a PodGroup that waits is expected to start. It is no promise.
type PodGroupPlan struct {
	// Position among all gangs that wait: 1 is the first.
	Position int32 `json:"position"`
	// ExpectedStart is absent if no start is known. The message says why.
	// +optional
	ExpectedStart *ExpectedStart `json:"expectedStart,omitempty"`
	// WaitsFor names Jobs, PodGroups or pods of its namespace that have to end before: five at most.
	// +listType=atomic
	// +optional
	WaitsFor []string `json:"waitsFor,omitempty"`
	// WaitsForOthers is the number of others that have to end before, of any namespace.
	// +optional
	WaitsForOthers int32 `json:"waitsForOthers,omitempty"`
	// Message is the plan in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// ComputedAt is when the plan was made.
	ComputedAt metav1.Time `json:"computedAt"`
}

// ExpectedStart is a start with its range. The start is expected to be in the range in about 80 % of cases.
type ExpectedStart struct {
	// At is when the PodGroup starts if all runs take as long as they are expected to.
	At metav1.Time `json:"at"`
	// Earliest is the beginning of the range.
	Earliest metav1.Time `json:"earliest"`
	// Latest is the end of the range.
	Latest metav1.Time `json:"latest"`
}

// EstimateSource says where an estimate of a run time comes from.
//
// +kubebuilder:validation:Enum=User;History;Limit;Queue
type EstimateSource string

// The sources, the first that is known counts.
const (
	// EstimateFromUser: the user says so, in spec.runningEstimate of the Job, or in the annotation muster.sh/running-estimate.
	EstimateFromUser EstimateSource = "User"
	// EstimateFromHistory: the last runs of the same user, queue and kind took so long.
	EstimateFromHistory EstimateSource = "History"
	// EstimateFromLimit: it is ended then, by activeDeadlineSeconds.
	EstimateFromLimit EstimateSource = "Limit"
	// EstimateFromQueue: the Queue has spec.muster.defaultRuntime.
	EstimateFromQueue EstimateSource = "Queue"
)

// PodGroupEstimate is how long a PodGroup is expected to run, as muster-controller has found.
type PodGroupEstimate struct {
	// Runtime is how long the PodGroup is expected to run, from the time when its minimum has nodes. It is absent if that is not known.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+([mnuµμ]?s|m|h))+)$') && duration(self) <= duration('2562047h47m16.854775807s')",message="invalid duration: use a Go duration like 90s, 5m or 1h30m"
	// +optional
	Runtime *metav1.Duration `json:"runtime,omitempty"`
	// Source of the runtime: User, History, Limit or Queue.
	// +optional
	Source EstimateSource `json:"source,omitempty"`
	// Limit is after how long the PodGroup is ended. Absent means never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+([mnuµμ]?s|m|h))+)$') && duration(self) <= duration('2562047h47m16.854775807s')",message="invalid duration: use a Go duration like 90s, 5m or 1h30m"
	// +optional
	Limit *metav1.Duration `json:"limit,omitempty"`
	// Message says what the estimate is made of, and what is wrong with the word of the user.
	// +optional
	Message string `json:"message,omitempty"`
}

// PodGroupPlace is where a PodGroup waits, as muster-controller found it at a time.
type PodGroupPlace struct {
	// Position among the PodGroups of the Queue that wait: 1 is the first. From 11 on it is rounded up to 20, 50, 100, 200, 500 and so on.
	Position int32 `json:"position"`
	// Short is the limit that leaves too little for the minimum. It is absent if quota suffices.
	// +optional
	Short *QuotaShortage `json:"short,omitempty"`
	// Shares has the share of the Queue, for each resource that the minimum lacks and that is shared out.
	// +listType=map
	// +listMapKey=resource
	// +optional
	Shares []ShareOfQueue `json:"shares,omitempty"`
	// FoundAt is when the amounts were found.
	FoundAt metav1.Time `json:"foundAt"`
}

// QuotaShortage says which limit is short, and by how much.
type QuotaShortage struct {
	// Queue with the limit: that of the PodGroup, or an ancestor.
	Queue string `json:"queue"`
	// User whose quota in the Queue is short; absent if it is the Queue's own limit.
	// +optional
	User string `json:"user,omitempty"`
	// Resource that is short.
	Resource corev1.ResourceName `json:"resource"`
	// Limit is the most that may be used.
	Limit resource.Quantity `json:"limit"`
	// Free is what is left of the limit.
	Free resource.Quantity `json:"free"`
	// Asked is what the minimum lacks.
	Asked resource.Quantity `json:"asked"`
	// Missing is how much has to come free.
	Missing resource.Quantity `json:"missing"`
}

// ShareOfQueue compares what a Queue and its children use with their share, for one resource.
type ShareOfQueue struct {
	// Resource that is shared.
	Resource corev1.ResourceName `json:"resource"`
	// Used is what the bound pods of the Queue request.
	Used resource.Quantity `json:"used"`
	// Share is what the Queue deserves at present.
	Share resource.Quantity `json:"share"`
	// BorrowedByOthers is what all other Queues use beyond their shares, in sum.
	BorrowedByOthers resource.Quantity `json:"borrowedByOthers"`
}

// PodGroup is a gang: a set of pods of which at least spec.minMember start together, or none does.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podgroups,singular=podgroup,shortName=pg;podgroup-v1beta1
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="minMember",type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name="RUNNINGS",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="QUEUE",type=string,JSONPath=`.spec.queue`
// +kubebuilder:printcolumn:name="START",type=string,JSONPath=`.status.plan.expectedStart.at`
// +kubebuilder:selectablefield:JSONPath=`.spec.queue`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.networkTopology) || !(has(self.spec.networkTopology.highestTierAllowed) && has(self.spec.networkTopology.highestTierName))",fieldPath=".spec.networkTopology",message="must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: remove one"
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the members need.
	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`
	// Status is what is known of the PodGroup; the podgroup controller writes it, and muster-scheduler its plan.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList is a list of PodGroups.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the PodGroups.
	Items []PodGroup `json:"items"`
}

// QueueState says whether a Queue takes work.
//
// +kubebuilder:validation:Enum="";Open;Closed;Closing;Unknown
type QueueState string

// The states of a Queue.
const (
	// QueueStateOpen: the Queue takes work.
	QueueStateOpen QueueState = "Open"
	// QueueStateClosed: the Queue takes no work and holds none.
	QueueStateClosed QueueState = "Closed"
	// QueueStateClosing: the Queue takes no work and still holds some.
	QueueStateClosing QueueState = "Closing"
	// QueueStateUnknown: the state cannot be told.
	QueueStateUnknown QueueState = "Unknown"
)

// DequeueStrategy says what a waiting PodGroup means for the PodGroups behind it.
//
// +kubebuilder:validation:Enum=traverse;fifo
type DequeueStrategy string

// The dequeue strategies.
const (
	// DequeueStrategyTraverse: a blocked PodGroup is skipped, so the PodGroups behind it may go first.
	DequeueStrategyTraverse DequeueStrategy = "traverse"
	// DequeueStrategyFIFO: a blocked PodGroup holds the line.
	DequeueStrategyFIFO DequeueStrategy = "fifo"
)

// Cluster is a member cluster that a Queue may extend to.
type Cluster struct {
	// Name of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// Weight of the cluster among the Queue's clusters.
	// +optional
	Weight int32 `json:"weight,omitempty"`
	// Capacity of the cluster.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
}

// Guarantee is what other Queues never take from a Queue, and never borrow.
type Guarantee struct {
	// Resource is the guaranteed amount.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Resource corev1.ResourceList `json:"resource,omitempty"`
}

// Affinity ties a Queue to groups of nodes.
type Affinity struct {
	// NodeGroupAffinity names the node groups that the pods of the Queue, and of the Queues below it, go to. A node's label
	// volcano.sh/nodegroup-name names its group.
	// +optional
	NodeGroupAffinity *NodeGroupAffinity `json:"nodeGroupAffinity,omitempty"`
	// NodeGroupAntiAffinity names the node groups that the Queue's pods stay away from.
	// +optional
	NodeGroupAntiAffinity *NodeGroupAntiAffinity `json:"nodeGroupAntiAffinity,omitempty"`
}

// NodeGroupAffinity names node groups to go to.
type NodeGroupAffinity struct {
	// RequiredDuringSchedulingIgnoredDuringExecution lists the node groups that pods must go to.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	RequiredDuringSchedulingIgnoredDuringExecution []string `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// PreferredDuringSchedulingIgnoredDuringExecution lists the node groups that pods should go to.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	PreferredDuringSchedulingIgnoredDuringExecution []string `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeGroupAntiAffinity names node groups to stay away from.
type NodeGroupAntiAffinity struct {
	// RequiredDuringSchedulingIgnoredDuringExecution lists the node groups that pods must not go to.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	RequiredDuringSchedulingIgnoredDuringExecution []string `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// PreferredDuringSchedulingIgnoredDuringExecution lists the node groups that pods should not go to.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	PreferredDuringSchedulingIgnoredDuringExecution []string `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// QueueSpec is what a Queue may use.
type QueueSpec struct {
	// Weight of the Queue among its siblings where the cluster is shared by weight.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Weight int32 `json:"weight,omitempty"`
	// Capability is the hard limit of what the Queue and its children use together. A resource that is not named
	// is not limited.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Capability corev1.ResourceList `json:"capability,omitempty"`
	// Reclaimable is true if other Queues may take back resources that this one uses beyond its share. It also says whether pods are
	// evicted when the Queue's capability is lowered. Default true.
	// +optional
	Reclaimable *bool `json:"reclaimable,omitempty"`
	// ExtendClusters are clusters that the Queue's Jobs may be forwarded to in Volcano. They have no effect.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	ExtendClusters []Cluster `json:"extendClusters,omitempty"`
	// Guarantee is what other Queues never take from this one.
	// +optional
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Affinity ties the Queue to groups of nodes.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// Type of the Queue. It has no effect.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Type string `json:"type,omitempty"`
	// Parent of the Queue; root when empty.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	Parent string `json:"parent,omitempty"`
	// Deserved is the Queue's share: it may use more while other Queues do not need it.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Deserved corev1.ResourceList `json:"deserved,omitempty"`
	// Priority of the Queue among its siblings; higher goes first.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// DequeueStrategy says what a waiting PodGroup means for the PodGroups behind it.
	// +kubebuilder:default=traverse
	// +optional
	DequeueStrategy DequeueStrategy `json:"dequeueStrategy,omitempty"`
	// Muster holds what Volcano's Queues do not have. It is one field, so that a typed Volcano client that updates a Queue drops this field
	// only.
	// +optional
	Muster *QueueExtension `json:"muster,omitempty"`
}

// QueueExtension is what a Queue of Muster says beyond a Queue of Volcano.
type QueueExtension struct {
	// UserQuota limits what each user has of the Queue. A user is the value of the label muster.sh/user of Jobs, PodGroups and pods. An
	// object without the label is not limited by it.
	// +optional
	UserQuota *UserQuota `json:"userQuota,omitempty"`
	// MaxRunningJobs is how many PodGroups of the Queue and its children may be admitted and unfinished at the same time. Absent means
	// any number.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRunningJobs *int32 `json:"maxRunningJobs,omitempty"`
	// MinRuntime is a duration like "10m". A pod of the Queue may be evicted for other pods only after running so long. Absent means no
	// minimum. It does not hold for pods of the Queue's children: each Queue says its own.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="minRuntime is from 0s to 8760h"
	// +kubebuilder:validation:MaxLength=64
	// +optional
	MinRuntime *metav1.Duration `json:"minRuntime,omitempty"`
	// PreemptionDelay is a duration like "30s". Pods are evicted for a gang of the Queue only after it has been unschedulable so long.
	// Absent means that nothing waits. It does not hold for gangs of the Queue's children: each Queue says its own.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="preemptionDelay is from 0s to 8760h"
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PreemptionDelay *metav1.Duration `json:"preemptionDelay,omitempty"`
	// DefaultRuntime is a duration like "2h". A PodGroup of the Queue is expected to run so long if nothing better is known. It is no limit. It
	// does not hold for PodGroups of the Queue's children: each Queue says its own.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="defaultRuntime is above 0s and at most 8760h"
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DefaultRuntime *metav1.Duration `json:"defaultRuntime,omitempty"`
}

// UserQuota limits what each user has of a Queue.
type UserQuota struct {
	// Default is the limit of each user who is not listed in users. A resource that it does not name is not limited.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Default corev1.ResourceList `json:"default,omitempty"`
	// Users have limits of their own, in place of the default.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Users []NamedQuota `json:"users,omitempty"`
}

// NamedQuota is the limit of one user.
type NamedQuota struct {
	// Name of the user: a value of the label muster.sh/user.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Quota is what the user has at most. A resource that it does not name is not limited.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`
}

// Reservation is what is set aside for a Queue.
type Reservation struct {
	// Nodes that are set aside.
	// +listType=atomic
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// Resource that is set aside.
	// +optional
	Resource corev1.ResourceList `json:"resource,omitempty"`
}

// QueueStatus is what is known of a Queue.
type QueueStatus struct {
	// State says whether the Queue takes work.
	// +optional
	State QueueState `json:"state,omitempty"`
	// Unknown is the number of PodGroups in phase Unknown.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
	// Pending is the number of PodGroups in phase Pending.
	// +optional
	Pending int32 `json:"pending"`
	// Running is the number of PodGroups in phase Running.
	// +optional
	Running int32 `json:"running"`
	// Inqueue is the number of PodGroups in phase Inqueue.
	// +optional
	Inqueue int32 `json:"inqueue"`
	// Completed is the number of PodGroups in phase Completed.
	// +optional
	Completed int32 `json:"completed,omitempty"`
	// Reservation is what is kept for PodGroups of the Queue and its children that are admitted. It is for their minimums, and for
	// further members that their minResources include.
	// +optional
	Reservation Reservation `json:"reservation,omitempty"`
	// Allocated is what the Queue's bound pods request, children included.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`
	// Conditions of the Queue. Valid says whether its numbers and its parent count as they are written.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Muster holds what the status of Volcano's Queues does not have.
	// +optional
	Muster *QueueStatusExtension `json:"muster,omitempty"`
}

// QueueValidCondition is the condition type that is False while the Queue's spec is invalid. The last valid spec counts then.
const QueueValidCondition = "Valid"

// QueueStatusExtension is what is known of a Queue of Muster beyond what is known of a Queue of Volcano.
type QueueStatusExtension struct {
	// LastValid are the terms that counted last. They still count while the condition Valid is False.
	// +optional
	LastValid *QueueTerms `json:"lastValid,omitempty"`
	// Running is the number of PodGroups that run, those of the Queue's children included. It counts the phases Running and Unknown.
	// +optional
	Running int32 `json:"running"`
	// Waiting is the number of PodGroups that have not started, those of the Queue's children included. It counts the phases Pending
	// and Inqueue.
	// +optional
	Waiting int32 `json:"waiting"`
	// Figures are the amounts of the resource that is nearest to its limit, for tables.
	// +optional
	Figures *QueueFigures `json:"figures,omitempty"`
	// Deserved is the Queue's present share, computed from the spec and the demand of all Queues. It is computed every 5 seconds.
	// +optional
	Deserved corev1.ResourceList `json:"deserved,omitempty"`
	// Users are the users that use most of the Queue, at most 20, by name.
	// +listType=map
	// +listMapKey=name
	// +optional
	Users []UserUsage `json:"users,omitempty"`
	// OtherUsers is how many more users have pods in the Queue.
	// +optional
	OtherUsers int32 `json:"otherUsers,omitempty"`
}

// QueueFigures are the amounts of one resource of a Queue, children included. It is the resource that is nearest to its limit. Without
// a limit it is the one of which the Queue has the largest part of the cluster.
type QueueFigures struct {
	// Used is what the bound pods request, and the limit, like "cpu 12/16". The limit is the capability of the Queue, or that of the
	// nearest ancestor that names the resource. Without a limit it is the amount alone.
	// +optional
	Used string `json:"used,omitempty"`
	// Reserved is what is kept for admitted PodGroups, beside what is used.
	// +optional
	Reserved string `json:"reserved,omitempty"`
	// Share is the present share of the Queue.
	// +optional
	Share string `json:"share,omitempty"`
	// Guarantee is what other Queues never take.
	// +optional
	Guarantee string `json:"guarantee,omitempty"`
	// Borrowed is what is used beyond the share.
	// +optional
	Borrowed string `json:"borrowed,omitempty"`
}

// UserUsage is what a user has of a Queue.
type UserUsage struct {
	// Name of the user: the value of the label muster.sh/user.
	Name string `json:"name"`
	// Allocated is what the bound pods of the user request.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`
}

// QueueTerms are the terms of a Queue that may contradict each other, or the terms of other Queues.
type QueueTerms struct {
	// Parent of the Queue.
	// +optional
	Parent string `json:"parent,omitempty"`
	// Guarantee is what other Queues never take from this one.
	// +optional
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`
	// Deserved is the share.
	// +optional
	Deserved corev1.ResourceList `json:"deserved,omitempty"`
	// Capability is the hard limit.
	// +optional
	Capability corev1.ResourceList `json:"capability,omitempty"`
}

// Queue is a share of the cluster that Jobs wait in and run in. Queues form a tree under "root".
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=queues,singular=queue,scope=Cluster,shortName=q;queue-v1beta1
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="USED/CAPABILITY",type=string,JSONPath=`.status.muster.figures.used`
// +kubebuilder:printcolumn:name="RESERVED",type=string,JSONPath=`.status.muster.figures.reserved`
// +kubebuilder:printcolumn:name="SHARE",type=string,JSONPath=`.status.muster.figures.share`
// +kubebuilder:printcolumn:name="GUARANTEE",type=string,JSONPath=`.status.muster.figures.guarantee`
// +kubebuilder:printcolumn:name="BORROWED",type=string,JSONPath=`.status.muster.figures.borrowed`
// +kubebuilder:printcolumn:name="RUNNING",type=integer,JSONPath=`.status.muster.running`
// +kubebuilder:printcolumn:name="WAITING",type=integer,JSONPath=`.status.muster.waiting`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="PARENT",type=string,JSONPath=`.spec.parent`,priority=1
// +kubebuilder:printcolumn:name="PENDING",type=integer,JSONPath=`.status.pending`,priority=1
// +kubebuilder:printcolumn:name="INQUEUE",type=integer,JSONPath=`.status.inqueue`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",fieldPath=".spec.parent",message="a queue cannot use itself as parent: name another queue, or leave it empty for root"
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the Queue may use.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// Status is what is known of the Queue; the queue controller writes it.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueList is a list of Queues.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Queues.
	Items []Queue `json:"items"`
}
