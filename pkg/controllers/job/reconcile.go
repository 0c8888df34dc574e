package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

const (
	// messageInterval is the least time between two writes that change only the words that explain its reason.
	messageInterval = 5 * time.Second
	// retrySoon is when to look again at what no event will tell of.
	retrySoon = time.Second
)

// scene is what surrounds a Job at one moment, as the informers show it.
type scene struct {
	pods         []*corev1.Pod
	ended        []*corev1.Pod               // that have ended and are gone or going, as they were when they had
	group        *schedulingv1beta1.PodGroup // the Job's own; nil if there is none
	foreignGroup bool                        // the PodGroup's name is taken by another owner's
	queueProblem *finding                    // why the queue does not let the Job in; looked at while it is not in
	refusal      *finding                    // what makes the spec one that cannot run
	trouble      *finding                    // what the last attempt to act ran into
	orders       *orders                     // the Commands that name the Job
	claims       *claims                     // of the Job's volumes; nil if it has ended
}

// reconcile brings a Job one step further: it looks, judges, writes down what it is going to do, and does it.
func (c *Controller) reconcile(ctx context.Context, job *batchv1alpha1.Job, n *notes) (time.Duration, error) {
	now := c.clock.Now()
	filled := defaults.Job(job, c.schedulerName)
	s, err := c.look(filled, n)
	if errors.Is(err, errUntold) {
		return retrySoon, nil // the news brings the Job back here
	}
	if err != nil {
		return 0, err
	}

	if err := c.cleanUp(ctx, job, s.orders, n); err != nil {
		return 0, err
	}
	if s.isRefused(filled) {
		filled = standing(filled, s.pods, s.ended)
	}
	n.memory.addTo(&filled.Status)
	filled.Status.State.Message = withoutUndone(&filled.Status.State)
	v := &view{
		job:          filled,
		pods:         s.pods,
		ended:        s.ended,
		command:      s.orders.next,
		groupUnknown: s.group != nil && s.group.Status.Phase == schedulingv1beta1.PodGroupUnknown,
		specMark:     n.specMark,
		held:         mayNotStart(filled, s),
		refused:      s.isRefused(filled),
		trouble:      troubleOf(filled, s),
		undone:       s.trouble,
		dependency:   c.dependency,
		waiting:      c.waitingFor(filled, s),
		controlled:   controlled(filled, s, &n.kit),
		now:          now,
	}
	result := judge(v)
	if first := firstStatus(v, result); first != nil {
		return c.begin(ctx, job, v, first, n)
	}
	if left := recess(&job.Status, result) - now.Sub(n.lastWrite); left > 0 {
		n.memory = memoryOf(&job.Status, result.status)
		return left, nil
	}
	if v.command != nil && !c.isStillAsked(ctx, v.command) {
		return retrySoon, nil
	}
	if result.request != nil && !c.isStillSo(ctx, filled, result.request.cause) {
		return retrySoon, nil
	}

	wait, err := c.write(ctx, job, result, v, n)
	if errors.Is(err, errBehind) {
		return retrySoon, nil
	}
	if err != nil {
		return 0, err
	}
	if v.held != nil && phase.Runs(result.status.State.Phase) {
		return wait, nil
	}
	acting := *filled
	acting.Status = *result.status
	failed := c.act(ctx, &acting, s, result, n)
	wait = soonest(wait, c.announce(&acting, result.delays, now, n))
	wait = soonest(wait, c.nextDeadline(&acting, now))
	if failed != nil {
		pause, err := c.report(&acting, failed, n)
		return soonest(wait, pause), err
	}
	if n.trouble != nil {
		n.trouble = nil
		wait = soonest(wait, retrySoon) // the status still tells of it
	}
	if s.foreignGroup {
		// Nothing tells when what is not the Job's is gone.
		wait = soonest(wait, retrySoon)
	}
	return wait, nil
}

// errUntold says that a pod has gone and that it is not known yet how it ended.
var errUntold = errors.New("the news of a pod that is gone is on its way")

