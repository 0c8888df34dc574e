package job

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
)

// deletePatience is how long to wait for the informer to show a deletion before it is asked for again.
const deletePatience = 10 * time.Second

// notes are what the controller keeps in mind of a live Job between two looks at it. Little depends on them but the
// number of requests: without them the same is decided again, but that of a pod that came and was evicted before any status
// told of it nobody knows any more.
type notes struct {
	uid       types.UID
	checked   int64                   // generation of the spec that refusal is about
	refusal   *finding                // why that spec cannot run
	specMark  string                  // what tells that spec from another
	lastWrite time.Time               // of the status
	trouble   *finding                // what the last attempt to act ran into
	unwritten string                  // why the status could not be written last
	deletions map[types.UID]time.Time // pod UID -> when its deletion was asked for
	goneGroup types.UID               // of the PodGroup that was deleted last, which may still be seen
	pause     time.Duration           // since a name was tried last that is taken
	delays    map[delayed]bool        // what was announced to be answered later
	commands  sets.Set[types.UID]     // Commands that have been deleted and may still be seen
	memory    *memory                 // of the status that waits to be written; nil if none does
	unsure    *attempt                // to write the status, of which is not known whether it was; nil if there is none
	kit       kit                     // what the plugins make of the spec
}

// attempt is a status that was to be written, and the ends of pods that it tells.
type attempt struct {
	status *batchv1alpha1.JobStatus
	ends   []*corev1.Pod
}

// hasSucceeded tells whether a status that was read later is the one that was to be written, as far as what is known of the pods goes.
func (a *attempt) hasSucceeded(read *batchv1alpha1.JobStatus) bool {
	return a != nil && a.status.State.Phase == read.State.Phase && a.status.Version == read.Version && a.status.RetryCount == read.RetryCount &&
		apiequality.Semantic.DeepEqual(a.status.TaskRecords, read.TaskRecords)
}

// memory is what a status remembers of what was seen, so that it is known though the pods are gone.
type memory struct {
	base    *batchv1alpha1.JobStatus // as it was then
	records []batchv1alpha1.TaskRecord
	delayed []batchv1alpha1.DelayedEvent
}

// memoryOf is what a status remembers that is to follow another.
func memoryOf(base, status *batchv1alpha1.JobStatus) *memory {
	return &memory{base, status.TaskRecords, status.Delayed}
}

// addTo has a status remember it, if that is still what it was. It may be nil.
func (m *memory) addTo(status *batchv1alpha1.JobStatus) {
	if m != nil && apiequality.Semantic.DeepEqual(m.base, status) {
		status.TaskRecords, status.Delayed = m.records, m.delayed
	}
}

// delayed is what happened to pods of a task and is answered later.
type delayed struct {
	task   int
	event  busv1alpha1.Event
	action busv1alpha1.Action
}

// refusalOf returns why the Job's spec cannot run, or nil. It is worked out once for each change of the spec.
func (n *notes) refusalOf(job *batchv1alpha1.Job) *finding {
	if n.checked != job.Generation {
		n.checked, n.refusal, n.specMark = job.Generation, checkSpec(job), specMark(job)
		n.kit.equip(job)
	}
	return n.refusal
}

// notYetDeleted returns the pods whose deletion has not been asked for lately, and notes that it is now.
func (n *notes) notYetDeleted(pods []*corev1.Pod, now time.Time) []*corev1.Pod {
	var fresh []*corev1.Pod
	asked := make(map[types.UID]time.Time, len(pods))
	for _, pod := range pods {
		at, before := n.deletions[pod.UID]
		if !before || now.Sub(at) >= deletePatience {
			fresh = append(fresh, pod)
			at = now
		}
		asked[pod.UID] = at
	}
	n.deletions = asked
	return fresh
}

// nextPause returns how long to wait before a name is tried again that is taken: longer each time.
func (n *notes) nextPause(isNew bool) time.Duration {
	if isNew {
		n.pause = 0
	}
	n.pause = min(max(2*n.pause, retrySoon), maxPause)
	return n.pause
}

// notebook holds the notes of all live Jobs. Notes are used by one sync at a time, that of their Job.
type notebook struct {
	mu    sync.Mutex
	byKey map[string]*notes // ns/name of the Job -> notes
}

// of returns the notes of the Job with that key and UID; new ones if there are none.
func (b *notebook) of(key string, uid types.UID) *notes {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey == nil {
		b.byKey = map[string]*notes{}
	}
	if b.byKey[key] == nil || b.byKey[key].uid != uid {
		b.byKey[key] = &notes{uid: uid}
	}
	return b.byKey[key]
}

// forget drops the notes of a Job that is gone, or that has ended and needs none.
func (b *notebook) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKey, key)
}
