package plan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
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
