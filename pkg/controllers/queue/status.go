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

// setAmounts writes amounts to a status. They are the use of the queue and its children, what is kept for pods to come, and the share. It
// adds the largest users. It leaves the share as it is while that is not known.
func (c *Controller) setAmounts(status *schedulingv1beta1.QueueStatus, queue string) {
	books := c.usage.Ledger()
	figures := c.figuresOf(queue)
	status.Allocated = quantities(figures.Used)
	status.Reservation.Resource = quantities(figures.Reserved)
	table, users := tableOf(figures), books.Users(queue)
	if table == nil && len(users) == 0 && figures.Share.IsZero() && status.Muster == nil {
		return
	}
	own := extension(status)
	own.Figures = table
	own.Users, own.OtherUsers = usersOf(users)
	if figures.Share != nil {
		own.Deserved = quantities(figures.Share)
	}
}

// figuresOf are the amounts of a queue, by the terms that count.
func (c *Controller) figuresOf(queue string) quota.Figures {
	books := c.usage.Ledger()
	used, all := books.Totals(queue)
	reserved := all.Clone()
	reserved.SubSums(used)
	return quota.Figures{
		Used: used.List(), Reserved: reserved.List(), Limit: books.Limits(queue), Share: c.shares[queue],
		Guarantee: books.Terms(queue).Guarantee, Cluster: c.shares[quota.Root],
	}
}

// setJobs writes to a status how many PodGroups of the queue and its descendants run and wait.
func (c *Controller) setJobs(status *schedulingv1beta1.QueueStatus, queue string) {
	running, waiting := int32(0), int32(0)
	names := []string{queue}
	if queue == schedulingv1beta1.RootQueue || c.hasChildren(queue) {
		names = c.usage.Ledger().Below(queue)
	}
	for _, name := range names {
		var own schedulingv1beta1.QueueStatus
		countPhases(&own, c.usage.PodGroups(name))
		running += own.Running + own.Unknown
		waiting += own.Pending + own.Inqueue
	}
	if status.Muster != nil || running+waiting > 0 {
		extension(status).Running, extension(status).Waiting = running, waiting
	}
}

// extension is the part of a status that Volcano does not have.
func extension(status *schedulingv1beta1.QueueStatus) *schedulingv1beta1.QueueStatusExtension {
	if status.Muster == nil {
		status.Muster = &schedulingv1beta1.QueueStatusExtension{}
	}
	return status.Muster
}

// tableOf writes the amounts of the scarcest resource: "cpu 12/16". It is nil if there is nothing to tell.
func tableOf(f quota.Figures) *schedulingv1beta1.QueueFigures {
	scarcest := f.Scarcest()
	if scarcest == "" {
		return nil
	}
	table := &schedulingv1beta1.QueueFigures{Used: fmt.Sprintf("%s %s", scarcest, resources.Format(scarcest, f.Used[scarcest]))}
	if limit, isLimited := f.Limit[scarcest]; isLimited {
		table.Used += "/" + resources.Format(scarcest, limit)
	}
	for cell, amounts := range map[*string]resources.List{
		&table.Reserved: f.Reserved, &table.Share: f.Share, &table.Guarantee: f.Guarantee, &table.Borrowed: f.Borrowed(),
	} {
		if amount := amounts[scarcest]; amount > 0 {
			*cell = resources.Format(scarcest, amount)
		}
	}
	return table
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
