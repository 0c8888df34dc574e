package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// volcano runs one of Volcano's programs, which has to succeed, and returns what it printed.
func volcano(s *harness.Story, name string, args ...string) string {
	s.T.Helper()
	got := called(s, name, args...)
	require.Zero(s.T, got.code, "%s %s says %s%s", name, strings.Join(args, " "), got.out, got.err)
	return got.out
}

func TestVcctlJob(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	assert.Equal(t, "No resources found\n", volcano(s, "vcctl", "job", "list", "-n", s.Namespace))
	assert.Equal(t, "run job one successfully\n", volcano(s, "vcctl", "job", "run", "-N", "one", "-n", s.Namespace, "-r", "2", "-m", "2", "-R", "cpu=10m,memory=1Mi", "-L", "cpu=10m,memory=1Mi"))
	one := s.Name("one")
	s.JobPhase(one, batchv1alpha1.Running)
	job := s.Job(one)
	assert.Equal(t, "one", job.Spec.Tasks[0].Template.Labels["job.volcano.sh"])
	assert.Equal(t, "one", job.Spec.Tasks[0].Template.Spec.Containers[0].Name)

	rows := table(volcano(s, "vcctl", "job", "list", "-n", s.Namespace))
	assert.Equal(t, []string{"Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed", "Unknown", "RetryCount"}, rows[0])
	assert.Equal(t, []string{"one", job.CreationTimestamp.Format("2006-01-02"), "Running", "Batch", "2", "2", "0", "2", "0", "0", "0", "0"}, rows[1])
	assert.Equal(t, []string{"Namespace", "Name"}, table(volcano(s, "vcctl", "job", "list", "--all-namespaces"))[0][:2])
	assert.Equal(t, "No resources found\n", volcano(s, "vcctl", "job", "list", "-n", s.Namespace, "--selector", "two"))
	view := volcano(s, "vcctl", "job", "view", "-N", "one", "-n", s.Namespace)
	assert.Regexp(t, `(?m)^Name: +one$`, view)
	assert.Regexp(t, `(?m)^Events:`, view)
	pods := table(volcano(s, "vcctl", "pod", "list", "-j", "one", "-n", s.Namespace))
	assert.Equal(t, []string{"Name", "Ready", "Status", "Restart", "Age"}, pods[0])
	assert.Equal(t, []string{"one-default0-0", "1/1", "Running", "0"}, pods[1][:4])
	assert.Len(t, pods, 3)

	assert.Empty(t, volcano(s, "vcctl", "job", "suspend", "-N", "one", "-n", s.Namespace))
	s.JobPhase(one, batchv1alpha1.Aborted)
	assert.Empty(t, volcano(s, "vcctl", "job", "resume", "-N", "one", "-n", s.Namespace))
	s.JobPhase(one, batchv1alpha1.Running)
	assert.Equal(t, "delete job one successfully\n", volcano(s, "vcctl", "job", "delete", "-N", "one", "-n", s.Namespace))

	unknown := called(s, "vcctl", "job", "delete", "-N", "nothing", "-n", s.Namespace)
	assert.Equal(t, 255, unknown.code)
	assert.Equal(t, "Failed to delete job: jobs.batch.volcano.sh \"nothing\" not found\n", unknown.out)
	assert.Empty(t, unknown.err)
	assert.Contains(t, called(s, "vcctl", "job", "run").out, "job name cannot be left blank")
	assert.Contains(t, called(s, "vcctl", "job", "run", "-f", "job.json").out, "only support yaml file")
	assert.Contains(t, volcano(s, "vcctl", "version"), "API Version: v1alpha1\n")
}

