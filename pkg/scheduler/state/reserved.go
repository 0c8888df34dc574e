package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// WaitList answers what is kept on nodes, and against whom.
type WaitList struct {
	t     *State
	quota *Quota
	*waiting
}

// NewWaitList makes the view of reserved room on a state.
func NewWaitList(t *State, q *Quota) *WaitList { return &WaitList{t, q, t.Waiting} }

// StandingOf is the book's input for a decision on a gang. One that would be the first of its queue gets places with a start at once. The next
// decision might take its room.
func (w *WaitList) StandingOf(g *gang.Group, now time.Time) reservations.Standing {
	standing := w.Book.StandingOf(g.Key, now)
	if !standing.Choose && !standing.NoPlaces && standing.Places == nil && w.Book.BecomesFirst(g.Key, w.t.Rank(g), now) {
		standing.Choose, standing.OnlyWithStart = true, true
	}
	return standing
}

// ReserveNodes reserves the places that a decision has found for a waiting gang. It drops the reservation if the decision found none.
func (w *WaitList) ReserveNodes(g *gang.Group, d *placement.Decision, now time.Time) {
	switch {
	case d.NoPlaces:
		w.Book.BackOff(g.Key, now)
	case d.Reserve != nil:
		if last := w.Book.ReservedFor(g.Key); last != nil && !last.Start.IsZero() && d.Reserve.Start.After(last.Start) {
			w.t.Metrics.Postponed.Inc()
		}
		w.Book.ReserveNodes(g.Key, reservations.Choice{
			Places: d.Reserve.Of, Amounts: amountsOf(d.Members, d.Reserve.Of), Avoid: d.Reserve.Avoid, AwaitsOwn: d.Reserve.AwaitsOwn,
			Start: d.Reserve.Start, Length: w.t.EstimateOf(g).For, Claim: claimsOf(g, gang.Requests(d.Members)).Claim,
		}, now)
	case d.NoStart:
		w.Book.NoStart(g.Key, now)
	}
}

// mayTake says whether a claimant within its share may take the room that is kept for a gang. It leaves room to repairs.
func (w *WaitList) mayTake(holder Key, to claimant) bool {
	h := w.t.Gangs[holder]
	return h != nil && !h.UnderRepair && w.quota.mayTake(claimsOf(h, gang.Requests(h.Choose())).Claim, to)
}

// HoldsAgainst is the room that waiting minimums need, and that surplus leaves to them.
func (w *WaitList) HoldsAgainst(g *gang.Group, pod *corev1.Pod) []reservations.Need {
	to := w.quota.claimantOf(g, pod)
	return w.Book.Holds(w.quota.QueueOf(to.Queue), w.t.PriorityOf(g), w.t.Clock.Now(), func(key Key) bool { return !w.mayTake(key, to) })
}

// leavesRoomTo says whether a gang must leave room to another gang that has it reserved. Gangs under repair need not.
func (w *WaitList) leavesRoomTo(g *gang.Group, reserved *Reserved) bool {
	priority := w.t.PriorityOf(g)
	return g.Key != reserved.Key && priority <= reserved.Priority && !upstream.IsCritical(priority) && !g.UnderRepair
}

// delays says whether the start of a gang or a pod may delay the gang that has a reservation. The pod may be of that gang, or of none.
func (w *WaitList) delays(g *gang.Group, pod *corev1.Pod, reserved *Reserved) bool {
	if reserved.Start.IsZero() {
		return true
	}
	end, known := w.t.endIfStarted(g, pod)
	return reserved.HoldsAgainst(w.quota.startNow(g, pod), end, known)
}

// KeptFrom is a reservation with a start, as package placement sees it.
func (w *WaitList) KeptFrom(reserved *Reserved) placement.Kept {
	kept := placement.Kept{Amounts: reserved.Amounts, On: reserved.KeptOn}
	if g := w.t.Gangs[reserved.Key]; g != nil {
		kept.Until, _ = w.t.EstimateOf(g).End(reserved.Start, reserved.Start)
	}
	return kept
}

