package eviction

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"

	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

const (
	// lowerPeriod is how often pods of a queue are evicted that uses more than its capability. At most lowerAtOnce pods are evicted each
	// time, unless a single gang has more.
	lowerPeriod = 10 * time.Second
	lowerAtOnce = 10
	// lowerAfter is how long a queue must have used too much: an administrator may have mistyped the capability.
	lowerAfter = 30 * time.Second
)

// LowerUsage has pods evicted of queues and users that use more than their limit. It evicts a few at a time, until the context ends. Use
// exceeds a limit when an administrator lowers the limit.
func LowerUsage(ctx context.Context, handle fwk.Handle, victims *evict.Victims) {
	l := &lowering{search: New(victims, handle, nil), pods: handle.SharedInformerFactory().Core().V1().Pods().Lister()}
	wait.UntilWithContext(ctx, func(context.Context) {
		if overuse, pods := l.next(time.Now()); len(pods) > 0 {
			victims.EvictFor(overuse, pods)
		}
	}, lowerPeriod)
}

// lowering remembers since when accounts use too much.
type lowering struct {
	search *Search
	pods   corelisters.PodLister
	since  map[string]time.Time // by account
}

// next finds the pods that are to be evicted now, all of one account.
func (l *lowering) next(now time.Time) (quota.Overuse, []*corev1.Pod) {
	if len(l.search.victims.Overused(nil)) == 0 {
		l.since = nil
		return quota.Overuse{}, nil
	}
	pods, err := l.pods.List(labels.Everything())
	if err != nil {
		return quota.Overuse{}, nil // the informer is in memory and does not fail
	}
	c, leaving := l.census(pods)
	since := map[string]time.Time{}
	var first quota.Overuse
	var victims []*corev1.Pod
	for _, overuse := range l.search.victims.Overused(leaving) {
		begun, known := l.since[overuse.Account]
		if !known {
			begun = now
		}
		since[overuse.Account] = begun
		if len(victims) == 0 && now.Sub(begun) >= lowerAfter {
			first, victims = overuse, l.victims(overuse.Account, c, leaving, now)
		}
	}
	l.since = since
	return first, victims
}

// census looks at all pods that have a node. Pods that are being deleted are no candidates and do not count. The same holds for pods that only
// a label charges.
func (l *lowering) census(pods []*corev1.Pod) (*census, []types.UID) {
	c, leaving := newCensus(l.search.victims, state.Key{}), l.search.victims.Leaving()
	for _, pod := range pods {
		switch info, err := framework.NewPodInfo(pod); {
		case pod.Spec.NodeName == "", err != nil: // it has an invalid affinity, which the API server does not let in
		case isGoing(pod), l.search.victims.Quota.IsChargedByLabel(pod):
			leaving.Insert(pod.UID)
		case !leaving.Has(pod.UID):
			c.add(info)
		}
	}
	return c, leaving.UnsortedList()
}

// victims are pods of an account that uses too much. No disruption budget forbids their eviction, by its status.
func (l *lowering) victims(account string, c *census, leaving []types.UID, now time.Time) []*corev1.Pod {
	candidates := l.search.candidates(c, anyVictim{}, now)
	slices.SortStableFunc(candidates, func(a, b *placement.Victim) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Priority(), b.Priority()), b.Since.Compare(a.Since))
	})
	protected, allowed := preemption.FilterVictimsWithPDBViolation(candidates, l.search.budgets())
	stays := map[string]bool{} // gangs of which surplus must stay, so that they cannot go whole
	for _, v := range protected {
		stays[v.Victim.Gang] = true
	}
	allowed = slices.DeleteFunc(allowed, func(v *placement.Victim) bool { return v.Kind == gang.WholeGang && stays[v.Gang] })
	units := make([]quota.Unit, len(allowed))
	for i, v := range allowed {
		units[i] = quota.Unit{Account: v.Account, Priority: v.Priority(), Requests: v.Requests}
	}
	return firstOf(allowed, l.search.victims.AboveCapability(account, units, leaving))
}

// firstOf are the pods of the first chosen victims. A whole gang goes with its surplus.
func firstOf(victims []*placement.Victim, chosen []int) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, i := range chosen {
		more := victims[i].AllPods()
		if victims[i].Kind == gang.WholeGang {
			for j, v := range victims {
				if v.Kind == gang.SurplusMember && v.Gang == victims[i].Gang && !slices.Contains(chosen, j) {
					more = append(more, v.AllPods()...)
				}
			}
		}
		if len(pods) > 0 && len(pods)+len(more) > lowerAtOnce {
			break
		}
		pods = append(pods, more...)
	}
	return pods
}

// anyVictim lets all pods go that are not spared.
type anyVictim struct{}

// Below says that priority spares no pod.
func (anyVictim) Below(string) int32 { return math.MaxInt32 }

// Judged refuses only victims that ask to stay. A pod that was bound by hand was never checked against a capability, so its wish does not
// count. A DaemonSet would create its pod again on the same node.
func (anyVictim) Judged(v *placement.Victim) *placement.Victim {
	if v.AsksToStay && !slices.ContainsFunc(v.AllPods(), isUnchecked) {
		return nil
	}
	return v
}

func isUnchecked(pod *corev1.Pod) bool {
	_, checked := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]
	return !checked && !gang.IsOfDaemonSet(pod)
}
