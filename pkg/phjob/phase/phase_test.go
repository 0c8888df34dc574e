package phase

import (
	"testing"

	"github.com/stretchr/testify/assert"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// TestEveryCell spells out the whole table: where each event leads from each phase. "-" is nowhere.
func TestEveryCell(t *testing.T) {
	events := []Event{Submit, Admit, Refuse, Start, Succeed, Fail, Lose, Requeue, GiveUp, TimeOut, Cancel}
	const (
		none      = "-"
		pending   = string(primehubv1alpha1.PhJobPending)
		preparing = string(primehubv1alpha1.PhJobPreparing)
		running   = string(primehubv1alpha1.PhJobRunning)
		succeeded = string(primehubv1alpha1.PhJobSucceeded)
		failed    = string(primehubv1alpha1.PhJobFailed)
		cancelled = string(primehubv1alpha1.PhJobCancelled)
	)
	final := []string{none, none, none, none, none, none, none, none, none, none, none}
	for current, want := range map[primehubv1alpha1.PhJobPhase][]string{
		//                         submit   admit      refuse  start    succeed    fail    lose    requeue  giveup  timeout cancel
		"":                              {pending, none, none, none, none, none, none, none, none, none, none},
		primehubv1alpha1.PhJobPending:   {none, preparing, failed, none, none, none, none, none, none, none, cancelled},
		primehubv1alpha1.PhJobPreparing: {none, none, failed, running, succeeded, failed, none, pending, failed, none, cancelled},
		primehubv1alpha1.PhJobRunning:   {none, none, none, none, succeeded, failed, failed, none, none, failed, cancelled},
		primehubv1alpha1.PhJobSucceeded: final,
		primehubv1alpha1.PhJobFailed:    final,
		primehubv1alpha1.PhJobCancelled: final,
		primehubv1alpha1.PhJobUnknown:   final,
	} {
		for i, event := range events {
			got := none
			if next, changes := Next(current, event); changes {
				got = string(next)
			}
			assert.Equal(t, want[i], got, "%s in phase %q", event, current)
		}
		assert.Equal(t, &want[0] == &final[0], IsFinal(current), current)
	}
}
