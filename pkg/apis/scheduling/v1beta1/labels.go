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
