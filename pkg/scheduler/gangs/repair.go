package gangs

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// repair is a write that a tick has found necessary. A worker of its own does it, so that a slow API server delays nothing else.
type repair struct {
	namespace, name string
	uid             types.UID
	kind            repairKind
	// by is the PodGroup or the pod that room is made for.
	by types.UID
	// reason is the event's reason, and message says on the pod why it is evicted.
	reason, message string
}

// graceFor is the grace period that the repair gives to a pod, nil for the pod's own. Room beyond a share or a capability is given back in time.
func (job repair) graceFor(pod *corev1.Pod) *int64 {
	if job.reason == Reclaimed || job.reason == aboveCapability {
		return gang.BoundedGrace(pod)
	}
	return nil
}

// deletes are the options that an eviction deletes a pod with.
func (job repair) deletes(pod *corev1.Pod) *metav1.DeleteOptions {
	options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
	options.GracePeriodSeconds = job.graceFor(pod)
	return options
}

// repairKind is the kind of the write.
type repairKind string

const (
	// dropNomination: the pod is nominated to a node no more.
	dropNomination repairKind = "drop nomination"
	// startOver: the pod is evicted because its gang was bound below its minimum and could not be completed.
	startOver repairKind = "start over"
	// makeRoom: the pod is evicted to make room for a gang, or a pod.
	makeRoom repairKind = "make room"
	// lowerUsage: the pod is evicted because its queue uses more than it may.
	lowerUsage repairKind = "lower usage"
)

// Reasons of evictions, for events and metrics.
const (
	// Reclaimed for another queue that is below its share.
	Reclaimed = "Reclaimed"
	// Preempted for a higher priority.
	Preempted = "Preempted"

	aboveCapability = "AboveCapability"
	belowMinimum    = "BelowMinimum"
)

// startsOverMessage says on the pods of a gang why they are evicted.
const startsOverMessage = "The pod's gang was bound below its minimum and could not be completed; it starts over."

// repairRules say which repairs a gang needs.
type repairRules struct{ t *Tracker }

// repairsOf are the writes that a gang needs.
//
// A gang that a crash left below its minimum, and that is not completed in time, starts over: all pods are evicted that attempts for this
// PodGroup have bound. Pods that were bound otherwise stay. The scheduler keeps room
// for nominated pods. A member whose gang waits may never use it: its nomination is from before a restart, or from before the gang fell
// apart. A member of an earlier incarnation never uses it.
func (r *repairRules) repairsOf(g *group, now time.Time) (repairs []repair) {
	if !r.t.Leadership.leads.Load() {
		return nil
	}
	if r.startsOver(g, now) {
		for _, m := range g.Own() {
			repairs = append(repairs, repair{namespace: m.Pod.Namespace, name: m.Pod.Name, uid: m.UID, kind: startOver, reason: belowMinimum, message: startsOverMessage})
		}
	}
	if g.CountIn(gang.Waiting) == 0 || !g.HasEarlier() && !r.isHeld(g) {
		return repairs
	}
	for _, m := range g.In(gang.Waiting) {
		if m.Pod.Status.NominatedNodeName != "" && r.dropsNomination(g, m) {
			repairs = append(repairs, repair{namespace: m.Pod.Namespace, name: m.Pod.Name, uid: m.UID, kind: dropNomination})
		}
	}
	return repairs
}

// startsOver says whether a gang is to be evicted whole.
func (r *repairRules) startsOver(g *group, now time.Time) bool {
	return g.attempt == nil && g.needsRepair() && r.t.isRepairOver(g, now)
}

// dropsNomination says whether a waiting member must not be nominated.
func (r *repairRules) dropsNomination(g *group, m *gang.Member) bool {
	return m.Version != g.Version() || r.isHeld(g)
}

// isHeld says whether no member of a gang may start by itself.
func (r *repairRules) isHeld(g *group) bool {
	return g.attempt == nil && r.t.status(g).Phase != gang.Running
}

// isDue says whether a repair is still due. A repair that is tried again may be out of date: the gang may have been completed. A repair
// that is still due must be made.
func (r *repairRules) isDue(job repair) bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	switch job.kind {
	case makeRoom:
		return r.t.WaitList.beginEviction(job.by, job.uid)
	case lowerUsage:
		return r.t.Victims.lowers(job.uid)
	}
	g, m := r.t.find(job.uid)
	switch {
	case m == nil:
		return false
	case job.kind == startOver:
		return r.startsOver(g, r.t.clock.Now())
	}
	return r.dropsNomination(g, m)
}

