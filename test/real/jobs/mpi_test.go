//go:build real

package jobs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
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
	assert.NoError(t, err)

	awaitPhase(s, job.Name, batchv1alpha1.Completed)
	ranks := regexp.MustCompile(`rank \d of \d on \S+`).FindAllString(logOf(s, "mpi-job-mpimaster-0"), -1)
	assert.ElementsMatch(t, []string{"rank 0 of 2 on mpi-job-mpiworker-0", "rank 1 of 2 on mpi-job-mpiworker-1"}, ranks)
}
