package histories_test

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/test/simulation"
)

func groupOf(pod *corev1.Pod) string { return pod.Annotations[schedulingv1beta1.GroupNameAnnotation] }
func taskOf(pod *corev1.Pod) string  { return pod.Annotations[batchv1alpha1.TaskSpecKey] }

func versionOf(pod *corev1.Pod) int {
	version, err := strconv.Atoi(pod.Annotations[batchv1alpha1.JobVersionKey])
	if err != nil {
		return 0
	}
	return version
}

// view is one observer's state of the cluster.
type view struct {
	pods     []*corev1.Pod
	groups   map[string]*schedulingv1beta1.PodGroup
	nodes    []*corev1.Node
	capacity int64 // of the queue, in CPUs
	ended    map[run]sets.Set[types.UID]
}

// run is an incarnation of a gang.
type run struct {
	group   string
	version int
}

func (w *world) viewOf(pods []*corev1.Pod, groups []*schedulingv1beta1.PodGroup, nodes []*corev1.Node, queues []*schedulingv1beta1.Queue) view {
	v := view{nodes: nodes, groups: map[string]*schedulingv1beta1.PodGroup{}, ended: w.ended}
	for _, pod := range pods {
		if !simulation.Finished(pod) {
			v.pods = append(v.pods, pod)
		}
	}
	for _, group := range groups {
		v.groups[group.Name] = group
	}
	for _, queue := range queues {
		v.capacity = queue.Spec.Capability.Cpu().Value()
	}
	return v
}

// told is what the scheduler has been told, now what the API has.
func (w *world) told() view {
	return w.viewOf(simulation.SeenBy[*corev1.Pod](w.api, simulation.Pods), simulation.SeenBy[*schedulingv1beta1.PodGroup](w.api, simulation.PodGroups),
		simulation.SeenBy[*corev1.Node](w.api, simulation.Nodes), simulation.SeenBy[*schedulingv1beta1.Queue](w.api, simulation.Queues))
}

func (w *world) now() view {
	return w.viewOf(w.pods(), w.groups(), w.nodes(), []*schedulingv1beta1.Queue{w.queue()})
}

// latest is the incarnation that a gang is in.
func (v view) latest(group string) int {
	latest := -1
	for _, pod := range v.pods {
		if groupOf(pod) == group {
			latest = max(latest, versionOf(pod))
		}
	}
	return latest
}

// members are the pods of a gang that count: members of the latest incarnation that are not going.
func (v view) members(group string) []*corev1.Pod {
	latest := v.latest(group)
	var members []*corev1.Pod
	for _, pod := range v.pods {
		if groupOf(pod) == group && versionOf(pod) == latest && pod.DeletionTimestamp == nil {
			members = append(members, pod)
		}
	}
	return members
}

// succeeded is how many members of the latest incarnation have succeeded. It is the number in the PodGroup, without members that have not
// succeeded.
func (v view) succeeded(group *schedulingv1beta1.PodGroup) int {
	return min(int(group.Status.Succeeded), v.ended[run{group.Name, v.latest(group.Name)}].Len())
}

// missing is how many more members, and of which tasks, a gang needs beside some.
func (v view) missing(group *schedulingv1beta1.PodGroup, have []*corev1.Pod) (n int) {
	ofTask := map[string]int{}
	for _, pod := range have {
		ofTask[taskOf(pod)]++
	}
	sum, gaps := 0, 0
	for task, minimum := range group.Spec.MinTaskMember {
		sum += int(minimum)
		gaps += max(0, int(minimum)-ofTask[task])
	}
	succeeded := v.succeeded(group)
	if int(group.Spec.MinMember) < sum {
		gaps = 0
	}
	return max(0, int(group.Spec.MinMember)-len(have)-succeeded, gaps-succeeded)
}

func bound(pods []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			out = append(out, pod)
		}
	}
	return out
}

// own are the pods that were bound for a PodGroup, and not for an earlier one of its name.
func own(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(bound(pods), func(pod *corev1.Pod) bool {
		return pod.Annotations[schedulingv1beta1.BoundForAnnotation] != string(group.UID)
	})
}

// queued says whether a pod is charged to the queue. For a bound pod, its binding says so, whatever has become of its PodGroup.
func (v view) queued(pod *corev1.Pod) bool {
	if account, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written {
		return account == queueName
	}
	if name := groupOf(pod); name != "" {
		return v.groups[name] != nil && v.groups[name].Spec.Queue != ""
	}
	return pod.Annotations[schedulingv1beta1.QueueNameAnnotation] != ""
}

