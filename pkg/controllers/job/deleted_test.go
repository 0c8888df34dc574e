package job

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// deletes deletes the Job, which finalizers keep.
func (d *desk) deletes(finalizers ...string) *batchv1alpha1.Job {
	job := d.job()
	job.DeletionTimestamp, job.Finalizers = &metav1.Time{Time: d.time.Now()}, finalizers
	d.shows(job)
	d.told()
	d.kube.ClearActions()
	d.muster.ClearActions()
	return job
}

// becomes shows pods of the Job in a phase.
func (d *desk) becomes(p corev1.PodPhase, names ...string) {
	d.t.Helper()
	for _, name := range names {
		pod, err := d.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(d.t.Context(), name, metav1.GetOptions{})
		require.NoError(d.t, err)
		pod.Status.Phase = p
		if policy.IsFinished(pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		}
		d.shows(pod)
	}
}

// Issue 25, 6: a workflow engine keeps a Job by a finalizer until it is Completed.
func TestADeletedJobComesToItsEnd(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		MinAvailable(1).Task(mustertesting.MakeTask("a", 4).MinAvailable(1)), batchv1alpha1.Running, 0, 1, 2)
	d.deletes("example.com/keep")
	require.NoError(t, d.settles())
	d.becomes(corev1.PodFailed, "j-a-0")
	require.NoError(t, d.settles())
	status := d.job().Status
	assert.Equal(t, batchv1alpha1.Running, status.State.Phase, "no policy acts")
	assert.EqualValues(t, 1, status.Failed)
	assert.EqualValues(t, 2, status.Running)

	d.becomes(corev1.PodSucceeded, "j-a-1", "j-a-2")
	require.NoError(t, d.settles())
	status = d.job().Status
	assert.Equal(t, batchv1alpha1.Terminated, status.State.Phase, "the fourth pod never comes")
	assert.Equal(t, plan.ReasonDeleted, status.State.Reason)
	assert.EqualValues(t, 2, status.Succeeded)
	for _, action := range append(d.kube.Actions(), d.muster.Actions()...) {
		assert.NotEqual(t, "create", action.GetVerb())
	}
	_, err := d.muster.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), "j-u", metav1.GetOptions{})
	assert.Error(t, err, "it holds no place in its queue")
}

func TestADeletedJobIsCompleted(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").TTL(0).Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0, 1)
	d.deletes("example.com/keep")
	d.becomes(corev1.PodSucceeded, "j-a-0", "j-a-1")
	require.NoError(t, d.settles())
	assert.Equal(t, batchv1alpha1.Completed, d.job().Status.State.Phase)
	for _, action := range d.muster.Actions() {
		assert.False(t, action.Matches("delete", "jobs"), "it is deleted already")
	}
}

// TestADeletedJobThatHasNotBegunEnds: nothing is created for it, whatever kept it from its start.
func TestADeletedJobThatHasNotBegunEnds(t *testing.T) {
	for name, build := range map[string]func() *mustertesting.JobWrapper{
		"it may start": func() *mustertesting.JobWrapper {
			return mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2))
		},
		"it has no queue": func() *mustertesting.JobWrapper {
			return mustertesting.MakeJob("j").Queue("none").Task(mustertesting.MakeTask("a", 2))
		},
		"it is invalid": func() *mustertesting.JobWrapper {
			return mustertesting.MakeJob("j").Plugin("no-such-plugin").Task(mustertesting.MakeTask("a", 2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.shows(build().UID("u").Obj())
			d.deletes("example.com/keep")
			require.NoError(t, d.settles())
			assert.Equal(t, batchv1alpha1.Terminated, d.job().Status.State.Phase)
			for _, action := range append(d.kube.Actions(), d.muster.Actions()...) {
				assert.NotEqual(t, "create", action.GetVerb())
			}
		})
	}
}

func TestACommandForADeletedJobIsRefused(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
	job := d.deletes("example.com/keep")
	d.shows(commandFor(job, "restart", busv1alpha1.RestartJobAction))
	require.NoError(t, d.settles())
	assert.Equal(t, []string{"Warning CommandIgnored Command restart is not executed: the job is being deleted"}, d.told())
	assert.Equal(t, batchv1alpha1.Running, d.job().Status.State.Phase)
	_, err := d.muster.BusV1alpha1().Commands(job.Namespace).Get(t.Context(), "restart", metav1.GetOptions{})
	assert.Error(t, err)
}

// TestAJobWhosePodsAreToStayIsLeftAlone: kubectl delete --cascade=orphan takes them from it one after the other.
func TestAJobWhosePodsAreToStayIsLeftAlone(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0)
	d.deletes(metav1.FinalizerOrphanDependents)
	for _, key := range []string{"default/j", "other/has"} {
		require.True(t, d.turns.Take(key, 1))
	}
	require.False(t, d.turns.Take("other/waits", 1))
	after, err := d.looks()
	require.NoError(t, err)
	assert.Zero(t, after)
	assert.Empty(t, d.kube.Actions())
	for _, action := range d.muster.Actions() {
		assert.Equal(t, "get", action.GetVerb())
	}
	assert.True(t, d.turns.Take("other/waits", 1), "its turn is over, however long it stays")
}
