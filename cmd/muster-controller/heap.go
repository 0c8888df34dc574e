package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapGrowth says how much a heap may grow beyond what is live. By default Go collects when it has grown by 100% of what is live.
// With 100 MB live and thousands of API objects a second that is a quarter of a scheduler's CPU. With 300 MB live it is 300 MB
// that a program has for garbage alone.
type heapGrowth struct {
	// Floor is the size in bytes that a heap may reach before it is collected, even with little live memory.
	Floor uint64
	// LeastPercent of what is live is how much it may grow in any case.
	LeastPercent int
	// Rest is how long a program must go without a collection to be at rest. Its heap is collected then, and what is free given
	// back to the system. Left alone, Go keeps for minutes what a program needed only once, to fill its caches. 0 leaves it alone.
	Rest time.Duration
}

// heapForSize suits a program that has much in its caches and little to do most of the time.
var heapForSize = heapGrowth{Floor: 128 << 20, LeastPercent: 20, Rest: 5 * time.Second}

const (
	liveMetric   = "/gc/heap/live:bytes"
	cyclesMetric = "/gc/cycles/total:gc-cycles"
)

// paceHeap adjusts the collector's percentage to the live heap after each collection, until the context ends. It returns free memory at rest.
// It does nothing if the environment variable GOGC is set.
func paceHeap(ctx context.Context, growth heapGrowth) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	notifyOfCollections(ctx, collected)
	last, given := 0, uint64(0) // given is how many collections there were when memory was given back
	for {
		if percent := growth.percentFor(read(liveMetric)); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
		var rest <-chan time.Time
		if growth.Rest > 0 && read(cyclesMetric) != given { // signals may be lost, so they are not counted
			rest = time.After(growth.Rest)
		}
		select {
		case <-collected:
		case <-rest:
			debug.FreeOSMemory() // which collects, too
			given = read(cyclesMetric)
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

// read returns a figure of the Go runtime, 0 if it has none.
func read(metric string) uint64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// percentFor is the percentage for a live heap. It is rounded, because setting it stops the program for a moment, and not without
// limit. Until paceHeap has seen a collection, a heap that has grown quickly may grow as much again.
func (g heapGrowth) percentFor(live uint64) int {
	const least, step = 32 << 20, 20
	live = max(live, least)
	if live >= g.Floor {
		return g.LeastPercent
	}
	percent := int(100 * (g.Floor - live) / live)
	return max(g.LeastPercent, percent/step*step)
}
