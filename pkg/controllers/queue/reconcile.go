package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Sync reconciles one queue: it exists if it must, has a parent, obeys its Commands and follows its parent. Its status says what is in it.
func (c *Controller) Sync(ctx context.Context, name string) (time.Duration, error) {
	if name == everyQueue {
		return sharesPeriod, c.lookAtAll()
	}
	fresh, executed := c.commandsFor(name)
	if err := c.discard(ctx, executed); err != nil {
		return 0, err
	}
	queue, err := c.find(ctx, name, len(fresh) > 0)
	if err != nil {
		return 0, err
	}
	if queue == nil {
		return 0, c.discard(ctx, fresh)
	}
	err = c.reconcile(ctx, queue, fresh)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		c.written.Forget(name)
	}
	if apierrors.IsNotFound(err) {
		return 0, nil // it has just been deleted, which brings it back here
	}
	if err != nil {
		return 0, err
	}
	c.markExecuted(name, fresh)
	return 0, c.discard(ctx, fresh)
}

func (c *Controller) reconcile(ctx context.Context, queue *schedulingv1beta1.Queue, commands []*busv1alpha1.Command) error {
	status := queue.Status.DeepCopy()
	busy := countPhases(status, c.usage.PodGroups(queue.Name))
	c.setAmounts(status, queue.Name)
	c.setJobs(status, queue.Name)

	before := facts{
		state:          queue.Status.State,
		closedByParent: queue.Annotations[schedulingv1beta1.ClosedByParentAnnotation] == "true",
		root:           queue.Name == schedulingv1beta1.RootQueue,
		parentShut:     c.parentShut(queue),
		busy:           busy,
		parent:         c.hasChildren(queue.Name),
	}
	obeyed, toEmit := obey(before, queue, commands)
	toEmit = append(toEmit, c.sayIfValid(status, queue)...)
	after := obeyed.follow()
	status.State = after.state

	if err := c.write(ctx, queue, status, after); err != nil {
		return err
	}
	for _, n := range toEmit {
		c.recorder.Event(queue, n.kind, n.reason, n.message)
	}
	return nil
}

// find is the last known state of a queue. It is made anew if it must exist and does not; nil if there is none. commanded says that there
// are Commands for it, which may be seen before the queue itself is.
func (c *Controller) find(ctx context.Context, name string, commanded bool) (*schedulingv1beta1.Queue, error) {
	queue, err := c.queues.Get(name)
	if err == nil {
		return c.written.Latest(name, queue), nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting queue %s: %w", name, err)
	}
	c.written.Forget(name)
	if wanted := builtIn(name); wanted != nil {
		return c.create(ctx, wanted)
	}
	if !commanded {
		return nil, nil
	}
	queue, err = c.client.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting queue %s: %w", name, err)
	}
	return queue, nil
}

// create makes a queue, or finds that another client has made it.
func (c *Controller) create(ctx context.Context, wanted *schedulingv1beta1.Queue) (*schedulingv1beta1.Queue, error) {
	queue, err := c.client.SchedulingV1beta1().Queues().Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		queue, err = c.client.SchedulingV1beta1().Queues().Get(ctx, wanted.Name, metav1.GetOptions{})
	} else if err == nil {
		klog.FromContext(ctx).Info("Created queue", "queue", klog.KObj(queue))
	}
	if err != nil {
		return nil, fmt.Errorf("creating queue %s: %w", wanted.Name, err)
	}
	return queue, nil
}

// builtIn is the queue of a name that always exists; nil for other names.
func builtIn(name string) *schedulingv1beta1.Queue {
	queue := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: schedulingv1beta1.QueueSpec{Weight: 1}}
	switch name {
	case schedulingv1beta1.RootQueue:
		queue.Labels = map[string]string{schedulingv1beta1.TakesNoJobsLabel: schedulingv1beta1.TakesNoJobsParent}
		queue.Spec.Reclaimable = ptr.To(false)
	case schedulingv1beta1.DefaultQueue:
		queue.Spec.Reclaimable = ptr.To(true)
		queue.Spec.Parent = schedulingv1beta1.RootQueue
	default:
		return nil
	}
	return queue
}

