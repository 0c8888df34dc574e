// Package plan computes the next state of a Job: its status, and the pods to delete and to create.
//
// Make is the door. It takes a Snapshot (snapshot.go) and returns a Plan. TimingOf says when the status of a plan is written.
package plan

import (
	"slices"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// Request is a requested action, and the reason.
type Request struct {
	Action  busv1alpha1.Action
	Why     Finding
	Cause   *policy.Event // the event that a policy answers; nil if a Command or the spec asks
	targets policy.Targets
	// others are the further answers of policies.
	others []policy.Event
	// Commanded says that a Command asks.
	Commanded bool
}

// Plan is the next state of a Job. It has the status that announces it, and the pods to delete and to create.
type Plan struct {
	// Status that the Job should have.
	Status *batchv1alpha1.JobStatus
	// Members are the pods as the status sees them: the pods to delete and to create.
	Members *Members
	// Stage is the part of the Job that may run.
	Stage dependency.Stage
	// Request that was granted; nil if none was.
	Request *Request
	// Delays are the policies' answers whose time has not come.
	Delays []policy.Delay
	// IsFirst says that the status only shows that the Job has begun. The plan is made again once it is written.
	IsFirst bool
	// Ignored says why a policy's answer about an aborted Job is not executed; empty if there was no answer.
	Ignored string
	// CommandIgnored says that the Command does nothing in the Job's phase.
	CommandIgnored bool
}

// spare returns the delayed answers that an action does not cancel: answers about pods that it does not touch.
func (r *Request) spare(delays []policy.Delay) []policy.Delay {
	switch r.Action {
	case busv1alpha1.RestartTaskAction, busv1alpha1.RestartPartitionAction, busv1alpha1.RestartPodAction:
	default:
		return nil
	}
	return slices.DeleteFunc(delays, func(d policy.Delay) bool {
		return d.Cause.Task >= 0 && (r.targets.Tasks[d.Cause.Task] || d.Cause.Index >= 0 && r.targets.Has(d.Cause.Task, d.Cause.Index))
	})
}
