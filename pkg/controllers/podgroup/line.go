package podgroup

import (
	"cmp"
	"slices"

	"github.com/muster-sched/muster/pkg/quota"
)

// line hands out the candidates in the order of decisions. The next one is of the queue with the highest priority that uses least
// of its share. In it comes the candidate of the highest priority, the oldest first. At each level of the tree of queues the same holds for the
// children of a queue. An admitted candidate adds to the use of its queue, so queues take turns.
type line struct {
	root  *lane
	lanes map[string]*lane // by queue
	ratio func(queue string) quota.Ratio
}

// lane is a queue with waiting candidates, or an ancestor of one.
type lane struct {
	queue    string
	priority int32
	ratio    quota.Ratio
	above    *lane // nil for the root
	below    []*lane
	own      []*candidate // in turn
	waiting  int          // candidates here and below
}

// newLine makes the line of the candidates. path is the way from a queue up to the root. It is only the root for a queue that does not
// exist: users may name any number of missing queues. priority is that of a queue, and ratio is the part of its share that it uses now.
func newLine(candidates []*candidate, path func(queue string) []string, priority func(queue string) int32, ratio func(queue string) quota.Ratio) *line {
	l := &line{root: &lane{queue: quota.Root}, lanes: map[string]*lane{}, ratio: ratio}
	l.lanes[quota.Root] = l.root
	for _, c := range candidates {
		lane := l.laneOf(path(c.queue), priority)
		lane.own = append(lane.own, c)
	}
	for _, at := range l.lanes {
		slices.SortFunc(at.own, byTurn)
		for up := at; up != nil; up = up.above {
			up.waiting += len(at.own)
		}
	}
	return l
}

// laneOf finds the lane of a queue by its path to the root. It makes missing lanes.
func (l *line) laneOf(path []string, priority func(string) int32) *lane {
	at := l.root
	for _, name := range slices.Backward(path) {
		if l.lanes[name] == nil {
			l.lanes[name] = &lane{queue: name, priority: priority(name), ratio: l.ratio(name), above: at}
			at.below = append(at.below, l.lanes[name])
		}
		at = l.lanes[name]
	}
	return at
}

// next takes the next candidate out of the line; nil if there is none.
func (l *line) next() *candidate {
	at := l.root
	if at.waiting == 0 {
		return nil
	}
	for best := at.best(); best != nil; best = at.best() {
		at = best
	}
	next := at.own[0]
	at.own = at.own[1:]
	for up := at; up != nil; up = up.above {
		up.waiting--
	}
	return next
}

// admitted notes that the queue of a candidate, and its ancestors, use more.
func (l *line) admitted(c *candidate) {
	for up := l.lanes[c.queue]; up != nil; up = up.above {
		up.ratio = l.ratio(up.queue)
	}
}

// best is the lane below whose candidates come first; nil if no candidate waits below.
func (at *lane) best() *lane {
	var best *lane
	for _, lane := range at.below {
		if lane.waiting > 0 && (best == nil || lane.isBefore(best)) {
			best = lane
		}
	}
	return best
}

// isBefore says whether the candidates of a lane come before the candidates of a sibling.
func (at *lane) isBefore(other *lane) bool {
	order := cmp.Or(-cmp.Compare(at.priority, other.priority), at.ratio.Compare(other.ratio))
	if order == 0 {
		order = byTurn(at.first(), other.first())
	}
	return order < 0
}

// first is the candidate that comes first in a lane with waiting candidates.
func (at *lane) first() *candidate {
	for best := at.best(); best != nil; best = at.best() {
		at = best
	}
	return at.own[0]
}
