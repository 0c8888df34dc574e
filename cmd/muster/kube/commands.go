package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// CommandJob creates a Command for a Job. The message is repeated in the Job's status; it may be empty.
func (c *Clients) CommandJob(ctx context.Context, job *batchv1alpha1.Job, action busv1alpha1.Action, message string) (*Asked, error) {
	return c.command(ctx, metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job")), action, message)
}

// CommandQueue creates a Command for a Queue in the namespace.
func (c *Clients) CommandQueue(ctx context.Context, name string, action busv1alpha1.Action) (*Asked, error) {
	queue, err := c.Muster.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return c.command(ctx, metav1.NewControllerRef(queue, schedulingv1beta1.SchemeGroupVersion.WithKind("Queue")), action, "")
}

// command creates a Command. It belongs to its target, so that it goes when the target goes.
func (c *Clients) command(ctx context.Context, target *metav1.OwnerReference, action busv1alpha1.Action, message string) (*Asked, error) {
	command := &busv1alpha1.Command{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    target.Name + "-" + strings.ToLower(string(action)) + "-",
			OwnerReferences: []metav1.OwnerReference{*target},
		},
		Action: string(action), TargetObject: target, Message: message,
	}
	created, err := c.Muster.BusV1alpha1().Commands(c.Namespace).Create(ctx, command, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w (%s is done with a Command: you need the right to create commands.bus.volcano.sh in namespace %s)", err, action, c.Namespace)
	}
	if err != nil {
		return nil, err
	}
	return &Asked{clients: c, command: created}, nil
}

// EachName does something for each name, and stops at the first error.
func EachName(names []string, do func(name string) error) error {
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}
