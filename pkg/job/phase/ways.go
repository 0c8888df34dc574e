package phase

import (
	"slices"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// Way is a way from one phase to another.
type Way struct {
	// From and To are the phases. From is empty for a Job that is new.
	From, To batchv1alpha1.JobPhase
	// When says when a Job goes this way by itself; empty if an action takes it there.
	When string
	// Actions that take a Job this way.
	Actions []busv1alpha1.Action
}

// steps are the ways that a Job goes by itself (Next). Where no pod is left to wait for, the phase that announces an
// end, or a restart, is skipped.
var steps = []Way{
	{"", batchv1alpha1.Pending, "it is new", nil},
	{batchv1alpha1.Pending, batchv1alpha1.Running, "its minimum runs or has succeeded", nil},
	{batchv1alpha1.Pending, batchv1alpha1.Completing, "minSuccess is reached, some still go", nil},
	{batchv1alpha1.Pending, batchv1alpha1.Completed, "minSuccess is reached", nil},
	{batchv1alpha1.Pending, batchv1alpha1.Failed, "all pods have finished, too few well", nil},
	{batchv1alpha1.Running, batchv1alpha1.Pending, "too many pods wait", nil},
	{batchv1alpha1.Running, batchv1alpha1.Completing, "enough have succeeded, some still go", nil},
	{batchv1alpha1.Running, batchv1alpha1.Completed, "enough have succeeded", nil},
	{batchv1alpha1.Running, batchv1alpha1.Failed, "all pods have finished, too few well", nil},
	{batchv1alpha1.Restarting, batchv1alpha1.Pending, "enough pods are gone", nil},
	{batchv1alpha1.Restarting, batchv1alpha1.Failed, "maxRetry is reached, the pods are gone", nil},
	{batchv1alpha1.Aborting, batchv1alpha1.Aborted, "the pods are gone", nil},
	{batchv1alpha1.Completing, batchv1alpha1.Completed, "the pods are gone", nil},
	{batchv1alpha1.Terminating, batchv1alpha1.Terminated, "the pods are gone", nil},
}

// order lists the phases in the order of the docs.
var order = []batchv1alpha1.JobPhase{
	batchv1alpha1.Pending, batchv1alpha1.Running, batchv1alpha1.Restarting, batchv1alpha1.Aborting, batchv1alpha1.Aborted,
	batchv1alpha1.Completing, batchv1alpha1.Completed, batchv1alpha1.Terminating, batchv1alpha1.Terminated, batchv1alpha1.Failed,
}

// Phases lists all phases.
func Phases() []batchv1alpha1.JobPhase { return slices.Clone(order) }

// Actions lists the actions that a policy may take. A Command may ask for the ones about the whole Job.
func Actions() []busv1alpha1.Action {
	return []busv1alpha1.Action{
		busv1alpha1.RestartJobAction, busv1alpha1.RestartTaskAction, busv1alpha1.RestartPartitionAction, busv1alpha1.RestartPodAction,
		busv1alpha1.AbortJobAction, busv1alpha1.ResumeJobAction, busv1alpha1.CompleteJobAction, busv1alpha1.TerminateJobAction,
	}
}

// Ways lists all ways between phases: the ones that a Job takes by itself, and the ones of actions.
func Ways() []Way {
	ways := slices.Clone(steps)
	for _, from := range order {
		taken := map[batchv1alpha1.JobPhase][]busv1alpha1.Action{}
		for _, action := range Actions() {
			if effect, honoured := table[from][action]; honoured {
				taken[effect.Next] = append(taken[effect.Next], action)
			}
		}
		for _, to := range order {
			if len(taken[to]) > 0 {
				ways = append(ways, Way{From: from, To: to, Actions: taken[to]})
			}
		}
	}
	return ways
}
