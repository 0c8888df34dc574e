package volumes_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/volumes"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestNamesOfClaims(t *testing.T) {
	made := batchv1alpha1.VolumeSpec{MountPath: "/a", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}
	job := mustertesting.MakeJob("j").UID("u").Obj()
	// The last 12 digits of the SHA-256 of the UID, a zero byte and the path, to the base 36. A later version of the controller that
	// made other names would give running Jobs new, empty claims.
	const name = "j-pvc-6fplgyb630di"
	assert.Equal(t, name, volumes.ClaimName(job, &made))
	assert.True(t, volumes.IsMade(job, &made))

	filled := made
	filled.VolumeClaimName = name
	assert.Equal(t, name, volumes.ClaimName(job, &filled))
	assert.True(t, volumes.IsMade(job, &filled), "also with its name filled in")

	elsewhere := made
	elsewhere.MountPath = "/b"
	assert.Equal(t, "j-pvc-wjybij5onb0c", volumes.ClaimName(job, &elsewhere))
	assert.Equal(t, "j-pvc-9n1uxwfkqu3q", volumes.ClaimName(mustertesting.MakeJob("j").UID("v").Obj(), &made), "another Job of that name")

	assert.Equal(t, "data", volumes.ClaimName(job, &batchv1alpha1.VolumeSpec{VolumeClaimName: "data"}))
	assert.Empty(t, volumes.ClaimName(job, &batchv1alpha1.VolumeSpec{MountPath: "/a"}))
	assert.False(t, volumes.IsMade(job, &batchv1alpha1.VolumeSpec{VolumeClaimName: name}))
}

func TestMount(t *testing.T) {
	job := mustertesting.MakeJob("j").UID("u").
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/scratch"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "data"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/again", VolumeClaimName: "data"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{}}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/gone", VolumeClaimName: "gone"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/tmp2"}).
		Status(batchv1alpha1.JobStatus{ControlledResources: map[string]string{"volume-emptyDir-gone": "gone"}}).Obj()
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}}, Containers: []corev1.Container{{Name: "a"}, {Name: "b"}},
	}
	volumes.Mount(&spec, job)

	require.Len(t, spec.Volumes, 5)
	for _, n := range []int{0, 3, 4} {
		assert.NotNil(t, spec.Volumes[n].EmptyDir, spec.Volumes[n].Name)
	}
	assert.Equal(t, "data", spec.Volumes[1].PersistentVolumeClaim.ClaimName)
	assert.Equal(t, "j-pvc-4iuk1h97r69p", spec.Volumes[2].PersistentVolumeClaim.ClaimName)
	want := []corev1.VolumeMount{
		{Name: "job-volume-0", MountPath: "/scratch"}, {Name: "job-volume-1", MountPath: "/data"},
		{Name: "job-volume-1", MountPath: "/again"}, {Name: "job-volume-3", MountPath: "/out"},
		{Name: "job-volume-4", MountPath: "/gone"}, {Name: "job-volume-5", MountPath: "/tmp2"},
	}
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		assert.Equal(t, want, c.VolumeMounts, c.Name)
	}
}

// TestKeys: a running Job's status has these keys, so they must stay what they are.
func TestKeys(t *testing.T) {
	assert.Equal(t, "volume-pvc-data", volumes.ClaimKey("data"))
	assert.Equal(t, "volume-emptyDir-data", volumes.EmptyDirKey("data"))
	for key, want := range map[string]bool{"volume-pvc-data": true, "volume-emptyDir-data": true, "plugin-svc": false, "volume-": false, "": false} {
		assert.Equal(t, want, volumes.IsKey(key), key)
	}
}
