// Package phase is the life of a PhJob as a table: it says which phase an event leads to. It is pure.
package phase

import (
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// Event is what may change the phase of a PhJob.
type Event string

// The events.
const (
	// Submit says that the PhJob is new.
	Submit Event = "submit"
	// Admit says that the quota of the group and of the user allow the PhJob.
	Admit Event = "admit"
	// Refuse says that no pod can be made of the PhJob, or that it is above a whole quota.
	Refuse Event = "refuse"
	// Start says that the pod runs.
	Start Event = "start"
	// Succeed says that the pod ended with exit code 0.
	Succeed Event = "succeed"
	// Fail says that the pod failed.
	Fail Event = "fail"
	// Lose says that the pod is gone without a known end.
	Lose Event = "lose"
	// Requeue says that the pod did not start in time.
	Requeue Event = "requeue"
	// GiveUp says that the pod did not start in time, once more than the PhJob allows.
	GiveUp Event = "give up"
	// TimeOut says that the PhJob has run for as long as it may.
	TimeOut Event = "time out"
	// Cancel says that the user cancelled the PhJob.
	Cancel Event = "cancel"
)

// row holds the events that change a phase; all other events change nothing.
type row map[Event]primehubv1alpha1.PhJobPhase

// table says where each event leads. A phase without a row is final.
var table = map[primehubv1alpha1.PhJobPhase]row{
	"": {
		Submit: primehubv1alpha1.PhJobPending,
	},
	primehubv1alpha1.PhJobPending: {
		Admit:  primehubv1alpha1.PhJobPreparing,
		Refuse: primehubv1alpha1.PhJobFailed,
		Cancel: primehubv1alpha1.PhJobCancelled,
	},
	primehubv1alpha1.PhJobPreparing: {
		Start:   primehubv1alpha1.PhJobRunning,
		Succeed: primehubv1alpha1.PhJobSucceeded,
		Fail:    primehubv1alpha1.PhJobFailed,
		Refuse:  primehubv1alpha1.PhJobFailed,
		Requeue: primehubv1alpha1.PhJobPending,
		GiveUp:  primehubv1alpha1.PhJobFailed,
		Cancel:  primehubv1alpha1.PhJobCancelled,
	},
	primehubv1alpha1.PhJobRunning: {
		Succeed: primehubv1alpha1.PhJobSucceeded,
		Fail:    primehubv1alpha1.PhJobFailed,
		Lose:    primehubv1alpha1.PhJobFailed,
		TimeOut: primehubv1alpha1.PhJobFailed,
		Cancel:  primehubv1alpha1.PhJobCancelled,
	},
}

// Next returns the phase that an event leads to, or false if it changes nothing.
func Next(current primehubv1alpha1.PhJobPhase, event Event) (primehubv1alpha1.PhJobPhase, bool) {
	next, changes := table[current][event]
	return next, changes
}

// IsFinal tells whether a PhJob never leaves the phase.
func IsFinal(p primehubv1alpha1.PhJobPhase) bool {
	_, leaves := table[p]
	return !leaves
}
