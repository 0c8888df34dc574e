package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// sharing has gangs of the same priority share room for surplus evenly. The order of the scheduling queue is not enough: pods that back off
// there, or that the dispatcher is about to activate, are not in it.
type sharing struct {
	gangs      map[Key]*group    // the gangs that run and may have members that wait
	turnedBack map[types.UID]int // surplus that lets other gangs go first, and what taken was then
	freed      int               // how often room may have come free on nodes
	freedAt    time.Time         // when that was last
	taken      int               // how often surplus has taken room
}

func newSharing() sharing {
	return sharing{gangs: map[Key]*group{}, turnedBack: map[types.UID]int{}, freed: 1}
}

// snapshotLag is how long a scheduling cycle may not see room that an event of the API has freed. The scheduler's cache has a handler of its
// own.
const snapshotLag = time.Second

// gang.RoomFreed notes that room may have come free on nodes.
func (s *sharing) roomFreed(now time.Time) {
	s.freed++
	s.freedAt = now
}

// foundNoRoom notes that surplus of a gang found no room. That says nothing of room that has just come free.
func (s *sharing) foundNoRoom(g *group, now time.Time) {
	if now.Sub(s.freedAt) > snapshotLag {
		g.noRoomAt = s.freed
	}
}

// LetsOthersGoFirst says whether a surplus pod that has found room must wait. Gangs that run with less surplus go first: their next members
// are activated, and the pod behind them. The pod waits again only if surplus has taken room meanwhile. Otherwise the room does not help the
// other gangs.
func (w *WaitList) LetsOthersGoFirst(pod *corev1.Pod) bool {
	if !gang.IsMember(pod) {
		return false
	}
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	g, m := w.t.find(pod.UID)
	if m == nil || m.State != gang.Waiting || !g.Seated() || w.podSeats[pod.UID] != nil || pod.Status.NominatedNodeName != "" {
		return false
	}
	s := &w.sharing
	taken, waited := s.turnedBack[pod.UID]
	delete(s.turnedBack, pod.UID)
	if (!waited || taken != s.taken) && w.callGangsWithLess(g) {
		s.turnedBack[pod.UID], w.ready[pod.UID] = s.taken, pod
		w.t.apply(nil, gang.TriedIn(0))
		return true
	}
	s.taken++
	return false
}

// callGangsWithLess has the next member of each gang activated that runs with less surplus. Gangs whose last member found no room are called
// when room may have come free. It says whether any was called.
func (w *WaitList) callGangsWithLess(g *group) (some bool) {
	for key, other := range w.sharing.gangs {
		if other.CountWaiting() == 0 || !other.Seated() {
			delete(w.sharing.gangs, key)
			continue
		}
		if !other.HasLessSurplus(&g.Gang) || other.noRoomAt == w.sharing.freed || w.t.priorityOf(other) != w.t.priorityOf(g) {
			continue
		}
		if status := w.t.status(other); status.Phase == gang.Running && status.Reason == "" {
			next := other.Waiting()[0].Pod
			w.ready[next.UID], some = next, true
		}
	}
	return some
}

// runs notes that a gang runs: its members that wait are surplus.
func (s *sharing) runs(g *group) {
	if g.CountWaiting() > 0 {
		s.gangs[g.key] = g
	}
}
