package queue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
)

const (
	// everyQueue is the key under which the terms of all queues are settled. No queue has this name.
	everyQueue = "*"
	// invalidEvent is the reason of the event that reports a fault.
	invalidEvent = "Invalid"
)

// settled is the valid part of a queue, and its state when that was computed.
type settled struct {
	quota.Settled
	uid        types.UID
	generation int64
}

// lookAtAll computes which terms of all queues count, and every sharesPeriod their shares. A queue whose status is out of date by that is
// synced next.
func (c *Controller) lookAtAll() error {
	cached, err := c.queues.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing queues: %w", err)
	}
	queues := make([]*schedulingv1beta1.Queue, 0, len(cached))
	for _, queue := range cached {
		queues = append(queues, c.written.Latest(queue.Name, queue))
	}
	c.settled = make(map[string]settled, len(queues))
	terms := ledger.Settle(queues)
	now := c.clock.Now()
	isDue := now.Sub(c.sharedAt) >= sharesPeriod
	if isDue {
		c.shares, c.sharedAt = c.shareOut(), now
	}
	for _, queue := range queues {
		c.settled[queue.Name] = settled{terms[queue.Name], queue.UID, queue.Generation}
		next := queue.Status.DeepCopy()
		if isDue {
			c.setAmounts(next, queue.Name)
			c.setJobs(next, queue.Name)
		}
		c.sayIfValid(next, queue)
		if !apiequality.Semantic.DeepEqual(next, &queue.Status) {
			c.worker.Enqueue(queue.Name)
		}
	}
	return nil
}

// sayIfValid writes to a status whether the terms of the queue count, and which counted last. It returns an event if there is a new fault. A
// queue that has changed since all were settled is about to be settled again.
func (c *Controller) sayIfValid(status *schedulingv1beta1.QueueStatus, queue *schedulingv1beta1.Queue) []queueEvent {
	s, known := c.settled[queue.Name]
	if !known || s.uid != queue.UID || s.generation != queue.Generation {
		return nil
	}
	condition := metav1.Condition{Type: schedulingv1beta1.QueueValidCondition, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: queue.Generation}
	fault := s.Fault
	if _, err := admission.OvercommitFactor(queue); err != nil && fault == nil {
		fault = &quota.Fault{Reason: "InvalidAnnotation", Message: err.Error() + ". Until then it is ignored."}
	}
	if fault != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, fault.Reason, fault.Message
	}
	if s.Fault == nil {
		spec := queue.Spec.DeepCopy()
		extension(status).LastValid = &schedulingv1beta1.QueueTerms{
			Parent: queue.ParentName(), Guarantee: spec.Guarantee.Resource, Deserved: spec.Deserved, Capability: spec.Capability,
		}
	}
	last := meta.FindStatusCondition(status.Conditions, condition.Type)
	isNew := last == nil || last.Status != condition.Status || last.Message != condition.Message
	meta.SetStatusCondition(&status.Conditions, condition)
	if fault != nil && isNew {
		return []queueEvent{{corev1.EventTypeWarning, invalidEvent, fault.Message}}
	}
	return nil
}
