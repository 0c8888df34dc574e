package job

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// ensureGroup creates the Job's PodGroup, or updates it if it differs. It requests room for the tasks that may run now, and for more with
// each stage; it requests less when pods are lost and other pods wait. While no pod waits, it is not written for each pod that fails.
func (c *Controller) ensureGroup(
	ctx context.Context, whole *batchv1alpha1.Job, p *plan.Plan, group *schedulingv1beta1.PodGroup,
) (*schedulingv1beta1.PodGroup, error) {
	job := build.GangOf(whole, p.Stage)
	groups := c.muster.SchedulingV1beta1().PodGroups(job.Namespace)
	if group == nil {
		created, err := groups.Create(ctx, build.PodGroup(job, c.priorityOf, c.additionsIn(job.Namespace)), metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("creating PodGroup %s: %w", batchv1alpha1.PodGroupName(job), err)
		}
		c.written.WroteAt(nameOf(job), job.UID, groupResource, created.ResourceVersion)
		return created, nil
	}
	wanted := c.wantedSpec(job, group)
	if apiequality.Semantic.DeepEqual(wanted, group.Spec) {
		return group, nil
	}
	if !p.Members.SomeWait(p.Stage) && apiequality.Semantic.DeepEqual(c.wantedSpec(build.GangOf(whole, p.Stage.Whole()), group), group.Spec) {
		return group, nil
	}
	changed := group.DeepCopy()
	changed.Spec = wanted
	updated, err := groups.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("updating PodGroup %s: %w", group.Name, err)
	}
	c.written.WroteAt(nameOf(job), job.UID, groupResource, updated.ResourceVersion)
	return updated, nil
}

// wantedSpec is the wanted spec of the Job's PodGroup. Additions by other clients for tasks and topology stay.
func (c *Controller) wantedSpec(job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup) schedulingv1beta1.PodGroupSpec {
	wanted := build.GroupSpec(job, c.priorityOf, c.additionsIn(job.Namespace))
	wanted.NetworkTopology = group.Spec.NetworkTopology
	if wanted.SubGroupPolicy == nil {
		wanted.SubGroupPolicy = group.Spec.SubGroupPolicy
	}
	return wanted
}

// deleteGroup deletes the Job's PodGroup if it has one: a Job that has ended or is aborted holds no place in its queue. It is ignored from
// then on, even while it is still seen: it was admitted, and its successor may not be.
func (c *Controller) deleteGroup(ctx context.Context, job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup, local *localState) error {
	if group == nil || group.DeletionTimestamp != nil {
		return nil
	}
	err := c.muster.SchedulingV1beta1().PodGroups(job.Namespace).Delete(ctx, group.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(group.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting PodGroup %s: %w", group.Name, err)
	}
	local.goneGroup = group.UID
	return nil
}

func (c *Controller) priorityOf(className string) int32 {
	if className == "" {
		return c.globalPriority()
	}
	class, err := c.priorityClasses.Get(className)
	if err != nil {
		// A class that does not exist yet keeps the pods from being created, with a reason; here it only orders.
		return 0
	}
	return class.Value
}

// globalPriority is the priority that the API server gives to pods that name no class: the least of the global defaults.
func (c *Controller) globalPriority() int32 {
	classes, err := c.priorityClasses.List(labels.Everything())
	if err != nil {
		return 0
	}
	var least *int32
	for _, class := range classes {
		if class.GlobalDefault && (least == nil || class.Value < *least) {
			least = &class.Value
		}
	}
	return ptr.Deref(least, 0)
}
