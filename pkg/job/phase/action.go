// Package phase is the life of a Job as a table. The file action.go has the effect of an action in each phase, rules.go when a Job leaves one
// by itself. It is pure: it looks at nothing but its arguments.
package phase

import (
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// Kill says which pods an action deletes.
type Kill int

// Kinds of deletion by an action.
const (
	// KillUnfinished deletes the pods that have not finished; finished ones stay for their logs and results.
	KillUnfinished Kill = iota
	// KillAll deletes every pod.
	KillAll
	// KillUnsuccessful deletes the pods that have not succeeded: they run again.
	KillUnsuccessful
	// KillTargets deletes the pods that the action is about. These are one pod, or the pods of a partition or a task.
	KillTargets
)

// Effect is what an action does to a Job.
type Effect struct {
	// Next is the phase that announces the action.
	Next batchv1alpha1.JobPhase
	// Kill says which pods go.
	Kill Kill
	// Retry says that the action counts as one of the Job's runs.
	Retry bool
	// NewIncarnation says that the pods to come are a new incarnation: earlier pods do not count any more.
	NewIncarnation bool
}

// row holds the actions that a phase honours; all other actions change nothing.
type row map[busv1alpha1.Action]Effect

// table says what each action does in each phase. A phase without row honours none: a Job that ends or has ended stays so.
//
//	Pending, Running --restart--> Restarting --> Pending | Failed
//	Pending, Running, Restarting --abort--> Aborting --> Aborted --resume--> Restarting
//	Pending, Running, Restarting --complete--> Completing --> Completed
//	Pending, Running, Restarting, Aborting, Aborted --terminate--> Terminating --> Terminated
var table = map[batchv1alpha1.JobPhase]row{
	batchv1alpha1.Pending: live,
	batchv1alpha1.Running: live,
	batchv1alpha1.Restarting: {
		// Another restart on top of one that is under way is not another run.
		busv1alpha1.RestartJobAction:       {Next: batchv1alpha1.Restarting, Kill: KillAll, NewIncarnation: true},
		busv1alpha1.RestartTaskAction:      {Next: batchv1alpha1.Restarting, Kill: KillTargets},
		busv1alpha1.RestartPodAction:       {Next: batchv1alpha1.Restarting, Kill: KillTargets},
		busv1alpha1.RestartPartitionAction: {Next: batchv1alpha1.Restarting, Kill: KillTargets},
		busv1alpha1.AbortJobAction:         {Next: batchv1alpha1.Aborting, Kill: KillUnfinished},
		busv1alpha1.CompleteJobAction:      {Next: batchv1alpha1.Completing, Kill: KillUnfinished},
		busv1alpha1.TerminateJobAction:     {Next: batchv1alpha1.Terminating, Kill: KillUnfinished},
	},
	batchv1alpha1.Aborting: aborted,
	batchv1alpha1.Aborted:  aborted,
}

var live = row{
	busv1alpha1.RestartJobAction:       {Next: batchv1alpha1.Restarting, Kill: KillAll, Retry: true, NewIncarnation: true},
	busv1alpha1.RestartTaskAction:      {Next: batchv1alpha1.Restarting, Kill: KillTargets, Retry: true},
	busv1alpha1.RestartPodAction:       {Next: batchv1alpha1.Restarting, Kill: KillTargets, Retry: true},
	busv1alpha1.RestartPartitionAction: {Next: batchv1alpha1.Restarting, Kill: KillTargets, Retry: true},
	busv1alpha1.AbortJobAction:         {Next: batchv1alpha1.Aborting, Kill: KillUnfinished},
	busv1alpha1.CompleteJobAction:      {Next: batchv1alpha1.Completing, Kill: KillUnfinished},
	busv1alpha1.TerminateJobAction:     {Next: batchv1alpha1.Terminating, Kill: KillUnfinished},
}

var aborted = row{
	// A resume is no retry: the user stopped the Job, it did not fail.
	busv1alpha1.ResumeJobAction:    {Next: batchv1alpha1.Restarting, Kill: KillUnsuccessful},
	busv1alpha1.TerminateJobAction: {Next: batchv1alpha1.Terminating, Kill: KillUnfinished},
}

// Act returns what the action does to a Job in that phase. The Job may run maxRetry times and has been restarted retryCount times. It
// returns false if it does nothing.
//
// A restart that uses up the last run starts no new incarnation and keeps the finished pods. The Job is going to be Failed, and the logs of
// its last pods tell why. Another one on top of it starts none either.
func Act(current batchv1alpha1.JobPhase, action busv1alpha1.Action, retryCount, maxRetry int32) (Effect, bool) {
	effect, honoured := table[current][action]
	runs := retryCount
	if effect.Retry {
		runs++
	}
	if honoured && effect.Next == batchv1alpha1.Restarting && action != busv1alpha1.ResumeJobAction && runs >= maxRetry {
		effect.Kill, effect.NewIncarnation = KillUnfinished, false
	}
	return effect, honoured
}

// Honours tells whether the action does anything to a Job in that phase.
func Honours(current batchv1alpha1.JobPhase, action busv1alpha1.Action) bool {
	_, honoured := table[current][action]
	return honoured
}

// Ended tells whether the phase is one that a Job never leaves.
func Ended(p batchv1alpha1.JobPhase) bool {
	return p == batchv1alpha1.Completed || p == batchv1alpha1.Failed || p == batchv1alpha1.Terminated
}

// KeepsOnlyFinished tells whether a Job in this phase has, or is getting rid of, all pods that have not finished.
func KeepsOnlyFinished(p batchv1alpha1.JobPhase) bool {
	switch p {
	case batchv1alpha1.Aborting, batchv1alpha1.Aborted, batchv1alpha1.Completing, batchv1alpha1.Terminating:
		return true
	default:
		return Ended(p)
	}
}

// IsAborted tells whether a Job in this phase was aborted, so that it can be resumed.
func IsAborted(p batchv1alpha1.JobPhase) bool {
	return p == batchv1alpha1.Aborting || p == batchv1alpha1.Aborted
}

// Runs tells whether a Job in this phase creates pods and answers what happens to them.
func Runs(p batchv1alpha1.JobPhase) bool {
	return p == batchv1alpha1.Pending || p == batchv1alpha1.Running
}
