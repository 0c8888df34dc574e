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
	if owner := metav1.GetControllerOfNoCopy(object); IsJob(owner) {
		return owner
	}
	return nil
}

// IsJob says whether a reference names a Job, of whatever version of the API. A nil reference names none.
func IsJob(reference *metav1.OwnerReference) bool {
	if reference == nil || reference.Kind != "Job" {
		return false
	}
	version, err := schema.ParseGroupVersion(reference.APIVersion)
	return err == nil && version.Group == GroupName
}
