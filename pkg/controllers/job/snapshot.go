package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/startup"
)

// snapshot is the input of a plan: a Job and its objects at one moment, as the informers show them.
type snapshot struct {
	// job has its defaults filled in. Its status also has the records that wait to be written.
	job *batchv1alpha1.Job
	// pods that the Job owns, of whatever incarnation.
	pods []*corev1.Pod
	// ended are pods of the Job that ended by themselves and are gone or going. Their state is that at their end. Pods whose end a status
	// records are left out.
	ended []*corev1.Pod
	// group is the Job's PodGroup; nil if there is none.
	group *schedulingv1beta1.PodGroup
	// foreignGroup says that another owner's PodGroup has the name of the Job's.
	foreignGroup bool
	// command to execute; nil if there is none.
	command *busv1alpha1.Command
	// claims of the Job's volumes; nil if it has ended.
	claims *claims
	// controlled is what status.controlledResources should say; nil if it should stay.
	controlled map[string]string
	// specMark identifies the Job's spec; empty if no policy asks for its changes.
	specMark string
	// specChanged says that the spec has changed since the last plan.
	specChanged bool
	// dependency is the condition of tasks whose dependsOn names none.
	dependency batchv1alpha1.DependencyCondition

	// refusal is why the spec cannot run; nil if it can.
	refusal *finding
	// held is why the Job may not start; nil if it may, or has started.
	held *finding
	// refused says that the Job has started and that its spec is one that cannot run: nothing can be started anew.
	refused bool
	// queueProblem is why the queue does not admit the Job; it is set only before the admission.
	queueProblem *finding
	// problem is the problem of a Pending or Running Job; nil if nothing.
	problem *finding
	// lastError is the error of the last attempt to act; nil if nothing.
	lastError *finding
	// overdue is the finding about pods that do not go; nil if nothing. overdueIn is when there may be; 0 if time changes nothing.
	overdue   *finding
	overdueIn time.Duration
	// waiting is what the Job waits for while it is Pending; nil if nothing is known.
	waiting *finding
	// starting says which pod has had a node for long and does not run; empty if there is none. startingIn is when there may be; 0 if time
	// changes nothing.
	starting   string
	startingIn time.Duration

	// restartBackoff is how long the first pause between two restarts is; 0 if there are none.
	restartBackoff time.Duration
	// now is the time of the snapshot.
	now time.Time
}

// finding is a reason for programs and a sentence for users.
type finding struct {
	reason, message string
}

// errEndUnknown says that a pod is gone and that the informer's handlers have not seen yet how it ended.
var errEndUnknown = errors.New("the event of a pod that is gone is still to come")

// untilMended says what a Job does that has started and whose spec cannot run now.
const untilMended = "no pod is created, restarted or scaled away until this is mended: "

// takeSnapshot reads the Job and its objects. It returns errEndUnknown if the end of a pod will be known in a moment.
func (c *Controller) takeSnapshot(ctx context.Context, stored *batchv1alpha1.Job, next *busv1alpha1.Command, local *localState) (*snapshot, error) {
	job := defaults.Job(stored, c.schedulerName)
	s := &snapshot{job: job, command: next, dependency: c.dependency, restartBackoff: c.restartBackoff, lastError: local.lastError,
		specChanged: local.planned != 0 && local.planned != job.Generation, now: c.clock.Now()}
	if err := c.lookAtPods(ctx, s, local); err != nil {
		return nil, err
	}
	if err := c.lookAtGroup(s, local); err != nil {
		return nil, err
	}
	fresh := s.isFresh()
	if !phase.Ended(job.Status.State.Phase) {
		s.refusal = local.refusalOf(job)
		s.claims = c.surveyClaims(job)
	}
	if s.refusal == nil && local.plugins.refusal != nil {
		s.refusal = pluginRefusal(local.plugins.refusal, fresh)
	}
	s.refused = s.refusal != nil && !fresh
	switch {
	case s.refused:
		s.refusal = &finding{s.refusal.reason, untilMended + s.refusal.message}
	case s.refusal != nil:
		s.held = s.refusal
	}
	if p := job.Status.State.Phase; (p == "" || phase.Runs(p)) && !isAdmitted(s.group) {
		s.queueProblem = c.checkQueue(job)
	}
	s.specMark = local.specMark
	s.controlled = controlled(s, &local.plugins)
	s.problem = problemOf(s)
	s.waiting = c.waitingFor(s)
	s.complete(local)
	return s, nil
}

// complete adds to the Job the records that its stored status lacks.
func (s *snapshot) complete(local *localState) {
	if s.refused {
		s.job = withRoomForAll(s.job, s.pods, s.ended)
	}
	local.unwritten.addTo(&s.job.Status)
	s.job.Status.State.Message = withoutUndone(&s.job.Status.State)
}

// lookAtPods adds the Job's pods to the snapshot.
func (c *Controller) lookAtPods(ctx context.Context, s *snapshot, local *localState) error {
	pods, err := c.podsOf(s.job)
	if err != nil {
		return err
	}
	c.resolveUncertain(ctx, &s.job.Status, local)
	ended, known := c.podTracker.look(s.job.UID, pods)
	if !known && usesEnds(s.job) {
		return errEndUnknown
	}
	s.pods, s.ended = pods, ended
	s.overdue, s.overdueIn = findOverdue(pods, s.now)
	if beginning(s.job.Status.State.Phase) == batchv1alpha1.Pending {
		s.starting, s.startingIn = startup.Slow(pods, s.now)
	}
	return nil
}

// lookAtGroup adds the Job's PodGroup to the snapshot.
func (c *Controller) lookAtGroup(s *snapshot, local *localState) error {
	name := batchv1alpha1.PodGroupName(s.job)
	group, err := c.groups.PodGroups(s.job.Namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("looking up PodGroup %s: %w", name, err)
	case group.UID == local.goneGroup:
	case metav1.IsControlledBy(group, s.job):
		s.group = group
	default:
		s.foreignGroup = true
	}
	return nil
}

// isFresh tells whether nothing has been made for the Job yet.
func (s *snapshot) isFresh() bool {
	p := s.job.Status.State.Phase
	return (p == "" || p == batchv1alpha1.Pending) && s.group == nil && len(s.pods)+len(s.ended) == 0
}
