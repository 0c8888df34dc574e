package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestJobsAreListed(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "2")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	runs := s.CreateJob(mustertesting.MakeJob("runs").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(runs, batchv1alpha1.Running)
	waits := s.CreateJob(mustertesting.MakeJob("waits").Queue("no-such-queue").Task(mustertesting.MakeTask("worker", 1)))
	s.JobReason(waits, "QueueNotFound")

	rows := table(muster(s, "job", "list"))
	require.Len(t, rows, 3)
	assert.Equal(t, []string{"NAME", "STATUS", "READY", "SUCCEEDED", "FAILED", "QUEUE", "AGE", "START"}, rows[0])
	assert.Equal(t, []string{"runs", "Running", "2/2", "0", "0", s.Namespace}, rows[1][:6])
	assert.Equal(t, []string{"waits", "Pending", "0/1", "0", "0", "no-such-queue"}, rows[2][:6])
	assert.Contains(t, muster(s, "job", "list", "-o", "wide"), "QueueNotFound")
	assert.Equal(t, rows[1][:6], table(muster(s, "job", "list", "-o", "table"))[1][:6])

	assert.Equal(t, "job.batch.volcano.sh/runs\n", muster(s, "job", "list", "-o", "name", "-q", s.Namespace))
	assert.Equal(t, "job.batch.volcano.sh/waits\n", muster(s, "job", "list", "-o", "name", "--phase", "Pending"))
	assert.Contains(t, muster(s, "job", "get", "runs", "-o", "yaml"), "phase: Running")
	assert.Contains(t, muster(s, "job", "list", "-A", "-q", s.Namespace), s.Namespace+" ")
	missing := called(s, "muster", "job", "get", "nothing", "-n", s.Namespace)
	assert.Equal(t, 1, missing.code)
	assert.Contains(t, missing.err, `"nothing" not found`)

	pods := table(muster(s, "pod", "list", "-j", "runs"))
	require.Len(t, pods, 3)
	assert.Equal(t, []string{"runs-worker-0", "1/1", "Running", "0"}, pods[1][:4])
	assert.Equal(t, "pod/runs-worker-0\npod/runs-worker-1\n", muster(s, "pod", "list", "-q", s.Namespace, "-o", "name"))
}

func TestJobsAndQueuesAreWatched(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "1")
	jobs := watched(s, "job", "list", "-w", "-n", s.Namespace)
	queues := watched(s, "queue", "list", "-w")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	job := s.CreateJob(mustertesting.MakeJob("job").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	jobs.until("job", "Running", "1/1", "0", "0", s.Namespace)
	queues.until(s.Namespace, "Open")
	muster(s, "job", "suspend", job.Name)
	jobs.until("job", "Aborted", "0/1", "0", "0", s.Namespace)
}

func TestAJobIsRunFromFlags(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	got := called(s, "muster", "job", "run", "hello", "-n", s.Namespace, "-r", "2", "--requests", "cpu=10m", "--wait", "--", "sh", "-c", "sleep 1; exit 0")
	require.Zero(t, got.code, "%s%s", got.out, got.err)
	assert.Equal(t, "job.batch.volcano.sh/hello created\n", got.out)
	assert.NotContains(t, got.err, "\x1b", "no colour where there is no terminal")
	assert.Contains(t, got.err, "hello: Completed, 0 running, 2 succeeded, 0 failed")
	job := s.Job(s.Name("hello"))
	assert.EqualValues(t, 2, job.Spec.MinAvailable)
	assert.Equal(t, []string{"sh", "-c", "sleep 1; exit 0"}, job.Spec.Tasks[0].Template.Spec.Containers[0].Command)

	failed := called(s, "muster", "job", "run", "fails", "-n", s.Namespace, "--requests", "cpu=10m", "--wait", "--", "sh", "-c", "exit 3")
	assert.Equal(t, 1, failed.code, "%s%s", failed.out, failed.err)
	assert.Contains(t, failed.err, "error: job fails is Failed: ")
}

