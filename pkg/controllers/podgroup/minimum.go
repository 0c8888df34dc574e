package podgroup

import (
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/resources"
)

// minimumOfTasks is how many pods of each task belong to the minimum. All are of task "" if the minimums of the tasks do not make up the
// whole.
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

// purpose says what the minResources of a PodGroup are for.
type purpose int

const (
	notKnown   purpose = iota // fewer members exist than the minimum
	forMinimum                // for the minimum alone
	forMore                   // for further members, too
)

// purposeOf says what the minResources of a PodGroup are for, by its members. The minResources of a Job are for its minimum.
func purposeOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, requestsOf func(*corev1.Pod) resources.List) purpose {
	if batchv1alpha1.JobOf(group) != nil || group.Spec.MinResources == nil {
		return forMinimum
	}
	members, sum := int32(0), resources.Sums{}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			members++
			sum.Add(requestsOf(pod))
		}
	}
	switch {
	case members == 0, members < group.Spec.MinMember:
		return notKnown
	case sum.Rest(usage.MinimumOf(group)).IsZero():
		return forMinimum
	}
	return forMore
}

// withoutGone is the rest of the demand of a minimum when some of its members have succeeded and are gone. Their requests are not known any
// more: each counts as an equal part.
func withoutGone(want resources.List, gone, least int32) resources.List {
	if gone <= 0 {
		return want
	}
	if gone >= least {
		return resources.List{}
	}
	left := resources.List{}
	for name, amount := range want {
		whole, rest := amount/int64(least), amount%int64(least)
		left[name] = amount - whole*int64(gone) - rest*int64(gone)/int64(least)
	}
	return left
}

// askedFor is the demand of a PodGroup's minimum, by its members' requests. A pod template lacks the defaults of a LimitRange, the overhead
// of a RuntimeClass and the sidecars that admission adds. The first pod of a task shows them. If the members of a task differ, the requests
// that all of them have in common count. A task without members asks for nothing.
func askedFor(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, requestsOf func(*corev1.Pod) resources.List) resources.List {
	tasks := minimumOfTasks(&group.Spec)
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
		requests := requestsOf(pod)
		common, known := each[task]
		if !known {
			each[task] = requests.Clone()
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