func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// binding is invariant 1. When a member is going to be bound, the minimum of its gang, and that of each task, holds room. Bound and
// succeeded members count, once the scheduler has been told. In a burst of events of the gang that state is not known. And while a single
// thing changes it may be what it was before. The scheduling queue may hear of it first, and take a pod, before the plugins do.
func (w *world) binding(pod *corev1.Pod) {
	if name := groupOf(pod); name == "" || w.burst.Has(name) {
		return
	}
	fault := w.faultOfBinding(w.told(), pod)
	if fault != "" && (w.before == nil || w.faultOfBinding(*w.before, pod) != "") {
		w.blame("%s", fault)
	}
}

// faultOfBinding says what is wrong with the binding of a member, in a view.
func (w *world) faultOfBinding(v view, pod *corev1.Pod) string {
	name := groupOf(pod)
	group := v.groups[name]
	if group == nil {
		return fmt.Sprintf("%s is bound without its PodGroup %s", pod.Name, name)
	}
	var have []*corev1.Pod
	for _, member := range v.members(name) {
		if member.Spec.NodeName != "" || w.process.holds(member.UID) {
			have = append(have, member)
		}
	}
	if n := v.missing(group, have); n > 0 {
		return fmt.Sprintf("%s is bound while its gang %s has %d members and %d are missing", pod.Name, name, len(have), n)
	}
	return ""
}

// reserving is invariant 2: the queue never has more than its capability. It is not judged in a burst of events.
func (w *world) reserving(pod *corev1.Pod) {
	v := w.told()
	if w.excused || w.burst != nil || !v.queued(pod) {
		return
	}
	used := int64(0)
	for _, other := range v.pods {
		if v.queued(other) && (other.Spec.NodeName != "" || w.process.holds(other.UID)) {
			used += cpuOf(other).Value()
		}
	}
	if used > v.capacity {
		w.blame("the queue uses %d of its %d CPUs when %s reserves", used, v.capacity, pod.Name)
	}
}

// checkCharges is invariant 3: the bound pods that the scheduler has been told of are charged to the queue.
func (w *world) checkCharges() {
	v, used := w.told(), int64(0)
	for _, pod := range bound(v.pods) {
		if v.queued(pod) {
			used += cpuOf(pod).Value()
		}
	}
	if charged := w.process.tracker.Quota.Ledger.Used(queueName)["cpu"]; charged < used*1000 {
		w.blame("the queue is charged %dm CPUs, the pods that are known to be bound have %d", charged, used)
	}
}

func (w *world) anyPodHoldsRoom() bool {
	for _, pod := range w.now().pods {
		if pod.Spec.NodeName == "" && w.process.holds(pod.UID) {
			return true
		}
	}
	return false
}

// checkRest says what must be true when nothing happens any more. No pod holds room without being bound, the bound pods are charged, and no
// waiting pod fits. Room that is reserved for a gang below its minimum is not free for a waiting pod.
func (w *world) checkRest() {
	v := w.now()
	for _, pod := range v.pods {
		if pod.Spec.NodeName == "" && w.process.holds(pod.UID) {
			w.blame("%s holds room at rest", pod.Name)
		}
	}
	used := int64(0)
	for _, pod := range bound(v.pods) {
		if v.queued(pod) {
			used += cpuOf(pod).Value()
		}
	}
	if charged := w.process.tracker.Quota.Ledger.Used(queueName)["cpu"]; charged != used*1000 {
		w.blame("the queue is charged %dm CPUs, its bound pods have %d", charged, used)
	}
	left := v.capacity - used - v.promised()
	for _, pod := range v.pods {
		if groupOf(pod) == "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && w.fits(v, pod, 1, left) {
			w.blame("%s fits and waits", pod.Name)
		}
	}
	for name, group := range v.groups {
		w.checkGangAtRest(v, name, group, left)
	}
	if lost := w.process.tracker.LostWakeups(); lost > 0 {
		w.blame("%d wake-ups were lost", lost)
	}
	if len(w.wrong) > 0 {
		w.note("at rest: %s", v)
	}
	w.settle()
}

func (w *world) checkGangAtRest(v view, name string, group *schedulingv1beta1.PodGroup, left int64) {
	members := v.members(name)
	waiting := len(members) - len(bound(members))
	if waiting == 0 || group.Status.Phase == schedulingv1beta1.PodGroupPending || v.missing(group, members) > 0 {
		return
	}
	lacks := v.missing(group, bound(members))
	next := members[slices.IndexFunc(members, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })]
	if lacks > 0 && group.Spec.Queue != "" {
		left += v.promisedTo(name)
	}
	if lacks == 0 && w.isNeededByAMinimum(v, group, next) {
		return // surplus leaves room to minimums
	}
	if w.fits(v, next, max(1, lacks), left) {
		w.blame("%s needs %d more to start, %d wait, they fit and wait", name, lacks, waiting)
	}
}

