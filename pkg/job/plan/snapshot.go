package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

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
	// ForeignGroup says that another owner's PodGroup has the name of the Job's.
	ForeignGroup bool
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

	// Refusal is why the spec cannot run; nil if it can.
	Refusal *Finding
	// Held is why the Job may not start; nil if it may, or has started.
	Held *Finding
	// Refused says that the Job has started and that its spec is one that cannot run: nothing can be started anew.
	Refused bool
	// QueueProblem is why the queue does not admit the Job; it is set only before the admission.
	QueueProblem *Finding
	// Problem is the problem of a Pending or Running Job; nil if nothing.
	Problem *Finding
	// LastError is the error of the last attempt to act; nil if nothing.
	LastError *Finding
	// Overdue is the finding about pods that do not go; nil if nothing. overdueIn is when there may be; 0 if time changes nothing.
	Overdue   *Finding
	OverdueIn time.Duration
	// Waiting is what the Job waits for while it is Pending; nil if nothing is known.
	Waiting *Finding
	// Starting says which pod has had a node for long and does not run; empty if there is none. startingIn is when there may be; 0 if time
	// changes nothing.
	Starting   string
	StartingIn time.Duration

	// RestartBackoff is how long the first pause between two restarts is; 0 if there are none.
	RestartBackoff time.Duration
	// Now is the time of the snapshot.
	Now time.Time
}

// Finding is a reason for programs and a sentence for users.
type Finding struct {
	Reason, Message string
}

// Complete adds to the Job the records that its stored status lacks.
func (s *Snapshot) Complete(unwritten *Unwritten) {
	if s.Refused {
		s.Job = withRoomForAll(s.Job, s.Pods, s.Ended)
	}
	unwritten.addTo(&s.Job.Status)
	s.Job.Status.State.Message = withoutUndone(&s.Job.Status.State)
}

// IsFresh tells whether nothing has been made for the Job yet.
func (s *Snapshot) IsFresh() bool {
	p := s.Job.Status.State.Phase
	return (p == "" || p == batchv1alpha1.Pending) && s.Group == nil && len(s.Pods)+len(s.Ended) == 0
}
