package worker

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// reportInterval is how often a report of a namespace goes although other work of it waits.
const reportInterval = 200 * time.Millisecond

// reportsAtOnce is how many waiting reports of a namespace are sent at once after its other work is done. That work has not ended then:
// pods that were created are being scheduled, by the same API server.
const reportsAtOnce = 2

// Reports delays writes that only report a state, while other writes need the API server. A sync that comes to a report asks MayWrite.
// While any key of its namespace waits for a worker, the report waits, too. Its key is synced again afterwards. Some reports are still
// sent, in the order in which they began to wait, so that users see progress. Changes meanwhile go into the same write. Work of other
// namespaces delays no report.
//
// A nil *Reports lets everything go at once. It is safe for concurrent use.
type Reports struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	workers []*Worker
	spaces  map[string]*space // by namespace; only namespaces with reports or work are in it
}

// space is what a namespace has to report.
type space struct {
	waiting   []report         // in the order in which they began to wait
	stages    map[report]stage // of all reports that wait or may be written
	lastForce time.Time        // when a report went last although other work waited, or the first one began to wait
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
	return &Reports{clock: c, spaces: map[string]*space{}}
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
	namespace, one := namespaceOf(key), report{w, key}
	s := r.spaces[namespace]
	if s == nil {
		if !r.busy(namespace) {
			return true
		}
		s = &space{stages: map[report]stage{}, lastForce: r.clock.Now()}
		r.spaces[namespace] = s
	}
	at, known := s.stages[one]
	if known && at == going || len(s.waiting) == 0 && !r.busy(namespace) {
		return true
	}
	if !known {
		s.stages[one] = waits
		s.waiting = append(s.waiting, one)
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
	s := r.spaces[namespaceOf(key)]
	if s == nil {
		return
	}
	if at, known := s.stages[report{w, key}]; known && at == released {
		s.stages[report{w, key}] = going
	}
}

// end notes that the key has been synced, and lets reports of its namespace go if it is time.
func (r *Reports) end(w *Worker, key string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	namespace := namespaceOf(key)
	s := r.spaces[namespace]
	if s == nil {
		return
	}
	if s.stages[report{w, key}] == going {
		delete(s.stages, report{w, key})
	}
	busy := r.busy(namespace)
	for range s.due(busy, r.clock.Now()) {
		next := s.waiting[0]
		s.waiting[0] = report{} // so that what is gone is not kept in memory
		s.waiting = s.waiting[1:]
		s.stages[next] = released
		next.worker.Enqueue(next.key)
	}
	if len(s.stages) == 0 && !busy {
		delete(r.spaces, namespace)
	}
}

// due is how many reports may go now. busy says that other work of the namespace waits.
func (s *space) due(busy bool, now time.Time) int {
	switch {
	case len(s.waiting) == 0:
		return 0
	case !busy:
		onTheirWay := len(s.stages) - len(s.waiting)
		return min(max(reportsAtOnce-onTheirWay, 0), len(s.waiting))
	case now.Sub(s.lastForce) >= reportInterval:
		s.lastForce = now
		return 1
	default:
		return 0
	}
}

// busy says whether any key of the namespace waits for a worker.
func (r *Reports) busy(namespace string) bool {
	for _, w := range r.workers {
		if w.order.countIn(namespace) > 0 {
			return true
		}
	}
	return false
}
