package worker

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// reportInterval is how often a report goes although other work waits.
const reportInterval = 200 * time.Millisecond

// reportsAtOnce is how many of the reports that have waited go at the same time once no other work waits. What the workers
// have done is not at its end then: pods that were created are being scheduled, by the same API server.
const reportsAtOnce = 2

// Reports lets writes that only tell people how things are give way to those that something waits for, while there is more
// of both than the API server takes. A sync that comes to a report asks MayWrite. As long as any key waits for a worker, the
// report waits too, and its key is synced again afterwards; some go all the same, so that people see progress, in the order in
// which they began to wait. What happens meanwhile goes into the same write.
//
// A nil *Reports lets everything go at once. It is safe for concurrent use.
type Reports struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	workers   []*Worker
	waiting   []report         // in the order in which they began to wait
	stages    map[report]stage // of those that wait, or that may be written
	lastForce time.Time        // when a report went last although other work waited
}

// report is what the sync of a key by a worker has to tell.
type report struct {
	worker *Worker
	key    string
}

// stage is how far a report has come that could not be written at once.
type stage int

const (
	waits    stage = iota
	released       // its key is in the queue of its worker
	going          // its key is being synced
)

// NewReports makes Reports for the workers that are made with it.
func NewReports() *Reports { return newReports(clock.RealClock{}) }

func newReports(c clock.PassiveClock) *Reports {
	return &Reports{clock: c, stages: map[report]stage{}}
}

// Share makes the worker's keys go before the reports of all workers that share them. It is called before the worker runs.
func (r *Reports) Share(w *Worker) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.reports = r
	r.workers = append(r.workers, w)
}

// MayWrite says whether the sync of the key may write its report now. If not, the key is synced again when it may.
func (r *Reports) MayWrite(w *Worker, key string) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := report{w, key}
	at, known := r.stages[one]
	if known && at == going || len(r.waiting) == 0 && !r.busy() {
		return true
	}
	if !known {
		r.stages[one] = waits
		r.waiting = append(r.waiting, one)
	}
	return false
}

// begin notes that the key is being synced.
func (r *Reports) begin(w *Worker, key string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, known := r.stages[report{w, key}]; known && at == released {
		r.stages[report{w, key}] = going
	}
}

// end notes that the key has been synced, and lets reports go if it is time.
func (r *Reports) end(w *Worker, key string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stages[report{w, key}] == going {
		delete(r.stages, report{w, key})
	}
	for range r.due() {
		next := r.waiting[0]
		r.waiting[0] = report{} // so that what is gone is not kept in memory
		r.waiting = r.waiting[1:]
		r.stages[next] = released
		next.worker.Enqueue(next.key)
	}
}

// due is how many reports may go now.
func (r *Reports) due() int {
	switch now := r.clock.Now(); {
	case len(r.waiting) == 0:
		return 0
	case !r.busy():
		onTheirWay := len(r.stages) - len(r.waiting)
		return min(max(reportsAtOnce-onTheirWay, 0), len(r.waiting))
	case now.Sub(r.lastForce) >= reportInterval:
		r.lastForce = now
		return 1
	default:
		return 0
	}
}

// busy says whether any key waits for a worker.
func (r *Reports) busy() bool {
	for _, w := range r.workers {
		if w.queue.Len() > 0 {
			return true
		}
	}
	return false
}
