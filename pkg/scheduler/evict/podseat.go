package evict

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// CommitSeat evicts the victims that a search has found. It keeps their room and quota for the pod until the pod is bound. It returns the
// node. It returns false if nothing was found, or if a gang would be left below its minimum now. The next search waits then.
func (v *Victims) CommitSeat(s *PodSearch, found *placement.Seat) (node string, ok bool) {
	v.t.Lock()
	defer v.t.Unlock()
	now := v.t.Clock.Now()
	if found == nil || !v.seatPod(s, found, now) {
		v.Searches.failed(s, now)
		s.backoff.Pending = found != nil // a gang has changed meanwhile
		return "", false
	}
	v.Searches.succeeded(s)
	return found.Places[s.pod.UID], true
}

// seatPod begins the seat of a pod.
func (v *Victims) seatPod(s *PodSearch, found *placement.Seat, now time.Time) bool {
	made, victims := v.MakeSeat(found, &s.Claimant, "pod", now)
	if made == nil {
		return false
	}
	seat := &state.PodSeat{
		Seat: made, Pod: s.pod, Account: s.Claimant.Account, Node: found.Places[s.pod.UID], Requests: s.Claimant.Wants, Priority: s.Claimant.Priority,
	}
	v.waits.PodSeats[s.pod.UID] = seat
	v.Quota.AssumeSeat(seat)
	for _, victim := range victims {
		v.Evictions.Begin(s.pod.UID, seat.Node, victim)
	}
	if made.Leaving.Len() == 0 {
		v.t.Apply(nil, v.usePodSeat(seat, now))
	}
	return true
}

// WaitsForSeat says what a pod waits for whose victims have not gone yet, "" for nothing.
func (v *Victims) WaitsForSeat(pod types.UID) string {
	v.t.Lock()
	defer v.t.Unlock()
	if seat := v.waits.PodSeats[pod]; seat != nil && seat.Leaving.Len() > 0 {
		return seat.Message
	}
	return ""
}

// podSeatFree notes that a pod has left its node. If it was the last victim of a seat, the seat's pod is tried again.
func (v *Victims) podSeatFree(gone types.UID) (e gang.Effects) {
	now := v.t.Clock.Now()
	for uid, seat := range v.waits.PodSeats {
		if !seat.Leaving.Has(gone) {
			continue
		}
		seat.Leaving.Delete(gone)
		v.extend(seat.Seat, uid)
		if seat.Leaving.Len() == 0 {
			e.Add(v.usePodSeat(seat, now))
		}
	}
	return e
}

// usePodSeat has the pod of a seat tried, as its victims have gone.
func (v *Victims) usePodSeat(seat *state.PodSeat, now time.Time) gang.Effects {
	seat.Until, seat.RetryUntil = now.Add(UseWithin), now.Add(CacheLag)
	return v.t.TryAgain(seat.Pod, 0)
}

// EndPodSeat releases the room and quota that are kept for a pod, and its claims. The pods that it kept out are tried again.
func (v *Victims) EndPodSeat(pod types.UID) gang.Effects {
	if _, known := v.waits.PodSeats[pod]; !known {
		return gang.Effects{}
	}
	delete(v.waits.PodSeats, pod)
	v.t.DropUnbegun(pod)
	e := gang.Freed(v.Quota.Ledger.DropAssumed(state.LedgerKey(pod)))
	e.Add(gang.Only(gang.RoomFreed | gang.HoldFreed))
	return e
}

// SweepPodSeats ends seats whose victims have not gone in time, or whose pods have not used them. Then other victims are searched for.
func (v *Victims) SweepPodSeats(now time.Time) (e gang.Effects) {
	for pod, seat := range v.waits.PodSeats {
		isOver := !now.Before(seat.Until)
		if isOver {
			e.Add(v.EndPodSeat(pod))
		}
		if isOver || seat.Leaving.Len() == 0 { // in case it was activated too early
			e.Add(v.t.TryAgain(seat.Pod, 0))
		}
	}
	return e
}

