// Package worker runs the queue loop that every controller shares.
package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Bounds of the exponential back-off of a key whose sync fails.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// loggedFailures is from which failure of a key in a row on the log has them as errors. They have gone on for some seconds then. Most are over
// before. Another writer was faster, an informer is behind, or an API is not served yet.
const loggedFailures = 10

// Syncer brings the object of one key in line with what is wanted.
type Syncer interface {
	// Sync is called with one key at a time per key, never twice at once for the same key. after > 0 asks for
	// another call once that time has passed. It is ignored if err is not nil, which asks for another call after
	// a back-off.
	Sync(ctx context.Context, key string) (after time.Duration, err error)
}

// Worker feeds keys to a Syncer. A key that is enqueued while it waits is synced once. One that is enqueued while it is being synced is
// synced again afterwards. Namespaces take turns, one key each. A Syncer should do a bounded part of its work in one sync and enqueue the
// key again. That shares its work out among namespaces.
type Worker struct {
	name   string
	syncer Syncer
	queue  workqueue.TypedRateLimitingInterface[string]
	order  *fairQueue // of the keys in the queue
	// reports that wait for the keys; nil if there are none.
	reports *Reports
}

// New makes a Worker. The name appears in logs and in the workqueue metrics.
func New(name string, s Syncer) *Worker {
	return newWithClock(name, s, clock.RealClock{})
}

func newWithClock(name string, s Syncer, c clock.WithTicker) *Worker {
	order := newFairQueue()
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: name, Clock: c, Queue: order})
	later := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Name: name, Clock: c, Queue: keys})
	return &Worker{
		name:   name,
		syncer: s,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name, Clock: c, DelayingQueue: later}),
		order: order,
	}
}

// Enqueue asks for a sync of the key as soon as possible.
func (w *Worker) Enqueue(key string) {
	if isPossible(key) {
		w.queue.Add(key)
	}
}

// EnqueueFirst asks for a sync of the key before other waiting keys of its namespace.
func (w *Worker) EnqueueFirst(key string) {
	if isPossible(key) {
		w.order.prefer(key)
		w.queue.Add(key)
	}
}

// EnqueueAfter asks for a sync of the key when d has passed. If there are several requests for one key, the earliest counts.
func (w *Worker) EnqueueAfter(key string, d time.Duration) {
	if isPossible(key) {
		w.queue.AddAfter(key, d)
	}
}

// isPossible tells whether an object can have the key. Keys are made of annotations and targets too, where users write any text as the
// name. The sync of an impossible key would fail for ever.
func isPossible(key string) bool { return strings.Count(key, "/") <= 1 }

// Run syncs keys, that many at once, until the context ends; it returns when the syncs under way have returned.
func (w *Worker) Run(ctx context.Context, workers int) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), w.name)
	ctx = klog.NewContext(ctx, logger)
	logger.V(2).Info("Starting workers", "workers", workers)

	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for w.syncNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	group.Wait()
	logger.V(2).Info("Workers stopped")
}

// syncNext syncs one key. It returns false when there is nothing more to do, ever.
func (w *Worker) syncNext(ctx context.Context) bool {
	key, quit := w.queue.Get()
	if quit {
		return false
	}
	w.reports.begin(w, key)
	defer w.reports.end(w, key) // after Done: keys that are enqueued then need not wait for the end of this sync
	defer w.queue.Done(key)
	// Keys that are left in the queue at the stop are not worth a failing request each.
	if ctx.Err() != nil {
		return true
	}

	after, err := w.syncer.Sync(ctx, key)
	if err != nil {
		w.retry(ctx, key, err)
		return true
	}
	w.queue.Forget(key)
	if after > 0 {
		w.queue.AddAfter(key, after)
	}
	return true
}

// UsersError is an error that the user of an object has to mend. The object tells of it by its status or an event, so the log has no
// error line. It is retried as all errors are.
type UsersError struct{ Err error }

func (e *UsersError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the API server.
func (e *UsersError) Unwrap() error { return e.Err }

// retry syncs the key again after a back-off.
func (w *Worker) retry(ctx context.Context, key string, err error) {
	failures := w.queue.NumRequeues(key) + 1
	logger := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case failures >= loggedFailures && !errors.As(err, new(*UsersError)):
		logger.Error(err, "Sync failed, will retry", "key", key, "failures", failures)
	default:
		logger.V(2).Info("Sync failed, will retry", "key", key, "failures", failures, "err", err)
	}
	w.queue.AddRateLimited(key)
}
