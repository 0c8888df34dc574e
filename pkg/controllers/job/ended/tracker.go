// Package ended keeps how pods of Jobs ended that are gone.
package ended

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/job/policy"
)

// Tracker knows which pods of each Job the informer has reported. It keeps how removed pods ended, until a status records that. A pod
// that is gone cannot be read any more. A failed pod that is being deleted looks as if it was stopped. The informer's handlers have seen
// its earlier state; its store forgets a pod a moment before they hear of it.
type Tracker struct {
	mu     sync.Mutex
	isOpen bool
	byJob  map[types.UID]trackedPods // UID of the Job -> its pods
}

// trackedPods is a Tracker's record of one Job.
type trackedPods struct {
	present map[types.UID]bool        // pods that the handlers have reported as existing -> do they look killed
	ends    map[types.UID]*corev1.Pod // pods that have ended by themselves and are gone or going, in their state at their end
}

// Open begins to keep how pods end. A standby does not: the leader deals with them, and a standby does not see when.
func (r *Tracker) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOpen = true
}

// Came records that the informer has reported a pod of the Job with that UID.
func (r *Tracker) Came(job types.UID, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byJob == nil {
		r.byJob = map[types.UID]trackedPods{}
	}
	if _, known := r.byJob[job]; !known {
		r.byJob[job] = trackedPods{present: map[types.UID]bool{}, ends: map[types.UID]*corev1.Pod{}}
	}
	r.byJob[job].present[pod.UID] = looksKilled(pod)
}

// Count is how many pods of the Job the informer has reported that are not gone.
func (r *Tracker) Count(job types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byJob[job].present)
}

// Changed keeps how a pod ended that looks killed now and did not look so before.
func (r *Tracker) Changed(job types.UID, before, after *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, isKnown := r.byJob[job]
	if !isKnown || !looksKilled(after) {
		return
	}
	known.present[after.UID] = true
	if policy.EndedByItself(before) && r.isOpen {
		known.ends[before.UID] = before
	}
}

// looksKilled says whether a pod has ended and looks as if it was stopped.
func looksKilled(pod *corev1.Pod) bool { return policy.IsFinished(pod) && !policy.EndedByItself(pod) }

// Left records that a pod is gone. It keeps how the pod ended, if it ended by itself and the Job exists. The pods of a deleted Job do not
// matter. The handler of Jobs calls forget once the lister that knows has lost the Job.
func (r *Tracker) Left(job types.UID, pod *corev1.Pod, jobExists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, isKnown := r.byJob[job]
	if !isKnown {
		return
	}
	delete(known.present, pod.UID)
	switch {
	case !jobExists:
		delete(known.ends, pod.UID)
	case policy.EndedByItself(pod) && r.isOpen:
		known.ends[pod.UID] = pod
	}
	r.tidy(job)
}

// Look returns pods that ended by themselves and are gone or going, as they were when they ended. shown are the pods in the informer's
// store. It returns false if the store is ahead of the handlers: a pod is gone from there or looks killed. The event that tells how it
// ended is still to come.
func (r *Tracker) Look(job types.UID, shown []*corev1.Pod) ([]*corev1.Pod, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byJob[job]
	there, told := 0, true
	names := map[string]types.UID{} // of the shown pods, only if needed
	for _, pod := range shown {
		if heard, found := known.present[pod.UID]; found {
			there++
			told = told && (heard || !looksKilled(pod))
		}
		if len(known.ends) > 0 {
			names[pod.Name] = pod.UID
		}
	}
	var ends []*corev1.Pod
	for uid, pod := range known.ends {
		// The creator of another pod of its name has dealt with its end before.
		if successor, found := names[pod.Name]; found && successor != uid {
			delete(known.ends, uid)
			continue
		}
		ends = append(ends, pod)
	}
	return ends, told && there == len(known.present)
}

// Drop forgets how pods ended, after a status records it.
func (r *Tracker) Drop(job types.UID, ended []*corev1.Pod) {
	if len(ended) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range ended {
		delete(r.byJob[job].ends, pod.UID)
	}
	r.tidy(job)
}

// Forget drops the record of a Job that is gone, or that has ended.
func (r *Tracker) Forget(job types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byJob, job)
}

// tidy drops an empty record.
func (r *Tracker) tidy(job types.UID) {
	if known := r.byJob[job]; len(known.present) == 0 && len(known.ends) == 0 {
		delete(r.byJob, job)
	}
}
