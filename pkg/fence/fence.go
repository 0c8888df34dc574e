// Package fence keeps a replica from writing when another one may lead. A process that was stopped for a while (SIGSTOP, a virtual machine
// that was suspended) goes on where it was. It learns that its lease has expired at its next try to renew it, which may be seconds later.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Errors of requests that a Fence stops.
var (
	errNeverLed = errors.New("this replica does not lead, so it must not write")
	errLost     = errors.New("this replica has lost its lease, and must not write or lead any more")
)

// Fence lets requests pass that write, as long as this process holds a lease. Lock tells it of the lease. It is safe for concurrent use.
type Fence struct {
	longest time.Duration
	now     func() moment

	mu      sync.Mutex
	led     bool
	lost    bool          // for good: the process must end, because it may have planned with what the next leader has changed
	renewed moment        // before the last successful renewal was sent
	expires time.Duration // after renewed
}

// moment is a time by two clocks. The first one goes on while a machine is suspended, the second one is never set.
type moment struct {
	wall    time.Time
	running time.Duration
}

// since is the longer of the times by the two clocks.
func (m moment) since(earlier moment) time.Duration {
	return max(m.wall.Sub(earlier.wall), m.running-earlier.running)
}

// New returns a Fence that lets nothing pass before the lease is held. It closes when the last renewal is as old as longest. If the
// duration of the lease is shorter, that counts. A longest below the duration leaves requests that were just sent the time to arrive.
func New(longest time.Duration) *Fence {
	start := time.Now()
	return &Fence{longest: longest, now: func() moment {
		now := time.Now()
		return moment{wall: now.Round(0), running: now.Sub(start)}
	}}
}

// check returns an error if another replica may lead now.
func (f *Fence) check() error {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch age := now.since(f.renewed); {
	case f.lost:
		return errLost
	case !f.led:
		return errNeverLed
	case age >= f.expires:
		return fmt.Errorf("the last renewal of the lease is %s old, so another replica may lead", age.Round(time.Millisecond))
	}
	return nil
}

// hold says that the lease was renewed by a request that was sent at a moment.
func (f *Fence) hold(sent moment, duration time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.led, f.renewed, f.expires = true, sent, min(f.longest, duration)
}

// lose closes the fence for good if it was ever open.
func (f *Fence) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = f.led
}

func (f *Fence) isLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Lock wraps the lock of leader election, so that the fence follows the lease. A process that has led and lost the lease never gets it
// again. Its renewals fail until leader election ends the process.
func (f *Fence) Lock(lock resourcelock.Interface) resourcelock.Interface {
	return &fencedLock{Interface: lock, fence: f}
}

type fencedLock struct {
	resourcelock.Interface
	fence *Fence
}

// Get implements resourcelock.Interface. Another holder, or none, is the proof that another replica may have led.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.fence.lose()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface. If the lease was deleted, another replica may have led since.
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.fence.lose()
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() { // the lease is given back
		l.fence.lose()
		return l.Interface.Update(ctx, record)
	}
	return l.write(ctx, record, l.Interface.Update)
}

// RecordEvent implements resourcelock.Interface. The event "stopped leading" comes when the lease is gone, and would be refused.
func (l *fencedLock) RecordEvent(text string) {
	if l.fence.check() == nil {
		l.Interface.RecordEvent(text)
	}
}

// write takes or renews the lease. Its age counts from before the request: another replica counts from when it sees the result.
func (l *fencedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if l.fence.isLost() {
		return errLost
	}
	sent := l.fence.now()
	if err := write(ctx, record); err != nil {
		return err
	}
	l.fence.hold(sent, time.Duration(record.LeaseDurationSeconds)*time.Second)
	return nil
}
