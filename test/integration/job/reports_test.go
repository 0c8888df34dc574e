package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// idle is a Syncer that does nothing.
type idle struct{}

func (idle) Sync(context.Context, string) (time.Duration, error) { return 0, nil }

// TestProgressGoesBeforeReports: while other work waits, pods are created, and phases are written that follow from what they do. Reports
// are written when no other work waits. A pod that no status has recorded yet can still be evicted.
func TestProgressGoesBeforeReports(t *testing.T) {
	s := newStage(t)
	other := worker.New("other", idle{})
	controller.Reports.Share(other)
	other.Enqueue("work")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	// Other Jobs that share the controller are never blocked.
	t.Cleanup(func() { cancel(); <-ended })
	release := func() { other.Run(ctx, 1); close(ended) }

	job := s.apply(mustertesting.MakeJob("j").MinAvailable(2).Task(mustertesting.MakeTask("a", 3)))
	s.JobPhase(s.name("j"), batchv1alpha1.Pending)
	s.admit(job)
	s.run("j-a-0", "j-a-1")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.run("j-a-2")

	go release()
	s.Soon("the status tells of all pods", func() bool {
		status := s.get("j").Status
		return status.Running == 3 && len(status.TaskRecords) == 1 && status.TaskRecords[0].Created == "0-2"
	}, func() any { return s.get("j").Status })
	assert.Equal(t, []batchv1alpha1.JobPhase{batchv1alpha1.Pending, batchv1alpha1.Running}, watchlog.Phases(log.JobStates(s.name("j"))))
}
