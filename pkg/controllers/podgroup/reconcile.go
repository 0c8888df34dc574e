package podgroup

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
)

// Sync brings the status of one PodGroup up to date.
func (c *Controller) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key: %w", err)
	}
	cached, err := c.groups.PodGroups(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.forget(key, namespace, name)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("getting the PodGroup: %w", err)
	}

	group := c.written.Latest(key, cached)
	lost := c.deletions.take(key)
	pods, members := c.countMembers(group)
	c.sizes.Store(key, len(pods))
	members.lost = lost && !c.isGoing(group)
	members.place.tree = c.tree()
	decision := c.admission.decision(key, group.UID)
	decision.Admitted = decision.Admitted || c.isReplacement(group, members)
	next := nextStatus(group, members, decision, c.clock.Now(), string(uuid.NewUUID()))
	admission.WithPlace(next, c.admission.place(key, group.UID))
	estimate, notUsed := c.estimate(group, pods)
	next.Estimate = estimate
	c.dropPruned(next)
	holdLeft := c.settleHold(group, pods, members.gone, next)
	if cached.Status.Phase.Admitted() {
		c.admission.forget(key, cached.UID) // the decision is in the API
	}
	if apiequality.Semantic.DeepEqual(&group.Status, next) {
		return holdLeft, nil
	}
	if wait := c.writes.wait(key, worker.StatusInterval(len(pods)), c.clock.Now()); wait > 0 && !isUrgent(&group.Status, next) {
		return wait, nil
	}
	if isReport(&group.Status, next) && !c.reports.MayWrite(c.status, key) {
		return holdLeft, nil
	}
	err = c.write(ctx, key, group, next, members.gated())
	if err != nil && lost {
		c.deletions.putBack(key)
	}
	if err == nil {
		c.groupEnded(group, next, pods)
	}
	if err == nil && notUsed {
		c.tellNotUsed(group, next.Estimate.Message)
	}
	return 0, err
}

// dropPruned leaves out what the installed CRD does not know. It would be written again and again.
func (c *Controller) dropPruned(next *schedulingv1beta1.PodGroupStatus) {
	if c.versionIsPruned.Load() {
		next.JobVersion = nil
	}
	if c.placeIsPruned.Load() {
		next.Place = nil
	}
	if c.estimateIsPruned.Load() {
		next.Estimate = nil
	}
}

func (c *Controller) write(ctx context.Context, key string, group *schedulingv1beta1.PodGroup, next *schedulingv1beta1.PodGroupStatus, gated bool) error {
	update := group.DeepCopy()
	update.Status = *next
	updated, err := c.client.SchedulingV1beta1().PodGroups(group.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err):
		c.written.Forget(key)
		return fmt.Errorf("writing the status: %w", err)
	case apierrors.IsNotFound(err):
		return nil // the informer will show it
	case err != nil:
		return fmt.Errorf("writing the status: %w", err)
	}
	if next.JobVersion != nil && updated.Status.JobVersion == nil && !c.versionIsPruned.Swap(true) {
		klog.FromContext(ctx).Error(nil, "The installed CRD of PodGroups is older than this controller: apply manifests/crds. "+
			"Until then what pods of a Job have achieved before it was restarted counts for the gang")
	}
	if next.Place != nil && updated.Status.Place == nil {
		c.placeIsPruned.Store(true)
	}
	if next.Estimate != nil && updated.Status.Estimate == nil {
		c.estimateIsPruned.Store(true)
	}
	c.written.Put(key, updated)
	c.writes.note(key, c.clock.Now())
	logPhase(ctx, group, next.Phase)
	announce(c.recorder, updated, &group.Status, next, gated)
	return nil
}

// logPhase logs that a PodGroup was admitted, and at a higher verbosity each other change of its phase.
func logPhase(ctx context.Context, before *schedulingv1beta1.PodGroup, now schedulingv1beta1.PodGroupPhase) {
	logger, was := klog.FromContext(ctx), before.Status.Phase
	switch {
	case was == now:
	case !was.Admitted() && now.Admitted():
		logger.V(1).Info("PodGroup admitted", "podGroup", klog.KObj(before), "queue", admission.QueueOf(before), "phase", now)
	default:
		logger.V(2).Info("PodGroup changed phase", "podGroup", klog.KObj(before), "from", was, "to", now)
	}
}

