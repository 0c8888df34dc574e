package job_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestCostOfALargeJob: from its creation to its end a Job costs the controller one request for each pod, and a few
// for itself, however its pods come and go.
func TestCostOfALargeJob(t *testing.T) {
	const pods = 200
	s := newStage(t)
	before := writes.requests.Load()
	job := s.apply(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", pods)))
	s.admit(job)
	for i := range pods {
		s.run(fmt.Sprintf("j-a-%d", i))
	}
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	for i := range pods {
		s.succeed(fmt.Sprintf("j-a-%d", i))
	}
	s.JobPhase(s.name("j"), batchv1alpha1.Completed)
	assert.LessOrEqual(t, writes.requests.Load()-before, int64(pods+50))
	t.Logf("%d requests", writes.requests.Load()-before)
}
