package podgroup

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// evictable is a unit that the scheduler may evict now to make quota for a PodGroup, with its sort key. A unit may ask to stay.
type evictable struct {
	quota.Unit
	kind  int
	since time.Time
}

// Kinds, in the order in which the scheduler evicts them.
const (
	notStarted = iota // not started yet: it needs no eviction
	surplusMember
	singlePod
	wholeGang
)

// evictables are the running units, and the room that is kept for PodGroups that have not started. They are in the scheduler's order of
// eviction within a queue. Minimum run times of pods are ignored: they pass.
func (a *admission) evictables(classes map[string]int32) []evictable {
	groups := map[string]*schedulingv1beta1.PodGroup{} // read once, because one may be deleted meanwhile
	for _, obj := range a.groups.List() {
		group := obj.(*schedulingv1beta1.PodGroup)
		groups[group.Namespace+"/"+group.Name] = group
	}
	pods := map[string][]*corev1.Pod{} // by PodGroup
	var all []evictable
	for _, pod := range a.tracker.Pods() {
		key := usage.PodGroupOf(pod)
		if groups[key] != nil && !gang.Lingers(pod) { // no gang needs one that lingers
			pods[key] = append(pods[key], pod)
		} else if account, amount, charged := a.tracker.Ledger().Charged(pod.UID); charged && mayBeEvicted(pod) {
			unit := quota.Unit{Account: account, Priority: corev1helpers.PodPriority(pod), Requests: amount, AsksToStay: gang.AsksToStay(pod)}
			all = append(all, evictable{unit, singlePod, gang.StartOf(pod).Time})
		}
	}
	for key, members := range pods {
		all = append(all, a.partsOf(groups[key], members, classes)...)
	}
	for key, amount := range a.tracker.Unclaimed() {
		group := groups[key]
		if group != nil && !slices.ContainsFunc(pods[key], func(pod *corev1.Pod) bool { return !mayBeEvicted(pod) }) {
			unit := quota.Unit{Account: usage.AccountOf(group), Priority: a.priorityOf(group, classes), Requests: amount,
				AsksToStay: slices.ContainsFunc(pods[key], gang.AsksToStay)}
			all = append(all, evictable{unit, notStarted, time.Time{}})
		}
	}
	slices.SortStableFunc(all, func(x, y evictable) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.Priority, y.Priority), y.since.Compare(x.since))
	})
	return all
}

// unitsOf are the units of what may be evicted. For a PodGroup for which nothing may be evicted, they are what has not started.
func unitsOf(all []evictable, neverPreempts bool) []quota.Unit {
	var units []quota.Unit
	for i := range all {
		if !neverPreempts || all[i].kind == notStarted {
			units = append(units, all[i].Unit)
		}
	}
	return units
}

// priorityOf is the priority of a PodGroup: that of its class, but at most the highest among its pods. Without pods the class counts: they may
// not exist yet.
func (a *admission) priorityOf(group *schedulingv1beta1.PodGroup, classes map[string]int32) int32 {
	class := classes[group.Spec.PriorityClassName]
	if group.Spec.PriorityClassName == "" {
		return class
	}
	var members gang.Gang
	for _, pod := range a.tracker.Members(group.Namespace, group.Name) {
		if !isFinished(pod) {
			members.Put(gang.MemberOf(pod, nil))
		}
	}
	return members.Priority(&class)
}

// floorOf is the priority that a PodGroup's class gives it: no member counts for less.
func floorOf(group *schedulingv1beta1.PodGroup, g *gang.Gang, classes map[string]int32) int32 {
	if class, known := classes[group.Spec.PriorityClassName]; known && group.Spec.PriorityClassName != "" {
		return g.Priority(&class)
	}
	return math.MinInt32
}

// partsOf are the surplus members of a PodGroup, and the rest as a whole if it may be evicted whole.
func (a *admission) partsOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, classes map[string]int32) []evictable {
	g := gang.Gang{Spec: gang.SpecOf(group)}
	accounts := sets.New[string]()
	for _, pod := range pods {
		if account, amount, charged := a.tracker.Ledger().Charged(pod.UID); charged {
			accounts.Insert(account)
			g.Put(gang.MemberOf(pod, amount))
		}
	}
	members, floor := g.Bound(), floorOf(group, &g, classes)
	var movable []*gang.Member
	for _, m := range members {
		if mayBeEvicted(m.Pod) {
			movable = append(movable, m)
		}
	}
	slices.SortFunc(movable, gang.WillingFirst(gang.AsksToStay))
	spare := sets.New[types.UID]()
	account := usage.AccountOf(group)
	if accounts.Len() == 1 { // they may have been bound when the PodGroup was in another queue
		account = accounts.UnsortedList()[0]
	}
	var parts []evictable
	for _, m := range gang.NewRemaining(g.Asks(), members).Spare(movable) {
		spare.Insert(m.UID)
		unit := quota.Unit{Account: account, Priority: max(floor, m.Priority), Requests: m.Requests, AsksToStay: gang.AsksToStay(m.Pod)}
		parts = append(parts, evictable{unit, surplusMember, gang.StartOf(m.Pod).Time})
	}
	if len(movable) < len(members) || spare.Len() == len(members) {
		return parts
	}
	whole := evictable{quota.Unit{Account: account, Priority: floor, Requests: resources.List{}}, wholeGang, a.clock.Now()}
	for _, m := range members {
		whole.Priority, whole.AsksToStay = max(whole.Priority, m.Priority), whole.AsksToStay || gang.AsksToStay(m.Pod)
		if start := gang.StartOf(m.Pod).Time; start.Before(whole.since) {
			whole.since = start
		}
		if !spare.Has(m.UID) {
			whole.Requests.Add(m.Requests)
		}
	}
	return append(parts, whole)
}

func mayBeEvicted(pod *corev1.Pod) bool { return gang.MayBeEvicted(pod) && !gang.IsCritical(pod) }

// neverPreempts says whether nothing may be evicted for a PodGroup: its class forbids it, or one of its pods.
func (a *admission) neverPreempts(c *candidate) bool {
	class, err := a.priorities.Get(c.group.Spec.PriorityClassName)
	if err == nil && class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever {
		return true
	}
	return slices.ContainsFunc(a.tracker.Members(c.group.Namespace, c.group.Name), gang.NeverPreempts)
}
