package v1beta1

// Annotations that tie pods to PodGroups and Queues.
const (
	// GroupNameAnnotation on a pod names its PodGroup in the same namespace.
	GroupNameAnnotation = "scheduling.k8s.io/group-name"
	// QueueNameAnnotation names the Queue of a pod without a PodGroup, or the default Queue of a namespace.
	QueueNameAnnotation = "scheduling.volcano.sh/queue-name"
	// GroupMinMemberAnnotation on the controller of bare pods sets the minMember of the PodGroup made for them.
	GroupMinMemberAnnotation = "scheduling.volcano.sh/group-min-member"
	// GroupResourceVersionAnnotation on a pod is the resourceVersion of the PodGroup that the pod was created for. It is set only if the
	// PodGroup's spec had changed by then. The scheduler watches pods and PodGroups separately. Until it has seen
	// this version of the PodGroup or a later one, it does not know the pod's minimum.
	GroupResourceVersionAnnotation = "muster.sh/podgroup-resource-version"
	// ClosedByParentAnnotation on a Queue is "true" while it is closed because its parent is.
	ClosedByParentAnnotation = "volcano.sh/closed-by-parent"
	// OvercommitFactorAnnotation on a Queue bounds the admission of its PodGroups by the size of the cluster. A PodGroup waits while its
	// minimum, all use and all reserved room exceed this factor times the nodes' allocatable resources. It is a number of at least 1.
	OvercommitFactorAnnotation = "volcano.sh/overcommit-factor"
	// WaitingTimeAnnotation on a Job or a PodGroup is a duration like "1h30m". A PodGroup that has waited so long for room in its Queue is
	// admitted without it.
	WaitingTimeAnnotation = "volcano.sh/sla-waiting-time"
	// OldWaitingTimeAnnotation is the same, as Volcano had it first.
	OldWaitingTimeAnnotation = "sla-waiting-time"
	// RunningEstimateAnnotation is how long a PodGroup, or a pod without one, is expected to run. It is a duration like "1h30m", and no limit.
	// Jobs have spec.runningEstimate.
	RunningEstimateAnnotation = "muster.sh/running-estimate"
)

// Annotations that the scheduler writes on a pod together with its node. Only clients that may bind pods may change them.
const (
	// ChargedToAnnotation is the account that the pod is charged to until it ends: a Queue, or "<Queue>/<user>". It is empty for a pod that is
	// charged to no Queue.
	ChargedToAnnotation = "muster.sh/charged-to"
	// BoundForAnnotation is the UID of the PodGroup whose minimum, or surplus, the pod was bound for.
	BoundForAnnotation = "muster.sh/bound-for"
	// TopologyPathAnnotation is the path of the lowest domain of the pod's node in the network, the widest domain first: "spine-1/leaf-3".
	// Pods of gangs with a network topology have it.
	TopologyPathAnnotation = "muster.sh/topology-path"
)

// TaskOrderAnnotation is the position of a pod's task in the Job, from 0. Pods of Jobs with a network topology have it: ranks follow it.
const TaskOrderAnnotation = "muster.sh/task-order"

// TakesNoJobsLabel stands on a Queue that takes no Jobs, and on no other. Its value says why. The controller keeps it, so that admission
// looks at these Queues only.
const TakesNoJobsLabel = "muster.sh/takes-no-jobs"

// Values of TakesNoJobsLabel.
const (
	// TakesNoJobsClosed: the Queue is not open.
	TakesNoJobsClosed = "closed"
	// TakesNoJobsParent: the Queue has children, or is the root.
	TakesNoJobsParent = "parent"
)

// NodeGroupLabel on a node names the group of nodes that it is in, for spec.affinity of Queues.
const NodeGroupLabel = "volcano.sh/nodegroup-name"

// UserLabel names the user whose quota in the Queue is charged. It stands on a Job, a PodGroup or a pod without a PodGroup.
const UserLabel = "muster.sh/user"

// Names of the Queues that always exist.
const (
	// RootQueue is the ancestor of all Queues. It takes no work itself.
	RootQueue = "root"
	// DefaultQueue takes the work that names no Queue.
	DefaultQueue = "default"
)
