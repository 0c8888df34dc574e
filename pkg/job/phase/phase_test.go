package phase

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

var allPhases = []batchv1alpha1.JobPhase{
	"", batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Aborting, batchv1alpha1.Aborted,
	batchv1alpha1.Completing, batchv1alpha1.Completed, batchv1alpha1.Terminating, batchv1alpha1.Terminated, batchv1alpha1.Failed,
}

// TestEveryCell spells out the whole table: the effect of each action in each phase. "-" is nothing; otherwise the next phase, the pods
// that are killed, and +retry and +version where those count up.
func TestEveryCell(t *testing.T) {
	const (
		restartJob  = "Restarting all +retry +version"
		restartPart = "Restarting targets +retry"
		again       = "Restarting all +version"
		againPart   = "Restarting targets"
		resume      = "Restarting unsuccessful"
		abort       = "Aborting unfinished"
		complete    = "Completing unfinished"
		terminate   = "Terminating unfinished"
		nothing     = "-"
	)
	actions := []busv1alpha1.Action{
		busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction, busv1alpha1.RestartPartitionAction,
		busv1alpha1.AbortJobAction, busv1alpha1.CompleteJobAction, busv1alpha1.TerminateJobAction, busv1alpha1.ResumeJobAction,
		busv1alpha1.SyncJobAction, "Unheard",
	}
	none := []string{nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing}
	live := []string{restartJob, restartPart, restartPart, restartPart, abort, complete, terminate, nothing, nothing, nothing}
	aborted := []string{nothing, nothing, nothing, nothing, nothing, nothing, terminate, resume, nothing, nothing}
	want := map[batchv1alpha1.JobPhase][]string{
		"":                        none,
		batchv1alpha1.Pending:     live,
		batchv1alpha1.Running:     live,
		batchv1alpha1.Restarting:  {again, againPart, againPart, againPart, abort, complete, terminate, nothing, nothing, nothing},
		batchv1alpha1.Aborting:    aborted,
		batchv1alpha1.Aborted:     aborted,
		batchv1alpha1.Completing:  none,
		batchv1alpha1.Completed:   none,
		batchv1alpha1.Terminating: none,
		batchv1alpha1.Terminated:  none,
		batchv1alpha1.Failed:      none,
	}
	for _, p := range allPhases {
		for i, action := range actions {
			effect, honoured := Act(p, action, 0, 3)
			assert.Equal(t, want[p][i], describe(effect, honoured), "%s in phase %q", action, p)
		}
	}
}

func describe(e Effect, honoured bool) string {
	if !honoured {
		return "-"
	}
	text := fmt.Sprintf("%s %s", e.Next, map[Kill]string{KillAll: "all", KillUnfinished: "unfinished",
		KillUnsuccessful: "unsuccessful", KillTargets: "targets"}[e.Kill])
	if e.Retry {
		text += " +retry"
	}
	if e.NewIncarnation {
		text += " +version"
	}
	return text
}

func TestLastRestartKeepsFinishedPods(t *testing.T) {
	for _, action := range []busv1alpha1.Action{busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPodAction} {
		for retries, last := range map[int32]bool{0: false, 1: false, 2: true, 3: true} {
			effect, _ := Act(batchv1alpha1.Running, action, retries, 3)
			assert.Equal(t, last, effect.Kill == KillUnfinished, "%s after %d retries", action, retries)
			assert.True(t, effect.Retry)
			if last {
				assert.False(t, effect.NewIncarnation)
			}
		}
	}
}

func TestWhatAPhaseMeans(t *testing.T) {
	for p, want := range map[batchv1alpha1.JobPhase][3]bool{ // runs, keeps only finished, ended
		"":                        {false, false, false},
		batchv1alpha1.Pending:     {true, false, false},
		batchv1alpha1.Running:     {true, false, false},
		batchv1alpha1.Restarting:  {false, false, false},
		batchv1alpha1.Aborting:    {false, true, false},
		batchv1alpha1.Aborted:     {false, true, false},
		batchv1alpha1.Completing:  {false, true, false},
		batchv1alpha1.Completed:   {false, true, true},
		batchv1alpha1.Terminating: {false, true, false},
		batchv1alpha1.Terminated:  {false, true, true},
		batchv1alpha1.Failed:      {false, true, true},
	} {
		assert.Equal(t, want, [3]bool{Runs(p), KeepsOnlyFinished(p), Ended(p)}, "%q", p)
	}
}

