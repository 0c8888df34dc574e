package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

const (
	// reportQPS and reportBurst bound what the reporter asks of the API server, whose first business is to bind pods.
	reportQPS, reportBurst = 100, 100
	// reportBatch is how many members of one gang are written before other gangs have their turn.
	reportBatch = 100
	// reportRetry is when a report is repeated that another writer has overtaken, or that failed.
	reportRetry = time.Second
	// unschedulableEvent is the reason of the event on the PodGroup. Clients know it.
	unschedulableEvent = "Unschedulable"
	// component is the source of the events.
	component = "muster-scheduler"
)

// reporter tells users why gangs wait: every waiting member by its condition PodScheduled, once for each verdict, and the
// PodGroup by one event. It works beside the scheduling loop.
type reporter struct {
	store   *Store
	client  kubernetes.Interface
	pods    corelisters.PodLister
	events  record.EventRecorder
	limiter flowcontrol.RateLimiter
}

// runReporter reports until the context ends.
func (s *Store) runReporter(ctx context.Context) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	client := s.handle.ClientSet()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	r := &reporter{
		store:   s,
		client:  client,
		pods:    s.handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		events:  broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}),
		limiter: flowcontrol.NewTokenBucketRateLimiter(reportQPS, reportBurst),
	}
	for {
		key, shutdown := s.reporter.Get()
		if shutdown {
			return
		}
		if again := r.look(ctx, key); again > 0 {
			s.reporter.AddAfter(key, again)
		}
		s.reporter.Done(key)
	}
}

// look writes what is to be written for a gang now. It returns when to look again, 0 for when something changes.
func (r *reporter) look(ctx context.Context, key Key) (again time.Duration) {
	if r.store.follows.Load() {
		return 0 // the leader reports; who becomes it looks at all gangs
	}
	report, again := r.store.reportFor(key)
	if report == nil {
		return again
	}
	return r.write(ctx, key, report)
}

// write brings the conditions of all waiting members up to date, a batch at a time.
func (r *reporter) write(ctx context.Context, key Key, report *report) (again time.Duration) {
	failed := false
	written := 0
	for _, m := range report.members {
		pod := r.outdated(m, report.verdict)
		switch {
		case pod == nil:
			continue
		case written == reportBatch:
			r.store.reportAgain(key)
			return time.Millisecond
		case !r.store.stillWaits(key, m.uid, report.verdict):
			continue // whatever has changed brings the gang here again
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return 0 // the context has ended
		}
		switch err := r.patch(ctx, pod, report.verdict); {
		case err == nil:
			written++
			r.store.metrics.reports.WithLabelValues(report.verdict.reason).Inc()
			if report.news {
				r.announce(key, report)
				report.news = false
			}
		case apierrors.IsConflict(err):
			failed = true // somebody else has written; what the informer shows next is compared anew
		case apierrors.IsNotFound(err): // deleted
		default:
			failed = true
			klog.FromContext(ctx).Error(err, "Reporting why a member waits failed, trying again", "pod", klog.KObj(pod))
		}
	}
	if failed {
		r.store.reportAgain(key)
		return reportRetry
	}
	return 0
}

// outdated returns a waiting member's pod if its condition does not carry the verdict yet.
func (r *reporter) outdated(m waitingMember, v verdict) *corev1.Pod {
	pod, err := r.pods.Pods(m.namespace).Get(m.name)
	if err != nil || pod.UID != m.uid || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil
	}
	_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	if condition != nil && condition.Status == corev1.ConditionFalse && condition.Reason == v.reason && condition.Message == v.message {
		return nil
	}
	if condition != nil && condition.Status == corev1.ConditionFalse && !r.store.speaks.Load() && r.store.isScout(m.uid) {
		return nil // the scheduler writes this one itself, with every attempt
	}
	return pod
}

// patch writes a condition, unless the pod has changed since it was seen: it may be bound by now.
func (r *reporter) patch(ctx context.Context, pod *corev1.Pod, v verdict) error {
	condition := map[string]any{
		"type":    corev1.PodScheduled,
		"status":  corev1.ConditionFalse,
		"reason":  v.reason,
		"message": v.message,
	}
	if generation := podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled); generation > 0 {
		condition["observedGeneration"] = generation
	}
	if _, last := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); last == nil || last.Status != corev1.ConditionFalse {
		condition["lastTransitionTime"] = metav1.NewTime(r.store.clock.Now())
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// isScout says whether a member stands for its gang in the scheduling queue.
func (s *Store) isScout(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, _ := s.find(uid)
	return g != nil && g.scout == uid
}

// announce makes the one event of a verdict.
func (r *reporter) announce(key Key, report *report) {
	r.events.Event(report.group, corev1.EventTypeWarning, unschedulableEvent, report.verdict.message)
	r.store.announced(key, report.verdict)
}

// reference is the PodGroup of a gang, as events name it.
func reference(g *group) *corev1.ObjectReference {
	version := schedulingv1beta1.SchemeGroupVersion
	if g.key.Foreign {
		version = schedulingx.SchemeGroupVersion
	}
	return &corev1.ObjectReference{
		APIVersion: version.String(), Kind: "PodGroup", Namespace: g.key.Namespace, Name: g.key.Name, UID: g.uid,
	}
}
