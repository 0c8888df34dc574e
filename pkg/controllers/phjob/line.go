package phjob

import (
	"cmp"
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
)

// lineUp keeps, for each group, the PhJobs that have no PodGroup yet, in the order of their creation. They get their PodGroups in that order:
// a PhJob could be admitted before an earlier one that has none, for example when the controller starts and finds many.
type lineUp struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the PhJobs of one group. One that has left stays in the heap until it is the first there.
type line struct {
	order   places
	waiting map[types.UID]struct{}
}

// place is that of a PhJob in its line.
type place struct {
	uid             types.UID
	created         time.Time
	namespace, name string
}

// lineOf names the line of a PhJob.
func lineOf(job *primehubv1alpha1.PhJob) string { return job.Spec.GroupID + "/" + job.Spec.GroupName }

// join adds a PhJob, unless it is there.
func (l *lineUp) join(job *primehubv1alpha1.PhJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[string]*line{}
	}
	own := l.lines[lineOf(job)]
	if own == nil {
		own = &line{waiting: map[types.UID]struct{}{}}
		l.lines[lineOf(job)] = own
	}
	if _, waits := own.waiting[job.UID]; waits {
		return
	}
	own.waiting[job.UID] = struct{}{}
	heap.Push(&own.order, place{uid: job.UID, created: job.CreationTimestamp.Time, namespace: job.Namespace, name: job.Name})
}

// mayGo says whether no PhJob is before this one.
func (l *lineUp) mayGo(job *primehubv1alpha1.PhJob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lines[lineOf(job)]
	if own == nil {
		return true
	}
	_, waits := own.waiting[job.UID]
	return !waits || own.order[0].uid == job.UID
}

// leave removes a PhJob, and returns the key of the one that becomes the first by that; "" if none does.
func (l *lineUp) leave(job *primehubv1alpha1.PhJob) (next string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lines[lineOf(job)]
	if own == nil {
		return ""
	}
	if _, waits := own.waiting[job.UID]; !waits {
		return ""
	}
	delete(own.waiting, job.UID)
	if own.order[0].uid != job.UID {
		return ""
	}
	for len(own.order) > 0 {
		first := own.order[0]
		if _, waits := own.waiting[first.uid]; waits {
			return first.namespace + "/" + first.name
		}
		heap.Pop(&own.order)
	}
	delete(l.lines, lineOf(job))
	return ""
}

// places is a heap with the earliest first: by the second of their creation, then by name. Admission has the same order.
type places []place

// Len implements heap.Interface.
func (p places) Len() int { return len(p) }

// Swap implements heap.Interface.
func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push implements heap.Interface.
func (p *places) Push(x any) { *p = append(*p, x.(place)) }

// Less implements heap.Interface.
func (p places) Less(i, j int) bool {
	a, b := p[i], p[j]
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name)) < 0
}

// Pop implements heap.Interface.
func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
