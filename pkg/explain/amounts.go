package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// amounts is what the amounts of queues and nodes say about something that waits.
type amounts struct {
	// holds says what is short, frees what has to come free, never why it can never be.
	holds, frees, never []string
}

func (a *amounts) add(other amounts) {
	a.holds = append(a.holds, other.holds...)
	a.frees = append(a.frees, other.frees...)
	a.never = append(a.never, other.never...)
}

// inQueues compares what the minimum of a PodGroup lacks with the capabilities from its queue to the root. Amounts kept for admitted
// PodGroups that have not started count as used, as for admission. Not for one that is admitted itself.
func (f *Facts) inQueues(group *schedulingv1beta1.PodGroup) amounts {
	var found amounts
	want, has := usage.MinimumOf(group), f.bound()
	for _, queue := range f.path(usage.QueueOf(group)) {
		limit, used := limitOf(queue), resources.FromResourceList(queue.Status.Allocated)
		if admitted(group) == 0 {
			used.Add(reservedFor(queue))
		}
		for _, name := range sorted(limit) {
			asked, free := want[name]-has[name], limit[name]-used[name]
			switch {
			case asked <= 0:
			case want[name] > limit[name]:
				found.never = append(found.never, fmt.Sprintf("No. It asks for %s %s, and the capability of queue %s is %s: ask for less, or raise the capability.",
					format(name, want[name]), name, queue.Name, format(name, limit[name])))
			case asked > free:
				found.holds = append(found.holds, fmt.Sprintf("Queue %s: %s of %s %s are used or reserved, so %s are free; %s are asked for.",
					queue.Name, format(name, used[name]), format(name, limit[name]), name, format(name, max(0, free)), format(name, asked)))
				found.frees = append(found.frees, fmt.Sprintf("%s %s of queue %s: Jobs there have to end, or its capability has to be raised.",
					format(name, asked-free), name, queue.Name))
			}
		}
	}
	return found
}

// ofUser compares what the minimum of a PodGroup lacks with what its user has left in its queue. Nothing is said where that is not known.
// The status of a queue names the users with the largest parts only.
func (f *Facts) ofUser(group *schedulingv1beta1.PodGroup) amounts {
	var found amounts
	user, queue := group.Labels[schedulingv1beta1.UserLabel], f.queue(usage.QueueOf(group))
	if user == "" || queue == nil {
		return found
	}
	limit, used, known := quotaOf(queue, user), resources.List{}, true
	if extension := queue.Status.Muster; extension != nil {
		used, known = usedBy(extension, user)
	}
	want, has := usage.MinimumOf(group), f.bound()
	for _, name := range sorted(limit) {
		asked, free := want[name]-has[name], limit[name]-used[name]
		switch {
		case asked <= 0:
		case want[name] > limit[name]:
			found.never = append(found.never, fmt.Sprintf("No. It asks for %s %s, and the quota of user %s in queue %s is %s: ask for less, or raise the quota.",
				format(name, want[name]), name, user, queue.Name, format(name, limit[name])))
		case known && asked > free:
			found.holds = append(found.holds, fmt.Sprintf("User %s: %s of %s %s are used in queue %s, so %s are free; %s are asked for.",
				user, format(name, used[name]), format(name, limit[name]), name, queue.Name, format(name, max(0, free)), format(name, asked)))
			found.frees = append(found.frees, fmt.Sprintf("%s %s of user %s: jobs of that user have to end, or the quota has to be raised.",
				format(name, asked-free), name, user))
		}
	}
	return found
}

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

// bound is what the members request that have a node and have not ended.
func (f *Facts) bound() resources.List {
	sum := resources.List{}
	for i := range f.Members {
		if pod := &f.Members[i]; pod.Spec.NodeName != "" && !ended(pod) {
			sum.Add(resources.PodRequests(pod))
		}
	}
	return sum
}

// reservedFor is what is kept for admitted PodGroups of a queue and its descendants that have not started.
func reservedFor(queue *schedulingv1beta1.Queue) resources.List {
	return resources.FromResourceList(queue.Status.Reservation.Resource)
}

// limitOf is the capability that counts: the present value, or the last valid one.
func limitOf(queue *schedulingv1beta1.Queue) resources.List {
	extension := queue.Status.Muster
	if extension != nil && extension.LastValid != nil && meta.IsStatusConditionFalse(queue.Status.Conditions, schedulingv1beta1.QueueValidCondition) {
		return resources.FromResourceList(extension.LastValid.Capability)
	}
	return resources.FromResourceList(queue.Spec.Capability)
}

// roomsOf are the nodes as the pods of a PodGroup find them: its queue may keep them off some.
func (f *Facts) roomsOf(group *schedulingv1beta1.PodGroup) []Room {
	rooms := Rooms(f.Nodes, f.Bound)
	var groups quota.NodeGroupPath
	for _, queue := range f.path(usage.QueueOf(group)) {
		if own := quota.NodeGroupsOf(queue); own != nil {
			groups = append(groups, own)
		}
	}
	for i := range rooms {
		rooms[i].groups = groups
	}
	return rooms
}

// onNodes compares what starts together with what the nodes have free, kind by kind.
func (f *Facts) onNodes(demands []Demand) amounts {
	var found amounts
	if len(f.Nodes) == 0 {
		return found
	}
	rooms := f.roomsOf(f.Group)
	for i := range demands {
		d := &demands[i]
		now, empty := Fit(rooms, d.Pod)
		asks := resources.PodRequests(d.Pod)
		delete(asks, corev1.ResourcePods)
		if empty < d.Count {
			found.never = append(found.never, fmt.Sprintf("Not on these nodes: all of them, empty, take %d of %s that need %s each.", empty, d.of(), asks.InWords()))
		}
		if now >= d.Count {
			continue
		}
		found.holds = append(found.holds, fmt.Sprintf("Nodes: %d of %s find a place now; each needs %s.", now, d.of(), asks.InWords()))
		for _, line := range append(nearest(rooms, d.Pod, 3), refusals(rooms, d.Pod)...) {
			found.holds = append(found.holds, "  "+line)
		}
		found.frees = append(found.frees, fmt.Sprintf("Room on nodes for %s more, with %s each: pods there have to end, or nodes have to be added.",
			count(d.Count-now, "pod"), asks.InWords()))
	}
	return found
}

func sorted(list resources.List) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func format(name corev1.ResourceName, amount int64) string { return resources.Format(name, amount) }
