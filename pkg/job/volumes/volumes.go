// Package volumes has the rules of a Job's volumes: the names of their claims, and how pods mount them. It is pure.
package volumes

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// Keys of status.controlledResources; the name of the claim follows.
const (
	claimKey    = "volume-pvc-"
	emptyDirKey = "volume-emptyDir-"
)

// ClaimKey is the key of status.controlledResources that tells that the claim is there.
func ClaimKey(claim string) string { return claimKey + claim }

// EmptyDirKey is the key of status.controlledResources that tells that the Job runs with empty directories in the
// claim's place. Once it is there the Job keeps to it, so that all its pods have the same.
func EmptyDirKey(claim string) string { return emptyDirKey + claim }

// IsKey tells whether the key of an entry of status.controlledResources is one of a claim.
func IsKey(key string) bool {
	return strings.HasPrefix(key, claimKey) || strings.HasPrefix(key, emptyDirKey)
}

// ClaimName returns the name of the claim behind a volume. It is the one that the volume names, or else that of the claim that is
// to be made. It is "" for a volume with neither.
func ClaimName(job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec) string {
	if volume.VolumeClaimName != "" || volume.VolumeClaim == nil {
		return volume.VolumeClaimName
	}
	return GeneratedName(job, volume)
}

const (
	base       = 36 // 0-9 and a-z
	nameDigits = 12
)

// GeneratedName returns the name of the claim that is made for a volume. It follows from the Job's UID and the volume's
// path, so that no crash can lead to a second claim.
func GeneratedName(job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec) string {
	sum := sha256.Sum256([]byte(string(job.UID) + "\x00" + volume.MountPath))
	digits := new(big.Int).SetBytes(sum[:]).Text(base)
	digits = strings.Repeat("0", max(nameDigits-len(digits), 0)) + digits
	return fmt.Sprintf("%s-pvc-%s", job.Name, digits[len(digits)-nameDigits:])
}

// IsMade tells whether the volume's claim is one that is made for the Job.
func IsMade(job *batchv1alpha1.Job, volume *batchv1alpha1.VolumeSpec) bool {
	return volume.VolumeClaim != nil && ClaimName(job, volume) == GeneratedName(job, volume)
}

// Mount mounts the Job's volumes into every container and init container of a pod. Volumes of one claim share it; a volume without a claim
// is an empty directory. The Job's status says which claims have empty directories in their place.
func Mount(spec *corev1.PodSpec, job *batchv1alpha1.Job) {
	byClaim := map[string]string{} // claim -> name of the pod's volume
	for i := range job.Spec.Volumes {
		volume := &job.Spec.Volumes[i]
		claim := ClaimName(job, volume)
		name, mounted := byClaim[claim]
		if claim == "" || !mounted {
			name = fmt.Sprintf("job-volume-%d", i)
			byClaim[claim] = name
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: sourceOf(job, claim)})
		}
		mount := corev1.VolumeMount{Name: name, MountPath: volume.MountPath}
		for c := range spec.InitContainers {
			spec.InitContainers[c].VolumeMounts = append(spec.InitContainers[c].VolumeMounts, mount)
		}
		for c := range spec.Containers {
			spec.Containers[c].VolumeMounts = append(spec.Containers[c].VolumeMounts, mount)
		}
	}
}

func sourceOf(job *batchv1alpha1.Job, claim string) corev1.VolumeSource {
	_, replaced := job.Status.ControlledResources[EmptyDirKey(claim)]
	if claim == "" || replaced {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}
