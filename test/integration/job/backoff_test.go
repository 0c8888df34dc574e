package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestACrashLoopBacksOff: the first restart is at once. The second waits, says until when, and waits across a restart of the controller. A
// Command does not.
func TestACrashLoopBacksOff(t *testing.T) {
	whileDown(func() { controller.RestartBackoff = 3 * time.Second })
	t.Cleanup(func() { whileDown(func() { controller.RestartBackoff = 0 }) })
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(100).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	crash := func() {
		s.run("j-a-0", "j-a-1")
		s.JobPhase(s.name("j"), batchv1alpha1.Running)
		s.fail("j-a-0", 1)
		s.JobPhase(s.name("j"), batchv1alpha1.Restarting)
		s.reap(1) // the failed one goes without grace
	}
	backsOff := func() *batchv1alpha1.JobStatus {
		s.poll("the Job backs off", func(context.Context) (bool, error) { return s.get("j").Status.State.Reason == "BackOff", nil })
		return &s.get("j").Status
	}
	crash()
	crash() // its pods were created at once
	status := backsOff()
	assert.Equal(t, batchv1alpha1.Pending, status.State.Phase)
	require.NotNil(t, status.RestartBackoff)
	until := status.RestartBackoff.Until
	assert.Equal(t, int32(2), status.RestartBackoff.Count)
	assert.Equal(t, "restarted 2 times in a row; pods are created again at "+until.UTC().Format(time.RFC3339), status.State.Message)
	assert.NotNil(t, s.group(job), "the PodGroup stays")
	s.expectJobEvent("j", "BackOff", "Back-off restarting the job: its pods fail, or are evicted, again and again")
	whileDown(func() {})
	created := s.awaitPod("j-a-1").CreationTimestamp
	assert.False(t, created.Before(until), "%s, %s", created, until)

	crash()
	assert.Equal(t, int32(3), backsOff().RestartBackoff.Count)
	whileDown(func() { controller.RestartBackoff = time.Hour }) // its next pause would be long
	s.awaitPod("j-a-1")
	crash()
	require.Equal(t, int32(4), backsOff().RestartBackoff.Count)
	s.command(job, job.UID, string(busv1alpha1.RestartJobAction))
	s.awaitPod("j-a-1")
	assert.Nil(t, s.get("j").Status.RestartBackoff)
}
