package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// StartAnswer says what would become of a Job or a PodGroup.
//
// +kubebuilder:validation:Enum=Now;Later;Unknown;Never;Refused
type StartAnswer string

// The answers.
const (
	// StartsNow: its minimum has room at once.
	StartsNow StartAnswer = "Now"
	// StartsLater: the plan has its expected start.
	StartsLater StartAnswer = "Later"
	// StartUnknown: no start is known, as something that it waits for has no known end.
	StartUnknown StartAnswer = "Unknown"
	// StartsNever: it cannot start as it is.
	StartsNever StartAnswer = "Never"
	// StartRefused: the question is not answered.
	StartRefused StartAnswer = "Refused"
)

// StartReview asks when a Job or a PodGroup would start if it were created now. Nothing is created or changed for it. The scheduler answers once, with its
// next plan, and deletes the StartReview after ten minutes.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=startreviews,singular=startreview
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="ANSWER",type=string,JSONPath=`.status.answer`
// +kubebuilder:printcolumn:name="START",type=string,JSONPath=`.status.plan.expectedStart.at`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.message`,priority=1
type StartReview struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to ask.
	Spec StartReviewSpec `json:"spec"`
	// Status is the answer; muster-scheduler writes it.
	// +optional
	Status StartReviewStatus `json:"status,omitempty"`
}

// StartReviewSpec is what a StartReview asks.
//
// +kubebuilder:validation:XValidation:rule="has(self.job) != has(self.podGroup)",message="a StartReview asks about one Job or one PodGroup: set spec.job or spec.podGroup"
type StartReviewSpec struct {
	// Job is a Job of batch.volcano.sh/v1alpha1, as it would be created in the namespace of the StartReview. It has at most 64 KiB.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'batch.volcano.sh/v1alpha1' && self.kind == 'Job'",message="a Job of apiVersion batch.volcano.sh/v1alpha1 is asked about: other kinds are not known"
	// +optional
	Job runtime.RawExtension `json:"job,omitzero"`
	// PodGroup is a PodGroup of scheduling.volcano.sh/v1beta1, as it would be created there. It has minResources, and at most 64 KiB. Each of its
	// pods is taken to ask for an equal part of them, on any node.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'scheduling.volcano.sh/v1beta1' && self.kind == 'PodGroup'",message="a PodGroup of apiVersion scheduling.volcano.sh/v1beta1 is asked about: other kinds are not known"
	// +optional
	PodGroup runtime.RawExtension `json:"podGroup,omitzero"`
}

// StartReviewStatus is the answer to a StartReview.
type StartReviewStatus struct {
	// Answer is absent until there is one.
	// +optional
	Answer StartAnswer `json:"answer,omitempty"`
	// Message is the answer in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Plan is what the PodGroup would have in its status.
	// +optional
	Plan *schedulingv1beta1.PodGroupPlan `json:"plan,omitempty"`
	// NodeCount is the number of nodes on which its minimum would start.
	// +optional
	NodeCount int32 `json:"nodeCount,omitempty"`
	// Runtime is how long it is expected to run, such as 1h30m0s; absent if that is not known.
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// Evicts: its queue is within its share, and another is above its own. So pods of the other queue may be evicted for it, and it may start
	// before the expected start.
	// +optional
	Evicts bool `json:"evicts,omitempty"`
	// Delays are the gangs behind it that would start later than without it, by their expected starts. It is absent if that was not looked for.
	// +optional
	Delays *StartDelays `json:"delays,omitempty"`
}

// StartDelays are gangs that would start later.
type StartDelays struct {
	// Names of the Jobs and PodGroups of its namespace, sorted: five at most.
	// +listType=atomic
	// +optional
	Names []string `json:"names,omitempty"`
	// Others is the number of others, of any namespace.
	// +optional
	Others int32 `json:"others,omitempty"`
}

// StartReviewList is a list of StartReviews.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type StartReviewList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the StartReviews.
	Items []StartReview `json:"items"`
}
