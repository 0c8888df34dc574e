package state

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bindsAtOnce is how many members are bound at the same time. A gang's members are released together, and a thousand requests
// at once are refused: an API server answers more than a few hundred of one client with 429 and "try again in a second", and
// an HTTP/2 client opens a connection for every 250 of them. A hundred keep any API server busy.
const bindsAtOnce = 100

// bindings are the members that are being bound now.
type bindings struct {
	slots chan struct{}
	held  map[types.UID]struct{} // who holds a slot; under the Store's lock
}

func newBindings() bindings {
	return bindings{slots: make(chan struct{}, bindsAtOnce), held: map[types.UID]struct{}{}}
}

// AwaitTurn waits until a member may be bound, or the context ends.
func (s *Store) AwaitTurn(ctx context.Context, pod *corev1.Pod) error {
	select {
	case s.binding.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.binding.held[pod.UID] = struct{}{}
	return nil
}

// NoteBound ends the turn of a member that has been bound. It has left the scheduling queue, and needs no place there.
func (s *Store) NoteBound(pod *corev1.Pod) {
	s.EndTurn(pod)
	s.order.Delete(pod.UID)
}

// EndTurn lets the next member be bound. It may be called for pods that hold no turn.
func (s *Store) EndTurn(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.binding.held[pod.UID]; held {
		delete(s.binding.held, pod.UID)
		<-s.binding.slots
	}
}
