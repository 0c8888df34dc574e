package usage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// PodGroupOf is the "<namespace>/<name>" of the PodGroup that a pod names, or "". A pod of a native pod group is the native plugin's, whatever
// its annotations say. So the scheduler sees it, too. No PodGroup can have a name with a slash: entries under it would never be read. The
// scheduler has the pod wait for its PodGroup, as it lets pods without one pass.
func PodGroupOf(pod *corev1.Pod) string {
	name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	if name == "" || strings.Contains(name, "/") || pod.Spec.SchedulingGroup != nil {
		return ""
	}
	return groupKey(pod.Namespace, name)
}

// QueueOf is the queue of a PodGroup.
func QueueOf(group *schedulingv1beta1.PodGroup) string {
	if group.Spec.Queue == "" {
		return schedulingv1beta1.DefaultQueue
	}
	return group.Spec.Queue
}

// AccountOf is the account that a PodGroup is charged to: its user's account in its queue, or the queue itself.
func AccountOf(group *schedulingv1beta1.PodGroup) string {
	return quota.Account(QueueOf(group), group.Labels[schedulingv1beta1.UserLabel])
}

// MinimumOf is the demand of a PodGroup's minimum, in the names that pods and capabilities use. minResources may be written in the names of
// a ResourceQuota. There requests.cpu counts as cpu unless cpu is given too, and limits play no part. The minimum takes minMember of "pods"
// unless minResources says otherwise. A negative amount counts as 0.
func MinimumOf(group *schedulingv1beta1.PodGroup) resources.List {
	want := resources.List{corev1.ResourcePods: int64(group.Spec.MinMember)}
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

func groupKey(namespace, name string) string { return namespace + "/" + name }
