package phjob

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/phjob"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// startOf asks when a PhJob would start, by the PodGroup that muster-controller would make for it. The API server has judged the PhJob.
func startOf(ctx context.Context, clients *kube.Clients, job *primehubv1alpha1.PhJob) (*musterv1alpha1.StartReview, error) {
	group, err := groupOf(ctx, clients, job)
	if err != nil {
		return nil, err
	}
	group.TypeMeta = metav1.TypeMeta{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"}
	spec := musterv1alpha1.StartReviewSpec{}
	if spec.PodGroup.Raw, err = json.Marshal(group); err != nil {
		return nil, fmt.Errorf("writing the PodGroup as JSON: %w", err)
	}
	return kube.StartOf(ctx, clients.Muster.MusterV1alpha1().StartReviews(clients.Namespace), job.Name, spec)
}

// groupOf makes the PodGroup with which a PhJob would wait.
func groupOf(ctx context.Context, clients *kube.Clients, job *primehubv1alpha1.PhJob) (*schedulingv1beta1.PodGroup, error) {
	if err := phjob.Validate(&job.Spec); err != nil {
		return nil, err
	}
	listed, err := clients.Muster.SchedulingV1beta1().Queues().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	queues := make([]*schedulingv1beta1.Queue, 0, len(listed.Items))
	for i := range listed.Items {
		queues = append(queues, &listed.Items[i])
	}
	queue, err := phjob.FindQueue(queues, &job.Spec)
	if err != nil {
		return nil, err
	}
	image, err := clients.Muster.PrimehubV1alpha1().Images(clients.Namespace).Get(ctx, job.Spec.Image, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !phjob.IsImageOffered(image, job.Spec.GroupName) {
		return nil, fmt.Errorf("image %s is not offered to group %s: name another", image.Name, job.Spec.GroupName)
	}
	kind, err := clients.Muster.PrimehubV1alpha1().InstanceTypes(clients.Namespace).Get(ctx, job.Spec.InstanceType, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !phjob.IsOffered(kind, job.Spec.GroupName) {
		return nil, fmt.Errorf("instance type %s is not offered to group %s: name another", kind.Name, job.Spec.GroupName)
	}
	limits, err := phjob.Limits(kind)
	if err != nil {
		return nil, err
	}
	return phjob.PodGroup(job, queue.Name, limits), nil
}
