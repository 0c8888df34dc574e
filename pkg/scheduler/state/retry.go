package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// rebind takes back into a round a member whose binding has failed after its gang had been released: the others are bound,
// or about to be, so it is not to be judged, it is to be placed. Its room stays promised to it, so that nobody who waits for
// room comes in between; it goes before everything but system-critical pods; and the first time it is tried at once.
func (s *Store) rebind(g *group, m *gang.Member, node string) {
	now := s.clock.Now()
	if g.phase != admitted {
		s.setPhase(g, admitted)
		g.parked, g.scout, g.sure = false, "", false
		g.asideVersion = 0 // the room was its own before anything was set aside
		g.chosen, g.planned, g.rest, g.turns = map[types.UID]string{}, map[string]resources.List{}, resources.List{}, nil
		g.notBefore = now
		if g.bindFailures > 0 {
			g.notBefore = now.Add(s.backoff(g.bindFailures - 1))
		}
		g.bindFailures++
		g.deadline = g.notBefore.Add(s.args.PermitTimeout.Duration)
		s.waker.AddAfter(g.key, g.notBefore.Sub(now))
		s.waker.AddAfter(g.key, g.deadline.Sub(now))
	}
	g.chosen[m.UID] = node
	if g.rebinding == nil {
		g.rebinding = sets.New[types.UID]()
	}
	g.rebinding.Insert(m.UID)
	if node != "" {
		sum := g.planned[node].Clone()
		sum.Add(m.Requests)
		g.planned[node] = sum
	}
	g.rest.Add(m.Requests)
	s.promiseRest(g)
}

// bindingFailed says whether a member that loses its room was let go to be bound: its gang holds the others.
func (s *Store) bindingFailed(g *group, m *gang.Member) bool {
	return g.allowed.Has(m.UID) && m.State == gang.Reserved && g.Counts(m) && g.known
}

// FailureHandled is called when a pod that could not be scheduled is back in the queue. One that has a promise is tried again
// at once: the waker may have come too early for it.
func (s *Store) FailureHandled(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, m := s.find(pod.UID); m != nil && g.rebinding.Has(pod.UID) {
		s.waker.AddAfter(g.key, max(0, g.notBefore.Sub(s.clock.Now())))
	}
}

// forgetBindFailures is called when a gang is bound as a whole.
func (g *group) forgetBindFailures() {
	if g.bindFailures > 0 && g.Seated() && !g.HasReserved() {
		g.bindFailures = 0
	}
}

// backsOff says whether a round waits before it goes on.
func (g *group) backsOff(now time.Time) bool { return now.Before(g.notBefore) }
