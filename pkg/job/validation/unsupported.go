package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

const noTopology = "not supported yet: leave it out; affinity between the pods of the template can keep them near each other"

// Unsupported returns the fields of a valid Job that ask for something that Muster cannot do yet. The Job is not started, so that nothing
// is ignored silently.
func Unsupported(job *batchv1alpha1.Job) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if job.Spec.NetworkTopology != nil {
		errs = append(errs, field.Forbidden(spec.Child("networkTopology"), noTopology))
	}
	for i := range job.Spec.Tasks {
		if p := job.Spec.Tasks[i].PartitionPolicy; p != nil && p.NetworkTopology != nil {
			errs = append(errs, field.Forbidden(spec.Child("tasks").Index(i).Child("partitionPolicy", "networkTopology"), noTopology))
		}
	}
	return errs
}
