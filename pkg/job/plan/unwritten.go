package plan

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// Unwritten is the content of a status that waits to be written. It is kept for the case that the pods go.
type Unwritten struct {
	base       *batchv1alpha1.JobStatus // the stored status
	records    []batchv1alpha1.TaskRecord
	generation int32
	backoff    *batchv1alpha1.RestartBackoff
	delayed    []batchv1alpha1.DelayedEvent
}

// NewUnwritten is the content of a status that is to follow another.
func NewUnwritten(base, status *batchv1alpha1.JobStatus) *Unwritten {
	return &Unwritten{base, status.TaskRecords, status.PodGeneration, status.RestartBackoff, status.Delayed}
}

// addTo adds it to the stored status, unless that has changed since. It may be nil.
func (m *Unwritten) addTo(status *batchv1alpha1.JobStatus) {
	if m != nil && apiequality.Semantic.DeepEqual(m.base, status) {
		status.TaskRecords, status.PodGeneration, status.RestartBackoff, status.Delayed = m.records, m.generation, m.backoff, m.delayed
	}
}
