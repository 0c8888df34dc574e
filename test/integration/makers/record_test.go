package makers_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/test/integration/harness"
)

// The labels of the pods of a cell. The cell sets them, so the record need not know how the product finds a pod's queue or gang.
const (
	queueLabel    = "makers/queue"
	instanceLabel = "makers/instance"
)

// otherQueue ends the name of a cell's second queue.
const otherQueue = ".b"

// record has what the API server says, for each cell.
type record struct {
	mu    sync.Mutex
	cells map[string]*cellRecord // by namespace
}

// cellRecord is the part of a record that one cell reads.
type cellRecord struct {
	changed chan struct{} // closed and replaced with every change
	pods    map[types.UID]*corev1.Pod
	groups  map[string]*schedulingv1beta1.PodGroup
	queues  map[string]*schedulingv1beta1.Queue

	// capability is how much the bound pods of a queue may request, as its test says. A queue that is not there has none.
	capability map[string]int64
	// mayGo are pods whose end the cell has asked for, and all of them if it says so.
	mayGo    map[types.UID]bool
	allMayGo bool
	faults   []string
}

func startRecord(ctx context.Context, env *harness.Env) (*record, error) {
	r := &record{cells: map[string]*cellRecord{}}
	err := harness.Follow(ctx, env,
		follow(func(c *cellRecord, pod *corev1.Pod) { c.see(pod) }, func(c *cellRecord, pod *corev1.Pod) { c.seeGone(pod) }, r),
		follow(
			func(c *cellRecord, group *schedulingv1beta1.PodGroup) { c.groups[group.Name] = group },
			func(c *cellRecord, group *schedulingv1beta1.PodGroup) { delete(c.groups, group.Name) }, r),
		follow(
			func(c *cellRecord, queue *schedulingv1beta1.Queue) { c.queues[queue.Name] = queue },
			func(c *cellRecord, queue *schedulingv1beta1.Queue) { delete(c.queues, queue.Name) }, r))
	return r, err
}

// follow makes handlers that tell the cell of an object's namespace. Queues have the name of their cell's namespace.
func follow[T metav1.Object](seen, gone func(*cellRecord, T), r *record) cache.ResourceEventHandler {
	tell := func(object T, change func(*cellRecord, T)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = strings.TrimSuffix(object.GetName(), otherQueue)
		}
		if c := r.cells[namespace]; c != nil {
			change(c, object)
			close(c.changed)
			c.changed = make(chan struct{})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { tell(object.(T), seen) },
		UpdateFunc: func(old, object any) {
			if old.(T).GetUID() != object.(T).GetUID() {
				tell(old.(T), gone)
			}
			tell(object.(T), seen)
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			tell(object.(T), gone)
		},
	}
}

// open begins the record of a cell.
func (r *record) open(namespace string) *cellRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &cellRecord{
		changed: make(chan struct{}),
		pods:    map[types.UID]*corev1.Pod{}, groups: map[string]*schedulingv1beta1.PodGroup{}, queues: map[string]*schedulingv1beta1.Queue{},
		capability: map[string]int64{}, mayGo: map[types.UID]bool{},
	}
	r.cells[namespace] = c
	return c
}

// ask runs a question, or a change of what the cell expects.
func (r *record) ask(question func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	question()
}

// breath is how long changes are gathered before a cell is asked again.
const breath = 20 * time.Millisecond

// wait returns when met is true, or with the context's error. It calls met soon after every change.
func (r *record) wait(ctx context.Context, c *cellRecord, met func() bool) error {
	for {
		var changed chan struct{}
		var isMet bool
		r.ask(func() { changed, isMet = c.changed, met() })
		if isMet {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(breath):
		}
	}
}

// see takes in a state of a pod, and judges it.
func (c *cellRecord) see(pod *corev1.Pod) {
	before := c.pods[pod.UID]
	c.pods[pod.UID] = pod
	if isBound(pod) && (before == nil || !isBound(before)) {
		c.judgeBinding(pod)
	}
	if isEvicted(pod) && (before == nil || !isEvicted(before)) {
		c.judgeEnd(pod, "is evicted")
	}
}

func (c *cellRecord) seeGone(pod *corev1.Pod) {
	delete(c.pods, pod.UID)
	if !isEvicted(pod) && !isFinished(pod) {
		c.judgeEnd(pod, "is removed")
	}
}

// judgeBinding adds a fault if the queue of a pod has no room for it. A pod that is bound while others have their end before them counts, too.
func (c *cellRecord) judgeBinding(pod *corev1.Pod) {
	queue := pod.Labels[queueLabel]
	if used := c.used(queue); used > c.capability[queue] {
		c.faults = append(c.faults, fmt.Sprintf("overshoot: with pod %s the bound pods of queue %s request %d, its capability is %d",
			pod.Name, queue, used, c.capability[queue]))
	}
}

func (c *cellRecord) judgeEnd(pod *corev1.Pod, how string) {
	if c.allMayGo || c.mayGo[pod.UID] {
		return
	}
	text := ""
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget {
			text = ": " + condition.Reason + ": " + condition.Message
		}
	}
	c.faults = append(c.faults, fmt.Sprintf("eviction: pod %s %s, and nothing asked for it%s", pod.Name, how, text))
}

// used is what the bound, unfinished pods of a queue request.
func (c *cellRecord) used(queue string) int64 {
	var sum int64
	for _, pod := range c.pods {
		if pod.Labels[queueLabel] == queue && isBound(pod) && !isFinished(pod) {
			sum += requested(pod)
		}
	}
	return sum
}

// requested is the amount of the one resource that a pod of a cell asks for.
func requested(pod *corev1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if amount, ok := requests[ascend]; ok {
		return amount.Value()
	}
	return requests.Cpu().Value()
}

func isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isEvicted says whether the end of a pod has been asked for before it had finished.
func isEvicted(pod *corev1.Pod) bool {
	if isFinished(pod) {
		return false
	}
	if pod.DeletionTimestamp != nil {
		return true
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
