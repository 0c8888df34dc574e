// Package history is the controller that records how Jobs and PhJobs ended, in a history that outlives them.
//
// handlers.go notices the ends. A sync makes the record of one and appends it (sync.go). A record says how the
// Job was last (record.go), and what its pods had on nodes (use.go). Pods that went while no replica ran are missing.
//
// The folder of the history is the only memory of what was written. A replica that begins to lead asks it about the ended Jobs that exist.
package history

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/history"
)

// Config has the inputs of a Controller.
type Config struct {
	// Muster is the client with which a Job is read whole.
	Muster versioned.Interface
	// KubeInformers and MusterInformers are shared with other controllers, which start them.
	KubeInformers   informers.SharedInformerFactory
	MusterInformers externalversions.SharedInformerFactory
	// PhJobs says that there are PhJobs.
	PhJobs bool
	// Store is where records are kept; nil for nowhere.
	Store *history.Store
	// Lines receives each record as a line of JSON; nil for none.
	Lines io.Writer
	// RegisterMetrics makes the metrics visible. They are not counted if it is nil.
	RegisterMetrics func(...metrics.Registerable)
	// Clock is the clock; the real one if nil.
	Clock clock.PassiveClock
}

// Controller records the ends of Jobs and PhJobs.
type Controller struct {
	muster      versioned.Interface
	store       *history.Store
	sinks       []history.Sink
	clock       clock.PassiveClock
	instruments *instruments
	worker      *worker.Worker
	synced      []cache.InformerSynced
	pods        cache.Indexer
	queues      musterlisters.QueueLister

	mu      sync.Mutex
	entries map[types.UID]*entry // of all Jobs and PhJobs that exist, and of those whose record waits
	leads   bool
	failing bool // the last record could not be written
}

// New makes a Controller and registers it with the informers.
func New(cfg Config) (*Controller, error) {
	scheduling := cfg.MusterInformers.Scheduling().V1beta1()
	pods := cfg.KubeInformers.Core().V1().Pods().Informer()
	c := &Controller{
		muster: cfg.Muster, store: cfg.Store, clock: cfg.Clock, instruments: newInstruments(), pods: pods.GetIndexer(),
		queues: scheduling.Queues().Lister(), entries: map[types.UID]*entry{},
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if cfg.RegisterMetrics != nil {
		cfg.RegisterMetrics(c.instruments.Collectors...)
	}
	if cfg.Store != nil {
		c.sinks = append(c.sinks, cfg.Store)
	}
	if cfg.Lines != nil {
		c.sinks = append(c.sinks, history.Lines{Writer: cfg.Lines})
	}
	c.worker = worker.New("history", c)
	if err := pods.AddIndexers(cache.Indexers{byOwner: ownerOfPod}); err != nil {
		return nil, fmt.Errorf("indexing by owner: %w", err)
	}
	watched := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		cfg.MusterInformers.Batch().V1alpha1().Jobs().Informer(): c.jobHandler(), pods: c.podHandler(),
		scheduling.Queues().Informer(): cache.ResourceEventHandlerFuncs{},
	}
	if cfg.PhJobs {
		watched[cfg.MusterInformers.Primehub().V1alpha1().PhJobs().Informer()] = c.phJobHandler()
	}
	for informer, handler := range watched {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("adding an event handler: %w", err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

// Run writes records until the context ends.
func (c *Controller) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	c.lead(ctx)
	c.worker.Run(ctx, 1)
}

// lead begins to write records: those of Jobs that have ended and have none.
func (c *Controller) lead(ctx context.Context) {
	c.mu.Lock()
	c.leads = true
	earliest := c.clock.Now()
	for _, e := range c.entries {
		if e.object != nil && e.ended.Before(earliest) {
			earliest = e.ended
		}
	}
	c.mu.Unlock()
	if c.store == nil {
		c.takeAsWritten()
		return
	}
	for entry, err := range c.store.Read(ctx, history.Scope{Since: earliest.Add(-skew)}) {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Reading the history failed. Jobs that have ended before may be recorded twice")
			return
		}
		c.wasWritten(entry.Record.UID)
	}
}

// skew is how far clocks of two machines may differ. At a change of the leader no replica leads for less than that.
const skew = 5 * time.Minute

// takeAsWritten takes all Jobs as written that ended some time ago. Lines on standard output cannot be asked.
func (c *Controller) takeAsWritten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, e := range c.entries {
		if e.object != nil && c.clock.Since(e.ended) > skew {
			c.entries[uid] = written
		}
	}
}

// longestHold is how long after its end a Job is kept beyond its time because its record cannot be written.
const longestHold = 24 * time.Hour

// MayDelete says whether a Job or a PhJob may be deleted that has ended. Its record is written then, or it ended long ago.
func (c *Controller) MayDelete(uid types.UID, ended time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[uid] == written || c.clock.Since(ended) > longestHold
}