// isNeededByAMinimum says whether another waiting gang's minimum needs the room that a surplus pod could take. The room is on a node or in
// the queue. The gang has the same priority, and is not larger than the cluster or the capability.
func (w *world) isNeededByAMinimum(v view, of *schedulingv1beta1.PodGroup, surplus *corev1.Pod) bool {
	for name, group := range v.groups {
		members := v.members(name)
		lacks := v.missing(group, bound(members))
		if group == of || lacks == 0 || v.missing(group, members) > 0 || group.Status.Phase == schedulingv1beta1.PodGroupPending {
			continue
		}
		each, places := cpuOf(members[0]).Value(), int64(0)
		if group.Spec.Queue != "" && v.queued(surplus) && int64(lacks)*each <= v.capacity {
			return true // quota is looked at before nodes, so also where these would not do
		}
		for _, node := range v.nodes {
			places += node.Status.Allocatable.Cpu().Value() / each
		}
		if places < int64(lacks) {
			continue // it waits for more than the cluster has
		}
		for _, node := range v.nodes {
			free := v.free(node)
			if !node.Spec.Unschedulable && free >= each && free/each > (free-cpuOf(surplus).Value())/each {
				return true
			}
		}
	}
	return false
}

// promised is what gangs that are bound below their minimum have been promised of the queue.
func (v view) promised() (cpus int64) {
	for name := range v.groups {
		cpus += v.promisedTo(name)
	}
	return cpus
}

func (v view) promisedTo(name string) int64 {
	group, members := v.groups[name], v.members(name)
	have := bound(members)
	lacks := v.missing(group, have)
	if group.Spec.Queue == "" || len(own(group, members)) == 0 || lacks == 0 || v.missing(group, members) > 0 {
		return 0
	}
	return int64(lacks) * cpuOf(members[0]).Value()
}

// fits says whether n pods like one fit, all at once, beside what is reserved against it.
func (w *world) fits(v view, pod *corev1.Pod, n int, left int64) bool {
	cpu := cpuOf(pod).Value()
	w.process.tracker.Lock()
	g, _ := w.process.tracker.Find(pod.UID)
	kept := w.process.tracker.WaitList.AgainstMember(g, pod)
	w.process.tracker.Unlock()
	for _, reserved := range kept {
		partial := v.groups[reserved.Key.Name]
		if members := v.members(reserved.Key.Name); partial == nil || len(own(partial, members)) == 0 || v.missing(partial, bound(members)) == 0 {
			w.blame("room is reserved for %s, which is not partial", reserved.Key.Name)
		}
	}
	if v.queued(pod) && int64(n)*cpu > left {
		return false
	}
	places := int64(0)
	for _, node := range v.nodes {
		if !node.Spec.Unschedulable {
			for free := v.free(node); free >= cpu && (!kept.Bars(node.Name, cpus(free), cpus(cpu), nil)); free -= cpu {
				places++
			}
		}
	}
	return places >= int64(n)
}

func cpus(n int64) resources.List { return resources.List{corev1.ResourceCPU: 1000 * n} }

func (v view) free(node *corev1.Node) int64 {
	free := node.Status.Allocatable.Cpu().Value()
	for _, pod := range v.pods {
		if pod.Spec.NodeName == node.Name {
			free -= cpuOf(pod).Value()
		}
	}
	return free
}

// String is for readers of a failure.
func (v view) String() string {
	text := fmt.Sprintf("the queue has %d CPUs", v.capacity)
	for _, node := range v.nodes {
		text += fmt.Sprintf("\n  %s has %d CPUs free (closed: %v)", node.Name, v.free(node), node.Spec.Unschedulable)
	}
	for name, group := range v.groups {
		text += fmt.Sprintf("\n  %s: minimum %d %v, succeeded %d, queue %q, %s, members:", name, group.Spec.MinMember, group.Spec.MinTaskMember,
			group.Status.Succeeded, group.Spec.Queue, group.Status.Phase)
		for _, pod := range v.members(name) {
			text += fmt.Sprintf(" %s(%s,%s)", pod.Name, cpuOf(pod), pod.Spec.NodeName)
		}
	}
	return text
}
