package plan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/indexes"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// SpecMark identifies a spec of a Job: its generation and a hash of what the user wants. It is empty for Jobs whose policies do not ask for
// changes.
//
// Neither would do alone: the generation grows when the controller writes the names of claims. The hash may change when the schema gets
// another default.
func SpecMark(job *batchv1alpha1.Job) string {
	if !policy.Asks(job.Spec.Policies, busv1alpha1.JobUpdatedEvent) {
		return ""
	}
	wanted := job.Spec
	// Suspending a Job has a meaning of its own. An estimate changes nothing of the Job.
	wanted.Suspend, wanted.RunningEstimate = nil, nil
	wanted.Volumes = slices.Clone(wanted.Volumes)
	for i := range wanted.Volumes {
		if wanted.Volumes[i].VolumeClaim != nil {
			wanted.Volumes[i].VolumeClaimName = ""
		}
	}
	text, err := json.Marshal(&wanted)
	if err != nil {
		return "" // what came as JSON can be written as JSON
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%d-%x", job.Generation, sum[:8])
}

// noteSpec remembers the spec as the one that policies have been asked about. It returns whether the user has changed
// it since they were asked last.
func noteSpec(v *Snapshot, status *batchv1alpha1.JobStatus) bool {
	generation, hash, known := strings.Cut(status.HandledSpec, "-")
	status.HandledSpec = v.SpecMark
	if !known || v.SpecMark == "" {
		return false
	}
	newGeneration, newHash, _ := strings.Cut(v.SpecMark, "-")
	return generation != newGeneration && hash != newHash
}

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
