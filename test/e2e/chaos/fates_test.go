package chaos

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// fate is a kind of Job whose end follows from its spec, and from what its user does to it.
type fate struct {
	// build makes the Job; n is a small number that makes Jobs differ in size.
	build func(name string, n int32) *mustertesting.JobWrapper
	// user is what is done to the Job, one step after the other.
	user []step
	// How it ends.
	phase   batchv1alpha1.JobPhase
	retries int32
	// succeeded is how many pods have at the end; n is that of build.
	succeeded func(n int32) int
	// again has the tasks whose pods run more than once in one incarnation, and how often.
	again map[string]int
}

// step is one thing that a user does once the Job has come so far. A pod that the user has taken away before must be gone.
type step struct {
	// when the Job is in this phase, has been restarted so often and has so many running pods. 0 is any number of these.
	phase   batchv1alpha1.JobPhase
	retries int32
	running int
	// when this holds for the Job as the API server has it; nil if nothing else must.
	when func(*batchv1alpha1.Job) bool
	// either change the Job, or evict the first pod of a task, or give a Command.
	change  func(*batchv1alpha1.Job)
	evict   string
	command busv1alpha1.Action
}

func none(int32) int    { return 0 }
func all(n int32) int   { return int(n) }
func just(k int) counts { return func(int32) int { return k } }

type counts = func(int32) int

// for ever, and for a little while.
func steady(replicas int32) *mustertesting.TaskWrapper {
	return mustertesting.MakeTask("steady", replicas)
}

func brief(name string, replicas int32, code int) *mustertesting.TaskWrapper {
	return mustertesting.MakeTask(name, replicas).ExitAfter(700*time.Millisecond, code)
}

func onExit(code int32, action busv1alpha1.Action) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{ExitCode: &code, Action: action}
}

// later is a policy that answers after that time.
func later(event busv1alpha1.Event, action busv1alpha1.Action, timeout time.Duration) batchv1alpha1.LifecyclePolicy {
	return batchv1alpha1.LifecyclePolicy{Event: event, Action: action, Timeout: &metav1.Duration{Duration: timeout}}
}

// Timeouts that pass within a run, and one that does not: a delayed action must be cancelled.
const (
	shortly = 2 * time.Second
	never   = time.Hour
)

// Whether the Job says that something will be answered later.
func somethingWaits(job *batchv1alpha1.Job) bool { return len(job.Status.Delayed) > 0 }
func nothingWaits(job *batchv1alpha1.Job) bool   { return !somethingWaits(job) }

func suspended(yes bool) func(*batchv1alpha1.Job) {
	return func(job *batchv1alpha1.Job) { job.Spec.Suspend = &yes }
}

func scaled(replicas int32) func(*batchv1alpha1.Job) {
	return func(job *batchv1alpha1.Job) { job.Spec.Tasks[0].Replicas = replicas }
}

