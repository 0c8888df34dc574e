package v1beta1

// Annotations that tie pods to PodGroups and Queues.
const (
	// GroupNameAnnotation on a pod names its PodGroup in the same namespace.
	GroupNameAnnotation = "scheduling.k8s.io/group-name"
	// QueueNameAnnotation names the Queue of a pod without a PodGroup, or the default Queue of a namespace.
	QueueNameAnnotation = "scheduling.volcano.sh/queue-name"
	// GroupMinMemberAnnotation on the controller of bare pods sets the minMember of the PodGroup made for them.
	GroupMinMemberAnnotation = "scheduling.volcano.sh/group-min-member"
	// GroupResourceVersionAnnotation on a pod is the resourceVersion of the PodGroup that the pod was created for, if its spec had been
	// changed by then. Pods and PodGroups are watched apart: until the scheduler has seen the PodGroup like that, or later, it does not
	// know the minimum that the pod belongs to.
	GroupResourceVersionAnnotation = "muster.sh/podgroup-resource-version"
	// ClosedByParentAnnotation on a Queue is "true" while it is closed because its parent is.
	ClosedByParentAnnotation = "volcano.sh/closed-by-parent"
	// OvercommitFactorAnnotation on a Queue holds its PodGroups back as long as what all Queues use, what is kept for admitted PodGroups and their
	// own minimum are more than so many times what all nodes have together. It is a number of at least 1.
	OvercommitFactorAnnotation = "volcano.sh/overcommit-factor"
	// WaitingTimeAnnotation on a Job or a PodGroup is how long it waits for its Queue, as a duration like "1h30m", before it is admitted though
	// there is no room.
	WaitingTimeAnnotation = "volcano.sh/sla-waiting-time"
	// OldWaitingTimeAnnotation is the same, as Volcano had it first.
	OldWaitingTimeAnnotation = "sla-waiting-time"
)

// UserLabel on a Job, a PodGroup or a pod without a PodGroup names the user on whose quota of the Queue it runs.
const UserLabel = "muster.sh/user"

// Names of the Queues that always exist.
const (
	// RootQueue is the ancestor of all Queues. It takes no work itself.
	RootQueue = "root"
	// DefaultQueue takes the work that names no Queue.
	DefaultQueue = "default"
)
