package phjob

import (
	"cmp"
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	"github.com/muster-sched/muster/pkg/phjob"
)

// linePatience is how long a PhJob whose PodGroup cannot be made holds up the later ones of its group.
const linePatience = time.Minute

// lineUp keeps, for each group, the waiting PhJobs whose PodGroups admission may not know yet, by creation. Many PodGroups are made at the
// same time, for example when the controller starts. The PodGroup of a late PhJob may then come first. Admission asks here whether an
// earlier one is still to come.
type lineUp struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the PhJobs of one group. A PhJob that has left stays in the heap until it reaches the head.
type line struct {
	order   places
	waiting map[types.UID]time.Time // since when its PodGroup cannot be made; zero if nothing is known of that
}

// place is that of a PhJob in its line.
type place struct {
	uid             types.UID
	created         time.Time
	namespace, name string
	podGroup        string
}

func placeOf(job *primehubv1alpha1.PhJob) place {
	return place{
		uid: job.UID, created: job.CreationTimestamp.Time, namespace: job.Namespace, name: job.Name, podGroup: phjob.PodGroupName(job),
	}
}

// isBefore orders places by the second of creation, then by name, as admission does.
func (p *place) isBefore(other *place) bool {
	return cmp.Or(p.created.Compare(other.created), cmp.Compare(p.namespace, other.namespace), cmp.Compare(p.name, other.name)) < 0
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
		own = &line{waiting: map[types.UID]time.Time{}}
		l.lines[lineOf(job)] = own
	}
	if _, waits := own.waiting[job.UID]; waits {
		return
	}
	own.waiting[job.UID] = time.Time{}
	heap.Push(&own.order, placeOf(job))
}

// isBehind says whether an earlier PhJob of the group is in the line. It first removes PhJobs at the head whose PodGroups are known.
func (l *lineUp) isBehind(job *primehubv1alpha1.PhJob, known func(namespace, podGroup string) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lines[lineOf(job)]
	if own == nil {
		return false
	}
	for len(own.order) > 0 {
		first := own.order[0]
		if _, waits := own.waiting[first.uid]; waits && !known(first.namespace, first.podGroup) {
			mine := placeOf(job)
			return first.isBefore(&mine)
		}
		delete(own.waiting, first.uid)
		heap.Pop(&own.order)
	}
	delete(l.lines, lineOf(job))
	return false
}

// leave removes a PhJob, and says whether it was there.
func (l *lineUp) leave(job *primehubv1alpha1.PhJob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remove(job)
}

// fail notes that the PodGroup of a PhJob could not be made. It removes the PhJob, and says so, once that has lasted for linePatience.
func (l *lineUp) fail(job *primehubv1alpha1.PhJob, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lines[lineOf(job)]
	if own == nil {
		return false
	}
	since, waits := own.waiting[job.UID]
	switch {
	case !waits:
		return false
	case since.IsZero():
		own.waiting[job.UID] = now
		return false
	}
	return now.Sub(since) >= linePatience && l.remove(job)
}

// remove removes a PhJob, and says whether it was there. The lock is held.
func (l *lineUp) remove(job *primehubv1alpha1.PhJob) bool {
	own := l.lines[lineOf(job)]
	if own == nil {
		return false
	}
	if _, waits := own.waiting[job.UID]; !waits {
		return false
	}
	delete(own.waiting, job.UID)
	if len(own.waiting) == 0 {
		delete(l.lines, lineOf(job))
	}
	return true
}

// places is a heap with the earliest first.
type places []place

// Len implements heap.Interface.
func (p places) Len() int { return len(p) }

// Swap implements heap.Interface.
func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push implements heap.Interface.
func (p *places) Push(x any) { *p = append(*p, x.(place)) }

// Less implements heap.Interface.
func (p places) Less(i, j int) bool { return p[i].isBefore(&p[j]) }

// Pop implements heap.Interface.
func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
