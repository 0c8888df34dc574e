package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestCommandsOnARunningJob: a user can do what a policy does to a running Job.
func TestCommandsOnARunningJob(t *testing.T) {
	t.Parallel()
	for action, outcome := range outcomes {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			s.AddNodes(1, "cpu", "4")
			job := s.CreateJob(twoTasks())
			before := s.Pods(3, "all pods run", s.In(harness.Running))
			s.JobPhase(job, batchv1alpha1.Running)

			s.Command(job, action)
			s.JobPhases(job, append([]batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, outcome...)...)
			s.Event("Job", job, func(e watchlog.Event) bool {
				return e.Reason == "CommandIssued" && strings.Contains(e.Message, string(action))
			})
			if action == busv1alpha1.RestartJobAction {
				expectRestarted(t, s, before)
			} else {
				s.Pods(0, "nothing runs any more", s.In(harness.Live))
				s.PodsStay(0, "nothing runs any more", s.In(harness.Live))
				assert.Len(t, s.Log.PodsOf(job), len(before), "no pod is made anew")
			}
		})
	}
}

// TestEndsAreFinal: a Job that is Completed, Terminated or Failed can neither be resumed nor restarted. An event on the Job says so.
func TestEndsAreFinal(t *testing.T) {
	t.Parallel()
	for end, bring := range map[batchv1alpha1.JobPhase]func(*harness.Story, types.NamespacedName){
		batchv1alpha1.Completed: func(s *harness.Story, _ types.NamespacedName) { s.EndPod("job-worker-0", 0) },
		batchv1alpha1.Failed:    func(s *harness.Story, _ types.NamespacedName) { s.EndPod("job-worker-0", 1) },
		batchv1alpha1.Terminated: func(s *harness.Story, job types.NamespacedName) {
			s.Command(job, busv1alpha1.TerminateJobAction)
		},
	} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t)
			s.AddNodes(1, "cpu", "4")
			job := s.CreateJob(mustertesting.MakeJob("job").Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1")))
			s.JobPhase(job, batchv1alpha1.Running)
			s.Pods(1, "its pod runs", s.In(harness.Running))
			bring(s, job)
			s.JobPhase(job, end)
			phases := watchlog.Phases(s.Log.JobStates(job))

			for _, action := range []busv1alpha1.Action{busv1alpha1.ResumeJobAction, busv1alpha1.RestartJobAction} {
				s.Command(job, action)
				s.Event("Job", job, func(e watchlog.Event) bool {
					return e.Reason == "CommandIgnored" && strings.Contains(e.Message, string(action)+" does nothing to a job that is "+string(end))
				})
			}
			s.Stays("the Job is as it was, without a new pod", func() bool {
				return s.Log.Job(job).Phase == end && len(s.Log.PodsOf(job)) == 1
			}, func() any { return s.Log.JobStates(job) })
			assert.Equal(t, phases, watchlog.Phases(s.Log.JobStates(job)))
			assert.Zero(t, s.Job(job).Status.RetryCount)
			assert.EventuallyWithT(t, func(c *assert.CollectT) {
				left, err := s.Muster.BusV1alpha1().Commands(s.Namespace).List(s.Ctx, metav1.ListOptions{})
				require.NoError(c, err)
				assert.Empty(c, left.Items)
			}, mustertesting.Timeout, 50*time.Millisecond, "the Commands are dealt with")
		})
	}
}
