//go:build real

package jobs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestMPIJob runs the mpi-job of the examples with OpenSSH and Open MPI. Only the image and what mpiexec starts are the test's own.
func TestMPIJob(t *testing.T) {
	s := begin(t)
	job := s.ReadJob("../../../manifests/examples/mpi-job.yaml")
	inImage(job)
	master := &job.Spec.Tasks[0].Template.Spec.Containers[0]
	master.Command = []string{"sh", "-c",
		`mpiexec --host "$VC_MPIWORKER_HOSTS" sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"'`}
	job.Namespace = s.Namespace
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
	require.NoError(t, err)

	awaitPhase(s, job.Name, batchv1alpha1.Completed)
	ranks := regexp.MustCompile(`rank \d of \d on \S+`).FindAllString(logOf(s, "mpi-job-mpimaster-0"), -1)
	assert.ElementsMatch(t, []string{"rank 0 of 2 on mpi-job-mpiworker-0", "rank 1 of 2 on mpi-job-mpiworker-1"}, ranks)
}

// TestSSHAfterScalingUp logs in to pods that came after the pod that logs in, and back.
func TestSSHAfterScalingUp(t *testing.T) {
	s := begin(t)
	job := create(s, mustertesting.MakeJob("wide").Plugin("ssh").Plugin("svc").
		Task(shell("boss", 1, `/usr/sbin/sshd
# The keys were there before the Job was scaled, and the kubelet has replaced the files of Secret and ConfigMap since.
until [ $(grep -c . /etc/volcano/worker.host) = 3 ]; do sleep 1; done
until grep -q wide-worker-2 /secret/config; do sleep 1; done
for n in 1 2; do
  until ssh -o ConnectTimeout=5 wide-worker-$n.wide "hostname; ssh wide-boss-0.wide hostname"; do sleep 1; done
done`).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)).
		Task(shell("worker", 1, "exec /usr/sbin/sshd -D")), mountSecret)
	awaitPhase(s, job, batchv1alpha1.Running)

	require.NoError(t, s.EditJob(s.Name(job), func(job *batchv1alpha1.Job) { job.Spec.Tasks[1].Replicas = 3 }))
	awaitPhase(s, job, batchv1alpha1.Completed)
	text := logOf(s, "wide-boss-0")
	for _, name := range []string{"wide-worker-1", "wide-worker-2", "wide-boss-0"} {
		assert.Regexp(t, `(?m)^`+name+`$`, text)
	}
}

// mountSecret mounts the Secret of the plugin once more into the first task, as a folder that follows the Secret.
func mountSecret(job *batchv1alpha1.Job) {
	spec := &job.Spec.Tasks[0].Template.Spec
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "followed", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: job.Name + "-ssh"},
	}})
	container := &spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "followed", MountPath: "/secret"})
}
