package plan

import (
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/phase"
)

// A Job that is deleted stays for as long as a finalizer keeps it, a workflow engine's for example. Until then its status still follows its
// pods, so that the Job ends. Nothing is created for it, and its policies and Commands do nothing.

// ReasonDeleted says that a Job ended because it was deleted before it had come to another end.
const ReasonDeleted = "Deleted"

// endDeleted ends a deleted Job that cannot end by its pods. None runs, and no waiting pod may start, as a gang that lacks pods stays so.
// The status holds the counts of the pods. It returns false if the Job goes on.
func endDeleted(job *batchv1alpha1.Job, sorted *Members, stage dependency.Stage) bool {
	status := &job.Status
	if !IsDeleted(job) || !phase.Runs(status.State.Phase) || status.Terminating+status.Running+status.Unknown > 0 {
		return false
	}
	next := batchv1alpha1.Terminated
	if status.Pending > 0 {
		if !sorted.someKilled() && len(sorted.Missing(job.Name, stage, make([]int32, len(job.Spec.Tasks)), nil)) == 0 {
			return false
		}
		next = batchv1alpha1.Terminating
	}
	status.State.Phase, status.State.Reason = next, ReasonDeleted
	status.State.Message = "the Job was deleted, and no pod is created any more"
	return true
}
