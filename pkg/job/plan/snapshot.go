package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Snapshot is the input of a plan: a Job and its objects at one moment, as the informers show them.
type Snapshot struct {
	// Job has its defaults filled in. Its status also has the records that wait to be written.
	Job *batchv1alpha1.Job
	// Pods that the Job owns, of whatever incarnation.
	Pods []*corev1.Pod
	// Ended are pods of the Job that ended by themselves and are gone or going. Their state is that at their end. Pods whose end a status
	// records are left out.
	Ended []*corev1.Pod
	// Group is the Job's PodGroup; nil if there is none.
	Group *schedulingv1beta1.PodGroup
	// Command to execute; nil if there is none.
	Command *busv1alpha1.Command
	// Claims of the Job's volumes; nil if it has ended.
	Claims *Claims
	// Controlled is what status.controlledResources should say; nil if it should stay.
	Controlled map[string]string
	// SpecMark identifies the Job's spec; empty if no policy asks for its changes.
	SpecMark string
	// SpecChanged says that the spec has changed since the last plan.
	SpecChanged bool
	// Dependency is the condition of tasks whose dependsOn names none.
	Dependency batchv1alpha1.DependencyCondition

	// Blockers are what the Job waits for or lacks, the most important first.
	Blockers []Blocker
	// Starting says which pod has had a node for long and does not run; empty if there is none.
	Starting string
	// LookAgain is when a pod may be overdue, or have had a node for long; 0 if time changes nothing.
	LookAgain time.Duration

	// RestartBackoff is how long the first pause between two restarts is; 0 if there are none.
	RestartBackoff time.Duration
	// Now is the time of the snapshot.
	Now time.Time
}

// Refuse adds why the spec cannot run; nil if it can. A Job that has nothing yet does not start. A Job that has started keeps what it has.
func (s *Snapshot) Refuse(why *Finding) {
	switch {
	case why == nil:
	case s.IsFresh():
		s.Block(why, BlocksStart, WhileLive)
	default:
		s.Block(&Finding{why.Reason, "no pod is created, restarted or scaled away until this is mended: " + why.Message}, BlocksRestarts, WhileLive)
	}
}

// Block adds a blocker behind the others; nothing if why is nil.
func (s *Snapshot) Block(why *Finding, blocks Extent, while While) {
	if why != nil {
		s.Blockers = append(s.Blockers, Blocker{*why, blocks, while})
	}
}

// Blocks says whether any blocker reaches so far.
func (s *Snapshot) Blocks(extent Extent) bool {
	return slices.ContainsFunc(s.Blockers, func(b Blocker) bool { return b.Blocks >= extent })
}

// Lacks says whether there is a blocker with that reason.
func (s *Snapshot) Lacks(reason string) bool {
	return slices.ContainsFunc(s.Blockers, func(b Blocker) bool { return b.Reason == reason })
}

// isRefused says that the Job has started and that its spec is one that cannot run. Nothing can be started anew.
func (s *Snapshot) isRefused() bool {
	return slices.ContainsFunc(s.Blockers, func(b Blocker) bool { return b.Blocks == BlocksRestarts })
}

// Complete adds to the Job the records that its stored status lacks.
func (s *Snapshot) Complete(unwritten *Unwritten) {
	if s.isRefused() {
		s.Job = withRoomForAll(s.Job, s.Pods, s.Ended)
	}
	unwritten.addTo(&s.Job.Status)
	s.Job.Status.State.Message = withoutUndone(&s.Job.Status.State)
}

// IsFresh tells whether nothing has been made for the Job yet.
func (s *Snapshot) IsFresh() bool {
	return OrPending(s.Job.Status.State.Phase) == batchv1alpha1.Pending && s.Group == nil && len(s.Pods)+len(s.Ended) == 0
}

// Unwritten is a status that waits to be written. It is kept for the case that the pods go.
type Unwritten struct {
	base, status *batchv1alpha1.JobStatus // the stored status, and the one that is to follow it
}

// NewUnwritten is a status that is to follow another.
func NewUnwritten(base, status *batchv1alpha1.JobStatus) *Unwritten { return &Unwritten{base, status} }

// addTo adds its records to the stored status, unless that has changed since. It may be nil.
func (m *Unwritten) addTo(status *batchv1alpha1.JobStatus) {
	if m != nil && apiequality.Semantic.DeepEqual(m.base, status) {
		status.TaskRecords, status.PodGeneration = m.status.TaskRecords, m.status.PodGeneration
		status.RestartBackoff, status.Delayed = m.status.RestartBackoff, m.status.Delayed
	}
}
