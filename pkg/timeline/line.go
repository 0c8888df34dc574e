package timeline

import (
	"math"
	"slices"
)

// tick is a time: nanoseconds after now.
type tick = int64

// never is after all times. It has half of the range, so that sums of two do not overflow.
const never tick = math.MaxInt64 / 2

// enough is how many pods fit where nothing limits them.
const enough = math.MaxInt32

// line is what is free of a node, or of a queue, from now on. Each step holds until the next, the last for ever.
type line struct {
	steps   []step
	version int // of the steps
}

// step is what is free from a time on, by the index of the resource.
type step struct {
	from tick
	free []int64
}

// at is the index of the step that holds at a time.
func (l *line) at(t tick) int {
	low, high := 0, len(l.steps)
	for low < high {
		if middle := (low + high) / 2; l.steps[middle].from > t {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low - 1
}

// split has a step begin at a time, and returns its index.
func (l *line) split(t tick) int {
	i := l.at(t)
	if l.steps[i].from == t {
		return i
	}
	l.steps = slices.Insert(l.steps, i+1, step{from: t, free: slices.Clone(l.steps[i].free)})
	return i + 1
}

// add adds an amount, times a count, from a time on until another.
func (l *line) add(from, until tick, amount []int64, count int64) {
	if from >= until {
		return
	}
	l.version++
	first, last := l.split(from), len(l.steps)
	if until < never {
		last = l.split(until)
	}
	for _, s := range l.steps[first:last] {
		add(s.free, amount, count)
	}
}

// add adds an amount, times a count. The result ends at the bounds of what a line holds.
func add(to, amount []int64, count int64) {
	for r, a := range amount {
		if a == 0 {
			continue
		}
		if limit := never / max(count, -count, 1); a > limit || a < -limit {
			a = max(min(a, limit), -limit)
		}
		to[r] = max(min(to[r]+a*count, never), -never)
	}
}

// least is the least that is free at any time from one on until another.
func (l *line) least(from, until tick) []int64 {
	i := l.at(from)
	least := slices.Clone(l.steps[i].free)
	for i++; i < len(l.steps) && l.steps[i].from < until; i++ {
		for r, a := range l.steps[i].free {
			least[r] = min(least[r], a)
		}
	}
	return least
}

// fits says whether an amount fits into another.
func fits(free, each []int64) bool {
	for r, want := range each {
		if want > 0 && free[r] < want {
			return false
		}
	}
	return true
}

// slots is how many pods fit into an amount.
func slots(free, each []int64, most int) int {
	if !fits(free, each) {
		return 0
	}
	for r, want := range each {
		if want > 0 {
			most = min(most, int(min(free[r]/want, enough)))
		}
	}
	return most
}

// firstWindow is from when on a pod fits for a length of time at least. It does not fit before the given step begins.
func (l *line) firstWindow(each []int64, length, after tick) tick {
	from := never
	for _, s := range l.steps[l.at(after):] {
		switch {
		case !fits(s.free, each):
			if from < never && s.from-from >= length {
				return from
			}
			from = never
		case from == never:
			from = s.from
		}
	}
	return from
}

// change is how many pods can start on a node from a time on.
type change struct {
	from  tick
	slots int
}

// starts appends how many pods of a length can start on a node, for each time at which that changes. None can before the given time. The
// window of a start at t is from t until t+length.
func (l *line) starts(changes []change, k *kind, from, length tick, counts []int) ([]change, []int) {
	counts = counts[:0]
	steps := l.steps[l.at(from):]
	for _, s := range steps {
		counts = append(counts, slots(s.free, k.each, k.most))
	}
	first, last, current := 0, 0, 0 // the steps that the window meets
	for t := from; ; {
		for last+1 < len(counts) && steps[last+1].from < t+length {
			last++
		}
		for first+1 < len(counts) && steps[first+1].from <= t {
			first++
		}
		if least := slices.Min(counts[first : last+1]); least != current {
			changes, current = append(changes, change{t, least}), least
		}
		next := never
		if first+1 < len(counts) {
			next = steps[first+1].from
		}
		if last+1 < len(counts) { // the window meets it when it starts later
			next = min(next, steps[last+1].from-length+1)
		}
		if next == never {
			return changes, counts
		}
		t = next
	}
}
