package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// runWithEmptyDir is the value of the annotation that asks for empty directories in the place of missing claims.
const runWithEmptyDir = "emptyDir"

// claims are the claims that a Job's volumes need, and their state.
type claims struct {
	// known are the entries of status.controlledResources about claims.
	known map[string]string
	// unnamed tells that the spec does not name all claims that are to be made.
	unnamed bool
	// unmade are the volumes whose claims are to be made.
	unmade []*batchv1alpha1.VolumeSpec
	// problem is the reason why the Job's data is missing; nil if nothing does.
	problem *finding
}

// surveyClaims reads the claims of the Job's volumes.
func (c *Controller) surveyClaims(job *batchv1alpha1.Job) *claims {
	found := &claims{known: map[string]string{}}
	for i := range job.Spec.Volumes {
		volume := &job.Spec.Volumes[i]
		if name := volumes.ClaimName(job, volume); name != "" {
			found.unnamed = found.unnamed || volume.VolumeClaimName == ""
			found.survey(job, volume, name, c.kinds.claims.cached(job.Namespace, name))
		}
	}
	return found
}

func (s *claims) survey(job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec, name string, live metav1.Object) {
	_, replaced := job.Status.ControlledResources[volumes.EmptyDirKey(name)]
	_, recorded := job.Status.ControlledResources[volumes.ClaimKey(name)]
	if recorded {
		s.known[volumes.ClaimKey(name)] = name
	}
	isThere := live != nil && live.GetDeletionTimestamp() == nil
	isMade := volumes.IsMade(job, volume)
	switch {
	case replaced:
		s.known[volumes.EmptyDirKey(name)] = name
	case isThere && (!isMade || recorded || metav1.IsControlledBy(live, job)):
		s.known[volumes.ClaimKey(name)] = name
	case isThere:
		s.complain(reasonClaimNameTaken, "claim %q, which is to be made for %s, is there already and belongs to another owner",
			name, volume.MountPath)
	case isMade && !recorded:
		s.unmade = append(s.unmade, volume)
	case isMade:
		s.complain(reasonClaimNotFound, "claim %q, which was made for %s, has been deleted: make another one of that name, "+
			"and the Job goes on", name, volume.MountPath)
	case !recorded && job.Annotations[batchv1alpha1.MissingClaimAnnotation] == runWithEmptyDir:
		s.known[volumes.EmptyDirKey(name)] = name
	case live != nil:
		s.complain(reasonClaimNotFound, "claim %q for %s is being deleted: create it again, and the Job goes on", name, volume.MountPath)
	default:
		s.complain(reasonClaimNotFound, "claim %q for %s does not exist: create it, and the Job goes on", name, volume.MountPath)
	}
}

// complain keeps the first problem.
func (s *claims) complain(reason, format string, args ...any) {
	if s.problem == nil {
		s.problem = &finding{reason, fmt.Sprintf(format, args...)}
	}
}

// isReady tells whether the claims of all volumes are there, so that pods can be made.
func (s *claims) isReady() bool { return s.problem == nil && len(s.unmade) == 0 }

// errClaimTaken says that a claim cannot be made because something else has its name.
var errClaimTaken = errors.New("it is there already and belongs to another owner")

// ensureClaims makes the claims that are to be made. Before that it writes their names into the spec, where clients look for them; then it
// returns false, and the Job is synced again with a spec of another generation.
func (c *Controller) ensureClaims(ctx context.Context, job *batchv1alpha1.Job, s *claims) (named bool, err error) {
	if s.unnamed {
		return false, c.nameClaims(ctx, job)
	}
	for _, volume := range s.unmade {
		if err := c.makeClaim(ctx, job, volume); err != nil {
			return true, fmt.Errorf("making the claim %s: %w", volumes.ClaimName(job, volume), err)
		}
	}
	return true, nil
}

// patchStep is one step of a JSON patch.
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// nameClaims writes the names of the claims that are to be made into the spec. The patch fails if another client has moved the volumes
// meanwhile.
func (c *Controller) nameClaims(ctx context.Context, job *batchv1alpha1.Job) error {
	steps := []patchStep{{"test", "/metadata/uid", job.UID}}
	for i := range job.Spec.Volumes {
		volume := &job.Spec.Volumes[i]
		if name := volumes.ClaimName(job, volume); name != volume.VolumeClaimName {
			path := fmt.Sprintf("/spec/volumes/%d/", i)
			steps = append(steps, patchStep{"test", path + "mountPath", volume.MountPath}, patchStep{"add", path + "volumeClaimName", name})
		}
	}
	patch, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	updated, err := c.muster.BatchV1alpha1().Jobs(job.Namespace).Patch(ctx, job.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("naming claims in the spec: %w", err)
	}
	c.writtenJobs.Put(keyOf(job), updated)
	c.worker.Enqueue(keyOf(job))
	return nil
}

// makeClaim makes the claim of a volume. It belongs to the Job and goes with it.
func (c *Controller) makeClaim(ctx context.Context, job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec) error {
	kind, name := c.kinds.claims, volumes.ClaimName(job, volume)
	live, err := kind.create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: job.Namespace,
			Labels: map[string]string{
				batchv1alpha1.JobNameKey:      job.Name,
				batchv1alpha1.JobNamespaceKey: job.Namespace,
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: *volume.VolumeClaim.DeepCopy(),
	})
	if apierrors.IsAlreadyExists(err) {
		if live, err = kind.get(ctx, job.Namespace, name); err == nil && !metav1.IsControlledBy(live, job) {
			return errClaimTaken
		}
	}
	if err != nil {
		return err
	}
	c.written.WroteAt(nameOf(job), job.UID, kind.resource(), live.GetResourceVersion())
	return nil
}

// controlled returns what status.controlledResources should say: the plugins at work, and the claims. It returns nil if there is nothing to
// change.
func controlled(s *snapshot, ps *pluginState) map[string]string {
	if s.claims == nil || s.held != nil {
		return nil
	}
	entries := s.claims.known
	if ps.set == nil {
		for key, value := range s.job.Status.ControlledResources {
			if strings.HasPrefix(key, "plugin-") {
				entries[key] = value
			}
		}
		return entries
	}
	for key, value := range ps.set.ControlledResources() {
		entries[key] = value
	}
	return entries
}

// enqueueUsers enqueues the live Jobs that name a claim.
func (c *Controller) enqueueUsers(claim metav1.Object) {
	jobs, err := c.jobIndex.ByIndex(byClaim, claim.GetNamespace()+"/"+claim.GetName())
	if err != nil {
		return
	}
	for _, obj := range jobs {
		if job := obj.(*batchv1alpha1.Job); !phase.Ended(job.Status.State.Phase) {
			c.worker.Enqueue(keyOf(job))
		}
	}
}

// claimsOfJob returns the keys of the claims that a Job names.
func claimsOfJob(obj any) ([]string, error) {
	job, ok := obj.(*batchv1alpha1.Job)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range job.Spec.Volumes {
		if name := job.Spec.Volumes[i].VolumeClaimName; name != "" {
			keys = append(keys, job.Namespace+"/"+name)
		}
	}
	return keys, nil
}
