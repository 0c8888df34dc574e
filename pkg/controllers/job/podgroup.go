package job

import (
	"context"
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/build"
)

// ensureGroup creates the Job's PodGroup, or updates it if it differs. It requests room for the tasks that may run now, and for more with
// each stage. It requests less when pods are lost and other pods wait. While no pod waits, it is not written for each pod that fails.
func (o *objects) ensureGroup(ctx context.Context, t *jobSync) (err error) {
	job := build.GangOf(t.acting, t.p.Stage)
	groups := o.muster.SchedulingV1beta1().PodGroups(job.Namespace)
	verb := "creating"
	if t.s.Group == nil {
		group := build.PodGroup(job, o.defaults.priorityOf, o.defaults.additionsIn(job.Namespace))
		t.group, err = groups.Create(ctx, group, metav1.CreateOptions{})
	} else {
		t.group, verb = t.s.Group, "updating"
		changed := t.group.DeepCopy()
		changed.Spec, changed.Annotations = o.wantedSpec(job, t.group), build.WithEstimate(changed.Annotations, job)
		if apiequality.Semantic.DeepEqual(changed, t.group) || !t.p.Members.SomeWait(t.p.Stage) && maps.Equal(changed.Annotations, t.group.Annotations) &&
			apiequality.Semantic.DeepEqual(o.wantedSpec(build.GangOf(t.acting, t.p.Stage.Whole()), t.group), t.group.Spec) {
			return nil
		}
		t.group, err = groups.Update(ctx, changed, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s PodGroup %s: %w", verb, batchv1alpha1.PodGroupName(job), err)
	}
	o.written.WroteAt(nameOf(job), job.UID, groupResource, t.group.ResourceVersion)
	return nil
}

// wantedSpec is the wanted spec of the Job's PodGroup. Additions by other clients for tasks and topology stay.
func (o *objects) wantedSpec(job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup) schedulingv1beta1.PodGroupSpec {
	wanted := build.GroupSpec(job, o.defaults.priorityOf, o.defaults.additionsIn(job.Namespace))
	wanted.NetworkTopology = group.Spec.NetworkTopology
	if wanted.SubGroupPolicy == nil {
		wanted.SubGroupPolicy = group.Spec.SubGroupPolicy
	}
	return wanted
}

// deleteGroup deletes the PodGroup: a Job that has ended or is aborted holds no place in its queue. The PodGroup is ignored from then on,
// even while it is still seen. It was admitted, and its successor may not be.
func (o *objects) deleteGroup(ctx context.Context, t *jobSync) error {
	group := t.s.Group
	options := metav1.NewPreconditionDeleteOptions(string(group.UID))
	err := o.muster.SchedulingV1beta1().PodGroups(group.Namespace).Delete(ctx, group.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting PodGroup %s: %w", group.Name, err)
	}
	t.local.goneGroup = group.UID
	return nil
}
