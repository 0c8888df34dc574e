package queue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/quota"
)

const (
	// everyQueue is the key under which the terms of all queues are settled. No queue has this name.
	everyQueue = "*"
	// invalidEvent is the reason of the event that tells of a fault.
	invalidEvent = "Invalid"
)

// settled is what counts of a queue as it was when that was settled.
type settled struct {
	quota.Settled
	uid        types.UID
	generation int64
}

// settleAll works out which terms of all queues count, and has those looked at whose status does not say so yet.
func (c *Controller) settleAll() error {
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
	for _, queue := range queues {
		c.settled[queue.Name] = settled{terms[queue.Name], queue.UID, queue.Generation}
		next := queue.Status.DeepCopy()
		c.sayIfValid(next, queue)
		if !apiequality.Semantic.DeepEqual(next, &queue.Status) {
			c.worker.Enqueue(queue.Name)
		}
	}
	return nil
}

// sayIfValid writes to a status whether the terms of the queue count, and which counted last. It returns an event if there is a new fault. A
// queue that has changed since all were settled is about to be settled again.
func (c *Controller) sayIfValid(status *schedulingv1beta1.QueueStatus, queue *schedulingv1beta1.Queue) []notice {
	s, known := c.settled[queue.Name]
	if !known || s.uid != queue.UID || s.generation != queue.Generation {
		return nil
	}
	condition := metav1.Condition{Type: schedulingv1beta1.QueueValidCondition, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: queue.Generation}
	if s.Fault != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, s.Fault.Reason, s.Fault.Message
	} else {
		status.Muster = withLastValid(status.Muster, queue)
	}
	last := meta.FindStatusCondition(status.Conditions, condition.Type)
	isNews := last == nil || last.Status != condition.Status || last.Message != condition.Message
	meta.SetStatusCondition(&status.Conditions, condition)
	if s.Fault != nil && isNews {
		return []notice{{corev1.EventTypeWarning, invalidEvent, s.Fault.Message}}
	}
	return nil
}

// withLastValid is an extension of the status that has the terms of a queue as the last valid ones.
func withLastValid(own *schedulingv1beta1.QueueStatusExtension, queue *schedulingv1beta1.Queue) *schedulingv1beta1.QueueStatusExtension {
	if own == nil {
		own = &schedulingv1beta1.QueueStatusExtension{}
	}
	spec := queue.Spec.DeepCopy()
	own.LastValid = &schedulingv1beta1.QueueTerms{
		Parent: parentOf(queue), Guarantee: spec.Guarantee.Resource, Deserved: spec.Deserved, Capability: spec.Capability,
	}
	return own
}