// counts of a status: pending, running, succeeded, failed, terminating, unknown.
type counts [6]int32

func TestRules(t *testing.T) {
	five := mustertesting.MakeJob("j").MinAvailable(3).Task(mustertesting.MakeTask("a", 5))
	search := mustertesting.MakeJob("j").MinSuccess(2).Task(mustertesting.MakeTask("a", 3))
	two := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 1))
	perTask := func(succeeded map[string]int32) map[string]batchv1alpha1.TaskState {
		states := map[string]batchv1alpha1.TaskState{}
		for task, n := range succeeded {
			states[task] = batchv1alpha1.TaskState{Phase: map[corev1.PodPhase]int32{corev1.PodSucceeded: n}}
		}
		return states
	}
	for name, c := range map[string]struct {
		job     *mustertesting.JobWrapper
		from    batchv1alpha1.JobPhase
		counts  counts
		tasks   map[string]int32
		retries int32
		want    batchv1alpha1.JobPhase
		reason  string
	}{
		"a new Job is pending":                    {job: five, from: "", want: batchv1alpha1.Pending},
		"too few run":                             {job: five, from: batchv1alpha1.Pending, counts: counts{3, 2}, want: batchv1alpha1.Pending},
		"the minimum runs":                        {job: five, from: batchv1alpha1.Pending, counts: counts{2, 3}, want: batchv1alpha1.Running},
		"succeeded pods help to run":              {job: five, from: batchv1alpha1.Pending, counts: counts{2, 1, 2}, want: batchv1alpha1.Running},
		"failed pods do not":                      {job: five, from: batchv1alpha1.Pending, counts: counts{0, 2, 0, 3}, want: batchv1alpha1.Pending},
		"nothing but failed pods before it ran":   {job: five, from: batchv1alpha1.Pending, counts: counts{0, 0, 1, 4}, want: batchv1alpha1.Failed, reason: ReasonPodsFailed},
		"a Job without pods runs":                 {job: mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 0)), from: batchv1alpha1.Pending, want: batchv1alpha1.Running},
		"a Job scaled to zero stays":              {job: mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 0)), from: batchv1alpha1.Running, want: batchv1alpha1.Running},
		"some pods failed, others run":            {job: five, from: batchv1alpha1.Running, counts: counts{0, 1, 0, 4}, want: batchv1alpha1.Running},
		"more pending than the surplus":           {job: five, from: batchv1alpha1.Running, counts: counts{3, 2}, want: batchv1alpha1.Pending, reason: ReasonTooManyPending},
		"no more pending than the surplus":        {job: five, from: batchv1alpha1.Running, counts: counts{2, 3}, want: batchv1alpha1.Running},
		"all finished, enough succeeded":          {job: five, from: batchv1alpha1.Running, counts: counts{0, 0, 3, 2}, want: batchv1alpha1.Completed, reason: ReasonPodsSucceeded},
		"all finished, too few succeeded":         {job: five, from: batchv1alpha1.Running, counts: counts{0, 0, 2, 3}, want: batchv1alpha1.Failed, reason: ReasonPodsFailed},
		"all finished while others still go":      {job: five, from: batchv1alpha1.Running, counts: counts{0, 0, 3, 2, 1}, want: batchv1alpha1.Completing, reason: ReasonPodsSucceeded},
		"one task succeeded, the other failed":    {job: two, from: batchv1alpha1.Running, counts: counts{0, 0, 1, 1}, tasks: map[string]int32{"b": 1}, want: batchv1alpha1.Failed, reason: ReasonPodsFailed},
		"both tasks succeeded":                    {job: two, from: batchv1alpha1.Running, counts: counts{0, 0, 2}, tasks: map[string]int32{"a": 1, "b": 1}, want: batchv1alpha1.Completed, reason: ReasonPodsSucceeded},
		"too few succeeded, others still go":      {job: five, from: batchv1alpha1.Running, counts: counts{0, 0, 2, 3, 1}, want: batchv1alpha1.Running},
		"failed before it ran, others still go":   {job: five, from: batchv1alpha1.Pending, counts: counts{0, 0, 1, 4, 1}, want: batchv1alpha1.Pending},
		"minimum of one of three is enough":       {job: mustertesting.MakeJob("j").MinAvailable(1).Task(mustertesting.MakeTask("a", 3).MinAvailable(1)), from: batchv1alpha1.Running, counts: counts{0, 0, 1, 2}, tasks: map[string]int32{"a": 1}, want: batchv1alpha1.Completed, reason: ReasonPodsSucceeded},
		"minSuccess reached, others run":          {job: mustertesting.MakeJob("j").MinSuccess(2).Task(mustertesting.MakeTask("a", 3)).Task(mustertesting.MakeTask("b", 1)), from: batchv1alpha1.Running, counts: counts{0, 2, 2}, want: batchv1alpha1.Completing, reason: ReasonMinSuccessReached},
		"minSuccess reached, nothing runs":        {job: mustertesting.MakeJob("j").MinSuccess(1).Task(mustertesting.MakeTask("a", 2)), from: batchv1alpha1.Running, counts: counts{0, 0, 1, 1}, want: batchv1alpha1.Completed, reason: ReasonMinSuccessReached},
		"minSuccess missed":                       {job: mustertesting.MakeJob("j").MinAvailable(1).MinSuccess(2).Task(mustertesting.MakeTask("a", 3)), from: batchv1alpha1.Running, counts: counts{0, 0, 1, 2}, want: batchv1alpha1.Failed, reason: ReasonPodsFailed},
		"minSuccess reached, the rest waits":      {job: search, from: batchv1alpha1.Pending, counts: counts{1, 0, 2}, want: batchv1alpha1.Completing, reason: ReasonMinSuccessReached},
		"minSuccess reached before it ran":        {job: search, from: batchv1alpha1.Pending, counts: counts{0, 0, 2, 1}, want: batchv1alpha1.Completed, reason: ReasonMinSuccessReached},
		"minSuccess missed before it ran":         {job: search, from: batchv1alpha1.Pending, counts: counts{0, 0, 1, 2}, want: batchv1alpha1.Failed, reason: ReasonPodsFailed},
		"minSuccess not reached yet":              {job: search, from: batchv1alpha1.Pending, counts: counts{1, 0, 1, 1}, want: batchv1alpha1.Pending},
		"restarting, too many still go":           {job: five, from: batchv1alpha1.Restarting, counts: counts{0, 0, 0, 0, 3}, want: batchv1alpha1.Restarting},
		"restarting, enough are gone":             {job: five, from: batchv1alpha1.Restarting, counts: counts{0, 0, 0, 0, 2}, want: batchv1alpha1.Pending},
		"restarting for the last time but one":    {job: five, from: batchv1alpha1.Restarting, retries: 2, want: batchv1alpha1.Pending},
		"restarting without a run left":           {job: five, from: batchv1alpha1.Restarting, counts: counts{0, 0, 0, 1}, retries: 3, want: batchv1alpha1.Failed, reason: ReasonMaxRetryReached},
		"without a run left, four still go":       {job: five, from: batchv1alpha1.Restarting, counts: counts{0, 0, 0, 1, 4}, retries: 3, want: batchv1alpha1.Restarting},
		"aborting, one still goes":                {job: five, from: batchv1alpha1.Aborting, counts: counts{0, 0, 1, 1, 1}, want: batchv1alpha1.Aborting},
		"aborting, all gone or finished":          {job: five, from: batchv1alpha1.Aborting, counts: counts{0, 0, 1, 1}, want: batchv1alpha1.Aborted},
		"completing, all gone or finished":        {job: five, from: batchv1alpha1.Completing, counts: counts{0, 0, 1, 1}, want: batchv1alpha1.Completed},
		"terminating, all gone or finished":       {job: five, from: batchv1alpha1.Terminating, counts: counts{0, 0, 1, 1}, want: batchv1alpha1.Terminated},
		"terminating, one is on an unknown node":  {job: five, from: batchv1alpha1.Terminating, counts: counts{0, 0, 0, 0, 0, 1}, want: batchv1alpha1.Terminating},
		"an aborted Job stays":                    {job: five, from: batchv1alpha1.Aborted, want: batchv1alpha1.Aborted},
		"a completed Job stays":                   {job: five, from: batchv1alpha1.Completed, want: batchv1alpha1.Completed},
		"a failed Job stays":                      {job: five, from: batchv1alpha1.Failed, want: batchv1alpha1.Failed},
		"a terminated Job stays, whatever happen": {job: five, from: batchv1alpha1.Terminated, counts: counts{5, 5}, want: batchv1alpha1.Terminated},
	} {
		t.Run(name, func(t *testing.T) {
			job := defaults.Job(c.job.Obj(), "")
			status := &batchv1alpha1.JobStatus{
				State:   batchv1alpha1.JobState{Phase: c.from},
				Pending: c.counts[0], Running: c.counts[1], Succeeded: c.counts[2], Failed: c.counts[3],
				Terminating: c.counts[4], Unknown: c.counts[5],
				RetryCount: c.retries, TaskStatusCount: perTask(c.tasks),
			}
			whole := dependency.StageOf(&job.Spec, make([]dependency.Task, len(job.Spec.Tasks)), "")
			step := Next(&job.Spec, whole, status)
			assert.Equal(t, c.want, step.Next, step.Message)
			assert.Equal(t, c.reason, step.Reason)
			assert.Equal(t, c.reason != "", step.Message != "")
		})
	}
}

