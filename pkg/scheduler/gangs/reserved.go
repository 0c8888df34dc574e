package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// WaitList is the book of waiting gangs. It also lists the pods that wait for room that gangs hold.
type WaitList struct {
	t     *Tracker
	book  *reservations.Book[Key]
	seats map[Key]*group // gangs for which evictions make room, until their attempt ends
	// podSeats are the rooms that evictions make for pods that stand for themselves.
	podSeats map[types.UID]*podSeat
	// ready are pods that stand for themselves and are to be tried again.
	ready map[types.UID]*corev1.Pod
	held  held
	// sharing is about surplus of gangs of the same priority.
	sharing sharing
}

// needOf is the room that a gang lacks on nodes, nil if that is not known.
func needOf(shortfall *placement.Shortfall) reservations.Need {
	if shortfall == nil {
		return nil
	}
	return shortfall
}

// reserveNodes reserves the places that a decision has found for a waiting gang. It drops the reservation if the decision found none.
func (w *WaitList) reserveNodes(g *group, d *placement.Decision, now time.Time) {
	switch {
	case d.GivenUp:
		w.book.GiveUp(g.key, now)
	case d.Reserve != nil:
		w.book.ReserveNodes(g.key, d.Reserve.Of, amountsOf(d.Members, d.Reserve.Of), d.Reserve.Avoid, now)
	}
}

// mayTake says whether a claimant within its share may take the room that is kept for a gang. It leaves room to repairs.
func (w *WaitList) mayTake(holder Key, to claimant) bool {
	h := w.t.gangs[holder]
	return h != nil && !h.underRepair && w.t.Quota.mayTake(h.claims(requests(h.Choose())).Claim, to)
}

// holdsAgainst is the room that waiting minimums need, and that surplus leaves to them.
func (w *WaitList) holdsAgainst(g *group, pod *corev1.Pod) []reservations.Need {
	to := w.t.Quota.claimantOf(g, pod)
	return w.book.Holds(w.t.priorityOf(g), w.t.clock.Now(), func(key Key) bool { return !w.mayTake(key, to) })
}

// standsBack says whether a gang must leave room to another gang that has it reserved. Gangs under repair need not.
func (w *WaitList) standsBack(g *group, reserved *Reserved) bool {
	priority := w.t.priorityOf(g)
	return g.key != reserved.Key && priority <= reserved.Priority && !upstream.IsCritical(priority) && !g.underRepair
}

// reservedAgainst returns what is reserved on nodes against a pod that is about to be tried, nil if nothing is. Pods of DaemonSets can go
// nowhere else, and upstream decides native pod groups: both pass. In a queue a DaemonSet's pod does not: anybody can write such an owner.
func (w *WaitList) reservedAgainst(g *group, pod *corev1.Pod) *Reserved {
	if pod.Spec.SchedulingGroup != nil || gang.IsOfDaemonSet(pod) && w.t.Victims.accountOf(pod) == "" {
		return nil
	}
	reserved, priority := w.bookedAgainst(g, pod), corev1helpers.PodPriority(pod)
	if g != nil {
		priority = w.t.priorityOf(g)
		if g.attempt != nil && g.attempt.exact {
			return reserved // its places were found beside the earlier seats, and later ones leave them to it
		}
	}
	seats := w.seatsAgainst(g, pod.UID, priority)
	if seats == nil {
		return reserved
	}
	both := &Reserved{Amounts: seats}
	if reserved != nil {
		addAmounts(both.Amounts, reserved.Amounts)
	}
	return both
}

// bookedAgainst returns what the book has reserved on nodes against a pod.
func (w *WaitList) bookedAgainst(g *group, pod *corev1.Pod) *Reserved {
	reserved := w.book.Nodes()
	if reserved == nil {
		return nil
	}
	switch {
	case g == nil:
		if priority := corev1helpers.PodPriority(pod); priority > reserved.Priority || upstream.IsCritical(priority) {
			return nil
		}
	case !w.standsBack(g, reserved):
		return nil
	case g.attempt != nil:
		if g.attempt.version != reserved.Version {
			return nil // the gang got its places before, or need not stand back
		}
		return reserved
	}
	if w.mayTake(reserved.Key, w.t.Quota.claimantOf(g, pod)) {
		return nil
	}
	return reserved
}

// ReservedAgainst returns what is reserved on nodes against a pod, nil if nothing is.
func (w *WaitList) ReservedAgainst(pod *corev1.Pod) *Reserved {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	g, _ := w.t.find(pod.UID)
	return w.reservedAgainst(g, pod)
}

// reservedVersion changes whenever the reservations on nodes change.
func (w *WaitList) reservedVersion() int {
	if reserved := w.book.Nodes(); reserved != nil {
		return reserved.Version
	}
	return 0
}

// WaitForReserved notes that a pod found no node because of what is reserved, or needed by a waiting gang. It is activated when that changes.
func (w *WaitList) WaitForReserved(pod *corev1.Pod, entry Entry) {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.held.pods[pod.UID] = pod
	if entry.freed != w.held.freed {
		w.t.apply(nil, gang.Only(gang.HeldTried))
	}
}
