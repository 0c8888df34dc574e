package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// maxBackoffFactor is the longest back-off as a multiple of its start.
const maxBackoffFactor = 60

// restart is the set of pods that a plan starts anew. A policy restarts them, or they replace evicted ones.
type restart struct {
	// causes are the events that the restart answers.
	causes []policy.Event
	// succeeded is how many pods have succeeded and are not restarted.
	succeeded int32
	// runningSince is when the Job became Running; zero if it is not.
	runningSince time.Time
}

// countRestart returns the back-off of a Job after a restart, and whether the restart counts. A restart counts if it is the first. A later
// one counts if a cause is about a pod that was created after the last restart that counted. So pods that fail or are evicted in sequence
// for one reason make one restart. The result still has the old generation.
func countRestart(before *batchv1alpha1.RestartBackoff, r restart, start time.Duration, now time.Time) (*batchv1alpha1.RestartBackoff, bool) {
	after := &batchv1alpha1.RestartBackoff{Count: 1, Succeeded: r.succeeded, Last: metav1.NewTime(now.Truncate(time.Second))}
	if before == nil || isOver(before, r, start, now) {
		return after, true
	}
	if !isRepeat(before, r.causes, start, now) {
		return before, false
	}
	after.Count, after.Generation = before.Count+1, before.Generation
	// The status has whole seconds.
	after.Until = new(metav1.NewTime(now.Add(pauseAfter(after.Count, start) + time.Second - 1).Truncate(time.Second)))
	return after, true
}

// isOver says whether a Job has made progress since its last restart that counted. It has if a pod succeeded that the restart leaves alone,
// or the Job has run for the longest pause.
func isOver(b *batchv1alpha1.RestartBackoff, r restart, start time.Duration, now time.Time) bool {
	if r.succeeded > b.Succeeded {
		return true
	}
	since := r.runningSince
	for _, at := range []*metav1.Time{&b.Last, b.Until} {
		if at != nil && at.After(since) && !since.IsZero() {
			since = at.Time
		}
	}
	return !since.IsZero() && now.Sub(since) >= maxBackoffFactor*start
}

// isRepeat says whether one of the causes happened after the last restart that counted. For an event without a pod, or with a pod that is
// gone, only the time decides.
func isRepeat(b *batchv1alpha1.RestartBackoff, causes []policy.Event, start time.Duration, now time.Time) bool {
	if BackoffLeft(b, now) > 0 {
		return false // nothing has been created since
	}
	for _, cause := range causes {
		if cause.Pod != nil && policy.Generation(cause.Pod) >= b.Generation || cause.Pod == nil && now.Sub(b.Last.Time) > start {
			return true
		}
	}
	return false
}

// pauseAfter returns how long no pods are created after so many restarts in a row. There is no pause after the first. Each later pause is
// twice as long.
func pauseAfter(count int32, start time.Duration) time.Duration {
	if count < 2 {
		return 0
	}
	pause := start
	for range min(count-2, maxBackoffFactor) {
		pause = min(2*pause, maxBackoffFactor*start)
	}
	return pause
}

// noteRestart adds the plan's restarts to the status. It gives the pods that will be created a generation of their own. A Command, a change
// of the spec, and a stop of the Job reset the back-off.
func noteRestart(s *Snapshot, job *batchv1alpha1.Job, records []policy.Record, asked *Request, granted bool, evicted []policy.Event) {
	status := &job.Status
	counts := false
	causes := evicted
	if granted && asked.Cause != nil {
		causes = slices.Concat(evicted, []policy.Event{*asked.Cause}, asked.others)
	}
	p := status.State.Phase
	switch {
	case s.RestartBackoff == 0, !phase.Runs(p) && p != batchv1alpha1.Restarting, isLastRestart(job),
		granted && (asked.Cause == nil || !isTrouble(asked.Cause.Type)):
		status.RestartBackoff = nil
	case len(causes) > 0:
		r := restart{causes: causes}
		if s.Job.Status.State.Phase == batchv1alpha1.Running {
			r.runningSince = s.Job.Status.State.LastTransitionTime.Time
		}
		for i := range records {
			r.succeeded += records[i].Succeeded.Len()
		}
		status.RestartBackoff, counts = countRestart(status.RestartBackoff, r, s.RestartBackoff, s.Now)
	}
	hasNewReplaced := slices.ContainsFunc(records, func(r policy.Record) bool { return r.HasNewReplaced })
	if counts || hasNewReplaced || status.Version != s.Job.Status.Version {
		status.PodGeneration++
	}
	if counts {
		status.RestartBackoff.Generation = status.PodGeneration
	}
}

// isTrouble says whether an event means a failure. A change by the user, and a task that has completed, are answered without a pause.
func isTrouble(event busv1alpha1.Event) bool {
	return event != busv1alpha1.JobUpdatedEvent && event != busv1alpha1.TaskCompletedEvent
}
