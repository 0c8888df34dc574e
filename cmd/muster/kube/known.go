package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// phases are all phases of Jobs.
var phases = []string{
	string(batchv1alpha1.Pending), string(batchv1alpha1.Running), string(batchv1alpha1.Restarting), string(batchv1alpha1.Aborting),
	string(batchv1alpha1.Aborted), string(batchv1alpha1.Completing), string(batchv1alpha1.Completed), string(batchv1alpha1.Terminating),
	string(batchv1alpha1.Terminated), string(batchv1alpha1.Failed),
}

// Phase is a phase of Jobs as the API writes it; "" stays "".
func Phase(written string) (string, error) {
	if written == "" {
		return "", nil
	}
	at := slices.IndexFunc(phases, func(phase string) bool { return strings.EqualFold(phase, written) })
	if at < 0 {
		return "", fmt.Errorf("--phase %s: a Job is never in such a phase; it is one of %s", written, strings.Join(phases, ", "))
	}
	return phases[at], nil
}

// Phases returns all phases of Jobs, for completion by the shell.
func Phases() []string { return slices.Clone(phases) }

// QueueExists is an error if there is no queue of the name. It is none where the user may not know.
func (c *Clients) QueueExists(ctx context.Context, name string) error {
	_, err := c.Muster.SchedulingV1beta1().Queues().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// JobExists is an error if there is no Job of the name in the namespace. It is none where the user may not know.
func (c *Clients) JobExists(ctx context.Context, name string) error {
	_, err := c.Muster.BatchV1alpha1().Jobs(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
