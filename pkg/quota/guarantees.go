package quota

import (
	"iter"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// A guarantee is never lent. Each ancestor with a limit keeps the unused part of it free for the queue and its descendants.

// SetTotal sets the total of all nodes. It limits the root for a queue if any queue has a guarantee, other than that queue and its
// ancestors.
func (t *Tree) SetTotal(total resources.List) { t.nodes = total }

// Nodes is what all nodes have, nil if that is not known.
func (t *Tree) Nodes() resources.List { return t.nodes }

// HasGuarantees says whether some queue has a guarantee.
func (t *Tree) HasGuarantees() bool { return len(t.keepers) > 0 }

// keepersOf are the queues with a guarantee and their ancestors, as the children of each ancestor.
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
				break // the ancestors are there, too
			}
			found[parent] = append(found[parent], node.name)
		}
	}
	return found
}

// kept is what a queue keeps free for the guarantees of other queues.
type kept struct {
	// now is the unused part of the guarantees.
	now resources.Sums
	// most is the whole of the guarantees.
	most resources.Sums
}

// keptOn is what each queue of a path, up to the root, keeps free for queues outside the path. It is nil if no queue has a guarantee.
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

// guaranteedBeside adds up, for each queue of a path, the guarantees below it of queues outside the path. It counts the unused part, or all
// if unused says that nothing is used.
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

// keptFor is what is kept free for a queue. It is the unused part of its guarantee, and no less than what is kept for its children.
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

// limit is the most that a queue may have of a resource.
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

// besideNodes is a limit of a queue. For the root it is what the nodes have, if other queues have guarantees and the nodes have less.
func (t *Tree) besideNodes(q *queue, resource corev1.ResourceName, own limit, kept kept) limit {
	if amount, known := t.nodes[resource]; known && q.name == Root && amount < own.amount && kept.most.Amount(resource) > 0 {
		return limit{amount, true}
	}
	return own
}