// AgainstMember returns what is reserved on nodes against a pod that is about to be tried, nil if nothing is. Pods of DaemonSets can go
// nowhere else, and upstream decides native pod groups: both pass. In a queue a DaemonSet's pod does not: anybody can write such an owner.
func (w *WaitList) AgainstMember(g *gang.Group, pod *corev1.Pod) Kept {
	if pod.Spec.SchedulingGroup != nil || gang.IsOfDaemonSet(pod) && w.quota.AccountOfPod(pod) == "" {
		return nil
	}
	booked, priority := w.bookedAgainst(g, pod), corev1helpers.PodPriority(pod)
	if g != nil {
		priority = w.t.PriorityOf(g)
		if g.Attempt != nil && g.Attempt.Exact {
			return booked // its places were found beside the earlier seats, and later ones leave them to it
		}
	}
	if seats := w.seatsAgainst(g, pod.UID, priority); seats != nil {
		booked = append(booked, &Reserved{Amounts: seats})
	}
	if len(booked) == 0 {
		return nil
	}
	return booked
}

// bookedAgainst returns what the book has reserved on nodes against a pod.
func (w *WaitList) bookedAgainst(g *gang.Group, pod *corev1.Pod) Kept {
	account := w.quota.Groups.AccountOf(pod)
	if g != nil {
		account = g.PodGroup.Account
	}
	return slices.DeleteFunc(w.Book.NodesAgainst(w.quota.QueueOf(account)), func(reserved *Reserved) bool {
		switch {
		case !w.delays(g, pod, reserved):
			return true
		case g == nil:
			if priority := corev1helpers.PodPriority(pod); priority > reserved.Priority || upstream.IsCritical(priority) {
				return true
			}
		case !w.leavesRoomTo(g, reserved):
			return true
		case g.Attempt != nil:
			return !g.Attempt.Leaves.Has(reserved.Version) // it got its places before, or need not leave them
		}
		return w.mayTake(reserved.Key, w.quota.claimantOf(g, pod))
	})
}

// ReservedFrom returns what the book has reserved on nodes against a gang that asks for an amount.
func (w *WaitList) ReservedFrom(g *gang.Group, wants resources.List) []*Reserved {
	to := claimsOf(g, wants)
	return slices.DeleteFunc(w.Book.NodesAgainst(w.quota.QueueOf(to.Queue)), func(reserved *Reserved) bool {
		return !w.delays(g, nil, reserved) || !w.leavesRoomTo(g, reserved) || w.mayTake(reserved.Key, to)
	})
}

// WaitForReserved notes that a pod found no node because of what is reserved, or needed by a waiting gang. It is activated when that changes.
func (w *WaitList) WaitForReserved(pod *corev1.Pod, entry Entry) {
	w.t.Lock()
	defer w.t.Unlock()
	w.Held.Pods[pod.UID] = pod
	if entry.Freed != w.Held.Freed {
		w.t.Apply(nil, gang.Only(gang.HeldTried))
	}
}

// Entry says what to do with a pod at the start of its scheduling cycle.
type Entry struct {
	// Reason says why the pod must not be tried now: its gang has changed after it had passed the gate. "" if it may.
	Reason string
	// Scout: the gang is to be decided.
	Scout bool
	// Node is where a chosen pod must go, "" for any.
	Node string
	// Reserved is the room on nodes that is reserved against the pod, nil if there is none.
	Reserved Kept
	// Holds are the needs of waiting gangs on nodes; a surplus pod must not take it.
	Holds []reservations.Need
	// Near keeps a pod close to the members of its gang, nil for no limit.
	Near *placement.Near
	// Together is the rest of a surplus group that starts whole, with the pod. It is nil for a pod that starts alone.
	Together *placement.Problem

	Freed int // held.freed at that time
}

// Reserved is the room on nodes that is reserved for a gang.
type Reserved = reservations.Nodes[Key]

// Kept are reservations of several gangs.
type Kept = reservations.Kept[Key]

