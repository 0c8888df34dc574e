package queue

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// countPhases writes to a status how many PodGroups are in each phase, and says whether any is not completed.
func countPhases(status *schedulingv1beta1.QueueStatus, groups []*schedulingv1beta1.PodGroup) (busy bool) {
	status.Pending, status.Inqueue, status.Running, status.Unknown, status.Completed = 0, 0, 0, 0, 0
	for _, group := range groups {
		switch group.Status.Phase {
		case schedulingv1beta1.PodGroupInqueue:
			status.Inqueue++
		case schedulingv1beta1.PodGroupRunning:
			status.Running++
		case schedulingv1beta1.PodGroupUnknown:
			status.Unknown++
		case schedulingv1beta1.PodGroupCompleted:
			status.Completed++
		default:
			status.Pending++
		}
	}
	return int(status.Completed) < len(groups)
}

// maxUsers is how many users of a queue its status names.
const maxUsers = 20

// sayWhatIsUsed writes the use of the queue and its children to a status. It adds what is kept for pods to come, and the largest users.
func (c *Controller) sayWhatIsUsed(status *schedulingv1beta1.QueueStatus, queue string) {
	books := c.usage.Ledger()
	used, all := books.Totals(queue)
	kept := all.Clone()
	kept.SubSums(used)
	status.Allocated = quantities(used.List())
	status.Reservation.Resource = quantities(kept.List())
	summary := usedOf(all, books.Limits(queue), c.shares[quota.Root])
	users := books.Users(queue)
	if summary == "" && len(users) == 0 && status.Muster == nil {
		return
	}
	own := extension(status)
	own.Used = summary
	own.Users, own.OtherUsers = usersOf(users)
}

// sayWhatIsOwed writes the share of the queue to a status. If the share of a queue is not known yet, it leaves the status as it is.
func (c *Controller) sayWhatIsOwed(status *schedulingv1beta1.QueueStatus, queue string) {
	if share, known := c.shares[queue]; known && (status.Muster != nil || !share.IsZero()) {
		extension(status).Deserved = quantities(share)
	}
}

// extension is the part of a status that Volcano does not have.
func extension(status *schedulingv1beta1.QueueStatus) *schedulingv1beta1.QueueStatusExtension {
	if status.Muster == nil {
		status.Muster = &schedulingv1beta1.QueueStatusExtension{}
	}
	return status.Muster
}

// usedOf returns the use and the limit of the resource that is nearest to its limit: "cpu 12/16". Without limits it is the resource of
// which the largest part of the cluster is used.
func usedOf(used resources.Sums, limits, cluster resources.List) string {
	if scarcest := quota.Scarcest(used, limits); scarcest != "" {
		return fmt.Sprintf("%s %s/%s", scarcest, resources.Format(scarcest, used.Amount(scarcest)), resources.Format(scarcest, limits[scarcest]))
	}
	scarcest := quota.Scarcest(used, cluster)
	if scarcest == "" || used.Amount(scarcest) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s", scarcest, resources.Format(scarcest, used.Amount(scarcest)))
}

// usersOf lists the first users by name, and says how many more there are.
func usersOf(users []quota.UserUse) (named []schedulingv1beta1.UserUsage, others int32) {
	others = int32(max(0, len(users)-maxUsers))
	for _, user := range users[:len(users)-int(others)] {
		named = append(named, schedulingv1beta1.UserUsage{Name: user.User, Allocated: quantities(user.Used)})
	}
	slices.SortFunc(named, func(a, b schedulingv1beta1.UserUsage) int { return cmp.Compare(a.Name, b.Name) })
	return named, others
}

// quantities are the amounts that are not zero.
func quantities(amounts resources.List) corev1.ResourceList {
	list := amounts.ToResourceList()
	for name, amount := range amounts {
		if amount == 0 {
			delete(list, name)
		}
	}
	return list
}
