package phase

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// seen are the pods of each task, counted by phase.
type seen map[string]map[corev1.PodPhase]int32

// moment is one step of a trace. It is an action on a Job or a change of its pods, with the result.
type moment struct {
	// does is an action; want is then its effect, as describe words it.
	does busv1alpha1.Action
	// scales is what the user makes of the first task's replicas before the look; nil if nothing.
	scales *int32
	// sees are the pods; want is then the phase and, after a colon, the reason if there is one.
	sees seen
	want string
}

// trace is a part of the life of a Job, step by step.
type trace struct {
	job   *mustertesting.JobWrapper
	steps []moment
	// retries and version that the status shows in the end.
	retries, version int32
}

const (
	pending   = corev1.PodPending
	running   = corev1.PodRunning
	succeeded = corev1.PodSucceeded
	failed    = corev1.PodFailed
	// going is a pod that is told to go and is still there.
	going corev1.PodPhase = "going"
)

// traces are the worked traces of the reference (Volcano's behaviour, section 2.2). Where Muster's differ on purpose the case says so;
// docs/coming-from-volcano.md has all of these points. Two hold for all of them: pods are counted correctly while others are killed, where
// Volcano shows zeros. A Job has a new version only when it starts anew, where Volcano's grows with each kill.
var traces = map[string]trace{
	// The workload runs three times in all. The failed pod of the last run stays, for its logs.
	"maxRetry 3, PodFailed: RestartJob, one pod always fails": {
		job: mustertesting.MakeJob("j").MaxRetry(3).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)),
		steps: slices.Concat(
			aRun(),
			aRestart(),
			aRun(),
			aRestart(),
			aRun(),
			[]moment{
				{does: busv1alpha1.RestartJobAction, want: "Restarting unfinished +retry"},
				{sees: seen{"a": {going: 1, failed: 1}}, want: "Restarting"},
				{sees: seen{"a": {failed: 1}}, want: "Failed: MaxRetryReached"},
				{sees: seen{"a": {failed: 1}}, want: "Failed"},
			},
		),
		retries: 3, version: 2,
	},
	"maxRetry 2 ends with retryCount 2": {
		job: mustertesting.MakeJob("j").MaxRetry(2).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)),
		steps: slices.Concat(
			aRun(),
			aRestart(),
			aRun(),
			[]moment{
				{does: busv1alpha1.RestartJobAction, want: "Restarting unfinished +retry"},
				{sees: seen{"a": {going: 1, failed: 1}}, want: "Restarting"},
				{sees: seen{"a": {failed: 1}}, want: "Failed: MaxRetryReached"},
			},
		),
		retries: 2, version: 1,
	},
	"maxRetry 1: the first restart fails, failed pods stay": {
		job: mustertesting.MakeJob("j").MaxRetry(1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction).Task(mustertesting.MakeTask("a", 2)),
		steps: slices.Concat(
			aRun(),
			[]moment{
				{does: busv1alpha1.RestartJobAction, want: "Restarting unfinished +retry"},
				{sees: seen{"a": {going: 1, failed: 1}}, want: "Restarting"},
				{sees: seen{"a": {failed: 1}}, want: "Failed: MaxRetryReached"},
			},
		),
		retries: 1,
	},
	// Differs: there each ResumeJob counts as a run and the third one fails the Job. Here to stop a Job is not to fail, and it is
	// resumed as often as its user likes.
	"maxRetry 3, aborted and resumed three times": {
		job: mustertesting.MakeJob("j").MaxRetry(3).Task(mustertesting.MakeTask("a", 2)),
		steps: slices.Concat(
			[]moment{{want: "Pending"}, {sees: seen{"a": {running: 2}}, want: "Running"}},
			aPause(), aPause(), aPause(),
		),
	},
	"TaskCompleted: CompleteJob while another task runs": {
		job: mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction)).
			Task(mustertesting.MakeTask("b", 2)),
		steps: []moment{
			{want: "Pending"},
			{sees: seen{"a": {running: 1}, "b": {running: 2}}, want: "Running"},
			{sees: seen{"a": {succeeded: 1}, "b": {running: 2}}, want: "Running"},
			{does: busv1alpha1.CompleteJobAction, want: "Completing unfinished"},
			{sees: seen{"a": {succeeded: 1}, "b": {going: 2}}, want: "Completing"},
			{sees: seen{"a": {succeeded: 1}, "b": {going: 1}}, want: "Completing"},
			{sees: seen{"a": {succeeded: 1}}, want: "Completed"},
		},
	},
	// Differs: there the Job is Completed at once and b's pods go afterwards. Here Completing comes before, and Completed shows no
	// pod that could still do anything.
	"minSuccess 2, a finishes and b runs": {
		job: mustertesting.MakeJob("j").MinSuccess(2).Task(mustertesting.MakeTask("a", 3)).Task(mustertesting.MakeTask("b", 1)),
		steps: []moment{
			{want: "Pending"},
			{sees: seen{"a": {running: 3}, "b": {running: 1}}, want: "Running"},
			{sees: seen{"a": {running: 2, succeeded: 1}, "b": {running: 1}}, want: "Running"},
			{sees: seen{"a": {running: 1, succeeded: 2}, "b": {running: 1}}, want: "Completing: MinSuccessReached"},
			{sees: seen{"a": {going: 1, succeeded: 2}, "b": {going: 1}}, want: "Completing"},
			{sees: seen{"a": {succeeded: 2}}, want: "Completed"},
		},
	},
	"two tasks of one pod, one succeeds and one fails, no policy": {
		job: mustertesting.MakeJob("j").MinAvailable(2).Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 1)),
		steps: []moment{
			{want: "Pending"},
			{sees: seen{"a": {running: 1}, "b": {running: 1}}, want: "Running"},
			{sees: seen{"a": {failed: 1}, "b": {running: 1}}, want: "Running"},
			{sees: seen{"a": {failed: 1}, "b": {succeeded: 1}}, want: "Failed: PodsFailed"},
		},
	},
	"three pods, a minimum of one of the task and the Job, one succeeds": {
		job: mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 3).MinAvailable(1)),
		steps: []moment{
			{want: "Pending"},
			{sees: seen{"a": {pending: 2, running: 1}}, want: "Running"},
			{sees: seen{"a": {running: 1, failed: 2}}, want: "Running"},
			{sees: seen{"a": {succeeded: 1, failed: 2}}, want: "Completed: PodsSucceeded"},
		},
	},
	"scaled to zero and up again": {
		job: mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 2)),
		steps: []moment{
			{want: "Pending"},
			{sees: seen{"a": {running: 2}}, want: "Running"},
			{scales: new(int32(0)), sees: seen{"a": {going: 2}}, want: "Running"},
			{want: "Running"},
			{scales: new(int32(3)), want: "Running"},
			{sees: seen{"a": {pending: 3}}, want: "Pending: TooManyPodsPending"},
			{sees: seen{"a": {pending: 1, running: 2}}, want: "Pending"},
			{sees: seen{"a": {running: 3}}, want: "Running"},
		},
	},
}

