package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/startup"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// showsPod shows a pod of the Job in a phase. A pod that has ended has done so now, with that exit code.
func (d *desk) showsPod(name string, p corev1.PodPhase, exitCode int32) {
	d.t.Helper()
	found, exists, err := d.pods.index.GetByKey(metav1.NamespaceDefault + "/" + name)
	require.NoError(d.t, err)
	require.True(d.t, exists)
	pod := found.(*corev1.Pod).DeepCopy()
	pod.Status.Phase = p
	if policy.IsFinished(pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode, FinishedAt: metav1.NewTime(d.time.Now())}}}}
	}
	d.shows(pod)
}

func TestEachEndIsOneEvent(t *testing.T) {
	for name, c := range map[string]struct {
		phase corev1.PodPhase
		code  int32
		want  string
	}{
		"well":  {corev1.PodSucceeded, 0, "Normal Completed PodsSucceeded: 1 of 1 pod has succeeded"},
		"badly": {corev1.PodFailed, 3, "Warning Failed PodsFailed: 0 of 1 pod has succeeded; task a: 0 have, its minAvailable is 1; pod j-a-0 failed with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
			d.showsPod("j-a-0", c.phase, c.code)
			require.NoError(t, d.settles())
			assert.Equal(t, []string{c.want}, d.told())
		})
	}
}

// TestEachStartIsOneEvent: a Job that was Pending because too many pods waited has not started again, one that was restarted has.
func TestEachStartIsOneEvent(t *testing.T) {
	started := "Normal Running The minimum of the job runs"
	for name, c := range map[string]struct {
		before []batchv1alpha1.JobPhase
		want   []string
	}{
		"a new Job":            {[]batchv1alpha1.JobPhase{batchv1alpha1.Pending}, []string{started}},
		"one that has waited":  {[]batchv1alpha1.JobPhase{batchv1alpha1.Running, batchv1alpha1.Pending}, nil},
		"one that restarted":   {[]batchv1alpha1.JobPhase{batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Pending}, []string{started}},
		"one that was resumed": {[]batchv1alpha1.JobPhase{batchv1alpha1.Running, batchv1alpha1.Aborted, batchv1alpha1.Pending}, []string{started}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			job := d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending, 0)
			job.Status.Conditions = nil
			for _, p := range c.before {
				job.Status.Conditions = append(job.Status.Conditions, batchv1alpha1.JobCondition{Status: p, LastTransitionTime: &metav1.Time{}})
			}
			d.shows(job)
			require.NoError(t, d.settles())
			require.Equal(t, batchv1alpha1.Running, d.job().Status.State.Phase)
			assert.Equal(t, c.want, d.told())
		})
	}
}

// TestAnAdmissionAfterAWaitIsOneEvent: the wait for the queue was an event, too, whatever its reason.
func TestAnAdmissionAfterAWaitIsOneEvent(t *testing.T) {
	for _, reason := range []string{"NotEnoughResources", "QuotaExceeded"} {
		d := newDesk(t)
		d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending)
		waiting := d.groups.List()[0].(*schedulingv1beta1.PodGroup).DeepCopy()
		waiting.Status.Phase = schedulingv1beta1.PodGroupPending
		waiting.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{Type: schedulingv1beta1.PodGroupUnschedulableType, Reason: reason, Message: "the queue is full"}}
		d.shows(waiting)
		require.NoError(t, d.settles())
		require.Equal(t, []string{"Warning PodGroupPending PodGroup default:j pending, reason: the queue is full"}, d.told())
		admitted := waiting.DeepCopy()
		admitted.Status.Phase, admitted.Status.Conditions = schedulingv1beta1.PodGroupInqueue, nil
		d.shows(admitted)
		require.NoError(t, d.settles())
		assert.Equal(t, []string{"Normal Admitted Queue default has admitted the job"}, d.told())
	}
}

// TestTheLastRestartIsToldAsAFailure: nothing starts any more, so that no event says it does.
func TestTheLastRestartIsToldAsAFailure(t *testing.T) {
	d := newDesk(t)
	d.stands(mustertesting.MakeJob("j").MaxRetry(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).
		Task(mustertesting.MakeTask("a", 2)), batchv1alpha1.Running, 0, 1)
	d.showsPod("j-a-0", corev1.PodFailed, 3)
	require.NoError(t, d.settles())
	require.Equal(t, batchv1alpha1.Restarting, d.job().Status.State.Phase)
	assert.Empty(t, d.told())
	found, _, err := d.pods.index.GetByKey(metav1.NamespaceDefault + "/j-a-1")
	require.NoError(t, err)
	require.NoError(t, d.pods.index.Delete(found))
	require.NoError(t, d.settles())
	assert.Equal(t, []string{"Warning Failed MaxRetryReached: the Job has run 1 time, maxRetry is 1; last: pod j-a-0 failed with exit code 3; " +
		"spec.policies[0]: RestartJob"}, d.told())
}

