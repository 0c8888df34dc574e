package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhJobPhase says how far a PhJob has come.
//
// +kubebuilder:validation:Enum=Pending;Preparing;Running;Succeeded;Failed;Cancelled;Unknown
type PhJobPhase string

// The phases. The last three never change again.
const (
	// PhJobPending waits in its group's queue for quota.
	PhJobPending PhJobPhase = "Pending"
	// PhJobPreparing has its quota; its pod is being created, scheduled and started.
	PhJobPreparing PhJobPhase = "Preparing"
	// PhJobRunning has a pod that runs.
	PhJobRunning PhJobPhase = "Running"
	// PhJobSucceeded has a pod that ended with exit code 0.
	PhJobSucceeded PhJobPhase = "Succeeded"
	// PhJobFailed has failed; reason and message say why.
	PhJobFailed PhJobPhase = "Failed"
	// PhJobCancelled was cancelled by its user.
	PhJobCancelled PhJobPhase = "Cancelled"
	// PhJobUnknown is a final phase that PrimeHub's own controller may have written. Muster never writes it.
	PhJobUnknown PhJobPhase = "Unknown"
)

// PhJobReason says why a PhJob is in its phase.
type PhJobReason string

// The reasons, spelled as PrimeHub's clients expect them.
const (
	// ReasonOverQuota says that quota of the user or the group is missing: for now (Pending), or for ever (Failed).
	ReasonOverQuota PhJobReason = "OverQuota"
	// ReasonPodPending says that the pod has not started yet.
	ReasonPodPending PhJobReason = "PodPending"
	// ReasonPodRunning says that the pod runs.
	ReasonPodRunning PhJobReason = "PodRunning"
	// ReasonPodSucceeded says that the pod ended with exit code 0.
	ReasonPodSucceeded PhJobReason = "PodSucceeded"
	// ReasonPodFailed says that the pod failed.
	ReasonPodFailed PhJobReason = "PodFailed"
	// ReasonPodUnknown says that the pod is gone, and it is not known how it ended.
	ReasonPodUnknown PhJobReason = "PodUnknown"
	// ReasonPodCreationFailed says that no pod can be made of the PhJob.
	ReasonPodCreationFailed PhJobReason = "PodCreationFailed"
	// ReasonOverActivateDeadline says that the PhJob ran for longer than it may. PrimeHub spells it like that.
	ReasonOverActivateDeadline PhJobReason = "OverActivateDeadline"
	// ReasonOverRequeueLimit says that the pod did not start in time, once more than requeueLimit allows.
	ReasonOverRequeueLimit PhJobReason = "OverRequeueLimit"
	// ReasonCancelled says that the user cancelled the PhJob.
	ReasonCancelled PhJobReason = "Cancelled"
)

// PhJob is a command that runs once, with the image and the instance type of a group. It becomes one pod of the same name when the quotas
// of the group and of the user have room.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=phjobs,singular=phjob,shortName=phj
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.userName`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.groupName`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Start",type=string,JSONPath=`.status.expectedStart`
// +kubebuilder:validation:XValidation:rule="self.spec.command == oldSelf.spec.command && self.spec.image == oldSelf.spec.image && self.spec.instanceType == oldSelf.spec.instanceType && self.spec.groupId == oldSelf.spec.groupId && self.spec.groupName == oldSelf.spec.groupName && self.spec.userId == oldSelf.spec.userId && has(self.spec.userName) == has(oldSelf.spec.userName) && (!has(self.spec.userName) || self.spec.userName == oldSelf.spec.userName)",fieldPath=".spec",message="what a PhJob runs, and for whom, cannot be changed: create another PhJob"
type PhJob struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to run, and for which user and group.
	Spec PhJobSpec `json:"spec"`
	// Status is what has become of it; the controller writes it.
	// +optional
	Status PhJobStatus `json:"status,omitempty"`
}

// PhJobSpec says what to run, and for which user and group.
type PhJobSpec struct {
	// DisplayName is the name that people read.
	// +kubebuilder:validation:MaxLength=1024
	DisplayName string `json:"displayName"`
	// UserID is the identifier of the user who submits the job.
	// +kubebuilder:validation:MaxLength=253
	UserID string `json:"userId"`
	// UserName is the name of that user. It is whose quota counts. Default: userId.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	UserName string `json:"userName,omitempty"`
	// GroupID is the identifier of the group: the label primehub.io/group-id of its Queue.
	// +kubebuilder:validation:MaxLength=253
	GroupID string `json:"groupId"`
	// GroupName is the name of the group. Images and instance types are looked up in this group, then in the group everyone.
	// +kubebuilder:validation:MaxLength=253
	GroupName string `json:"groupName"`
	// InstanceType is the name of the InstanceType, which says how much the job may use.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InstanceType string `json:"instanceType"`
	// Image is the name of the Image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Image string `json:"image"`
	// Command is what a shell runs: at most 131071 bytes, as a program gets no longer argument.
	// +kubebuilder:validation:MaxLength=131071
	Command string `json:"command"`
	// Cancel set to true ends the job, unless it has ended already. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// RequeueLimit is how often the job may go back to its queue because its pod did not start in time. Default: any number of times.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RequeueLimit *int32 `json:"requeueLimit,omitempty"`
	// ActiveDeadlineSeconds is how long the job may run. 0 means any time. Default: jobSubmission.defaultActiveDeadlineSeconds of the
	// controller's configuration, a day.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long the pod is kept when the job has ended. 0 keeps it. Default:
	// jobSubmission.defaultTTLSecondsAfterFinished of the controller's configuration, seven days.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// PhJobStatus is what has become of a PhJob.
type PhJobStatus struct {
	// Phase says how far the job has come.
	Phase PhJobPhase `json:"phase"`
	// Reason says in a word why it is in that phase.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason PhJobReason `json:"reason,omitempty"`
	// Message says it to people.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message,omitempty"`
	// PodName is the name of the pod, once there is one.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// ExpectedStart is when a PhJob that waits is expected to start. Its PodGroup says it first, and status.plan there has the range. Absent:
	// no start is known. An extra of Muster's.
	// +optional
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
	// StartTime is when the pod first ran.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// FinishTime is when the job ended.
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
	// Requeued is how often the job went back to its queue because its pod did not start in time.
	// +optional
	Requeued int32 `json:"requeued,omitempty"`
}

// PhJobList is a list of PhJobs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type PhJobList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the PhJobs.
	Items []PhJob `json:"items"`
}
