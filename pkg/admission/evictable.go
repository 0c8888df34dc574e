package admission

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Evictable is a unit that the scheduler may evict now to make quota for a PodGroup, with its sort key. A unit may ask to stay.
type Evictable struct {
	quota.Unit
	kind  gang.UnitKind
	since time.Time
}

// Load is what has quota: pods, and PodGroups that have not started.
type Load struct {
	// Groups and Pods are all that exist.
	Groups []*schedulingv1beta1.PodGroup
	Pods   []*corev1.Pod
	// Charged is what a pod is charged, and to which account; false if it is not charged.
	Charged func(pod types.UID) (account string, amount resources.List, charged bool)
	// Unclaimed is what is kept for members of PodGroups that have not taken it, by "<namespace>/<name>".
	Unclaimed map[string]resources.List
	// Classes are the PriorityClasses.
	Classes Classes
}

// Evictables are the running units, and the room that is kept for PodGroups that have not started. They are in the scheduler's order of
// eviction within a queue. Minimum run times of pods are ignored: they pass.
func (l *Load) Evictables() []Evictable {
	groups := map[string]*schedulingv1beta1.PodGroup{}
	for _, group := range l.Groups {
		groups[groupKey(group.Namespace, group.Name)] = group
	}
	pods, named := map[string][]*corev1.Pod{}, map[string][]*corev1.Pod{} // by PodGroup. Only named has pods that linger
	var all []Evictable
	for _, pod := range l.Pods {
		key := PodGroupOf(pod)
		if _, kept := l.Unclaimed[key]; kept {
			named[key] = append(named[key], pod)
		}
		if groups[key] != nil && !gang.Lingers(pod) { // no gang needs one that lingers
			pods[key] = append(pods[key], pod)
		} else if account, amount, charged := l.Charged(pod.UID); charged && gang.MayBeEvicted(pod) {
			unit := quota.Unit{Account: account, Priority: corev1helpers.PodPriority(pod), Requests: amount, AsksToStay: gang.AsksToStay(pod)}
			all = append(all, Evictable{unit, gang.SinglePod, gang.StartOf(pod).Time})
		}
	}
	for key, members := range pods {
		all = append(all, l.partsOf(groups[key], members)...)
	}
	for key, amount := range l.Unclaimed {
		group := groups[key]
		if group != nil && !slices.ContainsFunc(pods[key], func(pod *corev1.Pod) bool { return !gang.MayBeEvicted(pod) }) {
			unit := quota.Unit{Account: AccountOf(group), Priority: l.Classes.priorityOf(group, named[key]), Requests: amount,
				AsksToStay: slices.ContainsFunc(pods[key], gang.AsksToStay)}
			all = append(all, Evictable{unit, gang.NotStarted, time.Time{}})
		}
	}
	slices.SortStableFunc(all, func(x, y Evictable) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.Priority, y.Priority), y.since.Compare(x.since))
	})
	return all
}

// unitsOf are the units of what may be evicted. For a PodGroup for which nothing may be evicted, they are what has not started.
func unitsOf(all []Evictable, neverPreempts bool) []quota.Unit {
	var units []quota.Unit
	for i := range all {
		if !neverPreempts || all[i].kind == gang.NotStarted {
			units = append(units, all[i].Unit)
		}
	}
	return units
}

// partsOf are the surplus members of a PodGroup, and the rest as a whole if it may be evicted whole.
func (l *Load) partsOf(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) []Evictable {
	g := gang.Gang{Spec: gang.SpecOf(group)}
	accounts := sets.New[string]()
	for _, pod := range pods {
		if account, amount, charged := l.Charged(pod.UID); charged {
			accounts.Insert(account)
			g.Put(gang.MemberOf(pod, amount))
		}
	}
	members := g.Bound()
	var movable []*gang.Member
	for _, m := range members {
		if gang.MayBeEvicted(m.Pod) {
			movable = append(movable, m)
		}
	}
	slices.SortFunc(movable, gang.WillingFirst(gang.AsksToStay))
	account := AccountOf(group)
	if accounts.Len() == 1 { // they may have been bound when the PodGroup was in another queue
		account = accounts.UnsortedList()[0]
	}
	parts, rest := gang.Units(members, gang.NewRemaining(g.Asks(), members).Spare(movable), l.Classes.floorOf(group, &g), gang.AsksToStay)
	if len(movable) == len(members) && rest != nil {
		parts = append(parts, rest)
	}
	all := make([]Evictable, len(parts))
	for i, u := range parts {
		all[i] = Evictable{quota.Unit{Account: account, Priority: u.Priority, Requests: u.Requests, AsksToStay: u.AsksToStay}, u.Kind, u.Since}
	}
	return all
}