// repairer carries repairs out.
type repairer struct {
	isDue  func(repair) bool
	client kubernetes.Interface
	pods   corelisters.PodLister
	events events.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[repair]
	// evicted is called for each evicted pod, with the reason.
	evicted func(pod *corev1.Pod, reason string)
	// workers is how many repairs are carried out at the same time.
	workers int
}

func newRepairQueue() workqueue.TypedRateLimitingInterface[repair] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[repair](), workqueue.TypedRateLimitingQueueConfig[repair]{Name: "gang_repairs"})
}

// run carries out repairs until the context ends.
func (r *repairer) run(ctx context.Context) {
	var group sync.WaitGroup
	for range r.workers {
		group.Go(func() { r.work(ctx) })
	}
	<-ctx.Done()
	r.queue.ShutDown()
	group.Wait()
}

func (r *repairer) work(ctx context.Context) {
	for {
		job, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.do(ctx, job); err != nil {
			klog.FromContext(ctx).Error(err, "Repairing a gang failed, trying again", "pod", klog.KRef(job.namespace, job.name), "repair", job.kind)
			r.queue.AddRateLimited(job)
		} else {
			r.queue.Forget(job)
		}
		r.queue.Done(job)
	}
}

func (r *repairer) do(ctx context.Context, job repair) error {
	pod, err := r.pods.Pods(job.namespace).Get(job.name)
	if err != nil || pod.UID != job.uid || pod.DeletionTimestamp != nil && (!gang.Lingers(pod) || job.graceFor(pod) == nil) || !r.isDue(job) {
		return nil //nolint:nilerr // it is gone; the informer is up to date or will be
	}
	switch job.kind {
	case startOver, makeRoom:
		return r.evict(ctx, pod, job)
	case lowerUsage:
		return r.evictGently(ctx, pod, job)
	}
	if pod.Spec.NodeName != "" {
		return nil
	}
	without := pod.Status.DeepCopy()
	without.NominatedNodeName = ""
	return ignoreGone(upstream.PatchPodStatus(ctx, r.client, pod, without))
}

// evict marks a pod as disrupted by the scheduler and deletes it. A conflict is an error as any other: the kubelet may write the pod's status at
// the same time, and no tick asks for the eviction again.
func (r *repairer) evict(ctx context.Context, pod *corev1.Pod, job repair) error {
	switch err := r.mark(ctx, pod, job.message); {
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err):
		return nil // another pod has its name, or none has
	case err != nil:
		return err
	}
	if err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *job.deletes(pod)); err != nil {
		return ignoreGone(err)
	}
	r.evicted(pod, job.reason)
	r.events.Eventf(pod, nil, corev1.EventTypeNormal, job.reason, "Evicting", "%s", job.message)
	return nil
}

// mark says on a pod that the scheduler evicts it, and why.
func (r *repairer) mark(ctx context.Context, pod *corev1.Pod, message string) error {
	patch, err := disruption(pod, message)
	if err != nil {
		return fmt.Errorf("marking a pod: %w", err)
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// disruption is the patch that marks a pod as disrupted by the scheduler. It is no update: the informer may show an outdated pod. The API
// server refuses it for another pod of the name.
func disruption(pod *corev1.Pod, message string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: message,
			LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		}}},
	})
}

// evictGently evicts a pod unless a disruption budget forbids it now: then the pod is chosen again, or another. The pod is marked afterwards:
// the API server's own mark, which says only that there was an eviction, would replace an earlier one.
func (r *repairer) evictGently(ctx context.Context, pod *corev1.Pod, job repair) error {
	err := r.client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: job.deletes(pod),
	})
	switch {
	case apierrors.IsTooManyRequests(err):
		return nil
	case err != nil:
		return ignoreGone(err)
	}
	r.evicted(pod, job.reason)
	r.events.Eventf(pod, nil, corev1.EventTypeNormal, job.reason, "Evicting", "%s", job.message)
	if err := r.mark(ctx, pod, job.message); ignoreGone(err) != nil && !apierrors.IsInvalid(err) {
		// It is not tried again: that would evict the pod again, and count it twice.
		klog.FromContext(ctx).Error(err, "Saying on a pod why it was evicted failed", "pod", klog.KObj(pod))
	}
	return nil
}

// ignoreGone drops errors that say that the pod has changed or is gone. The next tick looks again.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
