package job_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// TestAResumeRunsWhatFailedAgain: a gang of three that a failure has aborted is whole when it is resumed, and succeeds.
func TestAResumeRunsWhatFailedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.AbortJobAction).Task(mustertesting.MakeTask("a", 3)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.fail("j-a-1", 1)
	s.reap(2)
	s.JobPhase(s.name("j"), batchv1alpha1.Aborted)

	s.command(job, job.UID, "ResumeJob")
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	status := s.get("j").Status
	assert.Equal(t, []int32{3, 0, 0}, []int32{status.Succeeded, status.Failed, status.RetryCount})
	assert.Empty(t, watchlog.StatusViolations(log.JobStates(s.name("j"))))
}
