package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecurrenceType says how often a PhSchedule creates a PhJob.
//
// +kubebuilder:validation:Enum=inactive;daily;weekly;monthly;custom
type RecurrenceType string

// The types of recurrence.
const (
	// RecurrenceInactive creates no PhJob.
	RecurrenceInactive RecurrenceType = "inactive"
	// RecurrenceDaily creates one each day at 4:00.
	RecurrenceDaily RecurrenceType = "daily"
	// RecurrenceWeekly creates one each Sunday at 4:00.
	RecurrenceWeekly RecurrenceType = "weekly"
	// RecurrenceMonthly creates one on the first day of each month at 4:00.
	RecurrenceMonthly RecurrenceType = "monthly"
	// RecurrenceCustom creates one whenever recurrence.cron says.
	RecurrenceCustom RecurrenceType = "custom"
)

// PhSchedule creates PhJobs at the times that its recurrence gives.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=phschedules,singular=phschedule,shortName=phs
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.jobTemplate.spec.userName`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.jobTemplate.spec.groupName`
// +kubebuilder:printcolumn:name="Invalid",type=boolean,JSONPath=`.status.invalid`
// +kubebuilder:printcolumn:name="NextRun",type=string,JSONPath=`.status.nextRunTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: PhJobs carry it as a label"
type PhSchedule struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to create, and when.
	Spec PhScheduleSpec `json:"spec"`
	// Status is what has become of it; the controller writes it.
	// +optional
	Status PhScheduleStatus `json:"status,omitempty"`
}

// PhScheduleSpec is what to create, and when.
type PhScheduleSpec struct {
	// Recurrence says when.
	Recurrence Recurrence `json:"recurrence"`
	// JobTemplate is what the PhJobs are made by.
	JobTemplate PhJobTemplate `json:"jobTemplate"`
}

// Recurrence says when a PhSchedule creates PhJobs.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'custom' || (has(self.cron) && self.cron.size() > 0)",fieldPath=".cron",reason=FieldValueRequired,message="a custom recurrence needs a cron expression of five fields, such as '0 4 * * *'"
type Recurrence struct {
	// Type says how often.
	Type RecurrenceType `json:"type"`
	// Cron says when, if the type is custom: minute, hour, day of month, month and day of week. Other types ignore it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Cron string `json:"cron,omitempty"`
}

// PhJobTemplate is what PhJobs are made by.
type PhJobTemplate struct {
	// Labels and annotations of the PhJobs.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the PhJobs.
	Spec PhJobSpec `json:"spec"`
}

// PhScheduleStatus is what has become of a PhSchedule.
type PhScheduleStatus struct {
	// Invalid says that the recurrence cannot be understood.
	// +optional
	Invalid bool `json:"invalid"`
	// NextRunTime is when the next PhJob is created; absent if none is.
	// +optional
	NextRunTime *metav1.Time `json:"nextRunTime,omitempty"`
	// Message says what is wrong, or why nothing is created.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message,omitempty"`
}

// PhScheduleList is a list of PhSchedules.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type PhScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the PhSchedules.
	Items []PhSchedule `json:"items"`
}