// aRestart is what a failure in a run that is not the last leads to.
func aRestart() []moment {
	return []moment{
		{does: busv1alpha1.RestartJobAction, want: "Restarting all +retry +version"},
		{sees: seen{"a": {going: 2}}, want: "Restarting"},
	}
}

// aRun is a run of two pods one of which fails.
func aRun() []moment {
	return []moment{
		{want: "Pending"},
		{sees: seen{"a": {pending: 2}}, want: "Pending"},
		{sees: seen{"a": {pending: 1, running: 1}}, want: "Pending"},
		{sees: seen{"a": {running: 2}}, want: "Running"},
		{sees: seen{"a": {running: 1, failed: 1}}, want: "Running"},
	}
}

// aPause is to stop a Job of two pods that run, and to let it go on.
func aPause() []moment {
	return []moment{
		{does: busv1alpha1.AbortJobAction, want: "Aborting unfinished"},
		{sees: seen{"a": {going: 1}}, want: "Aborting"},
		{want: "Aborted"},
		{want: "Aborted"},
		{does: busv1alpha1.ResumeJobAction, want: "Restarting unsuccessful"},
		{want: "Pending"},
		{sees: seen{"a": {running: 2}}, want: "Running"},
	}
}

// TestWorkedTraces walks each trace from a new Job on, each step from the phase that the one before led to.
func TestWorkedTraces(t *testing.T) {
	for name, c := range traces {
		t.Run(name, func(t *testing.T) {
			job := c.job.Obj()
			ways := Ways()
			for i, step := range c.steps {
				from := job.Status.State.Phase
				got := step.take(job)
				if !assert.Equal(t, step.want, got, "step %d, from %q", i, from) {
					return
				}
				to := job.Status.State.Phase
				isWay := func(w Way) bool { return w.From == from && w.To == to }
				assert.True(t, from == to || slices.ContainsFunc(ways, isWay), "step %d: %q to %q is not in the picture", i, from, to)
			}
			assert.Equal(t, c.retries, job.Status.RetryCount)
			assert.Equal(t, c.version, job.Status.Version)
		})
	}
}

// take does to the Job what happens in this moment, and returns what came of it.
func (m *moment) take(job *batchv1alpha1.Job) string {
	status := &job.Status
	if m.does != "" {
		effect, honoured := Act(status.State.Phase, m.does, status.RetryCount, job.Spec.MaxRetry)
		if honoured {
			status.State.Phase = effect.Next
		}
		if effect.Retry {
			status.RetryCount++
		}
		if effect.NewIncarnation {
			status.Version++
		}
		return describe(effect, honoured)
	}
	if m.scales != nil {
		job.Spec.Tasks[0].Replicas = *m.scales
	}
	filled := defaults.Job(job, "")
	m.sees.count(&filled.Status)
	step := Next(&filled.Spec, dependency.StageOf(&filled.Spec, make([]dependency.Task, len(filled.Spec.Tasks)), ""), &filled.Status)
	status.State.Phase = step.Next
	if step.Reason != "" {
		return string(step.Next) + ": " + step.Reason
	}
	return string(step.Next)
}

// count fills in the counts of a status.
func (s seen) count(status *batchv1alpha1.JobStatus) {
	status.TaskStatusCount = map[string]batchv1alpha1.TaskState{}
	for task, phases := range s {
		status.Pending += phases[pending]
		status.Running += phases[running]
		status.Succeeded += phases[succeeded]
		status.Failed += phases[failed]
		status.Terminating += phases[going]
		status.TaskStatusCount[task] = batchv1alpha1.TaskState{Phase: phases}
	}
}
