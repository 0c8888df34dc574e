package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// quotaOf is what a user may have of a queue. A resource that is not named is not limited.
func quotaOf(queue *schedulingv1beta1.Queue, user string) resources.List {
	if queue.Spec.Muster == nil || queue.Spec.Muster.UserQuota == nil {
		return nil
	}
	for _, named := range queue.Spec.Muster.UserQuota.Users {
		if named.Name == user {
			return resources.FromResourceList(named.Quota)
		}
	}
	return resources.FromResourceList(queue.Spec.Muster.UserQuota.Default)
}

// usedBy is what the bound pods of a user request in a queue. It is not known of users that the status leaves out.
func usedBy(extension *schedulingv1beta1.QueueStatusExtension, user string) (used resources.List, known bool) {
	for _, one := range extension.Users {
		if one.Name == user {
			return resources.FromResourceList(one.Allocated), true
		}
	}
	return resources.List{}, extension.OtherUsers == 0
}

// amountsOf reads amounts.
func amountsOf(list corev1.ResourceList) resources.List { return resources.FromResourceList(list) }

func sorted(list resources.List) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func format(name corev1.ResourceName, amount int64) string { return resources.Format(name, amount) }
