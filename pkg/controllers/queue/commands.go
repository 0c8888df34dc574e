package queue

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// targetIndex maps a queue to the Commands that name it.
const targetIndex = "muster-target-queue"

// commandsFor lists the Commands for a queue. These are Commands to execute, oldest first, and executed ones that only remain to be deleted.
func (c *Controller) commandsFor(queue string) (fresh, executed []*busv1alpha1.Command) {
	found, _ := c.commands.ByIndex(targetIndex, queue) // fails only for an unknown index
	remain := sets.New[types.UID]()
	for _, obj := range found {
		command := obj.(*busv1alpha1.Command)
		switch {
		case c.executed[queue].Has(command.UID):
			remain.Insert(command.UID)
			executed = append(executed, command)
		case command.DeletionTimestamp == nil:
			fresh = append(fresh, command)
		}
	}
	c.executed[queue] = remain
	if len(remain) == 0 {
		delete(c.executed, queue)
	}
	slices.SortFunc(fresh, worker.CompareAge)
	return fresh, executed
}

// queueEvent is an event to emit once its change is written.
type queueEvent struct {
	kind, reason, message string
}

// obey applies the Commands to the facts in sequence, and returns the events about them. Applying a Command twice in a row has no further
// effect. That happens after a crash before its deletion.
func obey(f facts, queue *schedulingv1beta1.Queue, commands []*busv1alpha1.Command) (facts, []queueEvent) {
	var toEmit []queueEvent
	refuse := func(reason, message string) {
		toEmit = append(toEmit, queueEvent{corev1.EventTypeWarning, reason, message})
	}
	for _, command := range commands {
		action := busv1alpha1.Action(command.Action)
		switch {
		case command.TargetObject.UID != "" && command.TargetObject.UID != queue.UID:
			refuse(command.Action, fmt.Sprintf("Command %s/%s is for another queue of this name, with UID %s; it was not executed",
				command.Namespace, command.Name, command.TargetObject.UID))
		case action == busv1alpha1.CloseQueueAction && f.root:
			refuse(command.Action, "Failed to close queue root: it cannot be closed.")
		case action == busv1alpha1.CloseQueueAction:
			f = f.close(false)
			toEmit = append(toEmit, queueEvent{corev1.EventTypeNormal, string(action), "Close queue succeed"})
		case action == busv1alpha1.OpenQueueAction && f.parentShut:
			refuse(command.Action, fmt.Sprintf("Failed to open queue %s because its parent queue %s is closing or closed. "+
				"Open the parent queue first.", queue.Name, queue.Spec.Parent))
		case action == busv1alpha1.OpenQueueAction:
			f = f.reopen()
		default:
			refuse("UnknownCommand", fmt.Sprintf("Command %s/%s asks for %q; a queue knows OpenQueue and CloseQueue",
				command.Namespace, command.Name, command.Action))
		}
	}
	return f, toEmit
}

// markExecuted records executed Commands, so that this process does not execute them again when they cannot be deleted. Another process
// would execute them again, all in the same order, with the same outcome.
func (c *Controller) markExecuted(queue string, commands []*busv1alpha1.Command) {
	for _, command := range commands {
		if c.executed[queue] == nil {
			c.executed[queue] = sets.New[types.UID]()
		}
		c.executed[queue].Insert(command.UID)
	}
}

// discard deletes executed Commands.
func (c *Controller) discard(ctx context.Context, commands []*busv1alpha1.Command) error {
	for _, command := range commands {
		err := c.client.BusV1alpha1().Commands(command.Namespace).Delete(ctx, command.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(command.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting executed command %s/%s: %w", command.Namespace, command.Name, err)
		}
	}
	return nil
}

// targetQueue is the queue that a Command is for; false for Commands that are for something else.
func targetQueue(command *busv1alpha1.Command) (name string, ok bool) {
	target := command.TargetObject
	if target == nil || target.Kind != "Queue" {
		return "", false
	}
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return target.Name, err == nil && version.Group == schedulingv1beta1.GroupName
}

func indexByTarget(obj any) ([]string, error) {
	if queue, ok := targetQueue(obj.(*busv1alpha1.Command)); ok {
		return []string{queue}, nil
	}
	return nil, nil
}
