package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"

	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

const (
	// answerTime is how long a command waits for muster-controller to execute what it asks for.
	answerTime = 5 * time.Second
	// askAgain is how long it pauses between two looks.
	askAgain = 100 * time.Millisecond
)

// errNoAnswer says that a Command is still there.
var errNoAnswer = errors.New("muster-controller has not answered yet")

// Asked is a Command that was created.
type Asked struct {
	clients *Clients
	command *busv1alpha1.Command
}

// JobAfter waits for the answer to a Command for a Job, and says in which phase the Job is then.
func (a *Asked) JobAfter(ctx context.Context) (string, error) {
	if err := a.awaitExecution(ctx); err != nil {
		return "", err
	}
	job, err := a.clients.Muster.BatchV1alpha1().Jobs(a.clients.Namespace).Get(ctx, a.command.TargetObject.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(job.Status.State.Phase), nil
}

// QueueAfter waits for the answer to a Command for a queue, and says in which state the queue is then. It is an error if the queue has not
// obeyed.
func (a *Asked) QueueAfter(ctx context.Context) (string, error) {
	if err := a.awaitExecution(ctx); err != nil {
		return "", err
	}
	name := a.command.TargetObject.Name
	queue, err := a.clients.Muster.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	state := queue.Status.State
	isOpen := state == schedulingv1beta1.QueueStateOpen
	if isOpen == (a.command.Action == string(busv1alpha1.OpenQueueAction)) {
		return string(state), nil
	}
	return "", fmt.Errorf("queue %s stays %s: %s", name, state, a.refusal(ctx))
}

// awaitExecution waits until the Command is gone: it is deleted when it has been executed.
func (a *Asked) awaitExecution(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, askAgain, answerTime, true, func(ctx context.Context) (bool, error) {
		_, err := a.clients.Muster.BusV1alpha1().Commands(a.command.Namespace).Get(ctx, a.command.Name, metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return false, errNoAnswer // the user may create Commands, and not read them
		}
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return errNoAnswer
	}
	return err
}

// refusal is what muster-controller says of the Command in an event. The event may come a moment after the Command was deleted.
func (a *Asked) refusal(ctx context.Context) string {
	said := fmt.Sprintf("see muster explain queue %s", a.command.TargetObject.Name)
	about := fields.Set{"involvedObject.uid": string(a.command.TargetObject.UID), "type": corev1.EventTypeWarning, "reason": a.command.Action}
	_ = wait.PollUntilContextTimeout(ctx, askAgain, answerTime, true, func(ctx context.Context) (bool, error) { // without an event, see the page
		events, err := a.clients.Kube.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
		if err != nil {
			return false, err
		}
		if len(events.Items) == 0 {
			return false, nil
		}
		said = events.Items[len(events.Items)-1].Message
		return true, nil
	})
	return said
}

// Outcome says in words what came of a Command. That nothing is known yet is no error.
func Outcome(state string, err error) (string, error) {
	if errors.Is(err, errNoAnswer) {
		return errNoAnswer.Error(), nil
	}
	return "it is " + state + " now", err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
