package v1alpha1

// Labels and annotations of a Job's pods. Existing clients read them; the keys are Volcano's.
const (
	// TaskIndexKey is the index of the pod in its task (annotation and label).
	TaskIndexKey = "volcano.sh/task-index"
	// TaskSpecKey is the name of the pod's task (annotation and label).
	TaskSpecKey = "volcano.sh/task-spec"
	// JobNameKey is the name of the pod's Job (annotation and label).
	JobNameKey = "volcano.sh/job-name"
	// JobNamespaceKey is the namespace of the pod's Job (label).
	JobNamespaceKey = "volcano.sh/job-namespace"
	// QueueNameKey is the Queue of the pod's Job (annotation and label).
	QueueNameKey = "volcano.sh/queue-name"
	// JobVersionKey is the incarnation of the Job that the pod belongs to: status.version when it was created (annotation).
	JobVersionKey = "volcano.sh/job-version"
	// JobRetryCountKey is status.retryCount when the pod was created (annotation).
	JobRetryCountKey = "volcano.sh/job-retry-count"
	// PodTemplateKey identifies the template that the pod was made from, "<job>-<task>" (annotation).
	PodTemplateKey = "volcano.sh/template-uid"
	// PartitionIDKey is the partition of the pod in its task (label).
	PartitionIDKey = "volcano.sh/partition-id"
	// PodPreemptableKey says whether the pod may be preempted (annotation, inherited from the Job).
	PodPreemptableKey = "volcano.sh/preemptable"
	// CooldownTimeKey protects a pod from preemption for a time after its start (annotation, inherited from the Job).
	CooldownTimeKey = "volcano.sh/cooldown-time"
	// RevocableZoneKey names the zone of revocable nodes that the pod may use (annotation, inherited from the Job).
	RevocableZoneKey = "volcano.sh/revocable-zone"
	// JDBMinAvailableKey is the Job's disruption budget as a minimum (annotation, inherited from the Job).
	JDBMinAvailableKey = "volcano.sh/jdb-min-available"
	// JDBMaxUnavailableKey is the Job's disruption budget as a maximum (annotation, inherited from the Job).
	JDBMaxUnavailableKey = "volcano.sh/jdb-max-unavailable"
	// NumaTopologyPolicyKey is the task's topologyPolicy (annotation).
	NumaTopologyPolicyKey = "volcano.sh/numa-topology-policy"

	// MissingClaimAnnotation on a Job set to "emptyDir" replaces a claim that does not exist by an emptyDir.
	MissingClaimAnnotation = "muster.sh/missing-claim"
	// PodGenerationAnnotation on a pod is status.podGeneration of its Job when the pod was created. A pod without it has generation 0.
	PodGenerationAnnotation = "muster.sh/pod-generation"
)

// DefaultTaskSpec is the prefix of the name of a task without one; the task's index follows.
const DefaultTaskSpec = "default"
