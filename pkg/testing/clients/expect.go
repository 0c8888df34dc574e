package clients

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// Expect has the verbs for outcomes. Each waits for its outcome in the record of the watches. It fails the test, with what was seen, if the
// outcome does not come.
type Expect struct {
	t   testing.TB
	log *watchlog.Log
}

// NewExpect makes verbs for one test.
func NewExpect(t testing.TB, log *watchlog.Log) *Expect { return &Expect{t: t, log: log} }

// Soon waits until met. When it does not come about, seen says what there is instead.
func (e *Expect) Soon(what string, met func() bool, seen func() any) {
	e.t.Helper()
	e.Within(mustertesting.Timeout, what, met, seen)
}

// Within is Soon with a limit of its own.
func (e *Expect) Within(limit time.Duration, what string, met func() bool, seen func() any) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), limit)
	defer cancel()
	if err := e.log.Wait(ctx, met); err != nil {
		require.Failf(e.t, "not seen: "+what, "not within %s; seen: %v", limit, seen())
	}
}

// Stays fails if something ceases to hold in a short while.
func (e *Expect) Stays(what string, holds func() bool, seen func() any) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), mustertesting.ShortWhile)
	defer cancel()
	if err := e.log.Wait(ctx, func() bool { return !holds() }); err == nil {
		require.Failf(e.t, "does not hold: "+what, "seen: %v", seen())
	}
}

// JobPhase waits until a Job is in a phase.
func (e *Expect) JobPhase(job types.NamespacedName, phase batchv1alpha1.JobPhase) {
	e.t.Helper()
	e.Soon(job.Name+" is "+string(phase),
		func() bool { return e.log.Job(job).Phase == phase },
		func() any { return e.log.JobStates(job) })
}

// JobPhases waits until a Job has gone through exactly these phases. It checks that phase and counts agreed in each published state.
func (e *Expect) JobPhases(job types.NamespacedName, want ...batchv1alpha1.JobPhase) {
	e.t.Helper()
	e.Soon(job.Name+" has gone through as many phases as expected",
		func() bool { return len(watchlog.Phases(e.log.JobStates(job))) >= len(want) },
		func() any { return watchlog.Phases(e.log.JobStates(job)) })
	states := e.log.JobStates(job)
	require.Equal(e.t, want, watchlog.Phases(states), "phases of %s", job.Name)
	require.Empty(e.t, watchlog.StatusViolations(states), "states of %s in which phase and counts disagree", job.Name)
}

// JobReason waits until a Job's state has a reason and a message, and returns the state.
func (e *Expect) JobReason(job types.NamespacedName, reason string) watchlog.JobState {
	e.t.Helper()
	e.Soon(job.Name+" gives the reason "+reason,
		func() bool { return e.log.Job(job).Reason == reason && e.log.Job(job).Message != "" },
		func() any { return e.log.JobStates(job) })
	return e.log.Job(job)
}

// Event waits for an event about an object and returns it.
func (e *Expect) Event(kind string, object types.NamespacedName, fits func(watchlog.Event) bool) watchlog.Event {
	e.t.Helper()
	var found watchlog.Event
	e.Soon("an event about "+kind+" "+object.Name, func() bool {
		for _, event := range e.log.Events(kind, object.Namespace, object.Name) {
			if fits(event) {
				found = event
				return true
			}
		}
		return false
	}, func() any { return e.log.Events(kind, object.Namespace, object.Name) })
	return found
}

// Pods waits until exactly n pods fit, and returns them.
func (e *Expect) Pods(n int, what string, fits func(watchlog.Pod) bool) []watchlog.Pod {
	e.t.Helper()
	e.Soon(what, func() bool { return len(e.log.Pods(fits)) == n }, func() any { return e.log.Pods(fits) })
	return e.log.Pods(fits)
}

// PodsStay fails if the number of pods that fit changes from n in a short while. It has to be n already: use Pods before it where pods have
// just changed. The log sees Jobs, events and pods by separate watches.
func (e *Expect) PodsStay(n int, what string, fits func(watchlog.Pod) bool) {
	e.t.Helper()
	e.Stays(what, func() bool { return len(e.log.Pods(fits)) == n }, func() any { return e.log.Pods(fits) })
}

// WholeGangs checks that each incarnation of each gang in a namespace was bound whole, within a window.
func (e *Expect) WholeGangs(namespace string, window time.Duration) []watchlog.Incarnation {
	e.t.Helper()
	var all []watchlog.Incarnation
	for _, incarnation := range e.log.Incarnations() {
		if incarnation.Namespace == namespace {
			all = append(all, incarnation)
		}
	}
	require.Empty(e.t, watchlog.GangViolations(all, window), "gangs that were not bound whole")
	return all
}
