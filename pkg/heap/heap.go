// Package heap says how much memory our programs may use beyond what is live: by how much a heap grows before it is collected,
// and when a program at rest gives back what it does not need any more.
package heap

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Growth says how much a heap may grow beyond what is live. By default Go collects when it has grown by 100% of what is live.
// With 100 MB live and thousands of API objects a second that is a quarter of a scheduler's CPU; with 300 MB live it is 300 MB
// that a program has for garbage alone.
type Growth struct {
	// Floor is the size in bytes that a heap may reach before it is collected, however little of it is live.
	Floor uint64
	// Percent of what is live is how much it may grow beyond Floor until it has the size of Ceiling, in bytes. What a collection
	// costs follows what is live, so its share of a program's time stays the same over that range.
	Percent, Ceiling uint64
	// LeastPercent of what is live is how much it may grow in any case.
	LeastPercent int
	// Idle is how long a program must allocate next to nothing for its garbage to be collected, if there is so much that it matters: what
	// comes next finds the heap as empty as it can be, and pays for no collection that could have been made while nobody waited. The
	// memory stays with the program. 0 leaves it alone.
	Idle time.Duration
	// Rest is how long a program must go without a collection to be at rest; its heap is collected then, and what is free given
	// back to the system. Left alone, Go keeps for minutes what a program needed only once, to fill its caches. 0 leaves it alone.
	Rest time.Duration
}

var (
	// ForSpeed suits a program that many pods wait for: a heap is collected rarely while it is small or middling, a large one somewhat
	// more often than Go does by default, because with 50,000 pods what is garbage would be as much memory as what is known of them.
	ForSpeed = Growth{Floor: 384 << 20, Percent: 400, Ceiling: 704 << 20, LeastPercent: 70, Idle: time.Second}
	// ForSize suits a program that has much in its caches and little to do most of the time.
	ForSize = Growth{Floor: 128 << 20, LeastPercent: 20, Rest: 5 * time.Second}
)

// Bytes, as Go counts them.
const (
	liveMetric      = "/gc/heap/live:bytes"                // what the last collection has found
	inUseMetric     = "/memory/classes/heap/objects:bytes" // that, and what was allocated since
	allocatedMetric = "/gc/heap/allocs:bytes"              // all that was ever allocated
)

// Pace adjusts the collector's percentage to the live heap after each collection, and gives memory back at rest, until the
// context ends. It does nothing where the environment variable GOGC says what is wanted.
func Pace(ctx context.Context, growth Growth) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	notifyOfCollections(ctx, collected)
	idle := newIdleness(growth.Idle)
	defer idle.stop()
	var rest <-chan time.Time
	last, collections := 0, 0 // collections since memory was given back
	for {
		if percent := growth.percentFor(read(liveMetric)); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
		select {
		case <-collected:
			if collections++; growth.Rest > 0 && collections > 1 { // the first is what giving back began with
				rest = time.After(growth.Rest)
			}
		case <-rest:
			debug.FreeOSMemory()
			rest, collections = nil, 0
		case <-idle.look:
			if growth.worthCollecting(idle.allocated(), read(liveMetric), read(inUseMetric)) {
				runtime.GC()
			}
		case <-ctx.Done():
			return
		}
	}
}

// notifyOfCollections tells of each collection, until the context ends. To look at the clock instead is too late for a program
// that reads a whole cluster into its caches in its first second: a percentage that was right for an empty heap lets the
// filled one grow tenfold.
func notifyOfCollections(ctx context.Context, collected chan<- struct{}) {
	canary := new([64]byte) // collected at the next opportunity, since nothing refers to it; not so small that it shares its memory
	runtime.AddCleanup(canary, func(struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
		if ctx.Err() == nil {
			notifyOfCollections(ctx, collected)
		}
	}, struct{}{})
}

// idleness looks every now and then at how much a program allocates.
type idleness struct {
	look   <-chan time.Time // nil if nobody asks
	stop   func()
	before uint64
}

func newIdleness(period time.Duration) *idleness {
	if period == 0 {
		return &idleness{stop: func() {}}
	}
	ticker := time.NewTicker(period)
	return &idleness{look: ticker.C, stop: ticker.Stop, before: read(allocatedMetric)}
}

// allocated is how many bytes were allocated since the last look.
func (i *idleness) allocated() uint64 {
	before := i.before
	i.before = read(allocatedMetric)
	return i.before - before
}

// nextToNothing is what programs allocate that have nothing to do: they renew a lease, answer probes, look after what waits.
const nextToNothing = 4 << 20

// worthCollecting says whether a program that has allocated so little is idle, and has spent so much of what its heap may grow that
// a collection now spares it one when it is busy.
func (g Growth) worthCollecting(allocated, live, inUse uint64) bool {
	const part = 4 // of the growth; a smaller one does not matter
	return allocated < nextToNothing && inUse > live && inUse-live > live*uint64(g.percentFor(live))/100/part
}

func read(metric string) uint64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// percentFor is the percentage for a live heap. It is rounded, because setting it stops the program for a moment, and not without
// limit: until Pace has seen a collection, a heap that has grown quickly may grow as much again.
func (g Growth) percentFor(live uint64) int {
	const least, step = 32 << 20, 20
	live = max(live, least)
	size := max(g.Floor, min(live+live*g.Percent/100, g.Ceiling))
	if live >= size {
		return g.LeastPercent
	}
	percent := int(100 * (size - live) / live)
	return max(g.LeastPercent, percent/step*step)
}
