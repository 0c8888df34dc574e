// Package heap bounds how much memory our programs use beyond live objects. It says how much a heap grows before it is collected, and when
// a program at rest returns free memory.
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
// With 100 MB live and thousands of API objects a second that is a quarter of a scheduler's CPU. With 300 MB live it is 300 MB
// that a program has for garbage alone.
type Growth struct {
	// Floor is the size in bytes that a heap may reach before it is collected, even with little live memory.
	Floor uint64
	// LeastPercent of what is live is how much it may grow in any case.
	LeastPercent int
	// Rest is how long a program must go without a collection to be at rest. Its heap is collected then, and what is free given
	// back to the system. Left alone, Go keeps for minutes what a program needed only once, to fill its caches. 0 leaves it alone.
	Rest time.Duration
}

// ForSize suits a program that has much in its caches and little to do most of the time.
var ForSize = Growth{Floor: 128 << 20, LeastPercent: 20, Rest: 5 * time.Second}

const liveMetric = "/gc/heap/live:bytes"

// Pace adjusts the collector's percentage to the live heap after each collection, until the context ends. It returns free memory at rest.
// It does nothing if the environment variable GOGC is set.
func Pace(ctx context.Context, growth Growth) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	notifyOfCollections(ctx, collected)
	last, collections := 0, 0 // collections since memory was given back
	for {
		if percent := growth.percentFor(live()); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
		var rest <-chan time.Time
		if growth.Rest > 0 && collections > 1 { // the first is what giving back began with
			rest = time.After(growth.Rest)
		}
		select {
		case <-collected:
			collections++
		case <-rest:
			debug.FreeOSMemory()
			collections = 0
		case <-ctx.Done():
			return
		}
	}
}

// notifyOfCollections sends a value after each collection, until the context ends. A timer would be too late for a program that reads a
// whole cluster in its first second. The percentage for an empty heap would let the filled one grow tenfold.
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

func live() uint64 {
	sample := []metrics.Sample{{Name: liveMetric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// percentFor is the percentage for a live heap. It is rounded, because setting it stops the program for a moment, and not without
// limit. Until Pace has seen a collection, a heap that has grown quickly may grow as much again.
func (g Growth) percentFor(live uint64) int {
	const least, step = 32 << 20, 20
	live = max(live, least)
	if live >= g.Floor {
		return g.LeastPercent
	}
	percent := int(100 * (g.Floor - live) / live)
	return max(g.LeastPercent, percent/step*step)
}
