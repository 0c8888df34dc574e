package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestWhereAStartIsSaid: lists, the message of the Job, its page, its queue and the table of all queues say it.
func TestWhereAStartIsSaid(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.AddNodes(1, "cpu", "1")
	s.CreateQueue(mustertesting.MakeQueue(s.Namespace))
	job := func(name string) *mustertesting.JobWrapper {
		return mustertesting.MakeJob(name).Queue(s.Namespace).RunningEstimate(5 * time.Hour).Task(mustertesting.MakeTask("worker", 1).Requests("cpu", "1"))
	}
	s.JobPhase(s.CreateJob(job("runs")), batchv1alpha1.Running)
	waits := s.CreateJob(job("waits"))
	s.Soon("the Job says when it starts", func() bool { return !s.Log.Job(waits).ExpectedStart.IsZero() }, func() any { return s.Log.Job(waits) })

	at := s.Log.Job(waits).ExpectedStart.UTC()
	for _, args := range [][]string{{"job", "list"}, {"job", "get", "waits"}, {"job", "list", "-o", "wide"}} {
		row := table(muster(s, args...))
		assert.Contains(t, row[len(row)-1], at.Format(time.RFC3339), args)
	}
	assert.Contains(t, muster(s, "job", "list", "-o", "wide"), "; expected to start about "+at.Format("15:04:05 MST on January 2")+", when runs ends")
	assert.Contains(t, muster(s, "explain", "job", "waits"), "expected to start about")
	assert.Contains(t, called(s, "vcctl", "job", "view", "-N", "waits", "-n", s.Namespace).out, "Expected Start:")
	assert.NotContains(t, muster(s, "job", "get", "runs"), "Z", "it runs")

	coming := muster(s, "queue", "get", s.Namespace)
	assert.Contains(t, coming, "Queue "+s.Namespace+": 1 wait. The last start that is known is expected in ")
	assert.Contains(t, coming, "Job "+s.Namespace+"/waits")
	assert.NotContains(t, muster(s, "queue", "get", s.Namespace, "-o", "yaml"), "1 wait.", "other formats are for programs")
	assert.Regexp(t, `(?m)^`+s.Namespace+` .* 1 +1 +in [45]h`, muster(s, "top"))
	assert.Contains(t, muster(s, "top", "-o", "yaml"), "lastStart: \""+at.Format(time.RFC3339)+"\"")

	require.NoError(t, s.EditJob(waits, func(job *batchv1alpha1.Job) { job.Spec.Suspend = new(true) }))
	s.Soon("it waits no more", func() bool { return s.Log.Job(waits).ExpectedStart.IsZero() }, func() any { return s.Log.Job(waits) })
}