// Gone notes that a pod has left its node. When no victim of a gang is left, on nodes or in its queue, its members are activated.
func (v *Victims) Gone(pod types.UID) {
	for _, g := range v.t.Attempting {
		made := g.Attempt.Seat
		if !g.Attempt.Evicts() || made.Leaving.Len() > 0 && !made.Leaving.Has(pod) {
			continue
		}
		var e gang.Effects
		made.Leaving.Delete(pod)
		if v.extend(made, g.PodGroup.UID) {
			g.Attempt.Deadline = made.Until.Add(v.t.Settings.Args.PermitTimeout.Duration)
			e = gang.LookIn(made.Within)
		}
		e.Add(v.SettleSeat(g))
		v.t.Apply(g, e)
	}
	v.t.Apply(nil, v.podSeatFree(pod))
}

// SearchesFor says whether victims for a pod are searched as for a gang. That is by shares and by priority, for room and for quota. For a
// pod that no queue is charged for, pods are evicted by priority alone, and on one node.
func (v *Victims) SearchesFor(pod *corev1.Pod) bool {
	v.t.Lock()
	defer v.t.Unlock()
	return v.Enabled && v.Quota.Enforced && v.Quota.AccountOfPod(pod) != ""
}

// SearchFor begins a search for a pod that found no room, or lacks quota. It returns nil if nothing may be evicted for the pod now. waits
// says that its victims have not gone yet: then its nomination must stay.
func (v *Victims) SearchFor(pod *corev1.Pod) (s *PodSearch, waits bool) {
	v.t.Lock()
	defer v.t.Unlock()
	now := v.t.Clock.Now()
	if waits, tooEarly := v.waits.AwaitsSeat(pod.UID, now); waits {
		if tooEarly {
			v.t.Apply(nil, v.t.TryAgain(pod, TooEarlyPause))
		}
		return nil, true
	}
	v.t.Apply(nil, v.EndPodSeat(pod.UID))
	if gang.NeverPreempts(pod) {
		return nil, false
	}
	shortage := v.Quota.ShortageOf(pod)
	v.t.Apply(nil, v.Quota.WaitFor(shortage, pod))
	if v.Quota.EvictionsCannotHelp(pod, shortage) {
		return nil, false
	}
	s = &PodSearch{Claimant: v.claimantOf(pod), pod: pod, begun: now}
	if s.backoff = v.Searches.Begin(pod, &s.Claimant, v.Quota.TermsOf(s.Claimant.Account).PreemptionDelay, v.budget.RestIn(now), now); s.backoff == nil {
		return nil, false
	}
	s.Problem = placement.Problem{
		Members: []*gang.Member{gang.MemberOf(pod, s.Claimant.Wants)},
		SameGang: func(other *corev1.Pod) bool {
			key, ok := gang.KeyOf(other)
			return other.UID == pod.UID || ok && key == s.Claimant.Gang
		},
		InGang:   gang.IsMember,
		Priority: s.Claimant.Priority,
		Held:     v.waits.AssumedByOthers(nil, s.Claimant.Priority),
	}
	return s, false
}

// claimantOf is the claimant of victims for a single pod or surplus.
func (v *Victims) claimantOf(pod *corev1.Pod) Claimant {
	c := Claimant{
		Account: v.Quota.AccountOfPod(pod), Priority: corev1helpers.PodPriority(pod), Wants: resources.PodRequests(pod),
		UID: pod.UID, Who: fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name), LedgerKey: state.LedgerKey(pod.UID),
	}
	if g, _ := v.t.Find(pod.UID); g != nil {
		c.Gang, c.surplus = g.Key, true
	} else if _, waits := v.Quota.Pods[pod.UID]; !waits {
		c.uncounted = true
	}
	return c
}
