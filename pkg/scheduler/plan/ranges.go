package plan

import (
	"slices"
	"time"
)

const (
	// samplesOf is how many of the last starts of a queue are remembered for each horizon.
	samplesOf = 200
	// fewSamples are too few to tell a range from.
	fewSamples = 10
	// mostQueues is how many queues are remembered. Others have the ranges of all queues together.
	mostQueues = 1000
	// sooner and later are the range before there are samples, as parts of the expected wait. Expected starts are off by about half of the wait in
	// the median, whatever the estimator. Late starts are off by more than early ones.
	sooner, later = 0.5, 2.0
	// tenth is which part of starts may be before the range, and which after.
	tenth = 0.1
)

// horizons divides expected waits by length. The error of an expected start grows with the wait.
var horizons = []struct {
	name string
	upTo time.Duration
}{{"1m", time.Minute}, {"10m", 10 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"more", 1 << 62}}

// horizonOf is the index of the horizon of an expected wait.
func horizonOf(wait time.Duration) int {
	for i, h := range horizons {
		if wait <= h.upTo {
			return i
		}
	}
	return len(horizons) - 1
}

// ratios remember how long gangs have waited, as parts of how long they were expected to.
type ratios struct{ of map[ratioKey][]float64 }

// ratioKey is a queue and a horizon. The queue "*" stands for all.
type ratioKey struct {
	queue   string
	horizon int
}

const allQueues = "*"

func newRatios() *ratios { return &ratios{of: map[ratioKey][]float64{}} }

// add notes a start: how long the gang was expected to wait, and how long it did. It returns the ratio.
func (r *ratios) add(queue string, expected, actual time.Duration) float64 {
	ratio := float64(max(actual, 0)) / float64(max(expected, time.Second))
	for _, key := range []ratioKey{{queue, horizonOf(expected)}, {allQueues, horizonOf(expected)}} {
		if _, known := r.of[key]; !known && key.queue != allQueues && len(r.of) >= mostQueues*len(horizons) {
			continue
		}
		r.of[key] = append(r.of[key], ratio)
		r.of[key] = r.of[key][max(0, len(r.of[key])-samplesOf):]
	}
	return ratio
}

// spread is the range of a wait that is expected in a queue: 80 % of waits were within it.
func (r *ratios) spread(queue string, expected time.Duration) (low, high time.Duration) {
	samples := r.of[ratioKey{queue, horizonOf(expected)}]
	if len(samples) < fewSamples {
		samples = r.of[ratioKey{allQueues, horizonOf(expected)}]
	}
	from, to := sooner, later
	if len(samples) >= fewSamples {
		sorted := slices.Sorted(slices.Values(samples))
		skip := int(tenth * float64(len(sorted)))
		from, to = sorted[skip], sorted[len(sorted)-1-skip]
	}
	wait := float64(expected)
	return time.Duration(min(from, 1) * wait), time.Duration(max(to, 1) * wait)
}
