package plan

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// Timing says when a change of status is written. The zero value is at once, and acting need not wait.
type Timing struct {
	// Interval is the least time since the last write. Changes until then go into the same write.
	Interval Interval
	// BeforeActing says that nothing is done until the change is written.
	BeforeActing bool
	// Gathers says that only counts of pods change. Pods of a gang start together and end together, so the first change waits for others.
	Gathers bool
	// IsReport says that the change only reports a state: it waits while there is other work for the controller.
	IsReport bool
}

// Interval is the least time between two writes of a status.
type Interval int

const (
	// NoInterval is no time at all.
	NoInterval Interval = iota
	// ForAnnouncements is for changes that must be written before the plan is carried out.
	ForAnnouncements
	// ForCounts grows with the pods of the Job.
	ForCounts
	// ForMessages is for changes of the message alone.
	ForMessages
)

// TimingOf returns when a status is written that is to follow another. The two differ.
//
// A status that announces a phase, an action or pods to delete is written before the plan is carried out. A pod that is deleted unannounced
// would look evicted later. The same holds for records that stand nowhere else, like the claim's. Others are events that are answered
// later, and the spec that policies compare with.
//
// Pods to delete are announced by a new generation. So progress of a deletion that was announced is paced like any other.
//
// A phase, an action, and the first plan after a change of the spec are written at once. Requests of users are never late. All else is
// paced, so that a Job with many pods costs few writes.
func TimingOf(s *Snapshot, from *batchv1alpha1.JobStatus, p *Plan) Timing {
	var t Timing
	switch to := p.Status; {
	case p.IsFirst, p.Request != nil, OrPending(from.State.Phase) != to.State.Phase, from.HandledCommand != to.HandledCommand:
		return Timing{BeforeActing: true}
	case from.RetryCount != to.RetryCount, from.PodGeneration != to.PodGeneration, forgetsTask(from, to), isForLater(from, to):
		t = Timing{Interval: ForAnnouncements, BeforeActing: true}
	case onlyRewords(from, to):
		t = Timing{Interval: ForMessages, IsReport: isReport(&s.Job.Spec, from, to)}
	default:
		t = Timing{Interval: ForCounts, IsReport: isReport(&s.Job.Spec, from, to),
			Gathers: from.State.Phase != "" && from.State.Reason == to.State.Reason && from.Terminating == to.Terminating}
	}
	if s.SpecChanged {
		return Timing{BeforeActing: t.BeforeActing}
	}
	return t
}

// isForLater says whether a status records something new for later that is nowhere else.
func isForLater(from, to *batchv1alpha1.JobStatus) bool {
	return from.HandledSpec != to.HandledSpec || !maps.Equal(claimsIn(from), claimsIn(to)) ||
		!apiequality.Semantic.DeepEqual(from.Delayed, to.Delayed)
}

// forgetsTask tells whether a task is not known any more, because the user has given it another name. Its pods are to be deleted.
func forgetsTask(from, to *batchv1alpha1.JobStatus) bool {
	return slices.ContainsFunc(from.TaskRecords, func(a batchv1alpha1.TaskRecord) bool {
		return !slices.ContainsFunc(to.TaskRecords, func(b batchv1alpha1.TaskRecord) bool { return a.Name == b.Name })
	})
}

// claimsIn are the entries of status.controlledResources about claims.
func claimsIn(status *batchv1alpha1.JobStatus) map[string]string {
	entries := maps.Clone(status.ControlledResources)
	maps.DeleteFunc(entries, func(key, _ string) bool { return !volumes.IsKey(key) })
	return entries
}

// onlyRewords tells whether nothing but the message and the expected start changes.
func onlyRewords(from, to *batchv1alpha1.JobStatus) bool {
	reworded := *from
	reworded.State.Message, reworded.ExpectedStart = to.State.Message, to.ExpectedStart
	return apiequality.Semantic.DeepEqual(&reworded, to)
}

// isReport says whether a change only reports that the Job has begun, or that pods exist or run. A change that records finished pods is
// more than that: without it they would run again. So is one that records created pods, for policies that answer if they vanish. After a
// restart of the controller nothing else might know of them.
func isReport(spec *batchv1alpha1.JobSpec, from, to *batchv1alpha1.JobStatus) bool {
	sameCreated := slices.EqualFunc(from.TaskRecords, to.TaskRecords,
		func(a, b batchv1alpha1.TaskRecord) bool { return a.Name == b.Name && a.Created == b.Created })
	return from.Succeeded == to.Succeeded && from.Failed == to.Failed && (sameCreated || !policy.AnswersEvictions(spec))
}
