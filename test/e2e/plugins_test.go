package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// peers are the objects that the plugins svc and ssh make.
type peers struct {
	service *corev1.Service
	hosts   *corev1.ConfigMap
	secret  *corev1.Secret
}

func peersOf(t *testing.T, s *harness.Story) peers {
	t.Helper()
	var p peers
	var err error
	p.service, err = s.Kube.CoreV1().Services(s.Namespace).Get(s.Ctx, "job", metav1.GetOptions{})
	require.NoError(t, err)
	p.hosts, err = s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(s.Ctx, "job-svc", metav1.GetOptions{})
	require.NoError(t, err)
	p.secret, err = s.Kube.CoreV1().Secrets(s.Namespace).Get(s.Ctx, "job-ssh", metav1.GetOptions{})
	require.NoError(t, err)
	return p
}

// TestRestartsLeaveTheNetworkAlone: while pods or tasks restart, Service, ConfigMap and Secret are not even written to.
func TestRestartsLeaveTheNetworkAlone(t *testing.T) {
	t.Parallel()
	for action, restarted := range map[busv1alpha1.Action]int{busv1alpha1.RestartPodAction: 1, busv1alpha1.RestartTaskAction: 2} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			s.AddNodes(1, "cpu", "4")
			job := s.CreateJob(twoTasks().Plugin("mpi", "--master=one", "--worker=many").Policy(busv1alpha1.PodFailedEvent, action))
			running := s.Pods(3, "all pods run", s.In(harness.Running))
			s.JobPhase(job, batchv1alpha1.Running)
			before := peersOf(t, s)
			s.EndPod("job-many-1", 3)
			had := map[string]bool{}
			for _, pod := range running {
				had[string(pod.UID)] = true
			}
			s.Pods(restarted, "new pods run", s.In(harness.Running, func(p watchlog.Pod) bool { return !had[string(p.UID)] }))
			s.Pods(3, "all pods run again", s.In(harness.Running))
			assert.Equal(t, before, peersOf(t, s))
			assert.Contains(t, string(before.secret.Data["config"]), "Host job-many-1\n")
		})
	}
}

// ownClaim adds a disk to the cluster, and returns the volume of a Job that claims it.
func ownClaim(s *harness.Story) batchv1alpha1.VolumeSpec {
	s.T.Helper()
	disk := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               mustertesting.Resources("storage", "1Gi"),
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
			StorageClassName:       s.Namespace,
		},
	}
	_, err := s.Kube.CoreV1().PersistentVolumes().Create(s.Ctx, disk, metav1.CreateOptions{})
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		assert.NoError(s.T, s.Kube.CoreV1().PersistentVolumes().Delete(context.Background(), disk.Name, metav1.DeleteOptions{}))
	})
	return batchv1alpha1.VolumeSpec{MountPath: "/out", VolumeClaim: &corev1.PersistentVolumeClaimSpec{
		AccessModes:      disk.Spec.AccessModes,
		StorageClassName: ptr.To(s.Namespace),
		Resources:        corev1.VolumeResourceRequirements{Requests: disk.Spec.Capacity},
	}}
}

// claimsOf are the claims in the test's namespace.
func claimsOf(s *harness.Story) []corev1.PersistentVolumeClaim {
	s.T.Helper()
	claims, err := s.Kube.CoreV1().PersistentVolumeClaims(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(s.T, err)
	return claims.Items
}

// TestAJobWithAClaimOfItsOwn: the claim is made, bound and mounted, and the Job runs.
func TestAJobWithAClaimOfItsOwn(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(twoTasks().Volume(ownClaim(s)))
	s.Pods(3, "all pods run", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	claims := claimsOf(s)
	require.Len(t, claims, 1)
	assert.Equal(t, corev1.ClaimBound, claims[0].Status.Phase)
	assert.True(t, strings.HasPrefix(claims[0].Name, "job-pvc-"))
}

// TestAJobWaitsForItsClaim and starts by itself when the claim is made.
func TestAJobWaitsForItsClaim(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(twoTasks().Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: "data"}))
	s.JobReason(job, "ClaimNotFound")
	s.Event("Job", job, func(e watchlog.Event) bool { return strings.Contains(e.Message, `"data"`) })
	s.PodsStay(0, "no pod is created", s.In())
}

// TestRightsOnSecrets: muster-controller may read Secrets only in the namespace of a running Job with a key.
func TestRightsOnSecrets(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	may := func(verb, namespace string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:muster-system:muster-controller",
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:muster-system", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "secrets", Namespace: namespace},
		}}
		answer, err := s.Kube.AuthorizationV1().SubjectAccessReviews().Create(s.Ctx, review, metav1.CreateOptions{})
		require.NoError(t, err)
		return answer.Status.Allowed
	}
	assert.False(t, may("get", s.Namespace), "no Job has a key")
	job := s.CreateJob(twoTasks().Plugin("ssh"))
	s.Pods(3, "all pods run", s.In(harness.Running))
	assert.True(t, may("get", s.Namespace))
	for _, verb := range []string{"list", "watch", "patch", "deletecollection"} {
		assert.False(t, may(verb, s.Namespace), verb)
	}
	for _, namespace := range []string{metav1.NamespaceAll, metav1.NamespaceSystem} {
		assert.False(t, may("get", namespace), "namespace %q", namespace)
	}
	for _, pod := range []string{"job-one-0", "job-many-0", "job-many-1"} {
		s.EndPod(pod, 0)
	}
	s.JobPhase(job, batchv1alpha1.Completed)
	require.Eventually(t, func() bool { return !may("get", s.Namespace) }, time.Minute, 50*time.Millisecond, "the right goes with the Job's end")
	_, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(s.Ctx, "job-ssh", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

// TestShortJobsWithAKeyHaveNoWarning (issue 40, 10): the right to read a Job's Secret comes with its RoleBinding, and goes with it. Each Job has
// a namespace of its own, so that no other gives the right.
func TestShortJobsWithAKeyHaveNoWarning(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			name := s.CreateJob(mustertesting.MakeJob("j").Plugin("ssh").Task(mustertesting.MakeTask("a", 1).ExitAfter(time.Millisecond, 0)))
			s.JobPhase(name, batchv1alpha1.Completed)
			bindings := func() int {
				list, err := s.Kube.RbacV1().RoleBindings(s.Namespace).List(s.Ctx, metav1.ListOptions{})
				require.NoError(t, err)
				return len(list.Items)
			}
			s.Soon("the RoleBinding is gone", func() bool { return bindings() == 0 }, func() any { return bindings() })
			// A later event shows that all earlier ones have come.
			s.Command(name, busv1alpha1.ResumeJobAction)
			s.Event("Job", name, func(e watchlog.Event) bool { return e.Reason == "CommandIgnored" })
			for _, event := range s.Log.Events("Job", name.Namespace, name.Name) {
				if event.Reason != "CommandIgnored" {
					assert.NotEqual(t, corev1.EventTypeWarning, event.Type, "%s: %s", event.Reason, event.Message)
				}
			}
			assert.NotContains(t, s.Job(name).Status.State.Message, "not done yet")
		})
	}
}
