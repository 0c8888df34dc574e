package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestCostOfALargeJob: from creation to end a Job costs the controller one request for each pod, and a few for itself.
func TestCostOfALargeJob(t *testing.T) {
	const pods = 200
	s := newStage(t)
	before, begun := controller.Requests.Writes(), time.Now()
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
	// Its status is written every 200 ms at most.
	statuses := int64(time.Since(begun) / (200 * time.Millisecond))
	assert.LessOrEqual(t, controller.Requests.Writes()-before, pods+10+statuses)
	t.Logf("%d requests", controller.Requests.Writes()-before)
}

// TestStatusIsWrittenSeldomAndNothingIsRead: a status is written for each change of phase. Otherwise it is written every 200 ms at most,
// whatever the pods do. An undisturbed Job costs not one read.
func TestStatusIsWrittenSeldomAndNothingIsRead(t *testing.T) {
	const pods = 100
	s := newStage(t)
	begun := time.Now()
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", pods)))
	s.admit(job)
	for i := range pods {
		s.run(fmt.Sprintf("j-a-%d", i))
	}
	for i := range pods {
		s.succeed(fmt.Sprintf("j-a-%d", i))
	}
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	elapsed := time.Since(begun)

	statuses := controller.Requests.Of(func(request string) bool {
		return request == "PUT /apis/batch.volcano.sh/v1alpha1/namespaces/"+s.namespace+"/jobs/j/status"
	})
	assert.LessOrEqual(t, statuses, 3+1+int(elapsed/(200*time.Millisecond)))
	reads := controller.Requests.Of(func(request string) bool {
		return strings.HasPrefix(request, "GET ") && strings.Contains(request, "/namespaces/"+s.namespace+"/")
	})
	assert.Zero(t, reads)
	t.Logf("%d writes of the status in %s", statuses, elapsed)
}

// TestWhatIsAnsweredLaterIsWrittenSeldom: the failure of a pod is written before any action follows. Still it is written no more often than
// any change without a phase.
func TestWhatIsAnsweredLaterIsWrittenSeldom(t *testing.T) {
	const pods = 60
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MinAvailable(1).LifecyclePolicy(after(time.Hour, busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)).
		Task(mustertesting.MakeTask("a", pods)))
	s.admit(job)
	for i := range pods {
		s.run(fmt.Sprintf("j-a-%d", i))
	}
	s.Soon("the status tells of all pods", func() bool { return s.get("j").Status.Running == pods }, func() any { return s.get("j").Status })

	statuses := func() int {
		return controller.Requests.Of(func(request string) bool {
			return request == "PUT /apis/batch.volcano.sh/v1alpha1/namespaces/"+s.namespace+"/jobs/j/status"
		})
	}
	before, begun := statuses(), time.Now()
	for i := range pods {
		s.fail(fmt.Sprintf("j-a-%d", i), 1)
	}
	s.Soon("the status tells of all failures", func() bool { return s.get("j").Status.Failed == pods }, func() any { return s.get("j").Status })
	elapsed := time.Since(begun)
	assert.LessOrEqual(t, statuses()-before, 1+int(elapsed/(200*time.Millisecond)))
	t.Logf("%d writes of the status in %s", statuses()-before, elapsed)
}