// parentShut says whether the parent of a queue takes no work. A parent that does not exist does not close anything.
func (c *Controller) parentShut(queue *schedulingv1beta1.Queue) bool {
	name := queue.ParentName()
	parent, err := c.queues.Get(name)
	if name == "" || err != nil {
		return false
	}
	return c.written.Latest(name, parent).Status.State.IsShut()
}

// hasChildren says whether a queue is the parent of others.
func (c *Controller) hasChildren(name string) bool {
	children, _ := c.children.ByIndex(childrenIndex, name) // fails only for an unknown index
	return len(children) > 0
}

// write writes the changes of status and metadata. The closed-by-parent mark is set before the state changes and removed afterwards. A
// crash in between leaves a queue that closes, or opens, at the next sync.
func (c *Controller) write(ctx context.Context, queue *schedulingv1beta1.Queue, status *schedulingv1beta1.QueueStatus, after facts) (err error) {
	if after.closedByParent {
		if queue, err = c.writeMeta(ctx, queue, after); err != nil {
			return err
		}
		_, err = c.writeStatus(ctx, queue, status)
		return err
	}
	if queue, err = c.writeStatus(ctx, queue, status); err != nil {
		return err
	}
	_, err = c.writeMeta(ctx, queue, after)
	return err
}

// writeMeta sets the parent of a queue that has none, and the mark. It labels a queue that takes no Jobs.
func (c *Controller) writeMeta(ctx context.Context, queue *schedulingv1beta1.Queue, after facts) (*schedulingv1beta1.Queue, error) {
	patch, metadata := map[string]any{}, map[string]any{}
	if queue.Spec.Parent == "" && queue.ParentName() != "" {
		patch["spec"] = map[string]any{"parent": queue.ParentName()}
	}
	mark, marked := queue.Annotations[schedulingv1beta1.ClosedByParentAnnotation]
	if want := strconv.FormatBool(after.closedByParent); mark != want && (marked || after.closedByParent) {
		metadata["annotations"] = map[string]any{schedulingv1beta1.ClosedByParentAnnotation: want}
	}
	label, labelled := queue.Labels[schedulingv1beta1.TakesNoJobsLabel]
	switch want := after.takesNoJobs(); {
	case want == "" && labelled:
		metadata["labels"] = map[string]any{schedulingv1beta1.TakesNoJobsLabel: nil}
	case want != label:
		metadata["labels"] = map[string]any{schedulingv1beta1.TakesNoJobsLabel: want}
	}
	if len(patch)+len(metadata) == 0 {
		return queue, nil
	}
	metadata["resourceVersion"] = queue.ResourceVersion // so that no parent is overwritten that a user has set meanwhile
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of queue %s: %w", queue.Name, err)
	}
	updated, err := c.client.SchedulingV1beta1().Queues().Patch(ctx, queue.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("patching queue %s: %w", queue.Name, err)
	}
	c.written.Put(queue.Name, updated)
	return updated, nil
}

// writeStatus writes the status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, queue *schedulingv1beta1.Queue, status *schedulingv1beta1.QueueStatus) (*schedulingv1beta1.Queue, error) {
	if apiequality.Semantic.DeepEqual(&queue.Status, status) {
		return queue, nil
	}
	update := queue.DeepCopy()
	update.Status = *status
	updated, err := c.client.SchedulingV1beta1().Queues().UpdateStatus(ctx, update, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing the status of queue %s: %w", queue.Name, err)
	}
	c.written.Put(queue.Name, updated)
	if queue.Status.State != status.State {
		klog.FromContext(ctx).V(2).Info("Queue changed state", "queue", klog.KObj(queue),
			"from", queue.Status.State, "to", status.State)
	}
	return updated, nil
}
