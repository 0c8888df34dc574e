package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
)

// waiting is the book of waiting gangs. It also lists the pods that wait for room that gangs hold.
type waiting struct {
	Book *reservations.Book[Key]
	// PodSeats are the rooms that evictions make for single pods and surplus.
	PodSeats map[types.UID]*PodSeat
	// Ready are single pods and surplus and are to be tried again.
	Ready map[types.UID]*corev1.Pod
	Held  held
	// ForDomain are gangs whose members wait for a domain of the network.
	ForDomain sets.Set[Key]
	// Sharing is about surplus of gangs of the same priority.
	Sharing sharing
}

func newWaiting() *waiting {
	return &waiting{
		Book: reservations.New[Key](), PodSeats: map[types.UID]*PodSeat{}, Ready: map[types.UID]*corev1.Pod{},
		Held: held{Gangs: sets.New[Key](), Pods: map[types.UID]*corev1.Pod{}}, Sharing: sharing{Gangs: map[Key]*gang.Group{}, TurnedBack: map[types.UID]int{}, Freed: 1},
		ForDomain: sets.New[Key](),
	}
}

// retriedAtOnce bounds how many blocked pods are tried again in a tick: each costs a scheduling cycle.
const retriedAtOnce = 100

// TakeSome returns pods that may not block a gang any more, because room was taken.
func (h *held) TakeSome() []*corev1.Pod {
	if h.Taken {
		h.Taken, h.retry = false, len(h.Pods)
	}
	var some []*corev1.Pod
	for uid, pod := range h.Pods {
		if len(some) == min(h.retry, retriedAtOnce) {
			break
		}
		some = append(some, pod)
		delete(h.Pods, uid)
	}
	h.retry -= len(some)
	return some
}

// AddAmounts adds amounts to the sums of their nodes.
func AddAmounts(sums, amounts map[string]resources.List) {
	for node, amount := range amounts {
		sum := sums[node].Clone()
		sum.Add(amount)
		sums[node] = sum
	}
}

// PodSeat is the seat of a single pod or of surplus: room on a node, and quota. The pod's nomination keeps the room from pods of the same
// or a lower priority. The seat keeps it from pods of a higher priority, too. A victim that was evicted by share may have one, and would
// come back first and be evicted again.
type PodSeat struct {
	*gang.Seat
	Pod      *corev1.Pod
	Account  string // "" if no quota is assumed
	Node     string
	Requests resources.List
	Priority int32
}

// LedgerKey is the key under which a pod's seat assumes quota. It cannot be a gang's, which has a slash.
func LedgerKey(pod types.UID) string { return "seat:" + string(pod) }

// AwaitsSeat says whether a pod must wait for its seat, as its victims have not gone yet. tooEarly: the scheduler's cache may not know that they
// have.
func (w *waiting) AwaitsSeat(pod types.UID, now time.Time) (waits, tooEarly bool) {
	seat := w.PodSeats[pod]
	if seat == nil {
		return false, false
	}
	tooEarly = seat.Leaving.Len() == 0 && now.Before(seat.RetryUntil)
	return tooEarly || seat.Leaving.Len() > 0, tooEarly
}

// addPodSeats adds the room on each node that is kept from a pod or gang of a priority. Room that is kept for the pod itself is not; "" for none.
func (w *waiting) addPodSeats(amounts map[string]resources.List, pod types.UID, priority int32) {
	for uid, seat := range w.PodSeats {
		if uid != pod && priority > seat.Priority {
			AddAmounts(amounts, map[string]resources.List{seat.Node: seat.Requests})
		}
	}
}

// NeedOf is the room that a gang lacks on nodes, nil if that is not known.
func NeedOf(shortfall *placement.Shortfall) reservations.Need {
	if shortfall == nil {
		return nil
	}
	return shortfall
}

// held is the set of pods and gangs that wait for room that other gangs hold.
type held struct {
	Gangs    sets.Set[Key]             // unschedulable gangs that may fit when assumed or reserved room is given back
	Pods     map[types.UID]*corev1.Pod // pods that found no node because room is reserved, or needed by waiting gangs
	Taken    bool                      // room was taken since the last tick: the pods may not block a gang any more where less is left
	retry    int                       // how many of these pods are still to be tried again
	Returned int                       // how often held room or quota has been given back
	Freed    int                       // how often a reservation of nodes, or a need on them, has ended
}

// sharing has gangs of the same priority share room for surplus evenly. The order of the scheduling queue is not enough. Pods that back off
// there, or that the dispatcher is about to activate, are not in it.
type sharing struct {
	Gangs      map[Key]*gang.Group // the gangs that run and may have members that wait
	TurnedBack map[types.UID]int   // surplus that lets other gangs go first, and what taken was then
	Freed      int                 // how often room may have come free on nodes
	freedAt    time.Time           // when that was last
	taken      int                 // how often surplus has taken room
}

// snapshotLag is how long a scheduling cycle may not see room that an event of the API has freed. The scheduler's cache has a handler of its
// own.
const snapshotLag = time.Second

// gang.RoomFreed notes that room may have come free on nodes.
func (s *sharing) roomFreed(now time.Time) {
	s.Freed++
	s.freedAt = now
}

// FoundNoRoom notes that surplus of a gang found no room. That says nothing of room that has just come free.
func (s *sharing) FoundNoRoom(g *gang.Group, now time.Time) {
	if now.Sub(s.freedAt) > snapshotLag {
		g.NoRoomAt = s.Freed
	}
}

// Runs notes that a gang runs: its members that wait are surplus.
func (s *sharing) Runs(g *gang.Group) {
	if g.CountWaiting() > 0 {
		s.Gangs[g.Key] = g
	}
}
