package build

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/dependency"
)

// PodGroup builds the Job's PodGroup. The Job has its defaults filled in, and its spec is the one for its gang.
func PodGroup(job *batchv1alpha1.Job, priorityOf PriorityFunc, added Additions) *schedulingv1beta1.PodGroup {
	annotations := maps.Clone(job.Annotations)
	// A copy of the Job's manifest would be wrong for the PodGroup.
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	annotations = WithEstimate(annotations, job)
	spec := GroupSpec(job, priorityOf, added)
	spec.NetworkTopology = topology(job.Spec.NetworkTopology)
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name:            batchv1alpha1.PodGroupName(job),
			Namespace:       job.Namespace,
			Labels:          maps.Clone(job.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, JobKind)},
		},
		Spec: spec,
	}
}

// WithEstimate returns the annotations of a PodGroup with the estimate that its Job has now. They are changed in place.
func WithEstimate(annotations map[string]string, job *batchv1alpha1.Job) map[string]string {
	text, stated := job.Annotations[schedulingv1beta1.RunningEstimateAnnotation]
	if estimate := job.Spec.RunningEstimate; estimate != nil && estimate.Duration > 0 {
		text, stated = estimate.Duration.String(), true
	}
	if !stated {
		delete(annotations, schedulingv1beta1.RunningEstimateAnnotation)
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[schedulingv1beta1.RunningEstimateAnnotation] = text
	return annotations
}

// GroupSpec builds the spec of the PodGroup, as it is kept. Its networkTopology is set at creation only, as Volcano does. The Job is as for
// PodGroup.
func GroupSpec(job *batchv1alpha1.Job, priorityOf PriorityFunc, added Additions) schedulingv1beta1.PodGroupSpec {
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
func groupClass(job *batchv1alpha1.Job, priorityOf PriorityFunc) string {
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

// subGroups expresses the partitions of a task as subgroups of a PodGroup. A task that may not run yet, or has lost pods, has fewer whole ones.
func subGroups(task *batchv1alpha1.TaskSpec) schedulingv1beta1.SubGroupPolicySpec {
	size, least := task.PartitionPolicy.PartitionSize, task.PartitionPolicy.MinPartitions
	least = min(least, task.Replicas/max(1, size))
	return schedulingv1beta1.SubGroupPolicySpec{
		Name:           task.Name,
		SubGroupSize:   &size,
		MinSubGroups:   &least,
		LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{batchv1alpha1.TaskSpecKey: task.Name}},
		MatchLabelKeys: []string{batchv1alpha1.PartitionIDKey},

		NetworkTopology: topology(task.PartitionPolicy.NetworkTopology),
	}
}

// topology is a constraint of a Job in the words of its PodGroup. The number of a tier counts before its name.
func topology(asked *batchv1alpha1.NetworkTopologySpec) *schedulingv1beta1.NetworkTopologySpec {
	if asked == nil {
		return nil
	}
	t := &schedulingv1beta1.NetworkTopologySpec{Mode: cmp.Or(asked.Mode, schedulingv1beta1.HardNetworkTopologyMode)}
	if asked.HighestTierAllowed != nil {
		t.HighestTierAllowed = asked.HighestTierAllowed
	} else {
		t.HighestTierName = asked.HighestTierName
	}
	return t
}

// GangOf is the Job in the form for its gang in a stage.
func GangOf(job *batchv1alpha1.Job, stage dependency.Stage) *batchv1alpha1.Job {
	part := *job
	part.Spec = *stage.Gang(&job.Spec)
	return &part
}

// PriorityFunc returns the value of a PriorityClass; 0 if there is none. For "" it returns the priority of pods that name no class.
type PriorityFunc func(className string) int32
