package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestNoPodIsCreatedInAPause: through the Controller, which looks again when the pause is over.
func TestNoPodIsCreatedInAPause(t *testing.T) {
	d := newDesk(t)
	d.cfg.RestartBackoff = 10 * time.Second
	d.podTracker.Open()
	job := mustertesting.MakeJob("j").UID("job-uid").Task(mustertesting.MakeTask("a", 2)).Status(d.since(batchv1alpha1.Pending, time.Hour, "")).Obj()
	until := metav1.NewTime(d.time.Now().Add(15 * time.Second))
	job.Generation, job.Status.MinAvailable = 1, 2
	job.Status.RestartBackoff = &batchv1alpha1.RestartBackoff{Count: 3, Last: metav1.NewTime(d.time.Now().Add(-5 * time.Second)), Until: &until}
	d.shows(job)
	group := mustertesting.MakePodGroup(batchv1alpha1.PodGroupName(job)).UID("group").Obj()
	group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, build.JobKind)}
	group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	d.shows(group)
	created := func() int {
		pods, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(pods.Items)
	}
	after, err := d.looks()
	require.NoError(t, err)
	assert.Equal(t, 15*time.Second, after)
	assert.Zero(t, created())
	assert.Equal(t, "BackOff", d.job().Status.State.Reason)
	assert.Contains(t, <-d.events.Events, "Warning BackOff Back-off restarting the job")

	d.time.SetTime(until.Time)
	_, err = d.looks()
	require.NoError(t, err)
	assert.Equal(t, 2, created())
	assert.Empty(t, d.job().Status.State.Reason)
}

// TestAPodThatLostItsPlaceIsGone: its user has removed its index, or written one that no pod of the Job can have. It counts as evicted, and
// the policy is answered.
func TestAPodThatLostItsPlaceIsGone(t *testing.T) {
	for annotation, value := range map[string]string{batchv1alpha1.TaskIndexKey: "", batchv1alpha1.PodGenerationAnnotation: "2147483647"} {
		t.Run(annotation, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.AbortJobAction).
				Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0, 1)
			require.NoError(t, d.settles())
			pod, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-1", metav1.GetOptions{})
			require.NoError(t, err)
			pod = pod.DeepCopy()
			pod.Annotations[annotation] = value
			d.shows(pod)
			require.NoError(t, d.settles())
			assert.Contains(t, []batchv1alpha1.JobPhase{batchv1alpha1.Aborting, batchv1alpha1.Aborted}, d.job().Status.State.Phase)
		})
	}
}

// TestAPodThatDoesNotGoIsNamed (issue 25, 10): its node is dead. The Job says so without an event of the pod, whatever its phase.
func TestAPodThatDoesNotGoIsNamed(t *testing.T) {
	const told = "pod j-a-0 should have ended by"
	for name, p := range map[string]batchv1alpha1.JobPhase{"it runs": batchv1alpha1.Running, "it is aborted": batchv1alpha1.Aborting} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), p, 0, 1)
			pod, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "j-a-0", metav1.GetOptions{})
			require.NoError(t, err)
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: d.time.Now()}, []string{"test/keeps"}
			d.shows(pod)
			after, err := d.looks()
			require.NoError(t, err)
			assert.NotContains(t, d.job().Status.State.Message, told)
			require.Positive(t, after)
			require.LessOrEqual(t, after, plan.OverdueAfter)
			d.time.SetTime(d.time.Now().Add(plan.OverdueAfter))
			require.NoError(t, d.settles())
			state := d.job().Status.State
			assert.Contains(t, state.Message, told)
			assert.Equal(t, p == batchv1alpha1.Running, state.Reason == plan.ReasonPodOverdue)

			require.NoError(t, d.pods.index.Delete(pod))
			require.NoError(t, d.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name))
			require.NoError(t, d.settles())
			assert.NotContains(t, d.job().Status.State.Message, told)
		})
	}
}

// TestWhatAUserAsksForIsNotPaced: a change of size is written and done at once, however lately a status was written.
func TestWhatAUserAsksForIsNotPaced(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").MinAvailable(0).Task(mustertesting.MakeTask("a", 2).MinAvailable(0)), batchv1alpha1.Running, 0, 1)
	_, err := d.looks()
	require.NoError(t, err)
	d.time.SetTime(d.time.Now().Add(worker.CountsInterval))
	_, err = d.looks()
	require.NoError(t, err)
	require.EqualValues(t, 2, d.job().Status.Running)
	job := d.job()
	job.Generation++
	job.Spec.Tasks[0].Replicas = 0
	d.shows(job)
	_, err = d.looks() // no time has passed since the last write
	require.NoError(t, err)
	status := d.job().Status
	assert.Equal(t, []int32{0, 2}, []int32{status.Running, status.Terminating})
	pods, err := d.kube.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)

	// Changes that come by themselves are paced.
	s := &plan.Snapshot{Job: d.job()}
	to := s.Job.Status.DeepCopy()
	to.Delayed = []batchv1alpha1.DelayedEvent{{Event: busv1alpha1.PodFailedEvent}}
	p := &plan.Plan{Status: to, Members: &plan.Members{}}
	assert.NotEqual(t, plan.NoInterval, plan.TimingOf(s, &s.Job.Status, p).Interval)
	s.SpecChanged = true
	assert.Equal(t, plan.Timing{BeforeActing: true}, plan.TimingOf(s, &s.Job.Status, p))
}
