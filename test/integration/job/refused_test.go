package job_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// The API server refuses most changes of a Job that could not run. It cannot see these: a Job that has started keeps what it has until its
// spec is mended.

// expectRefused waits until a running Job says that its spec cannot run. The status and an event both name the fault and the remedy.
func (s *stage) expectRefused(job string, texts ...string) {
	s.t.Helper()
	state := s.JobReason(s.name(job), "Invalid")
	assert.Equal(s.t, batchv1alpha1.Running, state.Phase)
	event := s.Event("Job", s.name(job), func(e watchlog.Event) bool { return e.Reason == "Invalid" })
	assert.Equal(s.t, corev1.EventTypeWarning, event.Type)
	for _, text := range append(texts, "no pod is created, restarted or scaled away until this is mended") {
		assert.Contains(s.t, state.Message, text)
		assert.Contains(s.t, event.Message, text)
	}
}

func TestARunningJobThatIsScaledToWhatCannotRunCreatesNothing(t *testing.T) {
	s := newStage(t)
	name := strings.Repeat("j", 59) // the name of its pod 9 is as long as may be
	job := s.apply(mustertesting.MakeJob(name).MinAvailable(1).Task(mustertesting.MakeTask("a", 2)))
	s.admit(job)
	s.run(name+"-a-0", name+"-a-1")
	s.JobPhase(s.name(name), batchv1alpha1.Running)
	minimum := s.group(job).Spec.MinMember

	s.edit(name, func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 11 })
	s.expectRefused(name, "spec.tasks[0].name", "lower the replicas")
	s.PodsStay(2, "none is created", s.live)
	s.evict(name + "-a-0")
	s.reap(1)
	s.Pods(1, "none is created in place of another", s.live)
	s.PodsStay(1, "none is created in place of another", s.live)
	whileDown(func() {})
	s.PodsStay(1, "nor after a restart", s.live)
	assert.Equal(t, minimum, s.group(job).Spec.MinMember, "the PodGroup is as it was")
	assert.Equal(t, batchv1alpha1.Running, log.Job(s.name(name)).Phase)

	s.edit(name, func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = 10 })
	s.run(name+"-a-0", name+"-a-2", name+"-a-9")
	s.Pods(10, "all that there may be", s.live)
	assert.Equal(t, 1, s.created(name+"-a-1"), "it has run all the time")
	s.Soon("the reason is gone", func() bool { return log.Job(s.name(name)).Reason == "" }, func() any { return log.Job(s.name(name)) })
}

func TestARunningJobThatIsScaledDownToWhatCannotRunLosesNothing(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").MaxRetry(5).MinAvailable(1).
		Task(mustertesting.MakeTask("a", 4).Partitions(4, 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction)))
	s.admit(job)
	names := []string{"j-a-0", "j-a-1", "j-a-2", "j-a-3"}
	s.run(names...)
	s.JobPhase(s.name("j"), batchv1alpha1.Running)

	resize := func(total, least int32) {
		s.edit("j", func(job *batchv1alpha1.Job) {
			task := &job.Spec.Tasks[0]
			task.Replicas, task.PartitionPolicy.TotalPartitions, task.PartitionPolicy.MinPartitions = total, total, least
			task.MinAvailable = nil // what the partitions say
		})
	}
	resize(1, 2)
	s.expectRefused("j", "spec.tasks[0].partitionPolicy.minPartitions", "must not be greater than totalPartitions")
	s.PodsStay(4, "none is scaled away", s.live)
	s.fail("j-a-3", 1)
	assert.Equal(t, "3", s.delayed("j", 1)[0].Indexes, "its policy's answer is put off")
	whileDown(func() {})
	s.PodsStay(4, "none is restarted", s.live)
	assert.Zero(t, s.get("j").Status.RetryCount)

	resize(4, 0)
	s.run("j-a-3")
	s.Soon("all run again", func() bool { return s.get("j").Status.Running == 4 }, func() any { return s.get("j").Status })
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	assert.Equal(t, int32(1), s.get("j").Status.RetryCount)
	for _, name := range names[:3] {
		assert.Equal(t, 1, s.created(name), name)
	}
}