func TestVcctlRunsAFile(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: filed, namespace: `+s.Namespace+`}
spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: main, image: busybox}]}}}]}
`), 0o600))
	assert.Equal(t, "run job filed successfully\n", volcano(s, "vcctl", "job", "run", "-f", file))
	s.JobPhase(s.Name("filed"), batchv1alpha1.Running)
}

func TestTheShortProgramsOfVolcano(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	small := []string{"-R", "cpu=10m,memory=1Mi", "-L", "cpu=10m,memory=1Mi"}
	volcano(s, "vsub", append([]string{"-n", "sub", "-N", s.Namespace, "-c", `sh -c "sleep 3600"`}, small...)...)
	sub := s.Name("sub")
	s.JobPhase(sub, batchv1alpha1.Running)
	assert.Equal(t, []string{"sh", "-c", "sleep 3600"}, s.Job(sub).Spec.Tasks[0].Template.Spec.Containers[0].Command)
	assert.Equal(t, "sub", table(volcano(s, "vjobs", "-N", s.Namespace))[1][0])
	assert.Regexp(t, `(?m)^Name: +sub$`, volcano(s, "vjobs", "-n", "sub", "-N", s.Namespace))
	volcano(s, "vsuspend", "-n", "sub", "-N", s.Namespace)
	s.JobPhase(sub, batchv1alpha1.Aborted)
	volcano(s, "vresume", "-n", "sub", "-N", s.Namespace)
	s.JobPhase(sub, batchv1alpha1.Running)
	assert.Equal(t, "cancel job sub successfully\n", volcano(s, "vcancel", "-n", "sub", "-N", s.Namespace))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Get(s.Ctx, "sub", metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err))
	}, mustertesting.Timeout, mustertesting.Timeout/100)
}

func TestVcctlQueue(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	name := s.Namespace
	assert.Empty(t, volcano(s, "vcctl", "queue", "create", "-n", name, "-w", "3"))
	queueIs(s, name, schedulingv1beta1.QueueStateOpen)
	waits := s.CreateJob(mustertesting.MakeJob("waits").Queue(name).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1000")))
	s.JobReason(waits, "PodGroupPending")
	lines := strings.Split(volcano(s, "vcctl", "queue", "get", "-n", name), "\n")
	assert.Equal(t, []string{"Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed"}, strings.Fields(lines[0]))
	assert.Equal(t, []string{"3", "Open", "root", "0", "1", "0", "0", "0"}, strings.Fields(strings.TrimPrefix(lines[1], name)))
	assert.Contains(t, volcano(s, "vqueues"), name)
	assert.Regexp(t, `(?m)^`+name+` +3 +Open +root +0 +1 `, volcano(s, "vcctl", "queue", "list"))

	volcano(s, "vcctl", "queue", "operate", "-n", name, "-a", "update", "-w", "5")
	assert.EqualValues(t, 5, s.Queue(name).Spec.Weight)
	volcano(s, "vcctl", "queue", "operate", "-n", name, "-a", "close")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, []schedulingv1beta1.QueueState{schedulingv1beta1.QueueStateClosing, schedulingv1beta1.QueueStateClosed}, s.Queue(name).Status.State)
	}, mustertesting.Timeout, mustertesting.Timeout/100)
	volcano(s, "vcctl", "queue", "operate", "-n", name, "-a", "open")
	queueIs(s, name, schedulingv1beta1.QueueStateOpen)

	closed := name + "-closed"
	volcano(s, "vcctl", "queue", "create", "-n", closed)
	queueIs(s, closed, schedulingv1beta1.QueueStateOpen)
	volcano(s, "vcctl", "queue", "operate", "-n", closed, "-a", "close")
	queueIs(s, closed, schedulingv1beta1.QueueStateClosed)
	assert.Empty(t, volcano(s, "vcctl", "queue", "delete", "-n", closed))
	gone := called(s, "vcctl", "queue", "get", "-n", closed)
	assert.Equal(t, 255, gone.code)
	assert.Contains(t, gone.out, `"`+closed+`" not found`)

	bad := called(s, "vcctl", "queue", "operate", "-n", name, "-a", "burn")
	assert.Equal(t, 255, bad.code)
	assert.Equal(t, "Failed to operate queue: action \"burn\" is not known: use open, close or update\n", bad.out)
}
