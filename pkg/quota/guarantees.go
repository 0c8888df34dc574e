package quota

import (
	"iter"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// A guarantee is never lent: what a queue is guaranteed and does not use is kept free for it in each of its ancestors that has a limit. The
// queue itself and its descendants use it as they need it.

// SetTotal says what all nodes have. For a queue beside others with guarantees that is a limit of the root, too.
func (t *Tree) SetTotal(total resources.List) { t.nodes = total }

// HasGuarantees says whether some queue has a guarantee.
func (t *Tree) HasGuarantees() bool { return len(t.keepers) > 0 }

// keepersOf are the queues with a guarantee and their ancestors: for each ancestor those of its children that are among them.
func (t *Tree) keepersOf() map[string][]string {
	found := map[string][]string{}
	for _, q := range t.queues {
		if len(q.terms.Guarantee) == 0 {
			continue
		}
		path := t.path(q)
		for i, node := range path[:len(path)-1] {
			parent := path[i+1].name
			if slices.Contains(found[parent], node.name) {
				break // so are all above
			}
			found[parent] = append(found[parent], node.name)
		}
	}
	return found
}

// kept is what is kept free in a queue for the guarantees of others.
type kept struct {
	// now is what those queues do not use of them.
	now resources.Sums
	// most is what that would be if they used nothing.
	most resources.Sums
}

// keptOn is what is kept free in each queue of a path, from the first one up to the root, for queues that are not on the path. It is nil if no
// queue has a guarantee.
func (t *Tree) keptOn(path []*queue) map[*queue]kept {
	if len(t.keepers) == 0 {
		return nil
	}
	now, most := t.guaranteedBeside(path, false), t.guaranteedBeside(path, true)
	found := make(map[*queue]kept, len(path))
	for _, node := range path {
		found[node] = kept{now[node], most[node]}
	}
	return found
}

// guaranteedBeside adds up, for each queue of a path, what queues are guaranteed that are not on it, and do not use; or all of that, if
// nothing is used.
func (t *Tree) guaranteedBeside(path []*queue, unused bool) map[*queue]resources.Sums {
	sumsOf := make(map[*queue]resources.Sums, len(path))
	below := &queue{}
	for _, node := range path {
		sums := sumsOf[below].Clone()
		for _, child := range t.keepers[node.name] {
			if child != below.name {
				sums.AddSums(t.keptFor(child, unused))
			}
		}
		sumsOf[node], below = sums, node
	}
	return sumsOf
}

// keptFor is what is kept free for a queue: what it is guaranteed and does not use, and at least what is kept for its children.
func (t *Tree) keptFor(name string, unused bool) resources.Sums {
	q, kept := t.find(name), resources.Sums{}
	for _, child := range t.keepers[name] {
		kept.AddSums(t.keptFor(child, unused))
	}
	for resource, least := range q.terms.Guarantee {
		if !unused {
			least = q.total.Left(resource, least)
		}
		if more := resources.Left(least, kept.Amount(resource)); more > 0 {
			kept.Add(resources.List{resource: more})
		}
	}
	return kept
}

// limit is what a queue may have of a resource at most.
type limit struct {
	amount int64
	// ofNodes: it is what all nodes have.
	ofNodes bool
}

// limitsBeside are the limits of a queue in which something is kept free.
func (t *Tree) limitsBeside(q *queue, kept kept) iter.Seq2[corev1.ResourceName, limit] {
	return func(use func(corev1.ResourceName, limit) bool) {
		limits := t.limits(q)
		for resource, amount := range limits {
			if !use(resource, t.besideNodes(q, resource, limit{amount: amount}, kept)) {
				return
			}
		}
		for resource := range kept.most {
			if _, isNamed := limits[resource]; isNamed {
				continue
			}
			if l := t.besideNodes(q, resource, limit{amount: math.MaxInt64}, kept); l.ofNodes && !use(resource, l) {
				return
			}
		}
	}
}

// besideNodes is a limit of a queue, or that of the nodes if the queue is the root, other queues have guarantees, and the nodes have less.
func (t *Tree) besideNodes(q *queue, resource corev1.ResourceName, own limit, kept kept) limit {
	if amount, known := t.nodes[resource]; known && q.name == Root && amount < own.amount && kept.most.Amount(resource) > 0 {
		return limit{amount, true}
	}
	return own
}