// TestAPolicyOfAnAbortedJobIsRefused: the only event that happens to it is a change of its spec. The only possible answers are to resume or
// to terminate it.
func TestAPolicyOfAnAbortedJobIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		action    busv1alpha1.Action
		suspended bool
		phase     batchv1alpha1.JobPhase
		want      string
	}{
		"to restart it": {busv1alpha1.RestartJobAction, false, batchv1alpha1.Aborted,
			"Warning PolicyIgnored Action RestartJob is not executed: it does nothing to a job that is Aborted (the spec was changed; spec.policies[0]: RestartJob)"},
		"to resume it against its spec": {busv1alpha1.ResumeJobAction, true, batchv1alpha1.Aborted,
			"Warning PolicyIgnored Action ResumeJob is not executed: spec.suspend is true (the spec was changed; spec.policies[0]: ResumeJob)"},
		"to resume it":    {busv1alpha1.ResumeJobAction, false, batchv1alpha1.Pending, "Normal ExecuteAction Start to execute action ResumeJob: the spec was changed; spec.policies[0]: ResumeJob"},
		"to terminate it": {busv1alpha1.TerminateJobAction, false, batchv1alpha1.Terminated, "Normal ExecuteAction Start to execute action TerminateJob: the spec was changed; spec.policies[0]: TerminateJob"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").Suspend(c.suspended).Policy(busv1alpha1.JobUpdatedEvent, c.action).Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Aborted)
			require.NoError(t, d.settles())
			require.Empty(t, d.told())
			job := d.job()
			job.Generation++
			job.Spec.PriorityClassName = "high"
			d.shows(job)
			_, err := d.looks()
			require.NoError(t, err)
			assert.Equal(t, c.phase, d.job().Status.State.Phase)
			told := d.told()
			require.NotEmpty(t, told)
			assert.Equal(t, c.want, told[0])
			if c.phase == batchv1alpha1.Aborted {
				require.NoError(t, d.settles())
				assert.Empty(t, d.told(), "it is said once")
			}
		})
	}
}

// TestACommandForNoJobIsAnswered: by an event on the Command, which is deleted.
func TestACommandForNoJobIsAnswered(t *testing.T) {
	d := newDesk(t)
	d.shows(&busv1alpha1.Command{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "c", UID: "c"}, Action: "AbortJob",
		TargetObject: &metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", UID: "gone"}})
	_, err := d.Sync(t.Context(), metav1.NamespaceDefault+"/j")
	require.NoError(t, err)
	assert.Equal(t, []string{"Warning CommandIgnored Command c is not executed: there is no job j"}, d.told())
}

// TestAHealthyJobIsNotToldWhatItsPendingPodsLeadTo: every pod is pending at first. People are told when it takes long, and when it is over.
func TestAHealthyJobIsNotToldWhatItsPendingPodsLeadTo(t *testing.T) {
	d := newDesk(t)
	anHour := batchv1alpha1.LifecyclePolicy{Event: busv1alpha1.PodPendingEvent, Action: busv1alpha1.AbortJobAction, Timeout: &metav1.Duration{Duration: time.Hour}}
	d.stands(mustertesting.MakeJob("j").LifecyclePolicy(anHour).Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Pending, 0)
	found, _, err := d.pods.index.GetByKey(metav1.NamespaceDefault + "/j-a-0")
	require.NoError(t, err)
	pod := found.(*corev1.Pod).DeepCopy()
	pod.CreationTimestamp, pod.Status.Phase = metav1.NewTime(d.time.Now()), corev1.PodPending
	d.shows(pod)
	after, err := d.looks()
	require.NoError(t, err)
	assert.Empty(t, d.told())
	assert.LessOrEqual(t, after, maxStartup+policy.ClockUnit, "it is looked at again to tell of it")

	d.time.SetTime(d.time.Now().Add(maxStartup + policy.ClockUnit))
	require.NoError(t, d.settles())
	require.Equal(t, []string{"Normal ExecuteAction Execute action AbortJob after 1h0m0s"}, d.told())
	d.showsPod("j-a-0", corev1.PodRunning, 0)
	require.NoError(t, d.settles())
	assert.ElementsMatch(t, []string{"Normal Running The minimum of the job runs",
		"Normal ActionCancelled Action AbortJob is not executed: PodPending of task a is over"}, d.told())
}

// TestALostAnswerLosesNoEvent: the status with what a Command did was written, and the answer was lost, or it was not written. The event, and
// the count of Commands, come once in either case.
func TestALostAnswerLosesNoEvent(t *testing.T) {
	for name, isWritten := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").UID("u").Task(mustertesting.MakeTask("a", 1)), batchv1alpha1.Running, 0)
			d.time.SetTime(d.time.Now().Add(time.Hour + 300*time.Millisecond))
			d.shows(&busv1alpha1.Command{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "c", UID: "c"},
				Action: string(busv1alpha1.AbortJobAction), TargetObject: metav1.NewControllerRef(d.job(), build.JobKind)})
			metrics.NewKubeRegistry().MustRegister(d.instruments.Collectors...)
			lost := false
			d.muster.PrependReactor("update", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if lost {
					return false, nil, nil
				}
				lost = true
				if isWritten {
					update := action.(clienttesting.UpdateAction)
					text, err := json.Marshal(update.GetObject())
					require.NoError(t, err)
					stored := &batchv1alpha1.Job{} // times have whole seconds
					require.NoError(t, json.Unmarshal(text, stored))
					require.NoError(t, d.muster.Tracker().Update(update.GetResource(), stored, update.GetNamespace()))
				}
				return true, nil, apierrors.NewTimeoutError("it took too long", 1)
			})
			_, err := d.looks()
			require.Error(t, err)
			assert.Equal(t, []string{"Warning JobStatusError Failed to update job status, err: Timeout: it took too long"}, d.told())
			require.NoError(t, d.settles())
			issued := "Normal CommandIssued Start to execute command AbortJob, and clean it up to make sure executed not more than once."
			assert.Equal(t, []string{issued, "Normal ExecuteAction Start to execute action AbortJob: Command c asks for AbortJob"}, d.told())
			executed, err := testutil.GetCounterMetricValue(d.instruments.commands.WithLabelValues("executed"))
			require.NoError(t, err)
			assert.InDelta(t, 1, executed, 0)
		})
	}
}

