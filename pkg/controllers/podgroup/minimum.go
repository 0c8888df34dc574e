package podgroup

import (
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
)

// minimumOf is what the minimum of a PodGroup takes: what its minResources say, or what its members ask for if that is more. The template
// of a pod does not have the defaults of a LimitRange, the overhead of a RuntimeClass and the sidecars that admission adds; the first pod of
// a task shows them.
func minimumOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) resources.List {
	want := usage.MinimumOf(group)
	for name, amount := range askedFor(minimumOfTasks(&group.Spec), pods) {
		want[name] = max(want[name], amount)
	}
	return want
}

// minimumOfTasks is how many pods of each task the minimum has; all are of task "" if the minimums of the tasks do not make up the whole.
func minimumOfTasks(spec *schedulingv1beta1.PodGroupSpec) map[string]int32 {
	sum := int64(0)
	for _, n := range spec.MinTaskMember {
		sum += int64(n)
	}
	if sum != int64(spec.MinMember) {
		return map[string]int32{"": spec.MinMember}
	}
	return spec.MinTaskMember
}

// askedFor is what so many pods of each task ask for, as their members show. Of a task whose members differ, what all of them ask for counts;
// one without members asks for nothing.
func askedFor(tasks map[string]int32, pods []*corev1.Pod) resources.List {
	each := map[string]resources.List{}
	_, undivided := tasks[""]
	for _, pod := range pods {
		task := pod.Annotations[batchv1alpha1.TaskSpecKey]
		if undivided {
			task = ""
		}
		if tasks[task] == 0 || pod.DeletionTimestamp != nil {
			continue
		}
		requests := resources.PodRequests(pod)
		common, known := each[task]
		if !known {
			each[task] = requests
			continue
		}
		for name, amount := range common {
			common[name] = min(amount, requests[name])
		}
	}
	sum := resources.List{}
	for task, requests := range each {
		sum.Add(requests.Scale(int64(tasks[task])))
	}
	return sum
}
