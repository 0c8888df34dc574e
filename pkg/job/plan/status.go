package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/text"
)

// Explanation returns the explanation of a Job with that status, beside the reason of its phase; nil if nothing is.
func (s *Snapshot) Explanation(status *batchv1alpha1.JobStatus) *Finding {
	p := status.State.Phase
	if !phase.Runs(p) || IsDeleted(s.Job) {
		return nil
	}
	first := s.first(func(b *Blocker) bool { return b.While != WhilePending })
	waiting := s.first(func(b *Blocker) bool { return isOfPending(b) && p == batchv1alpha1.Pending })
	switch b := status.RestartBackoff; {
	case first != nil && first.Reason == ReasonFailedCreate && waiting != nil && lacksRoom(s.Group):
		return &Finding{waiting.Reason, waiting.Message + "; " + undone + first.Message} // the refused pods are not what it waits for
	case first != nil:
		return first
	case BackoffLeft(b, s.Now) > 0:
		return &Finding{ReasonBackOff, fmt.Sprintf("restarted %d times in a row; pods are created again at %s", b.Count, b.Until.UTC().Format(time.RFC3339))}
	default:
		return waiting
	}
}

// isOfPending says whether a blocker is what a Job waits for that is Pending.
func isOfPending(b *Blocker) bool { return b.While == WhilePending }

// first returns the first blocker that fits; nil if there is none.
func (s *Snapshot) first(fits func(*Blocker) bool) *Finding {
	for i := range s.Blockers {
		if fits(&s.Blockers[i]) {
			return &s.Blockers[i].Finding
		}
	}
	return nil
}

// explain says what a live Job waits for or lacks, or else why it is in its phase. For a Job that stops, or has stopped, it says both.
// Whether it is resumed, for example, depends on the reason.
//
// If nothing is in the way of a Job, it says which task waits for which.
func explain(s *Snapshot, status *batchv1alpha1.JobStatus, stage dependency.Stage) {
	status.ExpectedStart = nil
	if !phase.Runs(status.State.Phase) {
		why := s.first(func(b *Blocker) bool {
			return b.While == Always && (b.Reason != ReasonPodOverdue || status.Terminating > 0)
		})
		if why != nil && status.State.Phase == s.Job.Status.State.Phase {
			status.State.Message = withUndone(&status.State, why)
		}
		return
	}
	status.State.Reason, status.State.Message = "", ""
	if n := len(status.Conditions); n > 0 && status.Conditions[n-1].Status == status.State.Phase {
		status.State.Reason, status.State.Message = status.Conditions[n-1].Reason, status.Conditions[n-1].Message
	}
	// awaitsStart: the Job waits, and its PodGroup says for how long, or why that is not known.
	awaitsStart := status.State.Phase == batchv1alpha1.Pending && s.Group != nil && s.Group.Status.Plan != nil
	if awaitsStart && s.Group.Status.Plan.ExpectedStart != nil {
		status.ExpectedStart = s.Group.Status.Plan.ExpectedStart.At.DeepCopy()
	}
	if f := s.Explanation(status); f != nil {
		status.State.Reason, status.State.Message = f.Reason, f.Message
		if awaitsStart && f == s.first(isOfPending) {
			status.State.Message = text.WithOutlook(f.Message, s.Group.Status.Plan.Message)
		}
		return
	}
	if s.Starting != "" && status.State.Phase == batchv1alpha1.Pending {
		addReason(&status.State, ReasonPodNotStarted, s.Starting)
	}
	if waiting := stage.Waiting(&s.Job.Spec); waiting != "" {
		addReason(&status.State, reasonWaitingForDependency, waiting)
	}
}

// addReason gives a state a reason and a message. If it has a reason already, the message is added.
func addReason(state *batchv1alpha1.JobState, reason, message string) {
	if state.Reason == "" {
		state.Reason, state.Message = reason, message
	} else {
		state.Message += "; " + message
	}
}

// nameFailure adds the name of a failed pod to the reason, if the Job fails now because of its pods. If an action led to the failure, its
// own text names the pod.
func nameFailure(before, status *batchv1alpha1.JobStatus, m *Members) {
	r := status.State.Reason
	if status.State.Phase != batchv1alpha1.Failed || before.State.Phase == batchv1alpha1.Failed ||
		r != phase.ReasonPodsFailed && r != phase.ReasonDependencyFailed {
		return
	}
	if pod := m.firstFailed(); pod != nil {
		status.State.Message += "; " + policy.Failure(pod)
	}
}

// stamp sets the times and the conditions of a status that follows another.
func stamp(status, before *batchv1alpha1.JobStatus, now time.Time) {
	cutTexts(&status.State)
	if status.State.Phase == before.State.Phase {
		return
	}
	at := metav1.NewTime(now)
	status.State.LastTransitionTime = at
	if status.State.Phase == batchv1alpha1.Running && status.StartTime == nil {
		status.StartTime = &at
	}
	if phase.Ended(status.State.Phase) {
		status.CompletionTime = &at
	}
	clockOff(status, before, now)
	entry := batchv1alpha1.JobCondition{
		Status: status.State.Phase, LastTransitionTime: &at,
		Reason: status.State.Reason, Message: status.State.Message,
	}
	// A phase that is entered again moves to the end.
	status.Conditions = append(slices.DeleteFunc(slices.Clone(status.Conditions), func(c batchv1alpha1.JobCondition) bool {
		return c.Status == entry.Status
	}), entry)
}

// cutTexts bounds texts in the status that others wrote: a Command, the API server, or names in a spec.
func cutTexts(state *batchv1alpha1.JobState) {
	state.Reason, state.Message = text.Cut(state.Reason, text.MaxReason), text.Cut(state.Message, text.MaxMessage)
}

// clockOff adds to the run time of a Job that is aborted, ends, or is resumed before it was Aborted. Its start is then that of the next
// run.
func clockOff(status, before *batchv1alpha1.JobStatus, now time.Time) {
	p := status.State.Phase
	isNewStart := before.StartTime != nil && !status.StartTime.Equal(before.StartTime)
	if before.StartTime == nil || isOffTheClock(before.Conditions) || !phase.Ended(p) && p != batchv1alpha1.Aborted && !isNewStart {
		return
	}
	ran := now.Sub(before.StartTime.Time).Truncate(time.Second)
	if before.RunningDuration != nil {
		ran += before.RunningDuration.Duration
	}
	status.RunningDuration = &metav1.Duration{Duration: ran}
}

// isOffTheClock tells whether a Job has been Aborted and not resumed since. Its conditions are in the order in which it entered their
// phases last.
func isOffTheClock(conditions []batchv1alpha1.JobCondition) bool {
	for _, c := range slices.Backward(conditions) {
		switch {
		case c.Status == batchv1alpha1.Aborted:
			return true
		case c.Status == batchv1alpha1.Restarting || phase.Runs(c.Status):
			return false
		}
	}
	return false
}
