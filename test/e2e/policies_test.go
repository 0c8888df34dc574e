package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// trigger raises an event on a running Job "job". The Job has a task "one" (one pod) and a task "many" (two).
type trigger struct {
	name   string
	policy busv1alpha1.Event
	pull   func(*harness.Story)
}

var triggers = []trigger{
	{"PodFailed", busv1alpha1.PodFailedEvent, func(s *harness.Story) { s.EndPod("job-many-1", 3) }},
	{"PodEvicted", busv1alpha1.PodEvictedEvent, func(s *harness.Story) { s.DeletePod("job-many-1") }},
	{"TaskCompleted", busv1alpha1.TaskCompletedEvent, func(s *harness.Story) { s.EndPod("job-one-0", 0) }},
	{"any, by a failure", busv1alpha1.AnyEvent, func(s *harness.Story) { s.EndPod("job-many-1", 3) }},
	{"any, by an eviction", busv1alpha1.AnyEvent, func(s *harness.Story) { s.DeletePod("job-many-1") }},
}

// outcomes are the phases that follow Pending and Running when an action is taken.
var outcomes = map[busv1alpha1.Action][]batchv1alpha1.JobPhase{
	busv1alpha1.RestartJobAction:   {batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running},
	busv1alpha1.TerminateJobAction: {batchv1alpha1.Terminating, batchv1alpha1.Terminated},
	busv1alpha1.AbortJobAction:     {batchv1alpha1.Aborting, batchv1alpha1.Aborted},
	busv1alpha1.CompleteJobAction:  {batchv1alpha1.Completing, batchv1alpha1.Completed},
}

// twoTasks is the Job that the triggers know.
func twoTasks() *mustertesting.JobWrapper {
	return mustertesting.MakeJob("job").
		Task(mustertesting.MakeTask("one", 1).Requests("cpu", "1")).
		Task(mustertesting.MakeTask("many", 2).Requests("cpu", "1"))
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, trigger := range triggers {
		for action, outcome := range outcomes {
			t.Run(trigger.name+" "+string(action), func(t *testing.T) {
				t.Parallel()
				s := harness.New(t)
				s.AddNodes(1, "cpu", "4")
				job := s.CreateJob(twoTasks().Policy(trigger.policy, action))
				before := s.Pods(3, "all pods run", s.In(harness.Running))
				s.JobPhase(job, batchv1alpha1.Running)

				trigger.pull(s)
				s.JobPhases(job, append([]batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, outcome...)...)
				event := s.Event("Job", job, func(e watchlog.Event) bool { return e.Reason == "ExecuteAction" })
				assert.True(t, strings.HasPrefix(event.Message, "Start to execute action "+string(action)), event.Message)
				if action == busv1alpha1.RestartJobAction {
					expectRestarted(t, s, before)
				} else {
					s.Pods(0, "nothing runs any more", s.In(harness.Live))
					s.PodsStay(0, "nothing runs any more", s.In(harness.Live))
				}
				s.WholeGangs(s.Namespace, window)
			})
		}
	}
}

// expectRestarted checks that the Job "job" runs again, once, with new pods only.
func expectRestarted(t *testing.T, s *harness.Story, before []watchlog.Pod) {
	t.Helper()
	after := s.Pods(3, "all pods run again", s.In(harness.Running))
	for _, pod := range after {
		assert.NotEqual(t, before[0].Version, pod.Version, "incarnation of %s", pod.Name)
		for _, old := range before {
			assert.NotEqual(t, old.UID, pod.UID, "%s is a new pod", pod.Name)
		}
	}
	state := s.Log.Job(s.Name("job"))
	assert.EqualValues(t, 1, state.Retries, "restarted once")
}

func TestAnyDoesNotMeanCompletion(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(twoTasks().Policy(busv1alpha1.AnyEvent, busv1alpha1.AbortJobAction))
	s.JobPhase(job, batchv1alpha1.Running)
	s.Pods(3, "all pods run", s.In(harness.Running))
	s.EndPod("job-one-0", 0)
	s.Pods(1, "a task has completed", s.In(func(p watchlog.Pod) bool { return !p.Finished.IsZero() }))
	s.Stays("the Job runs on",
		func() bool { return s.Log.Job(job).Phase == batchv1alpha1.Running },
		func() any { return s.Log.JobStates(job) })
}

func TestATasksPolicyComesFirst(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.TerminateJobAction).
		Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.AbortJobAction).
		Task(mustertesting.MakeTask("one", 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.CompleteJobAction)))
	s.JobPhase(job, batchv1alpha1.Running)
	s.EndPod("job-one-0", 1)
	s.JobPhase(job, batchv1alpha1.Completed)

	other := harness.New(t)
	other.AddNodes(1, "cpu", "4")
	job = other.CreateJob(mustertesting.MakeJob("job").
		Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.AbortJobAction).
		Task(mustertesting.MakeTask("one", 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.CompleteJobAction)))
	other.JobPhase(job, batchv1alpha1.Running)
	other.DeletePod("job-one-0")
	other.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting, batchv1alpha1.Aborted)
}

func TestRestartsEnd(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").MaxRetry(2).
		Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1").ExitAfter(time.Second, 1)))
	s.JobPhase(job, batchv1alpha1.Failed)
	versions := map[string]bool{}
	for _, pod := range s.Log.PodsOf(job) {
		versions[pod.Version] = true
	}
	assert.Len(t, versions, 2, "maxRetry is how often the Job runs in all")
	assert.EqualValues(t, 2, s.Log.Job(job).Retries)
	require.Empty(t, watchlog.StatusViolations(s.Log.JobStates(job)))
	s.WholeGangs(s.Namespace, window)
}

func TestAJobCompletesWhenAllItsPodsHaveSucceeded(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").
		Task(mustertesting.MakeTask("", 3).Requests("cpu", "1").Command("sh", "-c", "sleep 1; exit 0")))
	s.JobPhases(job, batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	state := s.Log.Job(job)
	assert.EqualValues(t, 3, state.Succeeded)
	assert.Len(t, s.Log.Pods(s.In(harness.OfTask("default0"))), 3, "a task without a name gets one")
}

func TestAJobWithoutPolicyFailsWhenItsPodsFail(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	job := s.CreateJob(mustertesting.MakeJob("job").
		Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1").ExitAfter(time.Second, 9)))
	s.JobPhase(job, batchv1alpha1.Failed)
	assert.EqualValues(t, 2, s.Log.Job(job).Failed)
}
