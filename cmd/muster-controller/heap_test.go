package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowToTheFloor(t *testing.T) {
	const mib = 1 << 20
	growth := heapGrowth{Floor: 400 * mib, LeastPercent: 100}
	tests := map[string]struct {
		live uint64
		want int
	}{
		"not known yet":            {0, 1140},
		"tiny: not without limit":  {1, 1140},
		"small":                    {50 * mib, 700},
		"rounded down":             {51 * mib, 680},
		"half of the floor":        {200 * mib, 100},
		"nearly at the floor":      {390 * mib, 100},
		"at the floor: as Go does": {400 * mib, 100},
		"large: as Go does":        {64 << 30, 100},
	}
	for name, tc := range tests {
		assert.Equal(t, tc.want, growth.percentFor(tc.live), name)
	}
	assert.Equal(t, 20, heapForSize.percentFor(500*mib))
	assert.Equal(t, 60, heapForSize.percentFor(80*mib))
}

func TestTheCollectorIsPaced(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	runtime.GC() // so that the live heap is known
	require.Positive(t, read(liveMetric))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); paceHeap(ctx, heapForSize) }()
	// The only way to read the percentage is to set it; paceHeap sets it again only if it wants another.
	assert.Eventually(t, func() bool {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent > 100
	}, 10*time.Second, 10*time.Millisecond)
	cancel()
	<-ended
}

// TestAHeapThatIsFilledAtOnceIsNotTenTimesAsLarge: the percentage follows the collections, not a clock.
func TestAHeapThatIsFilledAtOnceIsNotTenTimesAsLarge(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); paceHeap(ctx, heapGrowth{Floor: 192 << 20, LeastPercent: 100}) }()
	t.Cleanup(func() { cancel(); <-ended })

	var kept [][]byte
	most := uint64(0)
	for len(kept) < 128<<10 { // 128 MiB that are kept, and ten times as much that is not
		kept = append(kept, make([]byte, 1<<10))
		for range 10 {
			garbage = make([]byte, 1<<10)
		}
		if len(kept)%1024 == 0 {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			most = max(most, stats.HeapAlloc)
		}
	}
	runtime.KeepAlive(kept)
	assert.Less(t, most, uint64(128<<20)*3, "twice what is kept, and a margin for what is allocated while it is collected")
}

// TestMemoryIsGivenBackAtRest: memory that a program needed only once is given back.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		paceHeap(ctx, heapGrowth{Floor: 16 << 20, LeastPercent: 20, Rest: 100 * time.Millisecond})
	}()
	t.Cleanup(func() { cancel(); <-ended })

	const large = 256 << 20
	fill(large) // and then nothing is allocated any more, so what was kept until now is not collected
	assert.Eventually(t, func() bool {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapSys-stats.HeapReleased < large/4
	}, 2*time.Minute, 100*time.Millisecond)
}

// fill keeps so many bytes while it runs.
func fill(bytes int) {
	kept := make([][]byte, 0, bytes>>20)
	for range bytes >> 20 {
		kept = append(kept, make([]byte, 1<<20))
	}
	runtime.KeepAlive(kept)
}

var garbage []byte // so that it is allocated

func TestTheEnvironmentOfTheProgramDecides(t *testing.T) {
	t.Setenv("GOGC", "50")
	paceHeap(context.Background(), heapForSize) // returns at once
}
