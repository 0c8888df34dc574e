package phjob

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/phjob"
)

// act does what the status of a PhJob announces: it removes the rest of earlier tries and makes the PodGroup. It makes the pod once the
// PhJob has its quota. It returns why no pod can be made, if that turns out now.
func (c *Controller) act(ctx context.Context, job *primehubv1alpha1.PhJob, s *sight) (*phjob.Refusal, error) {
	if err := c.deleteEarlierPods(ctx, job); err != nil {
		return nil, err
	}
	if phjob.PodGroupName(job) != phjob.PodGroupName(s.Job) {
		return nil, nil // the change of its status brings the PhJob back here
	}
	// The PodGroup of an earlier try holds its quota until the next one stands in the queue. Otherwise later ones would pass it.
	if s.group != nil {
		if err := c.deleteGroups(ctx, job, s.group.Name); err != nil {
			return nil, err
		}
	}
	if s.order == nil || s.Refused != nil {
		return nil, nil
	}
	if refused, err := c.ensureGroup(ctx, s); refused != nil || err != nil {
		return refused, err
	}
	if job.Status.Phase != primehubv1alpha1.PhJobPreparing || s.Pod != nil {
		return nil, nil
	}
	return c.createPod(ctx, job, s.order)
}

// deleteEarlierPods deletes the pods that are not of the try that a PhJob is at.
func (c *Controller) deleteEarlierPods(ctx context.Context, job *primehubv1alpha1.PhJob) error {
	for _, pod := range c.podsOf(job) {
		if isOfTry(job, pod) {
			continue
		}
		if err := c.deletePod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// deleteGroups deletes the PodGroups of a PhJob, but for one.
func (c *Controller) deleteGroups(ctx context.Context, job *primehubv1alpha1.PhJob, kept string) error {
	for _, group := range c.groupsOf(job) {
		if group.Name == kept || group.DeletionTimestamp != nil {
			continue
		}
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(group.UID))}
		err := c.muster.SchedulingV1beta1().PodGroups(group.Namespace).Delete(ctx, group.Name, options)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting PodGroup %s: %w", group.Name, err)
		}
	}
	return nil
}

// deletePod deletes a pod. On a node that does not answer nothing could tell that it has ended: there it goes at once.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if c.isOnLostNode(pod) {
		options.GracePeriodSeconds = ptr.To[int64](0)
	} else if pod.DeletionTimestamp != nil {
		return nil
	}
	err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}

// ensureGroup makes the PodGroup with which a PhJob waits, or moves it to another Queue as long as it waits.
func (c *Controller) ensureGroup(ctx context.Context, s *sight) (*phjob.Refusal, error) {
	switch {
	case s.group == nil:
		return c.createGroup(ctx, s)
	case s.Admitted || s.group.Spec.Queue == s.wanted.Spec.Queue:
		return nil, nil
	}
	moved := s.group.DeepCopy()
	moved.Spec.Queue = s.wanted.Spec.Queue
	if _, err := c.muster.SchedulingV1beta1().PodGroups(moved.Namespace).Update(ctx, moved, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("moving the PodGroup to queue %q: %w", moved.Spec.Queue, err)
	}
	return nil, nil
}

// createGroup makes the PodGroup with which a PhJob waits.
func (c *Controller) createGroup(ctx context.Context, s *sight) (*phjob.Refusal, error) {
	groups := c.muster.SchedulingV1beta1().PodGroups(s.wanted.Namespace)
	_, err := groups.Create(ctx, s.wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return refusal("PodGroup", err)
	}
	existing, err := groups.Get(ctx, s.wanted.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking at the PodGroup: %w", err)
	case !metav1.IsControlledBy(existing, s.Job):
		return phjob.CannotCreate(fmt.Errorf("PodGroup %s exists and belongs to something else: delete it, and create another PhJob", existing.Name)), nil
	}
	return nil, nil
}

// createPod makes the pod.
func (c *Controller) createPod(ctx context.Context, job *primehubv1alpha1.PhJob, order *phjob.Order) (*phjob.Refusal, error) {
	pod, err := phjob.Pod(job, order)
	if err != nil {
		return phjob.CannotCreate(err), nil
	}
	pods := c.kube.CoreV1().Pods(job.Namespace)
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return refusal("pod", err)
	}
	existing, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("pod %s was in the way and is gone now", pod.Name)
	case err != nil:
		return nil, fmt.Errorf("looking at the pod: %w", err)
	case !metav1.IsControlledBy(existing, job):
		return phjob.CannotCreate(fmt.Errorf("pod %s exists and belongs to something else: create a PhJob of another name", pod.Name)), nil
	case isOfTry(job, existing):
		return nil, nil // the informer is about to show it
	}
	return nil, c.deletePod(ctx, existing) // when it is gone the PhJob comes back here
}

// refusal tells what the API server refuses for good from what may be better later.
func refusal(what string, err error) (*phjob.Refusal, error) {
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !isPassing(err):
		return phjob.CannotCreate(fmt.Errorf("the API server refuses the %s: %w", what, err)), nil
	}
	return nil, fmt.Errorf("creating the %s: %w", what, err)
}

// isPassing tells whether a refusal is one that ends by itself: the refusal of a ResourceQuota, or a new namespace.
func isPassing(err error) bool {
	return strings.Contains(err.Error(), "exceeded quota") || strings.Contains(err.Error(), "error looking up service account")
}