// look gathers what surrounds the Job. It returns errUntold if that will be known in a moment.
func (c *Controller) look(job *batchv1alpha1.Job, n *notes) (*scene, error) {
	pods, err := c.podsOf(job)
	if err != nil {
		return nil, err
	}
	if n.unsure.hasSucceeded(&job.Status) {
		c.roster.drop(job.UID, n.unsure.ends)
		n.unsure = nil
	}
	ended, told := c.roster.look(job.UID, pods)
	if !told && usesEnds(job) {
		return nil, errUntold
	}
	s := &scene{pods: pods, ended: ended, trouble: n.trouble, orders: c.ordersFor(job)}
	if !phase.Ended(job.Status.State.Phase) {
		s.refusal = n.refusalOf(job)
		s.claims = c.surveyClaims(job)
	}
	group, err := c.groups.PodGroups(job.Namespace).Get(batchv1alpha1.PodGroupName(job))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("looking up PodGroup %s: %w", batchv1alpha1.PodGroupName(job), err)
	case group.UID == n.goneGroup:
	case metav1.IsControlledBy(group, job):
		s.group = group
	default:
		s.foreignGroup = true
	}
	if s.refusal == nil && n.kit.refusal != nil {
		s.refusal = pluginRefusal(n.kit.refusal, isFresh(job, s))
	}
	if s.isRefused(job) {
		s.refusal = &finding{s.refusal.reason, untilMended + s.refusal.message}
	}
	if p := job.Status.State.Phase; (p == "" || phase.Runs(p)) && !c.isAdmitted(s.group) {
		s.queueProblem = c.checkQueue(job)
	}
	return s, nil
}

// untilMended says what becomes of a Job that has started and cannot run as its spec is now.
const untilMended = "no pod is created, restarted or scaled away until this is mended: "

// mayNotStart returns why a Job for which nothing has been made yet may not start, or nil.
func mayNotStart(job *batchv1alpha1.Job, s *scene) *finding {
	if isFresh(job, s) {
		return s.refusal
	}
	return nil
}

// isRefused tells whether the Job has started and its spec is one that cannot run.
func (s *scene) isRefused(job *batchv1alpha1.Job) bool { return s.refusal != nil && !isFresh(job, s) }

// isStillSo asks the API server whether what a policy answers is really so. It costs one request for each action of a
// policy, and makes sure that no action rests on an informer that is behind, as after a change of leader.
func (c *Controller) isStillSo(ctx context.Context, job *batchv1alpha1.Job, h *policy.Happening) bool {
	if h == nil || h.Index < 0 || h.Remembered && h.Event == busv1alpha1.PodFailedEvent {
		return true
	}
	name := policy.PodName(job.Name, job.Spec.Tasks[h.Task].Name, h.Index)
	pod, err := c.kube.CoreV1().Pods(job.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(pod, job):
		return h.Remembered || h.Pod == nil || h.Pod.DeletionTimestamp != nil || h.Event == busv1alpha1.PodFailedEvent
	case err != nil, h.Pod == nil && !h.Remembered:
		return false
	case h.Remembered:
		return pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded
	default:
		return pod.UID == h.Pod.UID && (h.Event != busv1alpha1.PodPendingEvent || pod.Status.Phase == corev1.PodPending)
	}
}

// errBehind says that what was judged is not what is.
var errBehind = errors.New("the Job has changed")

// write writes the status if it differs. A change of nothing but counts waits until the last write is long enough ago, and
// until nothing waits that is worth more; it then returns how long, if that is known. It returns errBehind if somebody else
// has changed the Job meanwhile.
func (c *Controller) write(ctx context.Context, job *batchv1alpha1.Job, result *verdict, v *view, n *notes) (time.Duration, error) {
	if apiequality.Semantic.DeepEqual(&job.Status, result.status) {
		n.memory = nil
		c.noteTold(v, n)
		return 0, nil
	}
	left := pause(&job.Status, result) - v.now.Sub(n.lastWrite)
	if left > 0 || isReport(&job.Spec, &job.Status, result) && !c.reports.MayWrite(c.worker, keyOf(job)) {
		n.memory = memoryOf(&job.Status, result.status)
		return max(left, 0), nil
	}
	if err := c.update(ctx, job, v, result, n); err != nil {
		if tellsEnds(v.job) && !errors.Is(err, errBehind) {
			n.unsure = &attempt{result.status, v.ended}
		}
		return 0, err
	}
	c.noteTold(v, n)
	c.speak(job, &job.Status, result, v.command, v.explanation(result.status.State.Phase))
	return 0, nil
}

// noteTold forgets how pods ended that are gone or going, if the status tells it now.
func (c *Controller) noteTold(v *view, n *notes) {
	n.unsure = nil
	if tellsEnds(v.job) {
		c.roster.drop(v.job.UID, v.ended)
	}
}

// tellsEnds tells whether the next status of a Job tells how all its pods ended that are gone or going, as far as anybody has to know.
// While it restarts nobody is asked about those that have failed.
func tellsEnds(job *batchv1alpha1.Job) bool {
	return job.Status.State.Phase != batchv1alpha1.Restarting
}

