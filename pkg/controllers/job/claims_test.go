package job

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestSurveyOfClaims: claims that are made, waited for and remembered, for one volume.
func TestSurveyOfClaims(t *testing.T) {
	named := batchv1alpha1.VolumeSpec{MountPath: "/v", VolumeClaimName: "data"}
	made := batchv1alpha1.VolumeSpec{MountPath: "/v", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}
	owner := mustertesting.MakeJob("j").UID("u").Obj()
	theirs := &corev1.PersistentVolumeClaim{}
	ours := &corev1.PersistentVolumeClaim{}
	ours.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, build.JobKind)}
	going := theirs.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}

	for name, c := range map[string]struct {
		volume            batchv1alpha1.VolumeSpec
		live              *corev1.PersistentVolumeClaim
		emptyDir          bool // asked for by the annotation
		recorded, instead bool // in the status: the claim; an empty directory in its place

		known   func(claim string) string // the key that the status should have
		reason  string
		toMake  bool
		isReady bool
	}{
		"a named claim":                    {volume: named, live: theirs, known: volumes.ClaimKey, isReady: true},
		"a missing claim":                  {volume: named, reason: plan.ReasonClaimNotFound},
		"a claim that goes":                {volume: named, live: going, reason: plan.ReasonClaimNotFound},
		"a missing claim, emptyDir":        {volume: named, emptyDir: true, known: volumes.EmptyDirKey, isReady: true},
		"a claim that went, emptyDir":      {volume: named, emptyDir: true, recorded: true, known: volumes.ClaimKey, reason: plan.ReasonClaimNotFound},
		"a claim that came after emptyDir": {volume: named, live: theirs, emptyDir: true, instead: true, known: volumes.EmptyDirKey, isReady: true},
		"a claim to make":                  {volume: made, toMake: true},
		"a claim that was made":            {volume: made, live: ours, known: volumes.ClaimKey, isReady: true},
		"a claim in the way":               {volume: made, live: theirs, reason: plan.ReasonClaimNameTaken},
		"a claim that was made and went":   {volume: made, recorded: true, known: volumes.ClaimKey, reason: plan.ReasonClaimNotFound},
		"a claim in the place of that":     {volume: made, live: theirs, recorded: true, known: volumes.ClaimKey, isReady: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := mustertesting.MakeJob("j").UID("u").Volume(c.volume).Obj()
			volume := &job.Spec.Volumes[0]
			claim := volumes.ClaimName(job, volume)
			if c.emptyDir {
				job.Annotations = map[string]string{batchv1alpha1.MissingClaimAnnotation: "emptyDir"}
			}
			job.Status.ControlledResources = map[string]string{}
			if c.recorded {
				job.Status.ControlledResources[volumes.ClaimKey(claim)] = claim
			}
			if c.instead {
				job.Status.ControlledResources[volumes.EmptyDirKey(claim)] = claim
			}
			found := &plan.Claims{Known: map[string]string{}}
			var live metav1.Object
			if c.live != nil {
				live = c.live
			}
			found.Add(job, volume, claim, live)

			want := map[string]string{}
			if c.known != nil {
				want[c.known(claim)] = claim
			}
			assert.Equal(t, want, found.Known)
			assert.Equal(t, c.toMake, len(found.Unmade) == 1)
			assert.Equal(t, c.isReady, found.Problem == nil && len(found.Unmade) == 0)
			if c.reason == "" {
				assert.Nil(t, found.Problem)
			} else {
				assert.Equal(t, c.reason, found.Problem.Reason)
				assert.Contains(t, found.Problem.Message, claim)
			}
		})
	}
}
