package explain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// Gang is how many pods of one kind would start together now.
type Gang struct {
	// Nodes is how many the nodes have room for.
	Nodes int
	// Queue is how many the quota of the queue lets in; -1 if nothing limits them.
	Queue int
	// LimitedBy is the queue on the path to the root with the least room.
	LimitedBy string
}

// Size is the smaller of both.
func (g Gang) Size() int {
	if g.Queue >= 0 {
		return min(g.Nodes, g.Queue)
	}
	return g.Nodes
}

// LargestGang says how many pods of a kind would start together now in a queue. "" looks at the nodes only. Amounts kept for admitted gangs
// that have not started count as used in the queue, but not on nodes.
func LargestGang(f Facts, pod *corev1.Pod, queue string) Gang {
	found := Gang{Queue: -1}
	found.Nodes = Fit(Rooms(f.Nodes, f.Bound), pod)
	asks := resources.PodRequests(pod)
	for _, q := range f.path(queue) {
		limit, used := limitOf(q), resources.FromResourceList(q.Status.Allocated)
		used.Add(reservedFor(q))
		for _, name := range sorted(limit) {
			if asks[name] <= 0 {
				continue
			}
			if fits := int(max(0, limit[name]-used[name]) / asks[name]); found.Queue < 0 || fits < found.Queue {
				found.Queue, found.LimitedBy = fits, q.Name
			}
		}
	}
	return found
}

// Use is what the bound pods of a user request in a queue.
type Use struct {
	// User is the value of the label muster.sh/user; "" for pods without one.
	User, Queue string
	Pods        int
	Requests    resources.List
}

// Uses sums up what users use in queues, by cpu, the most first. Pods that neither are of a PodGroup nor name a queue do not count.
func Uses(f Facts) []Use {
	groups := map[string]*schedulingv1beta1.PodGroup{}
	for i := range f.Groups {
		groups[f.Groups[i].Namespace+"/"+f.Groups[i].Name] = &f.Groups[i]
	}
	sums := map[[2]string]*Use{}
	for i := range f.Bound {
		pod := &f.Bound[i]
		user, queue := pod.Labels[schedulingv1beta1.UserLabel], pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
		if group := groups[admission.PodGroupOf(pod)]; group != nil {
			user, queue = group.Labels[schedulingv1beta1.UserLabel], admission.QueueOf(group)
		}
		if queue == "" {
			continue
		}
		key := [2]string{user, queue}
		if sums[key] == nil {
			sums[key] = &Use{User: user, Queue: queue, Requests: resources.List{}}
		}
		sums[key].Pods++
		sums[key].Requests.Add(resources.PodRequests(pod))
	}
	uses := make([]Use, 0, len(sums))
	for _, use := range sums {
		delete(use.Requests, corev1.ResourcePods)
		uses = append(uses, *use)
	}
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(-cmp.Compare(a.Requests[corev1.ResourceCPU], b.Requests[corev1.ResourceCPU]), cmp.Compare(a.User, b.User), cmp.Compare(a.Queue, b.Queue))
	})
	return uses
}