// TestTheMessageNamesWhatWasMissed: where minSuccess would have been enough, the minimums are not what was missed.
func TestTheMessageNamesWhatWasMissed(t *testing.T) {
	for name, c := range map[string]struct {
		job  *mustertesting.JobWrapper
		want string
	}{
		"minSuccess":       {mustertesting.MakeJob("j").MinSuccess(2), "1 of 3 pods have succeeded, minSuccess is 2"},
		"a task's minimum": {mustertesting.MakeJob("j"), "1 of 3 pods have succeeded; task a: 1 have, its minAvailable is 3"},
		"the minimum":      {mustertesting.MakeJob("j").MinAvailable(2), "1 of 3 pods have succeeded, minAvailable is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			job := defaults.Job(c.job.Task(mustertesting.MakeTask("a", 3)).Obj(), "")
			status := &batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: batchv1alpha1.Running}, Succeeded: 1, Failed: 2}
			status.TaskStatusCount = map[string]batchv1alpha1.TaskState{"a": {Phase: map[corev1.PodPhase]int32{corev1.PodSucceeded: 1}}}
			step := Next(&job.Spec, dependency.StageOf(&job.Spec, make([]dependency.Task, 1), ""), status)
			assert.Equal(t, Step{batchv1alpha1.Failed, ReasonPodsFailed, c.want}, step)
		})
	}
}

