package program_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/runs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// TestTheSecondRunHasTheEstimateOfTheFirst: also after a controller is killed, after a restart, and when the first Job is gone.
func TestTheSecondRunHasTheEstimateOfTheFirst(t *testing.T) {
	const namespace = metav1.NamespaceDefault
	ctx, jobs := t.Context(), muster.BatchV1alpha1().Jobs(namespace)
	node := addNode(t, "estimates")
	eventually(t, "the service account of the namespace", func() bool {
		_, err := kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	submit := func(name string) *batchv1alpha1.Job {
		job, err := jobs.Create(ctx, mustertesting.MakeJob(name).Task(mustertesting.MakeTask("worker", 1)).Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
		return job
	}
	estimateOf := func(job *batchv1alpha1.Job) (estimate *schedulingv1beta1.PodGroupEstimate) {
		eventually(t, "the PodGroup is admitted", func() bool {
			group, err := muster.SchedulingV1beta1().PodGroups(namespace).Get(ctx, batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
			if err != nil || !group.Status.Phase.Admitted() {
				return false
			}
			estimate = group.Status.Estimate
			return true
		})
		return estimate
	}

	p := start(t, "--leader-elect=false")
	p.awaitReady()
	first := submit("estimated-1")
	assert.Nil(t, estimateOf(first))
	runToItsEnd(t, first, node)
	assert.Empty(t, p.errors())
	p.kill()

	expectTheSame := func(name string) *batchv1alpha1.Job {
		job := submit(name)
		estimate := estimateOf(job)
		require.NotNil(t, estimate)
		assert.Equal(t, schedulingv1beta1.EstimateFromHistory, estimate.Source)
		assert.Positive(t, estimate.Runtime.Duration)
		assert.Equal(t, "the last run of this kind took as long", estimate.Message)
		return job
	}
	// The first controller had no time to write that the Job has ended.
	p = start(t, "--leader-elect=false")
	p.awaitReady()
	second := expectTheSame("estimated-2")
	assert.Equal(t, 0, p.stop())
	assert.Empty(t, p.errors())
	kept, err := kube.CoreV1().ConfigMaps("muster-system").Get(ctx, runs.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, kept.Data[runs.Key], "estimated", "it has no names")
	require.NoError(t, jobs.Delete(ctx, first.Name, metav1.DeleteOptions{}))
	require.NoError(t, jobs.Delete(ctx, second.Name, metav1.DeleteOptions{}))

	p = start(t, "--leader-elect=false")
	p.awaitReady()
	expectTheSame("estimated-4")
	stated, err := jobs.Create(ctx, mustertesting.MakeJob("estimated-3").Annotation("muster.sh/running-estimate", "90m").
		Task(mustertesting.MakeTask("worker", 1)).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	third := estimateOf(stated)
	require.NotNil(t, third)
	assert.Equal(t, "1h30m0s", third.Runtime.Duration.String())
	assert.Equal(t, schedulingv1beta1.EstimateFromUser, third.Source)
	assert.Equal(t, 0, p.stop())
}

// TestAQueueSaysHowLongWaitingJobsRun: its default also counts for what was submitted before it changed.
func TestAQueueSaysHowLongWaitingJobsRun(t *testing.T) {
	const namespace = metav1.NamespaceDefault
	ctx, queues := t.Context(), muster.SchedulingV1beta1().Queues()
	p := start(t, "--leader-elect=false")
	p.awaitReady()
	_, err := queues.Create(ctx, mustertesting.MakeQueue("says").Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	job, err := muster.BatchV1alpha1().Jobs(namespace).Create(ctx, mustertesting.MakeJob("says").Queue("says").
		Task(mustertesting.MakeTask("worker", 1)).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	awaitEstimate := func(runtime string) {
		eventually(t, "the estimate is "+runtime, func() bool {
			group, err := muster.SchedulingV1beta1().PodGroups(namespace).Get(ctx, batchv1alpha1.PodGroupName(job), metav1.GetOptions{})
			if err != nil || group.Status.Phase == "" {
				return false
			}
			estimate := group.Status.Estimate
			if runtime == "none" {
				return estimate == nil
			}
			return estimate != nil && estimate.Source == schedulingv1beta1.EstimateFromQueue && estimate.Runtime.Duration.String() == runtime
		})
	}
	awaitEstimate("none")
	for _, runtime := range []string{"2h0m0s", "3h0m0s", "none"} {
		require.NoError(t, clients.Change(ctx, "says", queues.Get, queues.Update, func(queue *schedulingv1beta1.Queue) {
			queue.Spec.Muster = nil
			if length, err := time.ParseDuration(runtime); err == nil {
				queue.Spec.Muster = &schedulingv1beta1.QueueExtension{DefaultRuntime: &metav1.Duration{Duration: length}}
			}
		}))
		awaitEstimate(runtime)
	}
	assert.Equal(t, 0, p.stop())
}

// addNode adds a node until the test ends: a queue admits what there is room for. It returns its name.
func addNode(t *testing.T, name string) string {
	t.Helper()
	node := mustertesting.MakeNode(name).Allocatable("cpu", "1", "memory", "1Gi", "pods", "10").Obj()
	_, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	return name
}

// runToItsEnd binds the pod of a Job of one, has it succeed, and waits until the Job is completed.
func runToItsEnd(t *testing.T, job *batchv1alpha1.Job, node string) {
	t.Helper()
	ctx, pods, name := t.Context(), kube.CoreV1().Pods(job.Namespace), job.Name+"-worker-0"
	eventually(t, "the pod", func() bool { _, err := pods.Get(ctx, name, metav1.GetOptions{}); return err == nil })
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	require.NoError(t, pods.Bind(ctx, binding, metav1.CreateOptions{}))
	is := func(phase batchv1alpha1.JobPhase) func() bool {
		return func() bool {
			found, err := muster.BatchV1alpha1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
			return err == nil && found.Status.State.Phase == phase
		}
	}
	for _, step := range []struct {
		pod corev1.PodPhase
		job batchv1alpha1.JobPhase
	}{{corev1.PodRunning, batchv1alpha1.Running}, {corev1.PodSucceeded, batchv1alpha1.Completed}} {
		require.NoError(t, clients.Change(ctx, name, pods.Get, pods.UpdateStatus, func(pod *corev1.Pod) { pod.Status.Phase = step.pod }))
		eventually(t, "the Job is "+string(step.job), is(step.job))
	}
}
