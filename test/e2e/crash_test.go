package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestTheSchedulerIsKilledInTheMiddle is not parallel: it has the cluster for itself.
func TestTheSchedulerIsKilledInTheMiddle(t *testing.T) {
	const jobs = 30
	s := harness.New(t)
	s.AddNodes(4, "cpu", "8")
	for i := range jobs {
		s.CreateJob(mustertesting.MakeJob(fmt.Sprintf("job-%d", i)).MinAvailable(4).
			Task(mustertesting.MakeTask("worker", 4+int32(i%2)).Requests("cpu", "2").ExitAfter(time.Second, 0)))
	}
	completed := func() int {
		n := 0
		for i := range jobs {
			if s.Log.Job(s.Name(fmt.Sprintf("job-%d", i))).Phase == batchv1alpha1.Completed {
				n++
			}
		}
		return n
	}
	s.Soon("some Jobs have completed", func() bool { return completed() >= jobs/4 }, func() any { return completed() })

	require.NoError(t, s.Kill(localcluster.MusterScheduler, syscall.SIGKILL))
	require.NoError(t, s.AwaitEnd(s.Ctx, localcluster.MusterScheduler))
	killed := time.Now()
	require.Less(t, completed(), jobs, "some Jobs are left for the next scheduler")
	require.NoError(t, s.Start(s.Ctx, localcluster.MusterScheduler))

	s.Within(2*mustertesting.Timeout, "all Jobs have completed", func() bool { return completed() == jobs }, func() any { return completed() })
	var untouched, cut []watchlog.Incarnation
	for _, incarnation := range s.Log.Incarnations() {
		switch {
		case incarnation.Namespace != s.Namespace:
		case incarnation.FirstBind.Before(killed) && incarnation.FirstBind.After(killed.Add(-window)):
			cut = append(cut, incarnation)
		default:
			untouched = append(untouched, incarnation)
		}
	}
	require.Empty(t, watchlog.GangViolations(untouched, window), "gangs whose start the crash did not cut through")
	require.Empty(t, watchlog.GangViolations(cut, mustertesting.Timeout), "gangs whose start the crash may have cut through")
}
