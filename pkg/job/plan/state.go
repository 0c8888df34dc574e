package plan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// OrPending is the phase of a Job, where none means Pending.
func OrPending(p batchv1alpha1.JobPhase) batchv1alpha1.JobPhase {
	return cmp.Or(p, batchv1alpha1.Pending)
}

func isSuspended(job *batchv1alpha1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// IsDeleted says whether a Job is being deleted.
func IsDeleted(job *batchv1alpha1.Job) bool { return job.DeletionTimestamp != nil }

// IsOrphaning says whether a Job is deleted and its pods stay. They lose their owner reference in sequence, so each looks as if it were gone.
func IsOrphaning(job *batchv1alpha1.Job) bool {
	return IsDeleted(job) && slices.Contains(job.Finalizers, metav1.FinalizerOrphanDependents)
}
