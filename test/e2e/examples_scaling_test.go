package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// scale changes the replicas of a Job's first task, and its minimums if minimum is not negative.
func scale(replicas, minimum int32) change {
	return func(job *batchv1alpha1.Job) {
		job.Spec.Tasks[0].Replicas = replicas
		if minimum >= 0 {
			job.Spec.MinAvailable = minimum
			job.Spec.Tasks[0].MinAvailable = &minimum
		}
	}
}

// TestExampleOfScaling: an elastic training Job grows, shrinks, stops for a while and goes on. Whatever is evicted would
// restart it.
func TestExampleOfScaling(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	slots(s, "110")
	job := s.CreateJob(mustertesting.MakeJob("elastic").MinAvailable(2).Plugin("svc").
		Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("worker", 3).MinAvailable(2)))
	s.JobPhase(job, batchv1alpha1.Running)
	first := s.Pods(3, "three run", s.In(harness.Running))
	expectHosts(s, 3)

	require.NoError(t, s.EditJob(job, scale(5, 4)))
	s.Pods(5, "five run", s.In(harness.Running))
	expectHosts(s, 5)
	s.Soon("the PodGroup follows", func() bool { return s.GroupOf(job).Spec.MinMember == 4 }, func() any { return s.GroupOf(job).Spec })

	require.ErrorContains(t, s.EditJob(job, scale(3, -1)), "minAvailable", "fewer replicas than the minimum")
	require.NoError(t, s.EditJob(job, scale(2, 1)))
	s.Pods(2, "two run", s.In(harness.Running))
	for _, pod := range first {
		if pod.Name != "elastic-worker-2" {
			assert.Equal(t, pod.UID, s.Pod(pod.Name).UID, "the lower indexes stay")
		}
	}
	expectHosts(s, 2)

	require.NoError(t, s.EditJob(job, scale(0, 0)))
	s.Pods(0, "all pods are gone", s.In(func(p watchlog.Pod) bool { return p.Gone.IsZero() }))
	expectHosts(s, 0)
	s.Stays("the Job does not end", func() bool { return s.Log.Job(job).Phase == batchv1alpha1.Running }, func() any { return s.Log.JobStates(job) })

	require.NoError(t, s.EditJob(job, scale(4, 4)))
	s.Pods(4, "four run", s.In(harness.Running))
	s.JobPhase(job, batchv1alpha1.Running)
	assert.Zero(t, s.Job(job).Status.RetryCount, "scaling is no eviction")
	require.Empty(t, watchlog.StatusViolations(s.Log.JobStates(job)))
	require.Error(t, s.EditJob(job, func(job *batchv1alpha1.Job) {
		job.Spec.Tasks = append(job.Spec.Tasks, *mustertesting.MakeTask("more", 1).Obj())
	}), "a task is added")
}

// expectHosts waits until the files in /etc/volcano have so many hosts.
func expectHosts(s *harness.Story, count int) {
	s.T.Helper()
	hosts := func() []string {
		config, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(s.Ctx, "elastic-svc", metav1.GetOptions{})
		if err != nil {
			return []string{err.Error()}
		}
		return strings.Fields(config.Data["worker.host"])
	}
	s.Soon("the hosts follow", func() bool { return len(hosts()) == count }, func() any { return hosts() })
}