// TestLackOfRoomIsToldBeforeRefusedPods (issue 40, 10): a quota refuses surplus, and the minimum has no room. The Job waits for room, and says
// both. If the pods of the minimum are refused, that comes first.
func TestLackOfRoomIsToldBeforeRefusedPods(t *testing.T) {
	for name, c := range map[string]struct{ groupReason, reason, message string }{
		"the minimum lacks room": {schedulingv1beta1.NotEnoughResourcesReason, plan.ReasonUnschedulable, "0/4 nodes; not done yet: Error creating pods: "},
		"the minimum lacks pods": {schedulingv1beta1.NotEnoughPodsReason, plan.ReasonFailedCreate, "Error creating pods: "},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 2).MinAvailable(1)), batchv1alpha1.Pending, 0)
			d.showsPod("j-a-0", corev1.PodPending, 0)
			group := d.groups.List()[0].(*schedulingv1beta1.PodGroup).DeepCopy()
			group.Status.Conditions = []schedulingv1beta1.PodGroupCondition{{
				Type: schedulingv1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: c.groupReason, Message: "0/4 nodes"}}
			d.shows(group)
			refuses(&d.kube.Fake, "create", "pods")
			require.Error(t, d.settles())
			state := d.job().Status.State
			assert.Equal(t, c.reason, state.Reason)
			assert.Contains(t, state.Message, c.message)
		})
	}
}

// TestAJobSaysWhichPodItWaitsFor (issue 40, 19): two pods run, and one is bound and hangs. A Job with another reason keeps that.
func TestAJobSaysWhichPodItWaitsFor(t *testing.T) {
	for before, want := range map[string]string{"": plan.ReasonPodNotStarted, "TooManyPodsPending": "TooManyPodsPending"} {
		t.Run("reason "+before, func(t *testing.T) {
			d := newDesk(t)
			d.stands(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 3)), batchv1alpha1.Pending, 0, 1, 2)
			job := d.job()
			job.Status.Conditions = []batchv1alpha1.JobCondition{{Status: batchv1alpha1.Pending, Reason: before}}
			d.shows(job)
			found, _, err := d.pods.index.GetByKey(metav1.NamespaceDefault + "/j-a-1")
			require.NoError(t, err)
			pod := found.(*corev1.Pod).DeepCopy()
			pod.Status.Phase, pod.CreationTimestamp = corev1.PodPending, metav1.NewTime(d.time.Now())
			d.shows(pod)
			after, err := d.looks()
			require.NoError(t, err)
			assert.Equal(t, before, d.job().Status.State.Reason, "most pods start soon")
			require.Positive(t, after)
			require.LessOrEqual(t, after, startup.Timeout)

			d.time.SetTime(d.time.Now().Add(startup.Timeout))
			require.NoError(t, d.settles())
			state := d.job().Status.State
			assert.Equal(t, want, state.Reason)
			assert.Contains(t, state.Message, "pod j-a-1 is bound to node n and does not run yet")
			d.showsPod("j-a-1", corev1.PodRunning, 0)
			require.NoError(t, d.settles())
			assert.Equal(t, batchv1alpha1.Running, d.job().Status.State.Phase)
			assert.Empty(t, d.job().Status.State.Message)
		})
	}
}
