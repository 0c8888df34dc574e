package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// runWithEmptyDir is the value of the annotation that asks for empty directories in the place of missing claims.
const runWithEmptyDir = "emptyDir"

// Claims are the claims that a Job's volumes need, and their state.
type Claims struct {
	// Known are the entries of status.controlledResources about claims.
	Known map[string]string
	// Unnamed tells that the spec does not name all claims that are to be made.
	Unnamed bool
	// Unmade are the volumes whose claims are to be made.
	Unmade []*batchv1alpha1.VolumeSpec
	// Problem is the reason why the Job's data is missing; nil if nothing does.
	Problem *Finding
}

// Add reads the claim of a volume. live is the claim of that name; nil if there is none.
func (s *Claims) Add(job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec, name string, live metav1.Object) {
	_, replaced := job.Status.ControlledResources[volumes.EmptyDirKey(name)]
	_, recorded := job.Status.ControlledResources[volumes.ClaimKey(name)]
	if recorded {
		s.Known[volumes.ClaimKey(name)] = name
	}
	isThere := live != nil && live.GetDeletionTimestamp() == nil
	isMade := volumes.IsMade(job, volume)
	switch {
	case replaced:
		s.Known[volumes.EmptyDirKey(name)] = name
	case isThere && (!isMade || recorded || metav1.IsControlledBy(live, job)):
		s.Known[volumes.ClaimKey(name)] = name
	case isThere:
		s.complain(ReasonClaimNameTaken, "claim %q, which is to be made for %s, is there already and belongs to another owner",
			name, volume.MountPath)
	case isMade && !recorded:
		s.Unmade = append(s.Unmade, volume)
	case isMade:
		s.complain(ReasonClaimNotFound, "claim %q, which was made for %s, has been deleted: make another one of that name, "+
			"and the Job goes on", name, volume.MountPath)
	case !recorded && job.Annotations[batchv1alpha1.MissingClaimAnnotation] == runWithEmptyDir:
		s.Known[volumes.EmptyDirKey(name)] = name
	case live != nil:
		s.complain(ReasonClaimNotFound, "claim %q for %s is being deleted: create it again, and the Job goes on", name, volume.MountPath)
	default:
		s.complain(ReasonClaimNotFound, "claim %q for %s does not exist: create it, and the Job goes on", name, volume.MountPath)
	}
}

// complain keeps the first problem.
func (s *Claims) complain(reason, format string, args ...any) {
	if s.Problem == nil {
		s.Problem = &Finding{reason, fmt.Sprintf(format, args...)}
	}
}
