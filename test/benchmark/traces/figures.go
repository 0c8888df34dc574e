package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Ran is what became of a job.
type Ran struct {
	Job
	Start time.Duration // when all members were bound, since the trace began
}

// Wait is how long the job waited for its start.
func (r Ran) Wait() time.Duration { return r.Start - r.Submit }

// Figures say how well a workload was scheduled.
type Figures struct {
	Mean, Median, P95, Longest                   time.Duration // of the waits
	LargeMean, LargeMedian, LargeP95, LargestMax time.Duration // of the waits of the largest jobs
	Slowdown                                     float64       // mean bounded slowdown
	Use                                          float64       // share of the cluster that was used until the last job was submitted
	BySize                                       []Class
}

const (
	// large is the share of the jobs that count as the largest.
	large = 0.03
	// bound is the least run time that slowdowns are taken of. A job of a second that waits for ten does no harm.
	bound = 10 * time.Second
)

// Sum makes the figures of a run on a cluster of a capacity.
func Sum(ran []Ran, capacity int) Figures {
	all := waits(ran)
	largestFirst := slices.SortedStableFunc(slices.Values(ran), func(a, b Ran) int { return cmp.Compare(b.Size(), a.Size()) })
	largest := waits(largestFirst[:int(math.Ceil(large*float64(len(ran))))])
	return Figures{
		Mean: mean(all), Median: quantile(all, 0.5), P95: quantile(all, 0.95), Longest: quantile(all, 1),
		LargeMean: mean(largest), LargeMedian: quantile(largest, 0.5), LargeP95: quantile(largest, 0.95), LargestMax: quantile(largest, 1),
		Slowdown: slowdown(ran), Use: use(ran, capacity), BySize: bySize(ran),
	}
}

// waits returns the waits of jobs, in order.
func waits(ran []Ran) []time.Duration {
	out := make([]time.Duration, len(ran))
	for i, r := range ran {
		out[i] = r.Wait()
	}
	slices.Sort(out)
	return out
}

func mean(sorted []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return sum / time.Duration(len(sorted))
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func slowdown(ran []Ran) float64 {
	sum := 0.0
	for _, r := range ran {
		sum += max(1, (r.Wait()+r.Run).Seconds()/max(r.Run, bound).Seconds())
	}
	return sum / float64(len(ran))
}

// use counts what ran between the first and the last submission. After the last one a cluster runs empty, whatever the scheduler does.
func use(ran []Ran, capacity int) float64 {
	last := time.Duration(0)
	for _, r := range ran {
		last = max(last, r.Submit)
	}
	used := 0.0
	for _, r := range ran {
		if end := min(r.Start+r.Run, last); end > r.Start {
			used += float64(r.Size()) * (end - r.Start).Seconds()
		}
	}
	return used / (float64(capacity) * last.Seconds())
}
