package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestAJobWhoseSchedulerIsNotServedGetsAnEvent(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	job := s.CreateJob(mustertesting.MakeJob("job").SchedulerName("nobody").Task(mustertesting.MakeTask("worker", 1)))
	s.Event("Job", job, func(e watchlog.Event) bool { return strings.Contains(e.Message, "nobody") })
}

func TestAnInvalidJobIsRefusedByTheServer(t *testing.T) {
	t.Parallel()
	const failed, restart, abort = busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction, busv1alpha1.AbortJobAction
	worker := mustertesting.MakeTask("worker", 2)
	for name, c := range map[string]struct {
		job  *mustertesting.JobWrapper
		says []string
	}{
		"a minimum beyond the replicas": {
			job:  mustertesting.MakeJob("job").MinAvailable(3).Task(worker),
			says: []string{"spec.minAvailable", "should not be greater than total replicas"},
		},
		"an unknown plugin": {
			job:  mustertesting.MakeJob("job").Plugin("no-such-plugin").Task(worker),
			says: []string{"spec.plugins[no-such-plugin]", "unable to find job plugin: no-such-plugin"},
		},
		"two tasks of one name": {
			job:  mustertesting.MakeJob("job").Task(worker).Task(mustertesting.MakeTask("worker", 1)),
			says: []string{"spec.tasks", "duplicated task name"},
		},
		"an event twice in the Job's policies": {
			job:  mustertesting.MakeJob("job").Policy(failed, restart).Policy(failed, abort).Task(worker),
			says: []string{"spec.policies", "duplicate event"},
		},
		"an event twice in a task's policies": {
			job:  mustertesting.MakeJob("job").Task(mustertesting.MakeTask("worker", 2).Policy(failed, restart).Policy(failed, abort)),
			says: []string{"spec.tasks[0].policies", "duplicate event"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, c.job.Namespace(s.Namespace).Obj(), metav1.CreateOptions{})
			require.Error(t, err)
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			for _, part := range c.says {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

// TestJobsGoToOpenQueuesWithoutChildren: the API server says so, from what the controller notes on queues.
func TestJobsGoToOpenQueuesWithoutChildren(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	queue, child := s.Namespace, s.Namespace+"-child"
	s.CreateQueue(mustertesting.MakeQueue(queue))
	refusal := func(queue string) string {
		job := mustertesting.MakeJob("job").Queue(queue).Task(mustertesting.MakeTask("worker", 1)).Namespace(s.Namespace).Obj()
		_, err := s.Muster.BatchV1alpha1().Jobs(s.Namespace).Create(s.Ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	}
	says := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(refusal(queue), text) }, mustertesting.Timeout, 50*time.Millisecond, text)
	}
	takes := func() {
		t.Helper()
		require.Eventually(t, func() bool { return refusal(queue) == "" }, mustertesting.Timeout, 50*time.Millisecond, "Jobs are taken")
	}
	takes()
	assert.Contains(t, refusal("root"), "spec.queue: can not submit job to root queue")

	s.CreateQueue(mustertesting.MakeQueue(child).Parent(queue))
	says("spec.queue: can only submit job to leaf queue, queue `" + queue + "` has child queues: name one of them")
	assert.Empty(t, refusal(child))
	require.NoError(t, clients.Delete(s.Ctx, child, s.Muster.SchedulingV1beta1().Queues().Delete))
	takes()

	s.CommandQueue(queue, busv1alpha1.CloseQueueAction)
	says("spec.queue: can only submit job to queue with state `Open`, queue `" + queue + "` status is `Closed`")
	s.CommandQueue(queue, busv1alpha1.OpenQueueAction)
	takes()
}

func TestTheSchedulerStopsAtAnArgumentThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args map[string]any
		name string
	}{
		"unknown": {args: map[string]any{"noSuchArgument": 1}, name: "noSuchArgument"},
		"invalid": {args: map[string]any{"permitTimeout": "-1s"}, name: "permitTimeout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := runScheduler(t, test.args)
			require.Error(t, err, "the scheduler must not start; it said:\n%s", output)
			assert.Contains(t, output, test.name)
		})
	}
}

// runScheduler runs muster-scheduler with arguments for Coscheduling until it ends, and returns what it said.
func runScheduler(t *testing.T, args map[string]any) (string, error) {
	t.Helper()
	shipped, err := manifests.FS.ReadFile("scheduler/replace-default.yaml")
	require.NoError(t, err)
	config := map[string]any{}
	require.NoError(t, yaml.Unmarshal(shipped, &config))
	config["clientConnection"] = map[string]any{"kubeconfig": harness.Shared().Kubeconfig()}
	profile := config["profiles"].([]any)[0].(map[string]any)
	profile["pluginConfig"] = []any{map[string]any{"name": "Coscheduling", "args": args}}
	changed, err := yaml.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, changed, 0o600))

	ctx, cancel := context.WithTimeout(t.Context(), mustertesting.Timeout)
	defer cancel()
	scheduler := exec.CommandContext(ctx, filepath.Join(harness.Shared().Options().BinDir, "muster-scheduler"),
		"--config", file, "--secure-port", "0")
	var said bytes.Buffer
	scheduler.Stdout, scheduler.Stderr = &said, &said
	err = scheduler.Run()
	require.NoError(t, ctx.Err(), "the scheduler runs although its configuration is wrong; it said:\n%s", said.String())
	return said.String(), err
}