func TestAJobIsRunFromAFile(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "job.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	const good = `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: filed}
spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: main, image: busybox}]}}}]}
`
	assert.Equal(t, "job.batch.volcano.sh/filed\n", muster(s, "job", "run", "-o", "name", "-f", write(good)))
	// The API server says what is wrong, and what to do.
	circle := strings.NewReplacer("[{replicas", "[{name: a, dependsOn: {name: [a]}, replicas").Replace(good)
	for text, want := range map[string]string{
		circle:              "remove one of the dependencies",
		good + "---" + good: "has 2 objects: give a file with one Job",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n":                                        "give a file with a Job of batch.volcano.sh/v1alpha1",
		"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {replica: 1}\n":   `unknown field "spec.replica"`,
		"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x, namespace: elsewhere}\n": "use -n elsewhere",
	} {
		got := called(s, "muster", "job", "run", "-n", s.Namespace, "-f", write(text))
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.err, want)
	}
	for want, args := range map[string][]string{
		"name the Job, or give a file with -f":           {"job", "run"},
		"muster job run a -- b":                          {"job", "run", "a", "b"},
		"--requests cpu=much: write an amount like":      {"job", "run", "a", "--requests", "cpu=much"},
		"in the file x.yaml or on the command line, not": {"job", "run", "a", "-f", "x.yaml"},
	} {
		got := called(s, "muster", args...)
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.err, want)
	}
}

func TestAJobIsStoppedAndStarted(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(job, batchv1alpha1.Running)
	first := s.Pod("job-worker-0").UID

	assert.Regexp(t, `^job job is asked to restart: it is (Restarting|Pending|Running) now\n$`, muster(s, "job", "restart", "job"))
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running)
	assert.NotEqual(t, first, s.Pod("job-worker-0").UID)
	muster(s, "job", "suspend", "job", "--message", "the disks are full")
	s.JobPhase(job, batchv1alpha1.Aborted)
	assert.Contains(t, muster(s, "job", "list", "-o", "wide"), "the disks are full")
	muster(s, "job", "resume", "job")
	s.JobPhase(job, batchv1alpha1.Running)
	muster(s, "job", "cancel", "--keep", "job")
	s.JobPhase(job, batchv1alpha1.Terminated)
	for _, verb := range []string{"resume", "suspend", "restart"} {
		got := called(s, "muster", "job", verb, "job", "-n", s.Namespace)
		assert.Equal(t, 1, got.code)
		assert.Equal(t, "error: job job is Terminated, and "+verb+" does nothing to it\n", got.err)
	}
	assert.Equal(t, "job job cancelled\n", muster(s, "job", "cancel", "job"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Get(s.Ctx, "job", metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err))
	}, mustertesting.Timeout, mustertesting.Timeout/100)

	unknown := called(s, "muster", "job", "suspend", "nothing", "-n", s.Namespace)
	assert.Equal(t, 1, unknown.code)
	assert.Contains(t, unknown.err, `"nothing" not found`)
}

func TestTheLogsOfAJobAreAskedFor(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
	s.JobPhase(job, batchv1alpha1.Running)
	got := called(s, "muster", "job", "logs", "job", "-n", s.Namespace)
	task := called(s, "muster", "job", "logs", "job", "--task", "nothing", "-n", s.Namespace)
	assert.Equal(t, "error: job job has no task nothing: it has worker\n", task.err)
	// Simulated nodes have no kubelet, which logs come from: the API server says that it found none to ask.
	assert.Contains(t, got.err, "no preferred addresses found")
	assert.Equal(t, 1, got.code)
}

func TestQueuesAreListedOpenedAndClosed(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	team := s.Namespace + "-team"
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace).Capability("cpu", "8"))
	s.CreateQueue(mustertesting.MakeQueue(team).Parent(s.Namespace))

	assert.Equal(t, "queue.scheduling.volcano.sh/"+team+"\n", muster(s, "queue", "get", team, "-o", "name"))
	assert.Contains(t, muster(s, "queue", "list", "-o", "name"), "queue.scheduling.volcano.sh/"+team+"\n")
	assert.Contains(t, muster(s, "queue", "tree", "-o", "yaml"), "  name: "+team+"\n  parent: "+s.Namespace+"\n")
	tree := muster(s, "queue", "tree")
	assert.Regexp(t, `(?m)^root `, tree)
	assert.Regexp(t, `(?m)^  `+s.Namespace+` +Open +0 +0 +- +- +- +- +- +8 cpu\n    `+team+` +Open`, tree)

	assert.Equal(t, "queue "+team+" is asked to close: it is Closed now\n", muster(s, "queue", "close", team))
	queueIs(s, team, schedulingv1beta1.QueueStateClosed)
	muster(s, "queue", "open", team)
	queueIs(s, team, schedulingv1beta1.QueueStateOpen)
}

// TestNamesThatDoNotExistAreErrors: no command prints an empty list for them.
func TestNamesThatDoNotExistAreErrors(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	held := s.CreateJob(mustertesting.MakeJob("held").Suspend(true).Task(mustertesting.MakeTask("worker", 1)))
	s.JobPhase(held, batchv1alpha1.Aborted)
	for says, args := range map[string][]string{
		`jobs.batch.volcano.sh "nothing" not found`:                           {"job", "logs", "nothing"},
		`"nothing" not found`:                                                 {"job", "list", "-q", "nothing"},
		`--phase Sleeping: a Job is never in such a phase; it is one of Pend`: {"job", "list", "--phase", "Sleeping"},
		`jobs.batch.volcano.sh "none" not found`:                              {"pod", "list", "-j", "none"},
		`queues.scheduling.volcano.sh "none" not found`:                       {"pod", "list", "-q", "none"},
		`jobs.batch.volcano.sh "no-job" not found`:                            {"explain", "no-job"},
		`jobs.batch.volcano.sh "no-update" not found`:                         {"job", "update", "no-update", "--min", "1"},
		`job held has no task none: it has worker`:                            {"job", "update", "held", "--task", "none=1"},
		`phjobs.primehub.io "none" not found`:                                 {"phjob", "cancel", "none"},
		`phjobs.primehub.io "no-log" not found`:                               {"phjob", "logs", "no-log"},
		`queues.scheduling.volcano.sh "no-queue" not found`:                   {"queue", "set", "no-queue", "--weight", "2"},
		`queue root stays Open: Failed to close queue root`:                   {"queue", "close", "root"},
		`job held is held by its field spec.suspend`:                          {"job", "resume", "held"},
	} {
		got := called(s, "muster", append(args, "-n", s.Namespace)...)
		assert.Equal(t, 1, got.code, args)
		assert.Contains(t, got.err, says)
		assert.NotContains(t, got.err, "E1", "no lines of logs")
		assert.Equal(t, 1, strings.Count(got.err, "\n"), "one line: %s", got.err)
	}
	assert.Contains(t, muster(s, "job", "list", "--phase", "aborted", "-o", "name"), "held")
}

func TestAQueueIsCreatedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	assert.Equal(t, "queue "+s.Namespace+" created\n", muster(s, "queue", "create", s.Namespace, "--capability", "cpu=8,memory=1Gi", "--deserved", "cpu=4", "--priority", "3"))
	queueIs(s, s.Namespace, schedulingv1beta1.QueueStateOpen)
	t.Cleanup(func() { _ = s.Muster.SchedulingV1beta1().Queues().Delete(s.Ctx, s.Namespace, metav1.DeleteOptions{}) })
	assert.Equal(t, "queue "+s.Namespace+" changed\n", muster(s, "queue", "set", s.Namespace, "--capability", "cpu=16,memory=0", "--weight", "2"))
	spec := s.Queue(s.Namespace).Spec
	assert.Equal(t, "16", spec.Capability.Cpu().String())
	assert.NotContains(t, spec.Capability, corev1.ResourceMemory)
	assert.Equal(t, "4", spec.Deserved.Cpu().String())
	assert.EqualValues(t, 2, spec.Weight)
	assert.EqualValues(t, 3, spec.Priority)
	// The API server deletes no queue that is open.
	muster(s, "queue", "close", s.Namespace)
	assert.Equal(t, "queue "+s.Namespace+" deleted\n", muster(s, "queue", "delete", s.Namespace))
}

func TestAJobIsUpdated(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	job := s.CreateJob(mustertesting.MakeJob("job").Queue(s.Namespace).Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(job, batchv1alpha1.Running)
	assert.Equal(t, "job job updated\n", muster(s, "job", "update", "job", "--task", "worker=3", "--min", "1", "--time", "1h"))
	assert.Equal(t, "job.batch.volcano.sh/checked created (server dry run)\n", muster(s, "job", "run", "checked", "--dry-run=server"))
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.EqualValues(c, 3, s.Job(job).Status.Running) }, mustertesting.Timeout, mustertesting.Timeout/100)
	spec := s.Job(job).Spec
	assert.EqualValues(t, 1, spec.MinAvailable)
	assert.EqualValues(t, 3600, *spec.ActiveDeadlineSeconds)
}

// TestAPhJobIsRunAndCancelled in a group whose queue has no room for it.
func TestAPhJobIsRunAndCancelled(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	created := called(s, "muster", "phjob", "run", "train", "-n", s.Namespace, "--user", "ada", "--group", s.Namespace, "--instance-type", "none", "--image", "none", "--", "python", "-c", "print(1)")
	require.Zero(t, created.code, created.err)
	assert.Equal(t, "phjob.primehub.io/train created\n", created.out)
	job, err := s.Muster.PrimehubV1alpha1().PhJobs(s.Namespace).Get(s.Ctx, "train", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "python -c 'print(1)'", job.Spec.Command)
	assert.Equal(t, "ada", job.Spec.UserName)
	assert.Contains(t, muster(s, "phjob", "list"), "train")
	// There is no such image, so it has failed or is about to.
	got := called(s, "muster", "phjob", "cancel", "train", "-n", s.Namespace)
	assert.Contains(t, got.out+got.err, "phjob train ")
}

// queueIs waits until a queue has a state.
func queueIs(s *harness.Story, name string, state schedulingv1beta1.QueueState) {
	s.T.Helper()
	require.EventuallyWithT(s.T, func(c *assert.CollectT) { assert.Equal(c, state, s.Queue(name).Status.State) },
		mustertesting.Timeout, mustertesting.Timeout/100)
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	assert.Regexp(t, `muster +v1\.37.*\nKubernetes +v1\.37.*\nJobs +batch\.volcano\.sh/v1alpha1\n`, called(s, "muster", "version").out)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Contains(t, called(s, "muster", "completion", shell).out, " for muster", shell)
	}
	s.CreateJob(mustertesting.MakeJob("completed-name").Queue("no-such-queue").Task(mustertesting.MakeTask("worker", 1)))
	assert.Contains(t, called(s, "muster", "__complete", "job", "suspend", "-n", s.Namespace, "comp").out, "completed-name\n")
	assert.Contains(t, called(s, "kubectl-muster", "job", "--help").out, "kubectl muster job [command]")
}
