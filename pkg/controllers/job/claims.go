package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// surveyClaims reads the claims of the Job's volumes.
func (o *objects) surveyClaims(job *batchv1alpha1.Job) *plan.Claims {
	found := &plan.Claims{Known: map[string]string{}}
	for i := range job.Spec.Volumes {
		volume := &job.Spec.Volumes[i]
		if name := volumes.ClaimName(job, volume); name != "" {
			found.Unnamed = found.Unnamed || volume.VolumeClaimName == ""
			found.Add(job, volume, name, o.kinds.claims.cached(job.Namespace, name))
		}
	}
	return found
}

// errClaimTaken says that a claim cannot be made because something else has its name.
var errClaimTaken = errors.New("it is there already and belongs to another owner")

// ensureClaims makes the claims that are to be made. Before that it writes their names into the spec, where clients look for them. Then
// nothing more is created, and the Job is synced again with a spec of another generation.
func (o *objects) ensureClaims(ctx context.Context, t *jobSync) error {
	if t.s.Claims.Unnamed {
		t.halted = true
		return o.nameClaims(ctx, t.acting)
	}
	for _, volume := range t.s.Claims.Unmade {
		if err := o.makeClaim(ctx, t.acting, volume); err != nil {
			return fmt.Errorf("making the claim %s: %w", volumes.ClaimName(t.acting, volume), err)
		}
	}
	return nil
}

// nameClaims writes the names of the claims that are to be made into the spec. The patch fails if another client has moved the volumes
// meanwhile.
func (o *objects) nameClaims(ctx context.Context, job *batchv1alpha1.Job) error {
	step := func(op, path string, value any) map[string]any {
		return map[string]any{"op": op, "path": path, "value": value}
	}
	steps := []map[string]any{step("test", "/metadata/uid", job.UID)}
	for i := range job.Spec.Volumes {
		volume := &job.Spec.Volumes[i]
		if name := volumes.ClaimName(job, volume); name != volume.VolumeClaimName {
			path := fmt.Sprintf("/spec/volumes/%d/", i)
			steps = append(steps, step("test", path+"mountPath", volume.MountPath), step("add", path+"volumeClaimName", name))
		}
	}
	patch, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	updated, err := o.muster.BatchV1alpha1().Jobs(job.Namespace).Patch(ctx, job.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("naming claims in the spec: %w", err)
	}
	o.writtenJobs.Put(keyOf(job), updated)
	o.enqueue(keyOf(job))
	return nil
}

// makeClaim makes the claim of a volume. It belongs to the Job and goes with it.
func (o *objects) makeClaim(ctx context.Context, job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec) error {
	kind, name := o.kinds.claims, volumes.ClaimName(job, volume)
	live, err := kind.client(job.Namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metaOf(job, name),
		Spec:       *volume.VolumeClaim.DeepCopy(),
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if live, err = kind.client(job.Namespace).Get(ctx, name, metav1.GetOptions{}); err == nil && !metav1.IsControlledBy(live, job) {
			return errClaimTaken
		}
	}
	if err != nil {
		return err
	}
	o.written.WroteAt(nameOf(job), job.UID, kind.resource, live.GetResourceVersion())
	return nil
}

// controlled returns what status.controlledResources should say: the plugins at work, and the claims. It returns nil if there is nothing to
// change.
func controlled(s *plan.Snapshot, ps *pluginState) map[string]string {
	if s.Claims == nil || s.Blocks(plan.BlocksStart) {
		return nil
	}
	entries := s.Claims.Known
	if ps.set == nil {
		for key, value := range s.Job.Status.ControlledResources {
			if strings.HasPrefix(key, "plugin-") {
				entries[key] = value
			}
		}
		return entries
	}
	maps.Copy(entries, ps.set.ControlledResources())
	return entries
}