// begin writes the first status of a Job that has come further already. That it is written asks for the next look.
func (c *Controller) begin(ctx context.Context, job *batchv1alpha1.Job, v *view, first *batchv1alpha1.JobStatus, n *notes) (time.Duration, error) {
	err := c.update(ctx, job, v, &verdict{status: first}, n)
	if errors.Is(err, errBehind) {
		err = nil
	}
	return retrySoon, err
}

// update writes the status. It returns errBehind if somebody else has changed the Job meanwhile.
func (c *Controller) update(ctx context.Context, job *batchv1alpha1.Job, v *view, result *verdict, n *notes) error {
	changed := *job
	changed.Status = *result.status
	updated, err := c.muster.BatchV1alpha1().Jobs(job.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errBehind
	case err != nil:
		c.reportUnwritten(job, err, n)
		return fmt.Errorf("writing the status: %w", err)
	}
	n.lastWrite, n.unwritten, n.memory = v.now, "", nil
	c.instruments.wrote(v.job, &job.Status, result)
	c.writtenJobs.Put(keyOf(job), updated)
	return nil
}

// recess returns how long after the last write a change of status may be written before which nothing may be done that it announces.
// A phase is never late, nor is what somebody has asked for: an action may lead back to the phase that it came from.
func recess(from *batchv1alpha1.JobStatus, result *verdict) time.Duration {
	if result.request != nil || isMinor(from, result) || beginning(from.State.Phase) != result.status.State.Phase || apiequality.Semantic.DeepEqual(from, result.status) {
		return 0
	}
	return worker.LeastStatusInterval
}

// pause returns how long after the last write a change of status may be written that can wait while things go on.
func pause(from *batchv1alpha1.JobStatus, result *verdict) time.Duration {
	if !isMinor(from, result) {
		return 0
	}
	reworded := *from
	reworded.State.Message = result.status.State.Message
	if apiequality.Semantic.DeepEqual(&reworded, result.status) {
		return messageInterval
	}
	return worker.StatusInterval(result.members.names.Len())
}

// isMinor tells whether things go on while a change of status waits for others to join it. That a Job has begun can: it does what a Pending
// Job does also while its status is empty. One that announces deletions cannot: what is deleted unannounced would look evicted
// later, as when a Job is scaled down and up again. Nor can one that tells of what is answered later: once an evicted pod has a
// new one, nothing else knows of it. What spec the policies compare others with, and what stands in for a claim, is kept to
// from the first pod on.
func isMinor(from *batchv1alpha1.JobStatus, result *verdict) bool {
	to := result.status
	return beginning(from.State.Phase) == to.State.Phase && from.Version == to.Version && from.RetryCount == to.RetryCount &&
		from.HandledCommand == to.HandledCommand && len(result.members.victims()) == 0 &&
		from.HandledSpec == to.HandledSpec && maps.Equal(claimsIn(from), claimsIn(to)) &&
		apiequality.Semantic.DeepEqual(from.Delayed, to.Delayed)
}

// claimsIn are the entries of status.controlledResources about claims.
func claimsIn(status *batchv1alpha1.JobStatus) map[string]string {
	entries := maps.Clone(status.ControlledResources)
	maps.DeleteFunc(entries, func(key, _ string) bool { return !volumes.IsKey(key) })
	return entries
}

// isReport tells whether a change of status only tells people that the Job has begun, or that pods have come, or run. That some
// have finished is also remembered by it, lest they run again; so is that pods have come, for the policies that answer if they
// vanish: by another controller's time nothing else might know of them.
func isReport(spec *batchv1alpha1.JobSpec, from *batchv1alpha1.JobStatus, result *verdict) bool {
	to := result.status
	return isMinor(from, result) && from.Succeeded == to.Succeeded && from.Failed == to.Failed &&
		(sameCreated(from.TaskRecords, to.TaskRecords) || !policy.AnswersEvictions(spec))
}

// sameCreated tells whether two records of the tasks know of the same pods.
func sameCreated(a, b []batchv1alpha1.TaskRecord) bool {
	return slices.EqualFunc(a, b, func(a, b batchv1alpha1.TaskRecord) bool { return a.Name == b.Name && a.Created == b.Created })
}

// act does what the status announces: it deletes whom it counts as terminating, and creates what is missing. What is refused does not
// keep the rest from being done; the first error is returned.
func (c *Controller) act(ctx context.Context, job *batchv1alpha1.Job, s *scene, v *verdict, n *notes) error {
	victims := highestFirst(&job.Spec, n.notYetDeleted(v.members.victims(), c.clock.Now()))
	failed := deleteError.of(c.deletePods(ctx, victims))
	if failed != nil {
		n.deletions = nil
	}
	switch {
	case phase.Runs(job.Status.State.Phase):
		return firstOf(failed, c.run(ctx, job, s, v, &n.kit))
	case phase.KeepsOnlyFinished(job.Status.State.Phase) && job.Status.Terminating == 0:
		return firstOf(failed, c.dismantle(ctx, job, s.group, n))
	default:
		return failed
	}
}