// TestOneRunIsCalledOneTime: the message of a Job that may run once has the singular.
func TestOneRunIsCalledOneTime(t *testing.T) {
	for runs, want := range map[int32]string{1: "the Job has run 1 time, maxRetry is 1", 2: "the Job has run 2 times, maxRetry is 2"} {
		job := defaults.Job(mustertesting.MakeJob("j").MaxRetry(runs).Task(mustertesting.MakeTask("a", 1)).Obj(), "")
		status := &batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: batchv1alpha1.Restarting}, RetryCount: runs}
		step := Next(&job.Spec, dependency.StageOf(&job.Spec, make([]dependency.Task, 1), ""), status)
		assert.Equal(t, want, step.Message)
	}
}

// TestOnePodIsCalledOnePod: the messages about pods have the right number.
func TestOnePodIsCalledOnePod(t *testing.T) {
	for _, c := range []struct {
		pods, minSuccess int32
		status           batchv1alpha1.JobStatus
		want             string
	}{
		{1, 0, batchv1alpha1.JobStatus{Succeeded: 1}, "1 of 1 pod has succeeded"},
		{2, 0, batchv1alpha1.JobStatus{Succeeded: 2}, "2 of 2 pods have succeeded"},
		{2, 1, batchv1alpha1.JobStatus{Succeeded: 1}, "1 pod has succeeded, minSuccess is 1"},
		{1, 0, batchv1alpha1.JobStatus{Pending: 1}, "1 of 1 pod is pending, minAvailable is 1"},
	} {
		made := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", c.pods))
		job := defaults.Job(made.Obj(), "")
		if c.minSuccess > 0 {
			job.Spec.MinSuccess = &c.minSuccess
		}
		c.status.State.Phase = batchv1alpha1.Running
		c.status.TaskStatusCount = map[string]batchv1alpha1.TaskState{"a": {Phase: map[corev1.PodPhase]int32{corev1.PodSucceeded: c.status.Succeeded}}}
		step := Next(&job.Spec, dependency.StageOf(&job.Spec, make([]dependency.Task, 1), ""), &c.status)
		assert.Equal(t, c.want, step.Message)
	}
}

