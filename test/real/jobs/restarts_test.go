//go:build real

package jobs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// countsItsRuns keeps the number of a pod's runs in the Job's volume. When all pods have begun, the first worker ends with code 7 in its
// first run. The other pods succeed once it runs again. The number is put in place by a rename, so that no pod reads an empty file.
const countsItsRuns = `set -e
own=/data/$(hostname); bad=/data/again-worker-0
runs=$(( $(cat $own 2>/dev/null || echo 0) + 1 )); echo $runs >/data/.$(hostname); mv /data/.$(hostname) $own; echo "run $runs"
while [ $(ls /data | wc -l) -lt 3 ]; do sleep 0.2; done
if [ $own = $bad ] && [ $runs = 1 ]; then exit 7; fi
while [ $(cat $bad) -lt 2 ]; do sleep 0.2; done`

// TestRestarts restarts a pod, its task and its Job for a real exit code. The volume keeps its data over the restart.
func TestRestarts(t *testing.T) {
	tests := map[busv1alpha1.Action]struct{ worker0, worker1, other string }{
		busv1alpha1.RestartPodAction:  {"run 2\n", "run 1\n", "run 1\n"},
		busv1alpha1.RestartTaskAction: {"run 2\n", "run 2\n", "run 1\n"},
		busv1alpha1.RestartJobAction:  {"run 2\n", "run 2\n", "run 2\n"},
	}
	for action, want := range tests {
		t.Run(string(action), func(t *testing.T) {
			s := begin(t)
			policy := batchv1alpha1.LifecyclePolicy{Action: action, ExitCode: ptr.To[int32](7)}
			job := create(s, mustertesting.MakeJob("again").
				Volume(batchv1alpha1.VolumeSpec{MountPath: "/data", VolumeClaimName: claim(s, "data")}).
				Task(shell("worker", 2, countsItsRuns).LifecyclePolicy(policy)).Task(shell("other", 1, countsItsRuns)))
			awaitPhase(s, job, batchv1alpha1.Completed)
			assert.Equal(t, want.worker0, logOf(s, "again-worker-0"))
			assert.Equal(t, want.worker1, logOf(s, "again-worker-1"))
			assert.Equal(t, want.other, logOf(s, "again-other-0"))
		})
	}
}

// claim makes a claim to a folder of the real node, and returns its name.
func claim(s *harness.Story, name string) string {
	s.T.Helper()
	own := s.Namespace + "-" + name
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: own},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef: &corev1.ObjectReference{Namespace: s.Namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/var/lib/data/" + own, Type: ptr.To(corev1.HostPathDirectoryOrCreate),
			}},
		},
	}
	_, err := s.Kube.CoreV1().PersistentVolumes().Create(s.Ctx, volume, metav1.CreateOptions{})
	require.NoError(s.T, err)
	_, err = s.Kube.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(""), VolumeName: own, AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return name
}
