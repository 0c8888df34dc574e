package worker

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IfUnchanged deletes an object as it was seen, and in the background what belongs to it. If the object has changed, its user may have given
// it more time, and the deletion is a conflict.
func IfUnchanged(seen metav1.Object) metav1.DeleteOptions {
	uid, version, background := seen.GetUID(), seen.GetResourceVersion(), metav1.DeletePropagationBackground
	return metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	}
}
