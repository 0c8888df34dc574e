// Package report tells users why gangs wait. Every waiting member gets the condition PodScheduled, and the PodGroup and the first waiting pod
// one event. It works beside the scheduling loop, and a report never has anything scheduled or decided.
package report

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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

const (
	// qps and burst bound the reporter's requests to the API server, which must bind pods first.
	qps, burst = 100, 100
	// batch is how many members of one gang are written before other gangs have their turn.
	batch = 100
	// retryAfter is when a report is repeated because another writer was faster, or because it failed.
	retryAfter = time.Second
	// failedScheduling is the reason of the event on a pod. kube-scheduler uses it.
	failedScheduling = "FailedScheduling"
	// unschedulable is the reason of the event on the PodGroup. Volcano's clients know it.
	unschedulable = "Unschedulable"
	// component is the source of the events.
	component = "muster-scheduler"
)

// Tracker is what the reporter asks.
type Tracker interface {
	// Leads says whether this process may write.
	Leads() bool
	// TakeReport says why a gang waits.
	TakeReport(key state.Key) Waiting
	// WaitingPods are the pods of a gang that wait.
	WaitingPods(key state.Key) []*corev1.Pod
	// StillWaits says whether an explanation still holds for a member.
	StillWaits(key state.Key, member types.UID, e Explanation) bool
	// Reported counts a condition that was written.
	Reported(reason string)
}

// Reporter writes reports.
type Reporter struct {
	tracker Tracker
	clock   clock.Clock
	client  kubernetes.Interface
	pods    corelisters.PodLister
	events  record.EventRecorder
	limiter flowcontrol.RateLimiter
	gangs   map[state.Key]*history
	waiting int // reported pods in waiting gangs
}

// Run reports for the gangs of a tracker until the context ends.
func Run(ctx context.Context, handle fwk.Handle, tracker *gangs.Tracker) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	client := handle.ClientSet()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	reports := NewReports(tracker)
	r := New(reports, clock.RealClock{}, client, handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}))
	queue := reports.Queue()
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if again := r.Look(ctx, key); again > 0 {
			queue.AddAfter(key, again)
		}
		queue.Done(key)
	}
}

// New makes a reporter. It is used by one goroutine.
func New(tracker Tracker, c clock.Clock, client kubernetes.Interface, pods corelisters.PodLister, events record.EventRecorder) *Reporter {
	return &Reporter{
		tracker: tracker, clock: c, client: client, pods: pods, events: events,
		limiter: flowcontrol.NewTokenBucketRateLimiter(qps, burst), gangs: map[state.Key]*history{},
	}
}

// Look writes what is to be written for a gang now. It returns when to look again, 0 for when something changes.
func (r *Reporter) Look(ctx context.Context, key state.Key) (again time.Duration) {
	w := r.tracker.TakeReport(key) // also in a standby, or the gang would stay on the list and never be put there again
	if !r.tracker.Leads() {
		return 0 // the process looks at all gangs when it begins to lead
	}
	h := r.gangs[key]
	if h == nil {
		h = &history{}
	}
	r.waiting += w.Count - h.members
	h.members = w.Count
	if w.IsZero() {
		if !w.Attempting {
			delete(r.gangs, key)
		}
		return 0
	}
	r.gangs[key] = h
	now := r.clock.Now()
	if w.Explanation == h.written && w.Version == h.complete {
		return 0
	}
	if wait := h.observe(w, now, r.rewordPause()); wait > 0 {
		return wait
	}
	h.begin(w, now)
	return r.write(ctx, key, h, w)
}

// write brings the conditions of all waiting members up to date, a batch at a time.
func (r *Reporter) write(ctx context.Context, key state.Key, h *history, w Waiting) (again time.Duration) {
	failed, written := false, 0
	for _, waiting := range r.tracker.WaitingPods(key) {
		pod := r.outdated(waiting, w.Explanation)
		switch {
		case pod == nil:
			continue
		case written == batch:
			return time.Millisecond
		case !r.tracker.StillWaits(key, pod.UID, w.Explanation):
			continue // the change brings the gang here again
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return 0 // the context has ended
		}
		switch err := r.patch(ctx, pod, w.Explanation); {
		case err == nil:
			written++
			r.tracker.Reported(w.Reason)
			r.recordEvents(h, w, pod)
		case apierrors.IsConflict(err):
			failed = true // another writer was faster; the next version in the informer is compared anew
		case apierrors.IsNotFound(err): // deleted
		default:
			failed = true
			klog.FromContext(ctx).Error(err, "Reporting why a member waits failed, trying again", "pod", klog.KObj(pod))
		}
	}
	if failed {
		return retryAfter
	}
	h.complete = w.Version
	return 0
}

// outdated returns what the informer knows of a waiting pod if its condition does not carry the explanation yet.
func (r *Reporter) outdated(waiting *corev1.Pod, e Explanation) *corev1.Pod {
	pod, err := r.pods.Pods(waiting.Namespace).Get(waiting.Name)
	if err != nil || pod.UID != waiting.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil
	}
	condition := upstream.PodScheduledCondition(pod)
	if condition != nil && condition.Status == corev1.ConditionFalse && condition.Reason == e.Reason && condition.Message == e.Text() {
		return nil
	}
	return pod
}

// patch writes a condition, unless the pod has changed since it was seen: it may be bound by now.
func (r *Reporter) patch(ctx context.Context, pod *corev1.Pod, e Explanation) error {
	condition := map[string]any{
		"type":    corev1.PodScheduled,
		"status":  corev1.ConditionFalse,
		"reason":  e.Reason,
		"message": e.Text(),
	}
	if generation := upstream.ObservedGeneration(pod); generation > 0 {
		condition["observedGeneration"] = generation
	}
	if last := upstream.PodScheduledCondition(pod); last == nil || last.Status != corev1.ConditionFalse {
		condition["lastTransitionTime"] = metav1.NewTime(r.clock.Now())
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

// recordEvents makes the events of an explanation, once: on the PodGroup and on the first waiting pod.
func (r *Reporter) recordEvents(h *history, w Waiting, pod *corev1.Pod) {
	if !h.eventIsDue {
		return
	}
	h.eventIsDue = false
	r.events.Event(pod, corev1.EventTypeWarning, failedScheduling, w.Text())
	if w.HasPodGroup && saysOnPodGroup(w.Explanation) {
		r.events.Event(w.PodGroup, corev1.EventTypeWarning, unschedulable, w.Text())
	}
}

// saysOnPodGroup says whether the scheduler makes the event on the PodGroup. For the admission the podgroup controller does.
func saysOnPodGroup(e Explanation) bool { return e.Reason != ReasonWaitingForAdmission }