// firstOf returns the first error that is one; nil if none is.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// dismantle takes away what a Job that has ended, or is aborted, needs no more, and in the end the Job.
func (c *Controller) dismantle(ctx context.Context, job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup, n *notes) error {
	failed := groupDeleteError.of(c.deleteGroup(ctx, job, group, n))
	if phase.Ended(job.Status.State.Phase) {
		failed = firstOf(failed, objectDeleteError.of(c.deleteObjects(ctx, job)))
	}
	return firstOf(failed, expiryError.of(c.deleteExpired(ctx, job)))
}

// run gives a live Job its claims, its PodGroup, the objects of its plugins and, once the PodGroup is admitted, its
// pods. A Job whose data is not there does not ask for room either, and one whose spec cannot run asks for nothing more.
func (c *Controller) run(ctx context.Context, job *batchv1alpha1.Job, s *scene, v *verdict, k *kit) error {
	if s.refusal != nil || s.foreignGroup || s.group == nil && (s.queueProblem != nil || s.claims.problem != nil) {
		return nil
	}
	named, err := c.ensureClaims(ctx, job, s.claims)
	if err != nil {
		return claimError.of(err)
	}
	if !named {
		return nil
	}
	group, err := c.ensureGroup(ctx, job, v, s.group)
	if err != nil {
		return groupError.of(err)
	}
	if err := c.applyObjects(ctx, job, k); err != nil {
		return pluginError.of(err)
	}
	if !c.isAdmitted(s.group) || !s.claims.isReady() {
		return nil
	}
	return createError.of(c.createPods(ctx, job, group, k.set, v.members.missing(job.Name, v.stage, byPriority(&job.Spec, c.priorityOf))))
}

// deleteExpired deletes a Job that has ended, or was aborted, longer ago than its ttlSecondsAfterFinished. It returns a conflict if
// the Job is not as it was seen: its user may have given it more time.
func (c *Controller) deleteExpired(ctx context.Context, job *batchv1alpha1.Job) error {
	left, limited := timeToLive(job, c.clock.Now())
	if !limited || left > 0 {
		return nil
	}
	background := metav1.DeletePropagationBackground
	seen := c.writtenJobs.Latest(keyOf(job), job) // of its status, this sync may have written another
	err := c.muster.BatchV1alpha1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
		PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the expired Job: %w", err)
	}
	return nil
}

// timeToLive returns how long a Job that has ended, or was aborted, stays; false if it stays for ever. One that spec.suspend holds
// waits to go on.
func timeToLive(job *batchv1alpha1.Job, now time.Time) (time.Duration, bool) {
	p := job.Status.State.Phase
	isDone := phase.Ended(p) || p == batchv1alpha1.Aborted && !isSuspended(job)
	if job.Spec.TTLSecondsAfterFinished == nil || !isDone {
		return 0, false
	}
	expiry := job.Status.State.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	return expiry.Sub(now), true
}

// announce tells of the answers whose time has not come, once for all pods of a task, and returns how long it is to the first.
func (c *Controller) announce(job *batchv1alpha1.Job, delays []policy.Delay, now time.Time, n *notes) time.Duration {
	var first time.Duration
	announced := map[delayed]bool{}
	for _, d := range delays {
		if d.PutOff {
			continue // it is not time that it waits for
		}
		about := delayed{d.Cause.Task, d.Cause.Event, d.Action}
		if !n.delays[about] && !announced[about] {
			c.recorder.Eventf(job, corev1.EventTypeNormal, eventExecuteAction, "Execute action %s after %s", d.Action, d.Timeout)
		}
		announced[about] = true
		first = soonest(first, atLeast(d.Due.Sub(now)))
	}
	n.delays = announced
	return first
}

// nextDeadline returns when time alone changes something about the Job; 0 if it does not.
func (c *Controller) nextDeadline(job *batchv1alpha1.Job, now time.Time) time.Duration {
	if left, limited := timeToLive(job, now); limited {
		return atLeast(left)
	}
	if phase.Ended(job.Status.State.Phase) {
		return 0
	}
	if left, limited := timeLeft(job, now); limited {
		return atLeast(left)
	}
	return 0
}

// atLeast keeps a deadline that has passed from being looked at over and over while the API takes notice of it.
func atLeast(left time.Duration) time.Duration {
	if left <= 0 {
		return retrySoon
	}
	return left
}

// soonest returns the shorter of two waits, of which 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
