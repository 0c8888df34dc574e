package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// MinimumOf is the demand of a PodGroup's minimum, in the names that pods and capabilities use. minResources may be written in the names of
// a ResourceQuota. There requests.cpu counts as cpu unless cpu is given too, and limits play no part. The minimum takes minMember of "pods"
// unless minResources says otherwise. A negative amount counts as 0.
func MinimumOf(group *schedulingv1beta1.PodGroup) resources.List {
	want := resources.List{corev1.ResourcePods: int64(group.Spec.Minimum())}
	if group.Spec.MinResources == nil {
		return want
	}
	given := *group.Spec.MinResources
	for name, quantity := range given {
		plain, counts := plainName(name)
		if _, both := given[plain]; !counts || (both && plain != name) {
			continue
		}
		want[plain] = max(0, resources.Amount(plain, quantity))
	}
	return want
}

// plainName is a pod's name for the resource that a ResourceQuota calls name. It is false for resources that pods do not request.
func plainName(name corev1.ResourceName) (plain corev1.ResourceName, counts bool) {
	switch {
	case name == "count/pods":
		return corev1.ResourcePods, true
	case strings.HasPrefix(string(name), "requests."):
		return corev1.ResourceName(strings.TrimPrefix(string(name), "requests.")), true
	case strings.HasPrefix(string(name), "limits."), strings.HasPrefix(string(name), "count/"):
		return "", false
	}
	return name, true
}

// minimumOfTasks is how many pods of each task belong to the minimum. All are of task "" if the minimums of the tasks do not make up the
// whole.
func minimumOfTasks(spec *schedulingv1beta1.PodGroupSpec) map[string]int32 {
	sum := int64(0)
	for _, n := range spec.MinTaskMember {
		sum += int64(n)
	}
	if sum != int64(spec.Minimum()) {
		return map[string]int32{"": spec.Minimum()}
	}
	return spec.MinTaskMember
}

// Purpose says what the minResources of a PodGroup are for.
type Purpose int

// The purposes.
const (
	NotKnown   Purpose = iota // fewer members exist than the minimum
	ForMinimum                // for the minimum alone
	ForMore                   // for further members, too
)

// PurposeOf says what the minResources of a PodGroup are for, by its members. The minResources of a Job are for its minimum.
func PurposeOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, requestsOf func(*corev1.Pod) resources.List) Purpose {
	if batchv1alpha1.JobOf(group) != nil || group.Spec.MinResources == nil {
		return ForMinimum
	}
	members, sum := int32(0), resources.Sums{}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			members++
			sum.Add(requestsOf(pod))
		}
	}
	switch {
	case members == 0, members < group.Spec.Minimum():
		return NotKnown
	case sum.Rest(MinimumOf(group)).IsZero():
		return ForMinimum
	}
	return ForMore
}

// WithoutGone is the rest of the demand of a minimum when some of its members have succeeded and are gone. Their requests are not known any
// more: each counts as an equal part.
func WithoutGone(want resources.List, gone, least int32) resources.List {
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

// AskedFor is the demand of a PodGroup's minimum, by its members' requests. A pod template lacks the defaults of a LimitRange, the overhead
// of a RuntimeClass and the sidecars that admission adds. The first pod of a task shows them. If the members of a task differ, the requests
// that all of them have in common count. A task without members asks for nothing.
func AskedFor(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, requestsOf func(*corev1.Pod) resources.List) resources.List {
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
