package plan

import (
	"slices"
	"time"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

const (
	// samplesOf is how many of the last starts of a queue are remembered for each horizon.
	samplesOf = 200
	// fewSamples are too few to tell a range from.
	fewSamples = 10
	// mostQueues is how many queues are remembered. Others have the ranges of all queues together.
	mostQueues = 1000
	// sooner and later are the range while little is known, as parts of the expected wait. Where run times come from history, the first errors of a queue
	// are as large as that.
	sooner, later = 0.1, 10.0
	// fifth is which part of starts should miss the range.
	fifth = 0.2
	// learning is how fast the part that is left out follows the part that was missed.
	learning = 0.01
	// mostOut bounds it.
	mostOut = 0.9
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

// firsts are the first expected start of a gang for each horizon, to be compared with the real one.
type firsts [5]struct {
	schedulingv1beta1.ExpectedStart
	made     time.Time // zero for none
	outlived bool      // the gang still waited when the range was over
}

// pastStarts say how wrong expected starts were, for a queue and a horizon.
//
// A range leaves out a part of the last starts. The part is smaller after each miss, and larger after each start within its range. So a fifth is
// missed in the long run, whatever the starts do. This is adaptive conformal inference: Gibbs and Candès, Adaptive Conformal Inference Under
// Distribution Shift (2021).
type pastStarts struct {
	ratios []float64 // how long gangs have waited, as a part of how long they were expected to
	out    float64   // the part that is left out
}

// judge notes whether a range was missed.
func (p *pastStarts) judge(missed bool) {
	p.out += learning * fifth
	if missed {
		p.out -= learning
	}
	p.out = min(max(p.out, 0), mostOut)
}

// spread is the range, as parts of the expected wait. n starts have n+1 gaps, and the next start is as likely in each. It leaves out half of a
// part of the gaps at each end. If one end has fewer, it leaves out more at the other. With less than one for each end, the range has all
// starts. It is no smaller then than it is while little is known.
func (p *pastStarts) spread() (from, to float64) {
	n := len(p.ratios)
	if n < fewSamples {
		return sooner, later
	}
	sorted := slices.Sorted(slices.Values(p.ratios))
	gaps := int(p.out * float64(n+1))
	if gaps < 2 {
		return min(sooner, sorted[0]), max(later, sorted[n-1])
	}
	early, _ := slices.BinarySearch(sorted, 1)
	low := max(min(gaps/2, early), gaps-(n-early))
	top := gaps - low
	return min(sorted[max(low-1, 0)], 1), max(sorted[min(n-top, n-1)], 1)
}

// ranges learn from the errors of each queue.
type ranges struct{ of map[rangeKey]*pastStarts }

// rangeKey is a queue and a horizon. The queue "*" stands for all.
type rangeKey struct {
	queue   string
	horizon int
}

const allQueues = "*"

func newRanges() *ranges { return &ranges{of: map[rangeKey]*pastStarts{}} }

// past are the starts among which those of a queue are noted.
func (r *ranges) past(queue string, horizon int) (past []*pastStarts) {
	for _, key := range []rangeKey{{queue, horizon}, {allQueues, horizon}} {
		if r.of[key] == nil && (key.queue == allQueues || len(r.of) < mostQueues*len(horizons)) {
			r.of[key] = &pastStarts{out: fifth}
		}
		if r.of[key] != nil {
			past = append(past, r.of[key])
		}
	}
	return past
}

// waits notes that a gang still waits. A range is missed once it is over. So long waits are learnt of before they end.
func (r *ranges) waits(queue string, of *firsts, now time.Time) {
	for i := range of {
		if e := &of[i]; !e.made.IsZero() && !e.outlived && now.After(e.Latest.Add(time.Second)) {
			e.outlived = true
			for _, past := range r.past(queue, i) {
				past.judge(true)
			}
		}
	}
}

// started notes that a gang has started. For each horizon it returns how long the gang has waited, as a part of the expected wait.
func (r *ranges) started(queue string, of *firsts, at time.Time) map[string]float64 {
	r.waits(queue, of, at)
	ratios := map[string]float64{}
	for i, e := range of {
		if e.made.IsZero() {
			continue
		}
		ratio := float64(max(at.Sub(e.made), 0)) / float64(max(e.At.Sub(e.made), time.Second))
		ratios[horizons[i].name] = ratio
		for _, past := range r.past(queue, i) {
			past.ratios = append(past.ratios, ratio)
			past.ratios = past.ratios[max(0, len(past.ratios)-samplesOf):]
			if !e.outlived {
				past.judge(at.Before(e.Earliest.Add(-time.Second))) // the API has whole seconds
			}
		}
	}
	return ratios
}

// spread is the range of a wait that is expected in a queue. It is meant to hold in 80 % of cases.
func (r *ranges) spread(queue string, expected time.Duration) (low, high time.Duration) {
	of := r.of[rangeKey{queue, horizonOf(expected)}]
	if of == nil || len(of.ratios) < fewSamples {
		of = r.of[rangeKey{allQueues, horizonOf(expected)}]
	}
	from, to := sooner, later
	if of != nil {
		from, to = of.spread()
	}
	wait := float64(expected)
	return time.Duration(from * wait), time.Duration(min(to*wait, float64(horizons[len(horizons)-1].upTo)))
}
