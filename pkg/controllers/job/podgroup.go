package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/dependency"
)

// newGroup builds the Job's PodGroup. The Job has its defaults filled in, and its spec is the one for its gang.
func newGroup(job *batchv1alpha1.Job, priorityOf priorityFunc, added additions) *schedulingv1beta1.PodGroup {
	annotations := maps.Clone(job.Annotations)
	// A copy of the Job's manifest would be wrong for the PodGroup.
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name:            batchv1alpha1.PodGroupName(job),
			Namespace:       job.Namespace,
			Labels:          maps.Clone(job.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: groupSpec(job, priorityOf, added),
	}
}

func groupSpec(job *batchv1alpha1.Job, priorityOf priorityFunc, added additions) schedulingv1beta1.PodGroupSpec {
	perTask := make(map[string]int32, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		perTask[job.Spec.Tasks[i].Name] = *job.Spec.Tasks[i].MinAvailable
	}
	var divided []schedulingv1beta1.SubGroupPolicySpec
	for i := range job.Spec.Tasks {
		if task := &job.Spec.Tasks[i]; task.PartitionPolicy != nil {
			divided = append(divided, subGroups(task))
		}
	}
	needs := minResources(&job.Spec, priorityOf, added)
	return schedulingv1beta1.PodGroupSpec{
		MinMember:         job.Spec.MinAvailable,
		MinTaskMember:     perTask,
		Queue:             job.Spec.Queue,
		PriorityClassName: groupClass(job, priorityOf),
		MinResources:      &needs,
		SubGroupPolicy:    divided,
	}
}

// groupClass is the priority class of the Job's PodGroup: the Job's own. If each template names a lower class, it is the highest of these. No pod
// has the Job's class then, and the API server judges the classes of pods only.
func groupClass(job *batchv1alpha1.Job, priorityOf priorityFunc) string {
	own, highest := job.Spec.PriorityClassName, ""
	for i := range job.Spec.Tasks {
		class := job.Spec.Tasks[i].Template.Spec.PriorityClassName
		if own == "" || class == "" || priorityOf(class) >= priorityOf(own) {
			return own
		}
		if highest == "" || priorityOf(class) > priorityOf(highest) {
			highest = class
		}
	}
	return cmp.Or(highest, own)
}

// subGroups expresses the partitions of a task as subgroups of a PodGroup.
func subGroups(task *batchv1alpha1.TaskSpec) schedulingv1beta1.SubGroupPolicySpec {
	size, least := task.PartitionPolicy.PartitionSize, task.PartitionPolicy.MinPartitions
	return schedulingv1beta1.SubGroupPolicySpec{
		Name:           task.Name,
		SubGroupSize:   &size,
		MinSubGroups:   &least,
		LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{batchv1alpha1.TaskSpecKey: task.Name}},
		MatchLabelKeys: []string{batchv1alpha1.PartitionIDKey},
	}
}

// isAdmitted says whether the PodGroup's queue has admitted it, so that its pods may be created.
func isAdmitted(group *schedulingv1beta1.PodGroup) bool {
	return group != nil && group.Status.Phase.Admitted()
}

// ensureGroup creates the Job's PodGroup, or updates it if it differs. It requests room for the tasks that may run now, and for more with
// each stage; it requests less when pods are lost and other pods wait. While no pod waits, it is not written for each pod that fails.
func (c *Controller) ensureGroup(
	ctx context.Context, whole *batchv1alpha1.Job, p *plan, group *schedulingv1beta1.PodGroup,
) (*schedulingv1beta1.PodGroup, error) {
	job := gangOf(whole, p.stage)
	groups := c.muster.SchedulingV1beta1().PodGroups(job.Namespace)
	if group == nil {
		created, err := groups.Create(ctx, newGroup(job, c.priorityOf, c.additionsIn(job.Namespace)), metav1.CreateOptions{})
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
	if !p.members.someWait(p.stage) && apiequality.Semantic.DeepEqual(c.wantedSpec(gangOf(whole, p.stage.Whole()), group), group.Spec) {
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

// gangOf is the Job in the form for its gang in a stage.
func gangOf(job *batchv1alpha1.Job, stage dependency.Stage) *batchv1alpha1.Job {
	part := *job
	part.Spec = *stage.Gang(&job.Spec)
	return &part
}

// wantedSpec is the wanted spec of the Job's PodGroup. Additions by other clients for tasks and topology stay.
func (c *Controller) wantedSpec(job *batchv1alpha1.Job, group *schedulingv1beta1.PodGroup) schedulingv1beta1.PodGroupSpec {
	wanted := groupSpec(job, c.priorityOf, c.additionsIn(job.Namespace))
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

// priorityFunc returns the value of a PriorityClass; 0 if there is none. For "" it returns the priority of pods that name no class.
type priorityFunc func(className string) int32

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
