package jobplugins_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

func request() *corev1.PersistentVolumeClaimSpec {
	return &corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}
}

func (s *stage) makeClaim(name string) {
	s.t.Helper()
	_, err := kube.CoreV1().PersistentVolumeClaims(s.namespace).Create(s.t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *request()}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

func (s *stage) claims() []corev1.PersistentVolumeClaim {
	s.t.Helper()
	list, err := kube.CoreV1().PersistentVolumeClaims(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	return list.Items
}

// claimAt returns the claim behind a path in a container, "" for an empty directory.
func claimAt(t *testing.T, pod *corev1.Pod, container *corev1.Container, path string) string {
	t.Helper()
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != path {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name && volume.PersistentVolumeClaim != nil {
				return volume.PersistentVolumeClaim.ClaimName
			}
			if volume.Name == mount.Name && volume.EmptyDir != nil {
				return ""
			}
		}
	}
	require.Fail(t, "nothing is mounted", "%s in %s", path, container.Name)
	return ""
}

// expectControlled waits until the Job's status says what was made for it.
func (s *stage) expectControlled(job string, want map[string]string) {
	s.t.Helper()
	s.poll("the status tells what was made", func(context.Context) bool {
		return assert.ObjectsAreEqual(want, s.get(job).Status.ControlledResources)
	})
}

// TestVolumes: a claim that is made, one that is there at two paths, and none; in init containers too.
func TestVolumes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.makeClaim("data")
	builder := mustertesting.MakeJob("j").
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: request()}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "data"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/again", VolumeClaimName: "data"}).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/scratch"}).
		Task(mustertesting.MakeTask("w", 2)).Obj()
	builder.Spec.Tasks[0].Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	job := s.applyObject(builder)
	s.admit(job)
	var generated string
	for _, name := range []string{"j-w-0", "j-w-1"} {
		pod := s.pod(name)
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			generated = claimAt(t, pod, &container, "/out")
			assert.Regexp(t, `^j-pvc-[0-9a-z]{12}$`, generated)
			assert.Equal(t, "data", claimAt(t, pod, &container, "/data"))
			assert.Equal(t, "data", claimAt(t, pod, &container, "/again"))
			assert.Empty(t, claimAt(t, pod, &container, "/scratch"))
		}
	}
	job = s.get("j")
	assert.Equal(t, generated, job.Spec.Volumes[0].VolumeClaimName, "clients look there for the name")
	assert.Empty(t, job.Spec.Volumes[3].VolumeClaimName)
	s.expectControlled("j", map[string]string{"volume-pvc-" + generated: generated, "volume-pvc-data": "data"})
	claims := s.claims()
	require.Len(t, claims, 2)
	for i := range claims {
		assert.Equal(t, claims[i].Name == generated, metav1.IsControlledBy(&claims[i], job), claims[i].Name)
	}
}

// TestClaimsStay through suspension, another controller and the end of the Job.
func TestClaimsStay(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: request()}).Task(mustertesting.MakeTask("w", 1)))
	s.admit(job)
	s.run("j-w-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	before := s.claims()
	require.Len(t, before, 1)
	s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Suspend = ptr.To(true) })
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	whileDown(func() { s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Suspend = nil }) })
	s.admit(job)
	pod := s.pod("j-w-0")
	assert.Equal(t, before[0].Name, claimAt(t, pod, &pod.Spec.Containers[0], "/out"))
	s.run("j-w-0")
	s.end("j-w-0", 0)
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	assert.Equal(t, before, s.claims())
}

func TestAJobWaitsForTheClaimThatItNames(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "data"}).
		Task(mustertesting.MakeTask("w", 1)))
	state := s.JobReason(s.name("j"), "ClaimNotFound")
	assert.Equal(t, batchv1alpha1.Pending, state.Phase)
	assert.Contains(t, state.Message, `claim "data" for /data does not exist`)
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool {
		return e.Reason == "ClaimNotFound" && strings.Contains(e.Message, `"data"`)
	})
	groups, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, groups.Items, "it takes no place in its queue meanwhile")

	s.makeClaim("data")
	s.admit(job)
	pod := s.pod("j-w-0")
	assert.Equal(t, "data", claimAt(t, pod, &pod.Spec.Containers[0], "/data"))
	s.expectControlled("j", map[string]string{"volume-pvc-data": "data"})
	assert.Empty(t, s.get("j").Status.State.Reason)
}

// TestEmptyDirInPlaceOfAMissingClaim must be asked for, and then all pods have it, whatever appears later.
func TestEmptyDirInPlaceOfAMissingClaim(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Annotation(batchv1alpha1.MissingClaimAnnotation, "emptyDir").MinAvailable(1).
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "data"}).Task(mustertesting.MakeTask("w", 1)))
	s.admit(job)
	pod := s.pod("j-w-0")
	assert.Empty(t, claimAt(t, pod, &pod.Spec.Containers[0], "/data"))
	s.expectControlled("j", map[string]string{"volume-emptyDir-data": "data"})

	s.makeClaim("data")
	s.edit("j", func(j *batchv1alpha1.Job) { j.Spec.Tasks[0].Replicas = 2 })
	pod = s.pod("j-w-1")
	assert.Empty(t, claimAt(t, pod, &pod.Spec.Containers[0], "/data"))
}

// TestAClaimThatWasMadeIsNotMadeTwice: its data went with it, and no user should think that it is still there.
func TestAClaimThatWasMadeIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").
		Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: request()}).Task(mustertesting.MakeTask("w", 1)))
	s.poll("the status tells of the claim", func(context.Context) bool { return len(s.get("j").Status.ControlledResources) == 1 })
	name := s.claims()[0].Name
	claims := kube.CoreV1().PersistentVolumeClaims(s.namespace)
	_, err := claims.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, claims.Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.JobReason(s.name("j"), "ClaimNotFound")
	s.admit(job)
	s.PodsStay(0, "no pod is created", s.in())
	s.makeClaim(name)
	s.pod("j-w-0")
}

func TestARefusedClaimSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	wrong := request()
	wrong.AccessModes = nil
	s.apply(mustertesting.MakeJob("j").Volume(batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: wrong}).
		Task(mustertesting.MakeTask("w", 1)))
	state := s.JobReason(s.name("j"), "PVCError")
	assert.Contains(t, state.Message, "accessModes")
	s.Event("Job", s.name("j"), func(e watchlog.Event) bool { return e.Reason == "PVCError" })
}
