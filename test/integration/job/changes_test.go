package job_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestScalingRaisesNoEviction(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).
		Task(mustertesting.MakeTask("a", 3).MinAvailable(1)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 1 })
	s.reap(2)
	s.Pods(1, "the lowest index stays", s.live)
	assert.Equal(t, corev1.PodRunning, s.pod("j-a-0").Status.Phase)

	s.edit("j", func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].Replicas = 4
		job.Spec.MinAvailable = 4
		four := int32(4)
		job.Spec.Tasks[0].MinAvailable = &four
	})
	s.Soon("the PodGroup follows", func() bool { return s.group(job).Spec.MinMember == 4 }, func() any { return s.group(job).Spec })
	s.run("j-a-1", "j-a-2", "j-a-3")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, 1, s.created("j-a-0"))
	assert.Zero(t, s.get("j").Status.RetryCount)
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	yes := true
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(1).Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Suspend = &yes })
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	assert.Equal(t, "Suspended", log.Job(s.name("j")).Reason)

	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Suspend = nil })
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Aborting, batchv1alpha1.Aborted,
		batchv1alpha1.Pending, batchv1alpha1.Running)
	assert.Zero(t, s.get("j").Status.RetryCount)
}

func TestAJobThatIsAppliedSuspendedWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.apply(mustertesting.MakeJob("j").Suspend(true).Task(mustertesting.MakeTask("a", 1)))
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
	groups, err := muster.SchedulingV1beta1().PodGroups(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, groups.Items, "it holds no place in its queue")
	assert.Zero(t, s.created("j-a-0"))

	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Suspend = nil })
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(s.get("j"))
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
}

func TestRestartPodLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(2).
		Task(mustertesting.MakeTask("a", 3).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-1", 1) // finished, it goes without grace
	s.run("j-a-1")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending, batchv1alpha1.Running)
	assert.Equal(t, []int{1, 2, 1}, []int{s.created("j-a-0"), s.created("j-a-1"), s.created("j-a-2")})
	assert.Equal(t, int32(1), s.get("j").Status.RetryCount)
}

func TestRestartTaskLeavesOtherTasksAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("driver", 1)).
		Task(mustertesting.MakeTask("executor", 2).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartTaskAction)))
	s.admit(job)
	s.run("j-driver-0", "j-executor-0", "j-executor-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.evict("j-executor-0")
	s.reap(2)
	s.run("j-executor-0", "j-executor-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, []int{1, 2, 2}, []int{s.created("j-driver-0"), s.created("j-executor-0"), s.created("j-executor-1")})
}

// TestT15_ExpiredJobsAreDeletedInEveryTerminalPhase: a Job goes its ttlSecondsAfterFinished after its end, whichever end that was.
func TestT15_ExpiredJobsAreDeletedInEveryTerminalPhase(t *testing.T) {
	t.Parallel()
	policy := func(action busv1alpha1.Action) *mustertesting.JobWrapper {
		return mustertesting.MakeJob("j").TTL(1).Policy(busv1alpha1.PodFailedEvent, action).Task(mustertesting.MakeTask("a", 1))
	}
	for want, c := range map[batchv1alpha1.JobPhase]struct {
		job  *mustertesting.JobWrapper
		ends func(*stage)
	}{
		batchv1alpha1.Completed:  {mustertesting.MakeJob("j").TTL(1).Task(mustertesting.MakeTask("a", 1)), func(s *stage) { s.succeed("j-a-0") }},
		batchv1alpha1.Failed:     {mustertesting.MakeJob("j").TTL(1).Task(mustertesting.MakeTask("a", 1)), func(s *stage) { s.fail("j-a-0", 1) }},
		batchv1alpha1.Terminated: {policy(busv1alpha1.TerminateJobAction), func(s *stage) { s.fail("j-a-0", 1) }},
		batchv1alpha1.Aborted:    {policy(busv1alpha1.AbortJobAction), func(s *stage) { s.fail("j-a-0", 1) }},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			job := s.apply(c.job)
			s.admit(job)
			s.run("j-a-0")
			s.JobPhase(s.name("j"), batchv1alpha1.Running)
			c.ends(s)
			s.JobPhase(s.name("j"), want)
			s.Soon("the Job is gone", func() bool { return log.JobGone(s.name("j")) }, func() any { return log.Job(s.name("j")) })
		})
	}
}

func TestTTLMayBeSetAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)))
	s.admit(job)
	s.run("j-a-0")
	s.succeed("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	now := int32(0)
	s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.TTLSecondsAfterFinished = &now })
	s.Soon("the Job is gone", func() bool { return log.JobGone(s.name("j")) }, func() any { return log.Job(s.name("j")) })
}

func TestDeadlineTerminatesTheJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := int64(1)
	builder := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1))
	wanted := builder.Obj()
	wanted.Spec.ActiveDeadlineSeconds = &limit
	job := s.applyObject(wanted)
	s.admit(job)
	s.run("j-a-0")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.reap(1)
	s.JobPhase(s.name("j"), batchv1alpha1.Terminated)
	assert.Equal(t, "DeadlineExceeded", log.Job(s.name("j")).Reason)
}

func TestMinSuccessCompletesTheJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinSuccess(2).Task(mustertesting.MakeTask("a", 3)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-a-0", "j-a-2")
	s.reap(1)
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completing, batchv1alpha1.Completed)
	assert.Equal(t, int32(2), s.get("j").Status.Succeeded)
	assert.Equal(t, "MinSuccessReached", log.Job(s.name("j")).Reason)
}
