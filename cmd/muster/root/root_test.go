package root

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrongUsesAreRefused: none of them prints a page of help and succeeds, and none asks a cluster.
func TestWrongUsesAreRefused(t *testing.T) {
	for _, c := range []struct {
		says    string
		program string
		args    []string
	}{
		{`unknown command "jop" for "muster": did you mean job or top?`, "muster", []string{"jop"}},
		{`unknown command "nothing" for "muster": see muster --help`, "muster", []string{"nothing"}},
		{`unknown command "cancell" for "muster job": did you mean cancel?`, "muster", []string{"job", "cancell", "x"}},
		{`unknown command "lst" for "muster job": did you mean list?`, "muster", []string{"jobs", "lst"}},
		{`unknown command "describe" for "muster job"`, "muster", []string{"job", "describe", "x"}},
		{`unknown command "closed" for "muster queue": did you mean close?`, "muster", []string{"queue", "closed", "q"}},
		{`unknown command "lists" for "muster pod": did you mean list?`, "muster", []string{"pods", "lists"}},
		{`unknown command "start" for "muster local"`, "muster", []string{"local", "start"}},
		{`unknown command "cancle" for "muster phjob": did you mean cancel?`, "muster", []string{"phjob", "cancle", "x"}},
		{`unknown command "jop" for "kubectl muster": did you mean job or top?`, "kubectl-muster", []string{"jop"}},
		{`unknown command "foo" for "vcctl job": see vcctl job --help`, "vcctl", []string{"job", "foo"}},
		{`unknown command "foo" for "vcctl": see vcctl --help`, "vcctl", []string{"foo"}},
		{`unknown command "oprate" for "vcctl queue": did you mean operate?`, "vcctl", []string{"queue", "oprate"}},

		{`unknown command "foo" for "muster explain": see muster explain --help`, "muster", []string{"explain", "foo", "bar"}},
		{`unknown command "jop" for "muster explain": did you mean job?`, "muster", []string{"explain", "jop", "bar"}},
		{`name the job: muster explain job NAME`, "muster", []string{"explain", "jobs"}},
		{`name the queue: muster explain queue NAME`, "muster", []string{"explain", "q"}},
		{`muster explain pod takes one pod: leave out "b"`, "muster", []string{"explain", "pod", "a", "b"}},

		{`muster job list takes no arguments: leave out "training"`, "muster", []string{"job", "list", "training"}},
		{`muster queue tree takes no arguments: leave out "a"`, "muster", []string{"queue", "tree", "a"}},
		{`muster cluster takes no arguments: leave out "a"`, "muster", []string{"cluster", "a"}},
		{`unknown command "chek" for "muster migrate": did you mean check?`, "muster", []string{"migrate", "chek"}},
		{`muster migrate check takes no arguments: leave out "jobs.yaml"`, "muster", []string{"migrate", "check", "jobs.yaml"}},
		{`--output xml: use text or json`, "muster", []string{"migrate", "check", "-o", "xml"}},
		{`reading none.yaml: no such file`, "muster", []string{"migrate", "check", "-f", "none.yaml"}},
		{`no kubeconfig names a cluster`, "muster", []string{"migrate", "check"}},
		{`muster top takes no arguments: leave out "jobs"`, "muster", []string{"top", "jobs"}},
		{`muster version takes no arguments: leave out "1"`, "muster", []string{"version", "1"}},
		{`name at least one job, as in muster job get NAME [NAME...]`, "muster", []string{"job", "get"}},
		{`name at least one job, as in muster job suspend NAME [NAME...]`, "muster", []string{"job", "suspend"}},
		{`name at least one job, as in muster job cancel NAME [NAME...]`, "muster", []string{"job", "cancel"}},
		{`name at least one queue, as in muster queue close NAME [NAME...]`, "muster", []string{"queue", "close"}},
		{`name the job: muster job logs NAME`, "muster", []string{"job", "logs"}},
		{`name the queue: muster queue create NAME`, "muster", []string{"queue", "create"}},

		{`name the Job, or give a file with -f`, "muster", []string{"job", "run"}},
		{`what the pods run stands behind --: muster job run a -- sleep 5`, "muster", []string{"job", "run", "a", "sleep", "5"}},
		{`in the file x.yaml or on the command line, not both`, "muster", []string{"job", "run", "a", "-f", "x.yaml"}},
		{`--requests cpu=much: write an amount like 2, 500m or 1Gi`, "muster", []string{"job", "run", "a", "--requests", "cpu=much"}},
		{`--task worker: write the name of the task and its number of pods, such as worker=4`, "muster", []string{"job", "run", "a", "--task", "worker"}},
		{`--replicas: each --task says its own number of pods`, "muster", []string{"job", "run", "a", "--task", "worker=1", "-r", "2"}},
		{`--time 10ms: give a second or more`, "muster", []string{"job", "run", "a", "--time", "10ms"}},
		{`--gpus -1: give 0 or more`, "muster", []string{"job", "run", "a", "--gpus", "-1"}},
		{`--wait: with --dry-run there is no Job to wait for`, "muster", []string{"job", "run", "a", "--dry-run=client", "--wait"}},
		{`Invalid dry-run value (yes)`, "muster", []string{"job", "run", "a", "--dry-run=yes"}},
		{`say what to change: --priority-class, --min, --task or --time`, "muster", []string{"job", "update", "a"}},
		{`say what to change: --capability`, "muster", []string{"queue", "set", "a"}},
		{`say what the pod runs, behind --: muster phjob run a -- COMMAND`, "muster", []string{"phjob", "run", "a"}},
		{`--user is missing`, "muster", []string{"phjob", "run", "a", "--", "ls"}},
		{`unknown flag: --nothing`, "muster", []string{"job", "list", "--nothing"}},

		{`no kubeconfig names a cluster: set KUBECONFIG or --kubeconfig, or start a cluster with muster local up`, "muster", []string{"job", "list"}},
		{`no kubeconfig names a cluster`, "muster", []string{"explain", "training"}},
		{`no kubeconfig names a cluster`, "muster", []string{"job", "logs", "training"}},
		{`no kubeconfig names a cluster`, "muster", []string{"cluster"}},
	} {
		name := c.program
		for _, arg := range c.args {
			name += " " + arg
		}
		t.Run(name, func(t *testing.T) {
			withoutCluster(t)
			out, err := run(c.program, c.args...)
			require.ErrorContains(t, err, c.says)
			assert.Empty(t, out)
		})
	}
}

