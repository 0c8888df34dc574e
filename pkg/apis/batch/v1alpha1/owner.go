package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodGroupName returns the name of the Job's PodGroup. It holds the UID, so that a Job that is deleted and applied again has another
// one.
func PodGroupName(job *Job) string { return job.Name + "-" + string(job.UID) }

// JobOf returns the reference to the Job that controls the object, of whatever version of the API. It is nil if none does.
func JobOf(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != "Job" {
		return nil
	}
	if version, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || version.Group != GroupName {
		return nil
	}
	return owner
}
