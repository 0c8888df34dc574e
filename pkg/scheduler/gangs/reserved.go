package gangs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
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
		w.book.ReserveNodes(g.key, reservations.Choice{
			Places: d.Reserve.Of, Amounts: amountsOf(d.Members, d.Reserve.Of), Avoid: d.Reserve.Avoid, AwaitsOwn: d.Reserve.AwaitsOwn,
		}, now)
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
	return w.book.Holds(w.t.Quota.queueOf(to.Queue), w.t.priorityOf(g), w.t.clock.Now(), func(key Key) bool { return !w.mayTake(key, to) })
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
	booked, priority := w.bookedAgainst(g, pod), corev1helpers.PodPriority(pod)
	if g != nil {
		priority = w.t.priorityOf(g)
		if g.attempt != nil && g.attempt.exact {
			return sumOfReserved(booked) // its places were found beside the earlier seats, and later ones leave them to it
		}
	}
	if seats := w.seatsAgainst(g, pod.UID, priority); seats != nil {
		booked = append(booked, &Reserved{Amounts: seats})
	}
	return sumOfReserved(booked)
}

// sumOfReserved adds up reservations; nil if there are none. The sum has the gang of the first.
func sumOfReserved(reserved []*Reserved) *Reserved {
	switch len(reserved) {
	case 0:
		return nil
	case 1:
		return reserved[0]
	}
	all := &Reserved{Key: reserved[0].Key, Amounts: map[string]resources.List{}}
	for _, r := range reserved {
		addAmounts(all.Amounts, r.Amounts)
	}
	return all
}

// bookedAgainst returns what the book has reserved on nodes against a pod.
func (w *WaitList) bookedAgainst(g *group, pod *corev1.Pod) []*Reserved {
	account := w.t.Quota.Groups.AccountOf(pod)
	if g != nil {
		account = g.podGroup.account
	}
	return slices.DeleteFunc(w.book.NodesAgainst(w.t.Quota.queueOf(account)), func(reserved *Reserved) bool {
		switch {
		case g == nil:
			if priority := corev1helpers.PodPriority(pod); priority > reserved.Priority || upstream.IsCritical(priority) {
				return true
			}
		case !w.standsBack(g, reserved):
			return true
		case g.attempt != nil:
			return !g.attempt.leaves.Has(reserved.Version) // it got its places before, or need not leave them
		}
		return w.mayTake(reserved.Key, w.t.Quota.claimantOf(g, pod))
	})
}

// reservedFrom returns what the book has reserved on nodes against a gang that asks for an amount.
func (w *WaitList) reservedFrom(g *group, wants resources.List) []*Reserved {
	to := g.claims(wants)
	return slices.DeleteFunc(w.book.NodesAgainst(w.t.Quota.queueOf(to.Queue)), func(reserved *Reserved) bool {
		return !w.standsBack(g, reserved) || w.mayTake(reserved.Key, to)
	})
}

// ReservedAgainst returns what is reserved on nodes against a pod, nil if nothing is.
func (w *WaitList) ReservedAgainst(pod *corev1.Pod) *Reserved {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	g, _ := w.t.find(pod.UID)
	return w.reservedAgainst(g, pod)
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
