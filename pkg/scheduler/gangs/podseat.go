package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
)

// podSeat is the seat of a single pod or of surplus: room on a node, and quota. The pod's nomination keeps the room from pods of the same or a
// lower priority. The seat keeps it from pods of a higher priority, too: a victim that was evicted by share may have one, and would come back
// first and be evicted again.
type podSeat struct {
	*seat
	pod      *corev1.Pod
	account  string // "" if no quota is assumed
	node     string
	requests resources.List
	priority int32
	// patientUntil is until when the scheduler's cache may still show the victims: a pod that finds no room before is tried again.
	patientUntil time.Time
}

// ledgerKey is the key under which a pod's seat assumes quota. It cannot be a gang's, which has a slash.
func ledgerKey(pod types.UID) string { return "seat:" + string(pod) }

// CommitSeat evicts the victims that a search has found. It keeps their room and quota for the pod until the pod is bound. It returns the
// node. It returns false if nothing was found, or if a gang would be left below its minimum now. The next search waits then.
func (v *Victims) CommitSeat(s *PodSearch, found *placement.Seat) (node string, ok bool) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	now := v.t.clock.Now()
	if found == nil || !v.seatPod(s, found, now) {
		v.searches.inVain(s, now)
		s.pace.owed = found != nil // a gang has changed meanwhile
		return "", false
	}
	v.searches.succeeded(s)
	return found.Places[s.pod.UID], true
}

// seatPod begins the seat of a pod.
func (v *Victims) seatPod(s *PodSearch, found *placement.Seat, now time.Time) bool {
	made, evictions := v.t.newSeat(found, &s.Claimant, now)
	victims := make([]types.UID, len(evictions))
	for i := range evictions {
		victims[i] = evictions[i].uid
	}
	if !v.wholeWithout(s.pod.UID, victims) {
		return false
	}
	made.message = waitingFor(len(victims), "pod")
	seat := &podSeat{
		seat: made, pod: s.pod, account: s.Claimant.Account, node: found.Places[s.pod.UID], requests: s.Claimant.Wants, priority: s.Claimant.Priority,
	}
	v.t.WaitList.podSeats[s.pod.UID] = seat
	v.t.Quota.assumeSeat(seat)
	v.claimVictims(s.pod.UID, victims, made.until, false)
	for _, eviction := range evictions {
		v.t.Evictions.Begin(s.pod.UID, seat.node, eviction.pod)
		v.t.repairs.Add(eviction.repair)
	}
	if made.leaving.Len() == 0 {
		v.t.apply(nil, v.t.WaitList.usePodSeat(seat, now))
	}
	return true
}

// WaitsForSeat says what a pod waits for whose victims have not gone yet, "" for nothing.
func (v *Victims) WaitsForSeat(pod types.UID) string {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if seat := v.t.WaitList.podSeats[pod]; seat != nil && seat.leaving.Len() > 0 {
		return seat.message
	}
	return ""
}

// awaitsSeat says whether a pod must wait for its seat, as its victims have not gone yet. tooEarly: the scheduler's cache may not know that they
// have.
func (w *WaitList) awaitsSeat(pod types.UID, now time.Time) (waits, tooEarly bool) {
	seat := w.podSeats[pod]
	if seat == nil {
		return false, false
	}
	tooEarly = seat.leaving.Len() == 0 && now.Before(seat.patientUntil)
	return tooEarly || seat.leaving.Len() > 0, tooEarly
}

// podSeatFree notes that a pod has left its node. If it was the last victim of a seat, the seat's pod is tried again.
func (w *WaitList) podSeatFree(gone types.UID) (e gang.Effects) {
	now := w.t.clock.Now()
	for uid, seat := range w.podSeats {
		if !seat.leaving.Has(gone) {
			continue
		}
		seat.leaving.Delete(gone)
		w.extend(seat.seat, uid)
		if seat.leaving.Len() == 0 {
			e.Add(w.usePodSeat(seat, now))
		}
	}
	return e
}

// usePodSeat has the pod of a seat tried, as its victims have gone.
func (w *WaitList) usePodSeat(seat *podSeat, now time.Time) gang.Effects {
	seat.until, seat.patientUntil = now.Add(useWithin), now.Add(seatPatience)
	return w.tryAgain(seat.pod, 0)
}

// endPodSeat gives up the room and quota that are kept for a pod, and its claims. The pods that it kept out are tried again.
func (w *WaitList) endPodSeat(pod types.UID) gang.Effects {
	if _, known := w.podSeats[pod]; !known {
		return gang.Effects{}
	}
	delete(w.podSeats, pod)
	w.t.Victims.dropUnbegun(pod)
	e := gang.Freed(w.t.Quota.Ledger.DropAssumed(ledgerKey(pod)))
	e.Add(gang.Only(gang.RoomFreed | gang.HoldFreed))
	return e
}

// sweepPodSeats ends seats whose victims have not gone in time, or whose pods have not used them. Then other victims are searched for.
func (w *WaitList) sweepPodSeats(now time.Time) (e gang.Effects) {
	for pod, seat := range w.podSeats {
		isOver := !now.Before(seat.until)
		if isOver {
			e.Add(w.endPodSeat(pod))
		}
		if isOver || seat.leaving.Len() == 0 { // in case it was activated too early
			e.Add(w.tryAgain(seat.pod, 0))
		}
	}
	return e
}

// addPodSeats adds the room on each node that is kept from a pod or gang of a priority. Room that is kept for the pod itself is not; "" for none.
func (w *WaitList) addPodSeats(amounts map[string]resources.List, pod types.UID, priority int32) {
	for uid, seat := range w.podSeats {
		if uid != pod && priority > seat.priority {
			addAmounts(amounts, map[string]resources.List{seat.node: seat.requests})
		}
	}
}

// tryAgain has a pod that stands for itself activated after a while.
func (w *WaitList) tryAgain(pod *corev1.Pod, after time.Duration) gang.Effects {
	if !w.t.standsForItself(pod) {
		return gang.Effects{}
	}
	w.ready[pod.UID] = pod
	return gang.TriedIn(after)
}

// assumeSeat assumes the quota of a seat. The pod is charged when it holds its room.
func (q *Quota) assumeSeat(seat *podSeat) {
	if seat.account != "" {
		q.Ledger.Assume(ledgerKey(seat.pod.UID), seat.account, seat.requests)
	}
}
