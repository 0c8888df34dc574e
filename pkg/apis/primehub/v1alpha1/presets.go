package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Image is a container image that the users of a group can choose.
//
// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=images,singular=image,shortName=phimg
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.groupName`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.jobCondition.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Image struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is where the image comes from. Fields that PrimeHub has beyond these are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec ImageSpec `json:"spec"`
	// Status is what PrimeHub writes of an image that it builds.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status ImageStatus `json:"status,omitempty"`
}

// ImageSpec is where an image comes from.
type ImageSpec struct {
	// DisplayName is the name that people read.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// Description says what the image is for.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Description string `json:"description,omitempty"`
	// Type says whether the image is for jobs without GPUs, with GPUs, or both: cpu, gpu or both.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Type string `json:"type,omitempty"`
	// URL is the reference of the container image.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	URL string `json:"url,omitempty"`
	// URLForGPU is the reference for jobs with GPUs. Default: url.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	URLForGPU string `json:"urlForGpu,omitempty"`
	// PullSecret is the name of the Secret with which the image is pulled.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PullSecret string `json:"pullSecret,omitempty"`
	// GroupName is the name of the only group that may use the image. Default: the groups that the annotation primehub.io/groups names, or all.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	GroupName string `json:"groupName,omitempty"`
}

// ImageStatus is what PrimeHub writes of an image that it builds.
type ImageStatus struct {
	// JobCondition is how far the build has come.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	JobCondition *ImageJobCondition `json:"jobCondition,omitempty"`
}

// ImageJobCondition is how far the build of an image has come.
type ImageJobCondition struct {
	// Phase of the build.
	// +optional
	Phase string `json:"phase,omitempty"`
}

// ImageList is a list of Images.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ImageList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the Images.
	Items []Image `json:"items"`
}

// InstanceType says how much a job may use, and on which nodes.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=instancetypes,singular=instancetype,shortName=phit
// +kubebuilder:metadata:labels="app.kubernetes.io/component=api"
// +kubebuilder:printcolumn:name="CPU",type=number,JSONPath=`.spec.limits\.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.limits\.memory`
// +kubebuilder:printcolumn:name="GPU",type=integer,JSONPath=`.spec.limits\.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InstanceType struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how much a job may use. Fields that PrimeHub has beyond these are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec InstanceTypeSpec `json:"spec"`
}

// InstanceTypeSpec is how much a job may use, and on which nodes.
type InstanceTypeSpec struct {
	// DisplayName is the name that people read.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// Description says what the type is for.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Description string `json:"description,omitempty"`
	// LimitsCPU is the number of CPUs; fractions are allowed.
	// +kubebuilder:validation:Minimum=0
	LimitsCPU float64 `json:"limits.cpu"`
	// LimitsMemory is the amount of memory, such as 4G. As in PrimeHub K, M, G and T mean Ki, Mi, Gi and Ti.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	LimitsMemory string `json:"limits.memory"`
	// LimitsGPU is the number of GPUs, of the resource that gpuResourceName names.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LimitsGPU *int32 `json:"limits.gpu,omitempty"`
	// LimitsNvidiaGPU is the number of nvidia.com/gpu. It counts if limits.gpu is absent.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LimitsNvidiaGPU *int32 `json:"limits.nvidia.com/gpu,omitempty"`
	// RequestsCPU is what PrimeHub requests of its limit. Muster requests, and charges, the limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RequestsCPU *float64 `json:"requests.cpu,omitempty"`
	// RequestsMemory is what PrimeHub requests of its limit. Muster requests, and charges, the limit.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RequestsMemory string `json:"requests.memory,omitempty"`
	// GPUResourceName is the resource that limits.gpu counts. Default: nvidia.com/gpu.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	GPUResourceName string `json:"gpuResourceName,omitempty"`
	// NodeSelector is added to that of the configuration.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to those of the configuration.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// InstanceTypeList is a list of InstanceTypes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type InstanceTypeList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the InstanceTypes.
	Items []InstanceType `json:"items"`
}