// amountsOf adds up the members' requests on each node.
func amountsOf(members []*gang.Member, places map[types.UID]string) map[string]resources.List {
	amounts := map[string]resources.List{}
	for _, m := range members {
		sum := amounts[places[m.UID]].Clone()
		sum.Add(m.Requests)
		amounts[places[m.UID]] = sum
	}
	return amounts
}

// AssumedByOthers is what the attempts of other gangs have assumed on each node. It includes what is kept for pods of at least the given
// priority. g is nil for a pod.
func (w *WaitList) AssumedByOthers(g *gang.Group, priority int32) map[string]resources.List {
	held := map[string]resources.List{}
	for _, other := range w.t.Attempting {
		if other != g {
			AddAmounts(held, other.Attempt.Assumed)
		}
	}
	w.addPodSeats(held, NoUID, priority)
	return held
}

// LeavingFor are the pods that have to go for a gang, or for a pod.
func (w *WaitList) LeavingFor(by types.UID) sets.Set[types.UID] {
	if seat := w.PodSeats[by]; seat != nil {
		return seat.Leaving
	}
	for _, g := range w.t.Attempting {
		if g.PodGroup.UID == by && g.Attempt.Seat != nil {
			return g.Attempt.Seat.Leaving
		}
	}
	return nil
}

// seatsAgainst is the room on each node that evictions make for other gangs and other pods than the given one. It is nil if there is none.
// Only system-critical pods may take it.
func (w *WaitList) seatsAgainst(g *gang.Group, pod types.UID, priority int32) map[string]resources.List {
	if upstream.IsCritical(priority) {
		return nil
	}
	amounts := map[string]resources.List{}
	for _, other := range w.t.Attempting {
		if other != g && other.Attempt.Seat != nil {
			AddAmounts(amounts, other.Attempt.Assumed)
		}
	}
	w.addPodSeats(amounts, pod, priority)
	if len(amounts) == 0 {
		return nil
	}
	return amounts
}

// LetsOthersGoFirst says whether a surplus pod that has found room must wait. Gangs that run with less surplus go first: their next members
// are activated, and the pod behind them. The pod waits again only if surplus has taken room meanwhile. Otherwise the room does not help the
// other gangs.
func (w *WaitList) LetsOthersGoFirst(pod *corev1.Pod) bool {
	if !gang.IsMember(pod) {
		return false
	}
	w.t.Lock()
	defer w.t.Unlock()
	g, m := w.t.Find(pod.UID)
	if m == nil || m.State != gang.Waiting || !g.Seated() || w.PodSeats[pod.UID] != nil || pod.Status.NominatedNodeName != "" {
		return false
	}
	if len(g.Groups) > 0 && g.CountIn(gang.Reserved) > 0 {
		return false // a group that has begun to take its room goes on
	}
	s := &w.Sharing
	taken, waited := s.TurnedBack[pod.UID]
	delete(s.TurnedBack, pod.UID)
	if (!waited || taken != s.taken) && w.callGangsWithLess(g) {
		s.TurnedBack[pod.UID], w.Ready[pod.UID] = s.taken, pod
		w.t.Apply(nil, gang.TriedIn(0))
		return true
	}
	s.taken++
	return false
}

// callGangsWithLess has the next member of each gang activated that runs with less surplus. Gangs whose last member found no room are called
// when room may have come free. It says whether any was called.
func (w *WaitList) callGangsWithLess(g *gang.Group) (some bool) {
	for key, other := range w.Sharing.Gangs {
		if other.CountWaiting() == 0 || !other.Seated() {
			delete(w.Sharing.Gangs, key)
			continue
		}
		if !other.HasLessSurplus(&g.Gang) || other.NoRoomAt == w.Sharing.Freed || w.t.PriorityOf(other) != w.t.PriorityOf(g) {
			continue
		}
		if status := w.t.Status(other); status.Phase == gang.Running && status.Reason == "" {
			next := other.Waiting()[0].Pod
			w.Ready[next.UID], some = next, true
		}
	}
	return some
}
