package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/resources"
)

// podSeat is room on a node that evictions by share make for a pod that stands for itself. The pod's nomination keeps it from pods of the same
// or a lower priority; the seat keeps it from the others, as shares do not ask for priority: a victim of a higher one would come back first,
// and be evicted again.
type podSeat struct {
	node     string
	room     resources.List
	priority int32
	victims  sets.Set[types.UID]
	until    time.Time
}

// KeepSeat keeps the room on a node for a pod until it is bound or deleted, or useWithin after the grace periods of its victims.
func (v *Victims) KeepSeat(pod *corev1.Pod, node string, victims []*corev1.Pod) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	now := v.t.clock.Now()
	seat := podSeat{node: node, room: resources.PodRequests(pod), priority: corev1helpers.PodPriority(pod), victims: sets.New[types.UID]()}
	for _, victim := range victims {
		seat.victims.Insert(victim.UID)
		if until := now.Add(graceOf(victim) + useWithin); until.After(seat.until) {
			seat.until = until
		}
	}
	v.t.WaitList.podSeats[pod.UID] = seat
}

// SeatOf says on which node room is kept for a pod, "" for none, and which pods have to go for it.
func (v *Victims) SeatOf(pod types.UID) (node string, victims sets.Set[types.UID]) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	seat := v.t.WaitList.podSeats[pod]
	return seat.node, seat.victims
}

// EndSeat gives up the room that is kept for a pod: no evictions make it any more.
func (v *Victims) EndSeat(pod types.UID) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.t.WaitList.endPodSeat(pod)
}

// endPodSeat gives up the room that is kept for a pod. The pods that it kept out are tried again.
func (w *WaitList) endPodSeat(pod types.UID) {
	if _, known := w.podSeats[pod]; !known {
		return
	}
	delete(w.podSeats, pod)
	w.heldIsFree()
	w.held.freed++
	if len(w.held.pods) > 0 {
		w.t.look(heldBackKey)
	}
}

// sweepPodSeats gives up the room of pods that have not come in time.
func (w *WaitList) sweepPodSeats(now time.Time) {
	for pod, seat := range w.podSeats {
		if !now.Before(seat.until) {
			w.endPodSeat(pod)
		}
	}
}

// addPodSeats adds the room on each node that is kept from a pod or gang of a priority. Room that is kept for the pod itself is not; "" for none.
func (w *WaitList) addPodSeats(amounts map[string]resources.List, pod types.UID, priority int32) {
	for uid, seat := range w.podSeats {
		if uid != pod && priority > seat.priority {
			addAmounts(amounts, map[string]resources.List{seat.node: seat.room})
		}
	}
}
