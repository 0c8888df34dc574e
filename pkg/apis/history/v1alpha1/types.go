// Package v1alpha1 is the API of the history: records of Jobs and PhJobs that have ended. muster-controller serves it behind the API server's
// aggregation, for reading only. Nothing of it is stored in the API server.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Names of the API.
const (
	// Resource is the name of the only resource.
	Resource = "jobrecords"
	// RecordKind is the kind of its objects.
	RecordKind = "JobRecord"
	// ListKind is the kind of a list of them.
	ListKind = "JobRecordList"
	// ReportKind is the kind of what a list with the parameter [ParameterBy] returns.
	ReportKind = "JobReport"
)

// SchemeGroupVersion is the group and the version of the API.
var SchemeGroupVersion = schema.GroupVersion{Group: "history.muster.sh", Version: "v1alpha1"}

// Parameters of a list, beside fieldSelector, limit and continue.
const (
	// ParameterSince leaves out what ended before a time (RFC 3339).
	ParameterSince = "since"
	// ParameterUntil leaves out what ended at a time (RFC 3339) or later.
	ParameterUntil = "until"
	// ParameterBy asks for sums in place of records. It is one of [ByUser], [ByQueue] and [ByNamespace].
	ParameterBy = "by"
)

// Values of [ParameterBy].
const (
	ByUser      = "user"
	ByQueue     = "queue"
	ByNamespace = "namespace"
)

// Kinds of what a record is about.
const (
	KindJob   = "Job"
	KindPhJob = "PhJob"
)

// PhaseDeleted is the phase of a Job or a PhJob that was deleted before it had ended.
const PhaseDeleted = "Deleted"

// Record says how a Job or a PhJob went. It is one line of the history.
type Record struct {
	// Kind is Job or PhJob.
	Kind string `json:"kind"`
	// Namespace of the Job.
	Namespace string `json:"namespace"`
	// Name of the Job.
	Name string `json:"name"`
	// UID of the Job. A record that was written twice has the same.
	UID types.UID `json:"uid"`
	// User is the label muster.sh/user of a Job, or the user of a PhJob.
	User string `json:"user,omitempty"`
	// Queue of the Job.
	Queue string `json:"queue,omitempty"`
	// PriorityClass of the Job.
	PriorityClass string `json:"priorityClass,omitempty"`
	// Phase in which it ended, or Deleted.
	Phase string `json:"phase"`
	// Reason and Message say why it ended.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Created is when it was created.
	Created metav1.Time `json:"created"`
	// Started is when it first ran. It is missing if it never ran.
	Started *metav1.Time `json:"started,omitempty"`
	// Ended is when it ended.
	Ended metav1.Time `json:"ended"`
	// WaitSeconds is the time from its creation to its first start, or to its end if it never ran.
	WaitSeconds int64 `json:"waitSeconds"`
	// RunSeconds is how long it ran, without the time for which it was stopped.
	RunSeconds int64 `json:"runSeconds"`
	// Restarts is how often it was started again.
	Restarts int32 `json:"restarts,omitempty"`
	// Evictions is how many of its pods were evicted.
	Evictions int32 `json:"evictions,omitempty"`
	// Pods is how many pods it asked for.
	Pods int32 `json:"pods"`
	// Requests is what all these pods requested together.
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// ResourceSeconds is what its pods had on nodes: the amount of each resource, times seconds. Units are cores, bytes and pieces.
	ResourceSeconds map[corev1.ResourceName]float64 `json:"resourceSeconds,omitempty"`
}

// JobRecord is a record as an object of the API.
type JobRecord struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the Job and the beginning of its UID. Several Jobs of one name may follow each other.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Record says how the Job went.
	Record Record `json:"record"`
}

// JobRecordList is a list of records, the latest first.
type JobRecordList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the records.
	Items []JobRecord `json:"items"`
}

// JobReport has sums over records.
type JobReport struct {
	metav1.TypeMeta `json:",inline"`
	// By is what the rows are about: user, queue or namespace.
	By string `json:"by"`
	// Rows are in the order of the CPU time that was had, the largest first.
	Rows []ReportRow `json:"rows"`
}

// ReportRow has the sums of a user, a queue or a namespace.
type ReportRow struct {
	// Name of the user, the queue or the namespace. It is empty for Jobs without a user.
	Name string `json:"name"`
	// Jobs is the number of Jobs and PhJobs that ended.
	Jobs int64 `json:"jobs"`
	// Succeeded is how many of them were Completed or Succeeded.
	Succeeded int64 `json:"succeeded"`
	// WaitSeconds and RunSeconds are sums over them.
	WaitSeconds int64 `json:"waitSeconds"`
	RunSeconds  int64 `json:"runSeconds"`
	// Evictions of pods.
	Evictions int64 `json:"evictions"`
	// ResourceSeconds is what their pods had on nodes: the amount of each resource, times seconds.
	ResourceSeconds map[corev1.ResourceName]float64 `json:"resourceSeconds,omitempty"`
}
