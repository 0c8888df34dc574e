package coscheduling

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// bindsAtOnce is how many members are bound at the same time. A gang's members are released together, and a thousand requests at once are
// refused. An API server answers more than a few hundred requests of one client with 429 and "try again in a second". An HTTP/2 client
// opens a connection for every 250 requests. A hundred keep any API server busy.
const bindsAtOnce = 100

// bindLimiter bounds how many members are bound at the same time, in all profiles of a scheduler.
type bindLimiter struct {
	slots chan struct{}

	mu   sync.Mutex
	held map[types.UID]struct{} // pods that hold a slot
}

// newBindLimiter makes a limiter.
func newBindLimiter() *bindLimiter {
	return &bindLimiter{slots: make(chan struct{}, bindsAtOnce), held: map[types.UID]struct{}{}}
}

// acquire waits until a pod may be bound, or the context ends.
func (l *bindLimiter) acquire(ctx context.Context, pod types.UID) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[pod] = struct{}{}
	return nil
}

// release lets the next pod be bound. It may be called for pods that hold no slot.
func (l *bindLimiter) release(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[pod]; held {
		delete(l.held, pod)
		<-l.slots
	}
}
