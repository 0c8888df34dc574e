package admission

import (
	"cmp"
	"slices"

	"github.com/muster-sched/muster/pkg/quota"
)

// waitList hands out the candidates in the order of decisions. The next one is of the queue with the highest priority that uses least
// of its share. In it comes the candidate of the highest priority, the oldest first. At each level of the tree of queues the same holds for the
// children of a queue. An admitted candidate adds to the use of its queue, so queues take turns.
type waitList struct {
	root   *listOfQueue
	lists  map[string]*listOfQueue // by queue
	queues Queues
	tree   *quota.Tree
	shares quota.Shares
}

// listOfQueue is a queue with waiting candidates, or an ancestor of one.
type listOfQueue struct {
	queue    string
	priority int32
	ratio    quota.Ratio
	above    *listOfQueue // nil for the root
	below    []*listOfQueue
	own      []*Candidate // in turn
	waiting  int          // candidates here and below
}

// newWaitList makes the wait list of the candidates of queues. The tree says how much of its share a queue uses.
func newWaitList(candidates []*Candidate, queues Queues, tree *quota.Tree, shares quota.Shares) *waitList {
	l := &waitList{root: &listOfQueue{queue: quota.Root}, lists: map[string]*listOfQueue{}, queues: queues, tree: tree, shares: shares}
	l.lists[quota.Root] = l.root
	for _, c := range candidates {
		listOfQueue := l.listOf(queues.lineOf(c.Queue, tree))
		listOfQueue.own = append(listOfQueue.own, c)
	}
	for _, at := range l.lists {
		slices.SortFunc(at.own, byTurn)
		for up := at; up != nil; up = up.above {
			up.waiting += len(at.own)
		}
	}
	return l
}

// listOf finds the list of a queue by its path to the root. It makes missing lists.
func (l *waitList) listOf(path []string) *listOfQueue {
	at := l.root
	for _, name := range slices.Backward(path) {
		if l.lists[name] == nil {
			l.lists[name] = &listOfQueue{queue: name, priority: l.queues.get(name).Spec.Priority, ratio: l.ratio(name), above: at}
			at.below = append(at.below, l.lists[name])
		}
		at = l.lists[name]
	}
	return at
}

// ratio is the part of its share that a queue uses now.
func (l *waitList) ratio(queue string) quota.Ratio { return l.tree.Ratio(queue, l.shares) }

// next takes the next candidate out of the wait list; nil if there is none.
func (l *waitList) next() *Candidate {
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
func (l *waitList) admitted(c *Candidate) {
	for up := l.lists[c.Queue]; up != nil; up = up.above {
		up.ratio = l.ratio(up.queue)
	}
}

// best is the list below whose candidates come first; nil if no candidate waits below.
func (at *listOfQueue) best() *listOfQueue {
	var best *listOfQueue
	for _, listOfQueue := range at.below {
		if listOfQueue.waiting > 0 && (best == nil || listOfQueue.isBefore(best)) {
			best = listOfQueue
		}
	}
	return best
}

// isBefore says whether the candidates of a list come before the candidates of a sibling.
func (at *listOfQueue) isBefore(other *listOfQueue) bool {
	order := cmp.Or(-cmp.Compare(at.priority, other.priority), at.ratio.Compare(other.ratio))
	if order == 0 {
		order = byTurn(at.first(), other.first())
	}
	return order < 0
}

// first is the candidate that comes first in a list with waiting candidates.
func (at *listOfQueue) first() *Candidate {
	for best := at.best(); best != nil; best = at.best() {
		at = best
	}
	return at.own[0]
}
