//go:build real

// Package jobs runs Jobs and PhJobs in real containers, with Muster's programs as processes of the local cluster. `make test-real` runs
// it; it needs root and the packages of docs/real-node.md.
package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
	"github.com/muster-sched/muster/test/real/workloads"
)

// image has OpenSSH, Open MPI, the checker, and a program in the place of Ray.
const image = "muster.local/job:1"

// timeout is how long a Job of real containers may take.
const timeout = 5 * time.Minute

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{
		RealNode:  true,
		Timeout:   timeout,
		ExtraArgs: map[string][]string{localcluster.MusterController: {"--restart-backoff=0s"}},
	})
}

// begin gives a test its namespace, on a node that has the image.
func begin(t *testing.T) *harness.Story {
	t.Helper()
	t.Parallel()
	require.NoError(t, importImage())
	return harness.New(t)
}

// importImage makes the image and gives it to the node, once for all tests.
var importImage = sync.OnceValue(func() error {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	debian, err := workloads.DebianLayer(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "muster-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	checker := filepath.Join(dir, "checker")
	build := exec.Command("go", "build", "-trimpath", "-o", checker, "./test/real/checker")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the checker: %w: %s", err, output)
	}
	layers := []string{debian}
	for name, program := range map[string]string{"checker": checker, "ray": "testdata/ray.sh"} {
		layer := filepath.Join(dir, name+".tar")
		if err := realnode.WriteLayer(layer, program, "usr/local/bin/"+name); err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	archive := filepath.Join(dir, "image.tar")
	if err := (realnode.Image{
		Name:   image,
		Layers: layers,
		// Open MPI refuses to run as root unless it is told twice.
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
	}).Write(archive); err != nil {
		return err
	}
	return harness.Shared().ImportImage(context.Background(), archive)
})

// shell makes a task of pods that run a line of shell in the image. They go at once when they are deleted.
func shell(name string, replicas int32, line string) *mustertesting.TaskWrapper {
	return mustertesting.MakeTask(name, replicas).Command("sh", "-c", line)
}

// inImage makes the containers of a Job run the test's image.
func inImage(job *batchv1alpha1.Job) {
	grace := int64(1)
	for i := range job.Spec.Tasks {
		spec := &job.Spec.Tasks[i].Template.Spec
		spec.TerminationGracePeriodSeconds = &grace
		for j := range spec.Containers {
			spec.Containers[j].Image, spec.Containers[j].ImagePullPolicy = image, corev1.PullNever
		}
	}
}

// create creates a Job of the test's image, once the changes are made to it.
func create(s *harness.Story, wrapper *mustertesting.JobWrapper, changes ...func(*batchv1alpha1.Job)) string {
	s.T.Helper()
	job := wrapper.Obj()
	job.Namespace = s.Namespace
	inImage(job)
	for _, change := range changes {
		change(job)
	}
	_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return job.Name
}

// awaitPhase waits until a Job is in a phase.
func awaitPhase(s *harness.Story, job string, phase batchv1alpha1.JobPhase) {
	s.T.Helper()
	name := s.Name(job)
	s.Within(timeout, job+" is "+string(phase),
		func() bool { return s.Log.Job(name).Phase == phase },
		func() any { return fmt.Sprint(s.Log.JobStates(name), "\n", logs(s, job)) })
}

// logs are what the pods of a Job have printed.
func logs(s *harness.Story, job string) string {
	var text strings.Builder
	for _, pod := range s.Log.Pods(s.In(harness.Of(job), harness.Live)) {
		fmt.Fprintf(&text, "%s printed:\n%s\n", pod.Name, logOf(s, pod.Name))
	}
	return text.String()
}

// logOf reads what a pod has printed.
func logOf(s *harness.Story, pod string) string {
	s.T.Helper()
	text, err := readLog(s, pod)
	require.NoError(s.T, err)
	return text
}

func readLog(s *harness.Story, pod string) (string, error) {
	text, err := s.Kube.CoreV1().Pods(s.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(s.Ctx)
	return string(text), err
}
