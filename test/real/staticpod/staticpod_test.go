//go:build real

// Package staticpod puts muster-scheduler in the place of the default scheduler. It is a static pod of the real node, from Muster's own image.
// `make test-real` runs it; it needs root and the packages of docs/real-node.md.
package staticpod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
	"github.com/muster-sched/muster/test/real/workloads"
)

const (
	root = "../../.."
	// mirror is how the API shows the static pod.
	mirror  = "muster-scheduler-" + realnode.NodeName
	timeout = 5 * time.Minute
	look    = 100 * time.Millisecond
)

// The cluster has no scheduler.
func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{
		RealNode: true, Without: []string{localcluster.MusterScheduler, localcluster.MusterController}, Timeout: timeout,
	})
}

// TestInPlaceOfTheDefaultScheduler does the steps of manifests/deploy/replace-default/static-pod, and goes back.
func TestInPlaceOfTheDefaultScheduler(t *testing.T) {
	s := harness.New(t)
	k := installation.Kubectl{T: t, Cluster: s.Cluster.Cluster, Root: root}
	require.NoError(t, workloads.ImportBusybox(t.Context(), s.Cluster.Cluster))
	require.NoError(t, workloads.ImportMuster(t.Context(), s.Cluster.Cluster, root, "dev"))
	require.NoError(t, k.Follow(t.Context(), "In place of the default scheduler", root+"/manifests/deploy"))

	etc := s.EtcKubernetes()
	write(t, etc, "muster-scheduler.yaml", schedulerConfig(t))
	write(t, etc, "manifests/muster-scheduler.yaml", k.Run("kustomize", root+"/manifests/deploy/replace-default/static-pod"))
	pods := s.Kube.CoreV1().Pods(metav1.NamespaceSystem)
	require.Eventually(t, func() bool {
		pod, err := pods.Get(t.Context(), mirror, metav1.GetOptions{})
		return err == nil && isReady(pod)
	}, timeout, look, "the static pod is ready")
	pod, err := pods.Get(t.Context(), mirror, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, pod.Annotations, corev1.MirrorPodAnnotationKey)
	assert.True(t, pod.Spec.HostNetwork)

	// It schedules muster-controller, what users run, and gangs.
	k.Run("rollout", "status", "-n", localcluster.SystemNamespace, "deployment/muster-controller")
	workloads.RunOrdinary(s, timeout, corev1.Container{Image: workloads.Busybox, Command: []string{"/busybox", "sleep", "1000000"}})
	runGang(s)

	require.NoError(t, os.Remove(filepath.Join(etc, "manifests", "muster-scheduler.yaml")))
	require.Eventually(t, func() bool {
		_, err := pods.Get(t.Context(), mirror, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, timeout, look, "the kubelet stops the scheduler")
}

// schedulerConfig is the shipped configuration, with the kubeconfig that step 1 asks for.
func schedulerConfig(t *testing.T) string {
	t.Helper()
	shipped, err := os.ReadFile(root + "/manifests/scheduler/replace-default.yaml")
	require.NoError(t, err)
	const connection = "clientConnection:\n"
	require.Contains(t, string(shipped), connection)
	return strings.Replace(string(shipped), connection, connection+"  kubeconfig: /etc/kubernetes/scheduler.conf\n", 1)
}

// write puts a file in place at once, as the kubelet may look at any time.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	unfinished := filepath.Join(folder, ".new")
	require.NoError(t, os.WriteFile(unfinished, []byte(text), 0o600))
	require.NoError(t, os.Rename(unfinished, filepath.Join(folder, name)))
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// runGang runs a Job for the default scheduler to its end.
func runGang(s *harness.Story) {
	s.T.Helper()
	job := mustertesting.MakeJob("gang").SchedulerName(corev1.DefaultSchedulerName).MinAvailable(3).
		Task(mustertesting.MakeTask("member", 3).Command("/busybox", "true")).Obj()
	job.Namespace = s.Namespace
	container := &job.Spec.Tasks[0].Template.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = workloads.Busybox, corev1.PullNever
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
	require.NoError(s.T, err)
	s.Within(timeout, "the gang has completed",
		func() bool { return s.Log.Job(s.Name(job.Name)).Phase == batchv1alpha1.Completed },
		func() any { return s.Log.JobStates(s.Name(job.Name)) })
	s.WholeGangs(s.Namespace, timeout)
}