// TestHelpIsNoError: a command that only holds others prints its help.
func TestHelpIsNoError(t *testing.T) {
	withoutCluster(t)
	for _, args := range [][]string{nil, {"job"}, {"queue"}, {"explain"}, {"local"}, {"phjob"}, {"job", "--help"}} {
		out, err := run("muster", args...)
		require.NoError(t, err)
		assert.Contains(t, out, "Usage:")
	}
	out, err := run("muster", "--version")
	require.NoError(t, err)
	assert.Regexp(t, `^muster v\S+\n$`, out)
}

// TestADryRunOfAClientAsksNoCluster: it prints the Job that would be created.
func TestADryRunOfAClientAsksNoCluster(t *testing.T) {
	withoutCluster(t)
	out, err := run("muster", "job", "run", "train", "--task", "master=1", "--task", "worker=3", "--gpus", "2", "--env", "A=1", "--time", "90m", "--user", "ada",
		"--plugin", "svc", "--plugin", "mpi=--master=master --worker=worker", "--dry-run=client", "-o", "yaml", "--", "sh", "-c", "echo hello")
	require.NoError(t, err)
	for _, line := range []string{
		"kind: Job\n", "muster.sh/user: ada\n", "minAvailable: 4\n", "activeDeadlineSeconds: 5400\n", "nvidia.com/gpu: \"2\"\n", "name: worker\n",
		"replicas: 3\n", "- --master=master\n", "svc: []\n", "value: \"1\"\n", "- echo hello\n",
	} {
		assert.Contains(t, out, line)
	}
	out, err = run("muster", "job", "run", "train", "--dry-run=client")
	require.NoError(t, err)
	assert.Equal(t, "job.batch.volcano.sh/train created (dry run)\n", out)
}

// withoutCluster hides the kubeconfigs of the machine.
func withoutCluster(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
}

// run calls the program under a name, and returns what it prints.
func run(program string, args ...string) (string, error) {
	var out bytes.Buffer
	command := New(program)
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	err := command.Execute()
	return out.String(), err
}
