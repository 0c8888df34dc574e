package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is something that happens to a Job, its tasks or its pods, and that a lifecycle policy may answer.
//
// +kubebuilder:validation:Enum="*";PodPending;PodFailed;PodEvicted;Unknown;TaskCompleted;TaskFailed;JobUpdated
type Event string

// The events. Some are internal: no policy may name them.
const (
	// AnyEvent matches every failure-like event (PodFailed, PodEvicted, TaskFailed, Unknown). It does not match
	// TaskCompleted, which a policy must name.
	AnyEvent Event = "*"
	// PodPendingEvent says that a pod waits to run. A policy for it needs a timeout.
	PodPendingEvent Event = "PodPending"
	// PodRunningEvent says that a pod has started. It cancels timeouts; no policy may name it.
	PodRunningEvent Event = "PodRunning"
	// PodFailedEvent says that a pod has ended in phase Failed and was not evicted.
	PodFailedEvent Event = "PodFailed"
	// PodEvictedEvent says that a pod was deleted or evicted before it had finished, not by Muster itself.
	PodEvictedEvent Event = "PodEvicted"
	// JobUnknownEvent says that some members of the gang run and the rest cannot be scheduled.
	JobUnknownEvent Event = "Unknown"
	// TaskCompletedEvent says that all replicas of a task have succeeded.
	TaskCompletedEvent Event = "TaskCompleted"
	// TaskFailedEvent says that the containers of a task's pods were restarted task.maxRetry times.
	TaskFailedEvent Event = "TaskFailed"
	// OutOfSyncEvent is internal: something was added, updated or deleted.
	OutOfSyncEvent Event = "OutOfSync"
	// CommandIssuedEvent is internal: a Command names the Job.
	CommandIssuedEvent Event = "CommandIssued"
	// JobUpdatedEvent says that the Job's spec has changed.
	JobUpdatedEvent Event = "JobUpdated"
)

// Action is what is done about an event, or what a Command asks for.
//
// +kubebuilder:validation:MaxLength=32
type Action string

// The actions on Jobs and Queues.
const (
	// AbortJobAction deletes the Job's unfinished pods; the Job can be resumed.
	AbortJobAction Action = "AbortJob"
	// RestartJobAction deletes all pods of the Job and creates them anew.
	RestartJobAction Action = "RestartJob"
	// RestartTaskAction deletes the pods of one task and creates them anew.
	RestartTaskAction Action = "RestartTask"
	// RestartPodAction deletes one pod and creates it anew.
	RestartPodAction Action = "RestartPod"
	// RestartPartitionAction deletes the pods of one partition of a task and creates them anew.
	RestartPartitionAction Action = "RestartPartition"
	// TerminateJobAction deletes the Job's unfinished pods; the Job cannot be resumed.
	TerminateJobAction Action = "TerminateJob"
	// CompleteJobAction deletes the Job's unfinished pods and marks the Job Completed.
	CompleteJobAction Action = "CompleteJob"
	// ResumeJobAction starts an aborted Job again.
	ResumeJobAction Action = "ResumeJob"
	// SyncJobAction brings pods and status in line with the spec; it is what happens when nothing else does.
	SyncJobAction Action = "SyncJob"
	// OpenQueueAction opens a Queue.
	OpenQueueAction Action = "OpenQueue"
	// CloseQueueAction closes a Queue: it takes no new work, what runs goes on.
	CloseQueueAction Action = "CloseQueue"
)

// Command asks for one action on a Job or a Queue. It is executed once and then deleted.
//
// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=commands,singular=command
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.action`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.target.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.target.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Command struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Action is what to do: AbortJob, ResumeJob, RestartJob, TerminateJob, CompleteJob on a Job, OpenQueue or
	// CloseQueue on a Queue.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Action string `json:"action,omitempty"`

	// TargetObject names the Job or Queue that the action is for. A Job is looked for in the Command's
	// namespace; its uid must be the one given here.
	// +kubebuilder:validation:XValidation:rule="self.apiVersion.size() <= 317 && self.kind.size() <= 63 && self.name.size() <= 253 && self.uid.size() <= 128",message="target: apiVersion, kind, name or uid is longer than that of any object: name the Job or Queue as the API server does"
	// +optional
	TargetObject *metav1.OwnerReference `json:"target,omitempty"`

	// Reason is a one-word, CamelCase reason for the command. The Job's status repeats it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message says to people why the command was given. The Job's status repeats it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// CommandList is a list of Commands.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type CommandList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Commands.
	Items []Command `json:"items"`
}
