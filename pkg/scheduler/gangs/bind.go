package gangs

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// bindsAtOnce is how many members are bound at the same time. A gang's members are released together, and a thousand requests at once are
// refused: an API server answers more than a few hundred requests of one client with 429 and "try again in a second". An HTTP/2 client
// opens a connection for every 250 requests. A hundred keep any API server busy.
const bindsAtOnce = 100

// BindLimiter bounds how many members are bound at the same time, in all profiles of a scheduler.
type BindLimiter struct {
	slots chan struct{}

	mu   sync.Mutex
	held map[types.UID]struct{} // pods that hold a slot
}

// NewBindLimiter makes a limiter.
func NewBindLimiter() *BindLimiter {
	return &BindLimiter{slots: make(chan struct{}, bindsAtOnce), held: map[types.UID]struct{}{}}
}

// Acquire waits until a pod may be bound, or the context ends.
func (l *BindLimiter) Acquire(ctx context.Context, pod types.UID) error {
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

// Release lets the next pod be bound. It may be called for pods that hold no slot.
func (l *BindLimiter) Release(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[pod]; held {
		delete(l.held, pod)
		<-l.slots
	}
}
