package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/resources"
)

// Room is what a node has, and has free.
type Room struct {
	Node *corev1.Node
	// Has is what the node gives to pods, and Free what is left of it.
	Has, Free resources.List
}

// Rooms are the nodes with their free room beside the bound pods, by free cpu, the most first.
func Rooms(nodes []corev1.Node, bound []corev1.Pod) []Room {
	rooms := make([]Room, len(nodes))
	at := map[string]int{}
	for i := range nodes {
		has := resources.FromResourceList(nodes[i].Status.Allocatable)
		rooms[i] = Room{Node: &nodes[i], Has: has, Free: has.Clone()}
		at[nodes[i].Name] = i
	}
	for i := range bound {
		if n, known := at[bound[i].Spec.NodeName]; known && bound[i].Status.Phase != corev1.PodSucceeded && bound[i].Status.Phase != corev1.PodFailed {
			rooms[n].Free.Sub(resources.PodRequests(&bound[i]))
		}
	}
	slices.SortFunc(rooms, func(a, b Room) int {
		return cmp.Or(-cmp.Compare(a.Free[corev1.ResourceCPU], b.Free[corev1.ResourceCPU]), cmp.Compare(a.Node.Name, b.Node.Name))
	})
	return rooms
}

// Refuses says why a node takes no pod of this kind, however much room it has. It is "" if it would take one. Affinity between pods, volumes,
// devices and ports are not looked at.
func (r *Room) Refuses(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != r.Node.Name {
		return "the pod names another node"
	}
	taint, bad := v1helper.FindMatchingUntoleratedTaint(klog.Background(), r.Node.Spec.Taints, pod.Spec.Tolerations, func(taint *corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	}, false)
	switch {
	case bad && taint.Key == corev1.TaintNodeUnschedulable, r.Node.Spec.Unschedulable && !bad:
		return "it is cordoned"
	case bad && (taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable):
		return "it is not ready"
	case bad:
		return fmt.Sprintf("its taint %q is not tolerated", strings.TrimSuffix(taint.Key+"="+taint.Value, "="))
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(r.Node); err != nil || !matches {
		return "the node selector or affinity of the pod rules it out"
	}
	return ""
}

// times says how many pods that ask so much fit into an amount.
func times(room, asks resources.List) int {
	fit := int64(resources.MaxAmount)
	for name, amount := range asks {
		if amount > 0 {
			fit = min(fit, max(0, room[name])/amount)
		}
	}
	return int(fit)
}

// Fit says how many pods of a kind the nodes have room for now, for `muster cluster`. No page asks this: it is the scheduler who decides.
func Fit(rooms []Room, pod *corev1.Pod) int {
	now, asks := 0, resources.PodRequests(pod)
	for i := range rooms {
		if rooms[i].Refuses(pod) == "" {
			now += times(rooms[i].Free, asks)
		}
	}
	return now
}