// fates by name. Jobs get them in turn.
var fates = map[string]fate{
	"completes": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(brief("a", n, 0))
		},
		phase: batchv1alpha1.Completed, succeeded: all,
	},
	"fails": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(brief("a", n, 1))
		},
		phase: batchv1alpha1.Failed, succeeded: none,
	},
	"restarts-jobs": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).
				Task(steady(n)).Task(brief("flaky", 1, 1))
		},
		phase: batchv1alpha1.Failed, retries: 3, succeeded: none,
	},
	"restarts-tasks": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Task(steady(n)).
				Task(brief("flaky", 1, 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction))
		},
		phase: batchv1alpha1.Failed, retries: 3, succeeded: none, again: map[string]int{"flaky": 3},
	},
	// The others have finished before: a kubelet whose API server is killed may end them late.
	"restarts-pods": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Task(brief("done", n, 0)).
				Task(brief("flaky", 1, 1).DependsOn("done").Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction))
		},
		phase: batchv1alpha1.Failed, retries: 3, succeeded: all, again: map[string]int{"flaky": 3},
	},
	"restarts-pods-beside-others": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Task(steady(n)).
				Task(brief("flaky", 1, 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction))
		},
		phase: batchv1alpha1.Failed, retries: 3, succeeded: none, again: map[string]int{"flaky": 3},
	},
	"aborts": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).LifecyclePolicy(onExit(3, busv1alpha1.AbortJobAction)).Task(steady(n)).Task(brief("b", 1, 3))
		},
		phase: batchv1alpha1.Aborted, succeeded: none,
	},
	"terminates": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).LifecyclePolicy(onExit(4, busv1alpha1.TerminateJobAction)).Task(steady(n)).Task(brief("b", 1, 4))
		},
		phase: batchv1alpha1.Terminated, succeeded: none,
	},
	"is-completed-by-a-task": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(steady(n)).
				Task(brief("ps", 1, 0).Policy(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction))
		},
		phase: batchv1alpha1.Completed, succeeded: just(1),
	},
	"has-enough-successes": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MinSuccess(n).Task(brief("a", n, 0)).Task(steady(2))
		},
		phase: batchv1alpha1.Completed, succeeded: all,
	},
	"flows": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(brief("a", 1, 0)).Task(brief("b", n, 0).DependsOn("a")).Task(brief("c", 1, 0).DependsOn("b"))
		},
		phase: batchv1alpha1.Completed, succeeded: func(n int32) int { return int(n) + 2 },
	},
	"flow-breaks": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(brief("a", 1, 0)).Task(brief("b", n, 1).DependsOn("a")).Task(brief("c", 1, 0).DependsOn("b"))
		},
		phase: batchv1alpha1.Failed, succeeded: just(1), again: map[string]int{"c": 0},
	},
	"is-scaled": {
		build: func(name string, _ int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MinAvailable(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.TerminateJobAction).
				Task(mustertesting.MakeTask("steady", 2).MinAvailable(1))
		},
		user: []step{
			{phase: batchv1alpha1.Running, running: 2, change: scaled(4)},
			{phase: batchv1alpha1.Running, running: 4, change: scaled(1)},
			{phase: batchv1alpha1.Running, running: 1, command: busv1alpha1.CompleteJobAction},
		},
		phase: batchv1alpha1.Completed, succeeded: none,
	},
	"is-suspended": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(1).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).Task(steady(n))
		},
		user: []step{
			{phase: batchv1alpha1.Running, change: suspended(true)},
			{phase: batchv1alpha1.Aborted, change: suspended(false)},
			{phase: batchv1alpha1.Running, command: busv1alpha1.TerminateJobAction},
		},
		phase: batchv1alpha1.Terminated, succeeded: none, again: map[string]int{"steady": 2},
	},
	// The new pod of an evicted one comes at once. Once it runs, the action that was due in an hour is cancelled.
	"is-forgiven-an-eviction": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(1).Task(brief("done", n, 0)).
				Task(steady(2).LifecyclePolicy(later(busv1alpha1.PodEvictedEvent, busv1alpha1.TerminateJobAction, never)))
		},
		user: []step{
			{phase: batchv1alpha1.Running, running: 2, when: nothingWaits, evict: "steady"},
			{phase: batchv1alpha1.Running, running: 2, when: nothingWaits, command: busv1alpha1.CompleteJobAction},
		},
		phase: batchv1alpha1.Completed, succeeded: all, again: map[string]int{"steady": 2},
	},
	"restarts-jobs-on-eviction": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Policy(busv1alpha1.AnyEvent, busv1alpha1.RestartJobAction).Task(steady(n))
		},
		user: []step{
			{phase: batchv1alpha1.Running, evict: "steady"},
			{phase: batchv1alpha1.Running, retries: 1, evict: "steady"},
			{phase: batchv1alpha1.Running, retries: 2, evict: "steady"},
		},
		phase: batchv1alpha1.Failed, retries: 3, succeeded: none,
	},
	// The other task runs on, and what has succeeded does not run again.
	"restarts-tasks-on-eviction": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(3).Task(brief("done", 1, 0)).Task(mustertesting.MakeTask("other", 1)).
				Task(steady(n).Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartTaskAction))
		},
		user: []step{
			{phase: batchv1alpha1.Running, evict: "steady"},
			{phase: batchv1alpha1.Running, retries: 1, evict: "steady"},
			{phase: batchv1alpha1.Running, retries: 2, command: busv1alpha1.TerminateJobAction},
		},
		phase: batchv1alpha1.Terminated, retries: 2, succeeded: just(1), again: map[string]int{"steady": 3},
	},
	"flows-on-after-eviction": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(brief("done", n, 0)).
				Task(steady(2).DependsOn("done").Policy(busv1alpha1.PodEvictedEvent, busv1alpha1.RestartPodAction)).
				Task(brief("last", 1, 0).DependsOn("steady"))
		},
		user: []step{
			// The Job runs all along. A killed controller loses everything that its status does not record.
			{phase: batchv1alpha1.Running, when: tellsThatAllRun("steady"), evict: "steady"},
			{phase: batchv1alpha1.Running, retries: 1, running: 2, command: busv1alpha1.CompleteJobAction},
		},
		phase: batchv1alpha1.Completed, retries: 1, succeeded: all, again: map[string]int{"steady": 2, "last": 0},
	},
	"flow-is-tried-again": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(2).Task(brief("flaky", 1, 1).Policy(busv1alpha1.PodFailedEvent, busv1alpha1.RestartTaskAction)).
				Task(steady(n)).Task(brief("last", 1, 0).DependsOn("flaky"))
		},
		phase: batchv1alpha1.Failed, retries: 2, succeeded: none, again: map[string]int{"flaky": 2, "last": 0},
	},
	"restarts-jobs-later": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(2).LifecyclePolicy(later(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction, shortly)).
				Task(steady(n)).Task(brief("flaky", 1, 1))
		},
		phase: batchv1alpha1.Failed, retries: 2, succeeded: none,
	},
	// All have finished, and the Job has not failed before its last run has.
	"restarts-pods-later": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(2).Task(brief("done", n, 0)).
				Task(brief("flaky", 1, 1).DependsOn("done").LifecyclePolicy(later(busv1alpha1.PodFailedEvent, busv1alpha1.RestartPodAction, shortly)))
		},
		phase: batchv1alpha1.Failed, retries: 2, succeeded: all, again: map[string]int{"flaky": 2},
	},
	"is-completed-later": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(steady(n)).
				Task(brief("ps", 1, 0).LifecyclePolicy(later(busv1alpha1.TaskCompletedEvent, busv1alpha1.CompleteJobAction, shortly)))
		},
		phase: batchv1alpha1.Completed, succeeded: just(1),
	},
	"is-tired-of-waiting": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).Task(steady(n)).
				Task(mustertesting.MakeTask("stuck", 1).Hang().LifecyclePolicy(later(busv1alpha1.PodPendingEvent, busv1alpha1.AbortJobAction, shortly)))
		},
		phase: batchv1alpha1.Aborted, succeeded: none,
	},
	// Suspending a Job cancels delayed actions. A failed pod runs again after the resume, and a new failure is answered anew.
	"is-suspended-before-the-answer": {
		build: func(name string, n int32) *mustertesting.JobWrapper {
			return mustertesting.MakeJob(name).MaxRetry(1).MinAvailable(n).Task(steady(n)).
				Task(brief("b", 1, 1).LifecyclePolicy(later(busv1alpha1.PodFailedEvent, busv1alpha1.RestartJobAction, never)))
		},
		user: []step{
			{phase: batchv1alpha1.Running, when: somethingWaits, change: suspended(true)},
			{phase: batchv1alpha1.Aborted, when: nothingWaits, change: suspended(false)},
			{phase: batchv1alpha1.Running, when: somethingWaits, command: busv1alpha1.TerminateJobAction},
		},
		phase: batchv1alpha1.Terminated, succeeded: none, again: map[string]int{"steady": 2, "b": 2},
	},
}

// tellsThatAllRun tells whether a Job's status says so of the pods of a task.
func tellsThatAllRun(task string) func(*batchv1alpha1.Job) bool {
	return func(job *batchv1alpha1.Job) bool {
		i := slices.IndexFunc(job.Spec.Tasks, func(t batchv1alpha1.TaskSpec) bool { return t.Name == task })
		return job.Status.TaskStatusCount[task].Phase[corev1.PodRunning] == job.Spec.Tasks[i].Replicas
	}
}

// countPhase counts the pods of a phase.
func countPhase(pods []corev1.Pod, phase corev1.PodPhase) int {
	n := 0
	for i := range pods {
		if pods[i].Status.Phase == phase {
			n++
		}
	}
	return n
}
