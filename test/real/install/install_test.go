//go:build real

package install

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/installation"
)

// TestItsOwnImage installs Muster in a cluster that has nothing of it. Its four pods run on the real node, and so does a gang without
// tolerations. A gang that tolerates simulated nodes runs there.
func TestItsOwnImage(t *testing.T) {
	s, k := begin(t)
	// The local cluster comes with Muster's API, roles and policies.
	k.Remove(deploy)
	require.Empty(t, k.Left())
	require.NoError(t, install(t.Context(), k, beside, deploy))
	for _, component := range installation.Components {
		pods, err := replicas(s, component)
		require.NoError(t, err)
		require.Len(t, pods, 2)
		for i := range pods {
			requireOwnImage(t, &pods[i])
		}
	}

	inContainers := create(s, mustertesting.MakeJob("contained").MinAvailable(3).Task(mustertesting.MakeTask("member", 3).
		Requests("cpu", "50m").Command("/busybox", "sh", "-c", "echo written in a container")), contained)
	onSimulated := create(s, gang("simulated"), simulated)
	awaitPhase(s, inContainers, batchv1alpha1.Completed)
	awaitPhase(s, onSimulated, batchv1alpha1.Completed)
	for _, pod := range s.Log.Pods(s.In(harness.Of(inContainers))) {
		assert.Equal(t, realnode.NodeName, pod.Node)
		assert.Equal(t, "written in a container\n", logOf(s, pod.Name))
	}
	for _, pod := range s.Log.Pods(s.In(harness.Of(onSimulated))) {
		assert.Contains(t, pod.Node, localcluster.NodeNamePrefix)
	}
	s.WholeGangs(s.Namespace, takeoverLimit)
}

// requireOwnImage checks that a replica of Muster runs from the image that was imported, and has not crashed.
func requireOwnImage(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	assert.Equal(t, realnode.NodeName, pod.Spec.NodeName, "simulated nodes are tainted")
	assert.True(t, isReady(pod), pod.Name)
	require.Len(t, pod.Status.ContainerStatuses, 1)
	status := pod.Status.ContainerStatuses[0]
	assert.Zero(t, status.RestartCount, pod.Name)
	assert.Regexp(t, `(^|/)muster:dev$`, status.Image)
}

// logOf reads what a pod has printed.
func logOf(s *harness.Story, pod string) string {
	s.T.Helper()
	text, err := s.Kube.CoreV1().Pods(s.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(s.Ctx)
	require.NoError(s.T, err)
	return string(text)
}

// uidOf makes a deletion hit this pod, and no later one of its name.
func uidOf(pod *corev1.Pod) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
}
