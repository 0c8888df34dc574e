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

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Room is what a node has, and has free.
type Room struct {
	Node *corev1.Node
	// Has is what the node gives to pods, and Free what is left of it.
	Has, Free resources.List

	groups quota.NodeGroupPath // of the queue of the pods
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
	case r.groups.Refuses(r.Node.Labels[schedulingv1beta1.NodeGroupLabel]) != "":
		return strings.Replace(r.groups.Refuses(r.Node.Labels[schedulingv1beta1.NodeGroupLabel]), "node(s) are", "it is", 1)
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

// lacks is what an amount lacks for one pod.
func lacks(room, asks resources.List) resources.List {
	missing := resources.List{}
	for name, amount := range asks {
		if short := amount - room[name]; amount > 0 && short > 0 {
			missing[name] = short
		}
	}
	return missing
}

// Fit says how many pods of a kind the nodes take now, and how many if nothing else ran.
func Fit(rooms []Room, pod *corev1.Pod) (now, empty int) {
	asks := resources.PodRequests(pod)
	for i := range rooms {
		if rooms[i].Refuses(pod) == "" {
			now += times(rooms[i].Free, asks)
			empty += times(rooms[i].Has, asks)
		}
	}
	return now, empty
}

// Demand is a number of pods of one kind that start together.
type Demand struct {
	// Name of the task; "" if there is none.
	Name  string
	Pod   *corev1.Pod
	Count int
}

func (d *Demand) of() string {
	if d.Name == "" {
		return count(d.Count, "pod")
	}
	return fmt.Sprintf("%s of task %q", count(d.Count, "pod"), d.Name)
}

// nearest says of the nodes that lack least for a pod what they lack.
func nearest(rooms []Room, pod *corev1.Pod, n int) []string {
	asks := resources.PodRequests(pod)
	type candidate struct {
		room    *Room
		missing resources.List
		part    float64
	}
	var candidates []candidate
	for i := range rooms {
		missing := lacks(rooms[i].Free, asks)
		if missing.IsZero() || rooms[i].Refuses(pod) != "" || !lacks(rooms[i].Has, asks).IsZero() {
			continue
		}
		part := 0.0
		for name, amount := range missing {
			part = max(part, float64(amount)/float64(asks[name]))
		}
		candidates = append(candidates, candidate{&rooms[i], missing, part})
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.part, b.part) })
	var lines []string
	for _, c := range candidates[:min(n, len(candidates))] {
		lines = append(lines, fmt.Sprintf("node %s lacks %s for one", c.room.Node.Name, c.missing.InWords()))
	}
	return lines
}

// refusals says for which reasons nodes take no pod of a kind, the most frequent first.
func refusals(rooms []Room, pod *corev1.Pod) []string {
	asks := resources.PodRequests(pod)
	why := map[string]int{}
	for i := range rooms {
		if reason := rooms[i].Refuses(pod); reason != "" {
			why[reason]++
		} else if missing := lacks(rooms[i].Has, asks); !missing.IsZero() {
			why["it is too small for one pod, even when it is empty"]++
		}
	}
	reasons := make([]string, 0, len(why))
	for reason := range why {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(-cmp.Compare(why[a], why[b]), cmp.Compare(a, b)) })
	for i, reason := range reasons {
		if why[reason] == 1 {
			reasons[i] = "1 node takes none: " + reason
		} else {
			reasons[i] = fmt.Sprintf("%d nodes take none: %s", why[reason], reason)
		}
	}
	return reasons
}
