package evict

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

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
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// Repair is a write that a tick has found necessary. A worker of its own does it, so that a slow API server delays nothing else.
type Repair struct {
	Namespace, Name string
	UID             types.UID
	Kind            RepairKind
	// By is the PodGroup or the pod that room is made for.
	By types.UID
	// Reason is the event's reason, and Message says on the pod why it is evicted.
	Reason, Message string
}

// graceFor is the grace period that the repair gives to a pod, nil for the pod's own. Room beyond a share or a capability is given back in time.
func (job Repair) graceFor(pod *corev1.Pod) *int64 {
	if job.Reason == gangmetrics.Reclaimed || job.Reason == gangmetrics.AboveCapability {
		return gang.BoundedGrace(pod)
	}
	return nil
}

// deletes are the options that an eviction deletes a pod with.
func (job Repair) deletes(pod *corev1.Pod) *metav1.DeleteOptions {
	options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
	options.GracePeriodSeconds = job.graceFor(pod)
	return options
}

// RepairKind is the kind of the write.
type RepairKind string

// The kinds of writes.
const (
	// DropNomination ends the nomination of the pod to a node.
	DropNomination RepairKind = "drop nomination"
	// StartOver evicts the pod because its gang was bound below its minimum and could not be completed.
	StartOver RepairKind = "start over"
	// MakeRoom evicts the pod to make room for a gang, or a pod.
	MakeRoom RepairKind = "make room"
	// LowerUsage evicts the pod because its queue uses more than it may.
	LowerUsage RepairKind = "lower usage"
)

// StartsOverMessage says on the pods of a gang why they are evicted.
const StartsOverMessage = "The pod's gang was bound below its minimum and could not be completed; it starts over."

// Repairer carries repairs out.
type Repairer struct {
	IsDue  func(Repair) bool
	Client kubernetes.Interface
	Pods   corelisters.PodLister
	Events events.EventRecorder
	Queue  workqueue.TypedRateLimitingInterface[Repair]
	// Evicted is called for each evicted pod, with the reason.
	Evicted func(pod *corev1.Pod, reason string)
	// Workers is how many repairs are carried out at the same time.
	Workers int
}

// NewRepairQueue makes the queue of writes that are due.
func NewRepairQueue() workqueue.TypedRateLimitingInterface[Repair] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[Repair](), workqueue.TypedRateLimitingQueueConfig[Repair]{Name: "gang_repairs"})
}

// Run carries out repairs until the context ends.
func (r *Repairer) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range r.Workers {
		group.Go(func() { r.work(ctx) })
	}
	<-ctx.Done()
	r.Queue.ShutDown()
	group.Wait()
}

func (r *Repairer) work(ctx context.Context) {
	for {
		job, shutdown := r.Queue.Get()
		if shutdown {
			return
		}
		if err := r.Do(ctx, job); err != nil {
			klog.FromContext(ctx).Error(err, "Repairing a gang failed, trying again", "pod", klog.KRef(job.Namespace, job.Name), "repair", job.Kind)
			r.Queue.AddRateLimited(job)
		} else {
			r.Queue.Forget(job)
		}
		r.Queue.Done(job)
	}
}

// Do carries a repair out if it is still due.
func (r *Repairer) Do(ctx context.Context, job Repair) error {
	pod, err := r.Pods.Pods(job.Namespace).Get(job.Name)
	if err != nil || pod.UID != job.UID || pod.DeletionTimestamp != nil && (!gang.Lingers(pod) || job.graceFor(pod) == nil) || !r.IsDue(job) {
		return nil //nolint:nilerr // it is gone; the informer is up to date or will be
	}
	switch job.Kind {
	case StartOver, MakeRoom:
		return r.evict(ctx, pod, job)
	case LowerUsage:
		return r.evictGently(ctx, pod, job)
	}
	if pod.Spec.NodeName != "" {
		return nil
	}
	without := pod.Status.DeepCopy()
	without.NominatedNodeName = ""
	return ignoreGone(upstream.PatchPodStatus(ctx, r.Client, pod, without))
}

// evict marks a pod as disrupted by the scheduler and deletes it. A conflict is an error as any other. The kubelet may write the pod's
// status at the same time, and no tick asks for the eviction again.
func (r *Repairer) evict(ctx context.Context, pod *corev1.Pod, job Repair) error {
	switch err := r.mark(ctx, pod, job.Message); {
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err):
		return nil // another pod has its name, or none has
	case err != nil:
		return err
	}
	if err := r.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *job.deletes(pod)); err != nil {
		return ignoreGone(err)
	}
	r.Evicted(pod, job.Reason)
	r.Events.Eventf(pod, nil, corev1.EventTypeNormal, job.Reason, "Evicting", "%s", job.Message)
	return nil
}

// mark says on a pod that the scheduler evicts it, and why.
func (r *Repairer) mark(ctx context.Context, pod *corev1.Pod, message string) error {
	patch, err := disruption(pod, message)
	if err != nil {
		return fmt.Errorf("marking a pod: %w", err)
	}
	_, err = r.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
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

// evictGently evicts a pod unless a disruption budget forbids it now: then the pod is chosen again, or another. The pod is marked
// afterwards. The API server's own mark, which says only that there was an eviction, would replace an earlier one.
func (r *Repairer) evictGently(ctx context.Context, pod *corev1.Pod, job Repair) error {
	err := r.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: job.deletes(pod),
	})
	switch {
	case apierrors.IsTooManyRequests(err):
		return nil
	case err != nil:
		return ignoreGone(err)
	}
	r.Evicted(pod, job.Reason)
	r.Events.Eventf(pod, nil, corev1.EventTypeNormal, job.Reason, "Evicting", "%s", job.Message)
	if err := r.mark(ctx, pod, job.Message); ignoreGone(err) != nil && !apierrors.IsInvalid(err) {
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
