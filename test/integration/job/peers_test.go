package job_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// The tests named after a T and a number keep out what other projects' users met.

// TestT10_SucceededPodsAreNotRunAgain: a node with a succeeded pod is drained, once while the controller runs and once while it does not.
func TestT10_SucceededPodsAreNotRunAgain(t *testing.T) {
	s := newStage(t)
	job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 3)))
	s.admit(job)
	s.run("j-a-0", "j-a-1", "j-a-2")
	s.JobPhase(s.name("j"), batchv1alpha1.Running)
	s.succeed("j-a-0", "j-a-1")
	s.Soon("the successes are noted", func() bool { return log.Job(s.name("j")).Succeeded == 2 }, func() any { return log.Job(s.name("j")) })

	s.evict("j-a-0")
	whileDown(func() { s.evict("j-a-1") })
	s.Pods(1, "nothing takes their place", s.live)
	s.PodsStay(1, "nothing takes their place", s.live)
	s.succeed("j-a-2")
	s.JobPhases(s.name("j"), batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Completed)
	assert.Equal(t, []int{1, 1, 1}, []int{s.created("j-a-0"), s.created("j-a-1"), s.created("j-a-2")})
	status := s.get("j").Status
	assert.EqualValues(t, 3, status.Succeeded)
	assert.Zero(t, status.RetryCount)
}

// TestT11_SuspendingSpendsNoRetries: a Job with one run may be suspended and resumed at will, by its spec or by
// Commands.
func TestT11_SuspendingSpendsNoRetries(t *testing.T) {
	t.Parallel()
	suspend := map[string]func(s *stage, job *batchv1alpha1.Job, yes bool){
		"by its spec": func(s *stage, _ *batchv1alpha1.Job, yes bool) {
			s.edit("j", func(job *batchv1alpha1.Job) { job.Spec.Suspend = &yes })
		},
		"by Commands": func(s *stage, job *batchv1alpha1.Job, yes bool) {
			s.command(job, job.UID, map[bool]string{true: "AbortJob", false: "ResumeJob"}[yes])
		},
	}
	for name, set := range suspend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			job := s.apply(mustertesting.MakeJob("j").MaxRetry(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
				Task(mustertesting.MakeTask("a", 1)))
			for range 4 {
				s.admit(job)
				s.run("j-a-0")
				s.JobPhase(s.name("j"), batchv1alpha1.Running)
				set(s, job, true)
				s.reap(1)
				s.JobPhase(s.name("j"), batchv1alpha1.Aborted)
				set(s, job, false)
				s.JobPhase(s.name("j"), batchv1alpha1.Pending)
			}
			s.admit(job)
			s.run("j-a-0")
			s.JobPhase(s.name("j"), batchv1alpha1.Running)
			assert.Zero(t, s.get("j").Status.RetryCount)
			assert.Equal(t, 5, s.created("j-a-0"))
			require.Empty(t, watchlog.StatusViolations(log.JobStates(s.name("j"))))
		})
	}
}

// TestT17_NoPodAfterTheJobsDeletion: a Job is deleted while its pods are being created. In the end there is no pod, and none comes.
func TestT17_NoPodAfterTheJobsDeletion(t *testing.T) {
	for name, meanwhile := range map[string]func(){
		"the controller looks on": func() {},
		"the controller restarts": func() { whileDown(func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			job := s.apply(mustertesting.MakeJob("j").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartJobAction).
				Task(mustertesting.MakeTask("a", 200)))
			s.admit(job)
			s.Soon("the first pods are there", func() bool { return len(log.Pods(s.live)) > 3 }, func() any { return log.Pods(s.live) })
			background := metav1.DeletePropagationBackground
			require.NoError(t, muster.BatchV1alpha1().Jobs(s.namespace).Delete(t.Context(), "j", metav1.DeleteOptions{PropagationPolicy: &background}))
			meanwhile()
			exists := func(p watchlog.Pod) bool { return p.Namespace == s.namespace && p.Gone.IsZero() }
			s.Pods(0, "no pod is left", exists)
			s.PodsStay(0, "no pod comes", exists)
			for i := range 200 {
				assert.LessOrEqual(t, s.created(fmt.Sprintf("j-a-%d", i)), 1, "pod %d is not made anew", i)
			}
		})
	}
}