// countMembers lists the members of a PodGroup that exist, and counts all members.
func (c *Controller) countMembers(group *schedulingv1beta1.PodGroup) ([]*corev1.Pod, memberCounts) {
	pods, remembered := c.recall(group)
	members := count(pods, remembered)
	members.ofJob = batchv1alpha1.JobOf(group) != nil
	if job := c.jobOf(group); job != nil {
		members.mayGoOn = !phase.KeepsOnlyFinished(job.Status.State.Phase) && members.succeeded < replicasOf(job)
	}
	return pods, members
}

func replicasOf(job *batchv1alpha1.Job) int32 {
	sum := int32(0)
	for i := range job.Spec.Tasks {
		sum += job.Spec.Tasks[i].Replicas
	}
	return sum
}

// recall lists the members of a PodGroup that exist, and says how many have succeeded. The Job that controls the PodGroup says that. For
// other PodGroups the controller remembers it.
func (c *Controller) recall(group *schedulingv1beta1.PodGroup) ([]*corev1.Pod, memory) {
	list := func() []*corev1.Pod { return c.usage.Members(group.Namespace, group.Name) }
	if batchv1alpha1.JobOf(group) == nil {
		pods, succeeded := c.successes.count(group, list)
		return pods, memory{int64(ptr.Deref(group.Status.JobVersion, 0)), succeeded}
	}
	job := c.jobOf(group)
	if job == nil {
		return list(), memory{}
	}
	return list(), memory{int64(job.Status.Version), job.Status.Succeeded}
}

// isReplacement says whether a PodGroup replaces one that was deleted while its gang ran. Its Job runs, which only the job controller
// writes, and its minimum has nodes, which its queue is charged for. It is admitted, whatever its queue takes now.
func (c *Controller) isReplacement(group *schedulingv1beta1.PodGroup, members memberCounts) bool {
	job := c.jobOf(group)
	return job != nil && job.Status.State.Phase == batchv1alpha1.Running && members.seated > 0 && members.seated >= group.Spec.Minimum()
}

// isGoing says whether a PodGroup is being deleted, or the Job is or was that controls it. Its pods go with it.
func (c *Controller) isGoing(group *schedulingv1beta1.PodGroup) bool {
	if group.DeletionTimestamp != nil || batchv1alpha1.JobOf(group) == nil {
		return group.DeletionTimestamp != nil
	}
	job := c.jobOf(group)
	return job == nil || job.DeletionTimestamp != nil
}

// jobOf is the Job that controls a PodGroup; nil if there is none.
func (c *Controller) jobOf(group *schedulingv1beta1.PodGroup) *batchv1alpha1.Job {
	owner := batchv1alpha1.JobOf(group)
	if owner == nil {
		return nil
	}
	job, err := c.jobs.Jobs(group.Namespace).Get(owner.Name)
	if err != nil || job.UID != owner.UID {
		return nil
	}
	return job
}

func (c *Controller) forget(key, namespace, name string) {
	c.usage.ReleaseOtherHolds(namespace, name, "")
	c.holdTimeouts.forget(key)
	c.written.Forget(key)
	c.writes.forget(key)
	c.deletions.take(key)
	c.successes.forget(key)
	c.sizes.Delete(key)
}

// writeTimes remembers when the status of each PodGroup was last written.
type writeTimes struct {
	mu    sync.Mutex
	byKey map[string]time.Time
}

// wait is how long a write that can wait should wait.
func (w *writeTimes) wait(key string, interval time.Duration, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byKey[key].Add(interval).Sub(now)
}

func (w *writeTimes) note(key string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = map[string]time.Time{}
	}
	w.byKey[key] = now
}

func (w *writeTimes) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}
