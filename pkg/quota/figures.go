package quota

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Figures are the amounts that people see of a queue, its children included. All tables and pages take them from here, so that each word has
// one meaning.
type Figures struct {
	// Used is what runs: the requests of the bound pods.
	Used resources.List
	// Reserved is what is kept for admitted gangs beside that, mostly for gangs that start.
	Reserved resources.List
	// Limit is the capability. For a resource that the queue does not name, its nearest ancestor's counts.
	Limit resources.List
	// Share is the present share; nil while it is not known.
	Share resources.List
	// Guarantee is what other queues never take.
	Guarantee resources.List
	// Cluster is what is shared out to all queues; nil while it is not known.
	Cluster resources.List
}

// Borrowed is what is used beyond the share. A resource that is not shared out is not borrowed.
func (f *Figures) Borrowed() resources.List {
	if f.Share == nil {
		return nil
	}
	borrowed := resources.List{}
	for resource := range f.Cluster {
		if beyond := f.Used[resource] - f.Share[resource]; beyond > 0 {
			borrowed[resource] = beyond
		}
	}
	return borrowed
}

// Scarcest is the resource that is nearest to its limit, with what is reserved. Without a limit it is that of which the queue has the largest
// part of the cluster. It is "" if there is nothing to tell.
func (f *Figures) Scarcest() corev1.ResourceName {
	all := resources.Sums{}
	all.Add(f.Used)
	all.Add(f.Reserved)
	if scarcest := Scarcest(all, f.Limit); scarcest != "" {
		return scarcest
	}
	if scarcest := Scarcest(all, f.Cluster); all.Amount(scarcest) > 0 {
		return scarcest
	}
	return Scarcest(all, f.Guarantee)
}

// BorrowedByOthers is, for each queue, what the queues beside it and beside its ancestors use beyond their shares, in sum. A resource that is
// not shared out is not borrowed.
func (t *Tree) BorrowedByOthers(shares Shares) map[string]resources.List {
	children, byOthers := t.children(), map[string]resources.List{}
	var walk func(name string, above resources.List)
	walk = func(name string, above resources.List) {
		byOthers[name] = above
		sum, own := above.Clone(), map[string]resources.List{}
		for _, child := range children[name] {
			f := Figures{Used: t.find(child).total.List(), Share: shares[child], Cluster: shares[Root]}
			own[child] = f.Borrowed()
			sum.Add(own[child])
		}
		for _, child := range children[name] {
			beside := sum.Clone()
			beside.Sub(own[child])
			walk(child, beside)
		}
	}
	walk(Root, resources.List{})
	return byOthers
}
