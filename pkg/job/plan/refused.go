package plan

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/indexes"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// A Job that has started may get a spec that cannot run. It keeps what it has, since the user's intention is unknown. Nothing is created or
// scaled away, and actions that would start pods anew wait. It can still come to its end, and be ended.

// withRoomForAll returns the Job with replicas for all its pods, whatever its spec says now.
func withRoomForAll(job *batchv1alpha1.Job, pods, ended []*corev1.Pod) *batchv1alpha1.Job {
	kept := *job
	kept.Spec.Tasks = slices.Clone(job.Spec.Tasks)
	all := newPodSet(job, pods, ended)
	for i := range kept.Spec.Tasks {
		task := &kept.Spec.Tasks[i]
		task.Replicas = max(task.Replicas, extent(job, i, all))
		task.MinAvailable = new(min(*task.MinAvailable, task.Replicas))
	}
	kept.Spec.MinAvailable = min(kept.Spec.MinAvailable, defaults.Replicas(&kept.Spec))
	return &kept
}

// extent is the number of indexes of a task that have pods or records.
func extent(job *batchv1alpha1.Job, position int, all *podSet) int32 {
	name := job.Spec.Tasks[position].Name
	record := policy.ReadRecord(job.Status.TaskRecords, name, math.MaxInt32)
	known := []indexes.Set{record.Created, record.Succeeded, record.Failed}
	for i := range job.Status.Delayed {
		entry := &job.Status.Delayed[i]
		if set, err := indexes.Parse(entry.Indexes); err == nil && entry.Task == name {
			known = append(known, set)
		}
	}
	last := int32(-1)
	for _, set := range known {
		for index := range set.All() {
			last = max(last, index)
		}
	}
	for _, s := range all.pods {
		if s.position == position && s.version >= job.Status.Version && !record.IsReplaced(s.index, s.generation) {
			last = max(last, s.index)
		}
	}
	return last + 1
}