// TestRulesByStage: a pipeline is judged by the part of it that may run.
func TestRulesByStage(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).
		Task(mustertesting.MakeTask("b", 3).DependsOn("a")).Obj(), "")
	first := dependency.StageOf(&job.Spec, make([]dependency.Task, 2), "")
	second := dependency.StageOf(&job.Spec, []dependency.Task{{Succeeded: 1}, {}}, "")
	for name, c := range map[string]struct {
		stage  dependency.Stage
		from   batchv1alpha1.JobPhase
		counts counts
		want   batchv1alpha1.JobPhase
		reason string
	}{
		"the first task is enough to run":       {first, batchv1alpha1.Pending, counts{0, 1}, batchv1alpha1.Running, ""},
		"the next stage has to start":           {second, batchv1alpha1.Running, counts{3, 0, 1}, batchv1alpha1.Pending, ReasonDependentTaskStarting},
		"a pod of it waits again":               {second, batchv1alpha1.Running, counts{1, 2, 1}, batchv1alpha1.Pending, ReasonTooManyPending},
		"and needs its own minimum":             {second, batchv1alpha1.Pending, counts{1, 2, 1}, batchv1alpha1.Pending, ""},
		"which finished pods belong to":         {second, batchv1alpha1.Pending, counts{0, 3, 1}, batchv1alpha1.Running, ""},
		"between two stages the Job runs on":    {second, batchv1alpha1.Running, counts{0, 0, 1}, batchv1alpha1.Running, ""},
		"the first failed: the rest cannot run": {first, batchv1alpha1.Running, counts{0, 0, 0, 1}, batchv1alpha1.Failed, ReasonDependencyFailed},
		"it failed before it was seen to run":   {first, batchv1alpha1.Pending, counts{0, 0, 0, 1}, batchv1alpha1.Failed, ReasonDependencyFailed},
	} {
		status := &batchv1alpha1.JobStatus{State: batchv1alpha1.JobState{Phase: c.from},
			Pending: c.counts[0], Running: c.counts[1], Succeeded: c.counts[2], Failed: c.counts[3]}
		phases := map[corev1.PodPhase]int32{}
		for i, p := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
			if c.counts[i] > 0 {
				phases[p] = c.counts[i]
			}
		}
		status.TaskStatusCount = map[string]batchv1alpha1.TaskState{"b": {Phase: phases}}
		step := Next(&job.Spec, c.stage, status)
		assert.Equal(t, c.want, step.Next, name)
		assert.Equal(t, c.reason, step.Reason, name)
	}
}
