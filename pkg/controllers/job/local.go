package job

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// deleteTimeout is how long to wait for the informer to show a deletion before it is asked for again.
const deleteTimeout = 10 * time.Second

// localState is what the controller keeps in memory of a live Job between two reconciles. A controller that starts without it decides the
// same and makes a few more requests. Only one thing is lost: a pod that was created and evicted before any status recorded it.
type localState struct {
	uid            types.UID
	checked        int64                   // generation of the spec that refusal, specMark and plugins are about
	refusal        *plan.Finding           // why that spec cannot run
	specMark       string                  // identifies that spec
	plugins        pluginState             // the plugins' result for that spec
	planned        int64                   // generation of the spec that the last plan was made for; 0 if there was none
	lastWrite      time.Time               // of the status
	writeError     string                  // why the status could not be written last
	unwritten      *plan.Unwritten         // the status that waits to be written; nil if nothing does
	unwrittenSince time.Time               // when it began to wait
	uncertain      *decision               // whose status may have been written; nil if there is none
	lastError      *plan.Finding           // the error of the last attempt to act
	deletions      map[types.UID]time.Time // pod UID -> when its deletion was asked for
	unfinished     bool                    // pods are left to create or delete: the Job has a turn, or waits for one
	goneGroup      types.UID               // of the PodGroup that was deleted last, which may still be seen
	commands       sets.Set[types.UID]     // Commands that have been deleted and may still be seen
	retries        retries
	announced      map[delayedAnswer]bool // announced answers
	noPodsFrom     time.Time              // since when pods could not be created; zero if the last creation succeeded
}

// noteCreation records the outcome of a creation of pods.
func (local *localState) noteCreation(failed error, now time.Time) {
	switch {
	case failed == nil:
		local.noPodsFrom = time.Time{}
	case local.noPodsFrom.IsZero():
		local.noPodsFrom = now
	}
}

// refusalOf returns why the Job's spec cannot run, or nil. It is computed once for each change of the spec.
func (local *localState) refusalOf(job *batchv1alpha1.Job) *plan.Finding {
	if local.checked != job.Generation {
		local.checked, local.refusal, local.specMark = job.Generation, plan.CheckSpec(job), plan.SpecMark(job)
		local.plugins.load(job)
	}
	return local.refusal
}

// notYetDeleted returns the pods whose deletion has not been requested lately. It forgets pods that are no victims any more.
func (local *localState) notYetDeleted(pods []*corev1.Pod, now time.Time) []*corev1.Pod {
	var fresh []*corev1.Pod
	asked := make(map[types.UID]time.Time, len(pods))
	for _, pod := range pods {
		if at, before := local.deletions[pod.UID]; before && now.Sub(at) < deleteTimeout {
			asked[pod.UID] = at
		} else {
			fresh = append(fresh, pod)
		}
	}
	local.deletions = asked
	return fresh
}

// noteDeletions records that the deletion of pods is requested now.
func (local *localState) noteDeletions(pods []*corev1.Pod, now time.Time) {
	for _, pod := range pods {
		local.deletions[pod.UID] = now
	}
}

// localStates holds the state of all live Jobs. The state of a Job is used by one sync at a time.
type localStates struct {
	mu    sync.Mutex
	byKey map[string]*localState // ns/name of the Job -> state
}

// of returns the state of the Job with that key and UID; an empty one if there is none.
func (b *localStates) of(key string, uid types.UID) *localState {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey == nil {
		b.byKey = map[string]*localState{}
	}
	if b.byKey[key] == nil || b.byKey[key].uid != uid {
		b.byKey[key] = &localState{uid: uid}
	}
	return b.byKey[key]
}

// forget drops the state of a Job that is gone, or that has ended.
func (b *localStates) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKey, key)
}

// retries counts syncs of a Job in a row without effect.
type retries struct {
	count int
	next  time.Time // when another one is due. A sync that an event causes earlier is not another one
}

// delayedAnswer is the answer to an event that comes later, for the pods of a task.
type delayedAnswer struct {
	task   int
	event  busv1alpha1.Event
	action busv1alpha1.Action
}

// decision is the plan for a Job, and what it was made from.
type decision struct {
	job *batchv1alpha1.Job // as it is stored
	s   *plan.Snapshot
	p   *plan.Plan
}

// jobSync is one sync of a Job: what it has found and decided so far.
type jobSync struct {
	decision
	local      *localState
	commands   *commands
	acting     *batchv1alpha1.Job          // with its defaults, and the status of the plan
	group      *schedulingv1beta1.PodGroup // that pods are created for
	missing    []plan.Missing              // the pods to create
	priorities []int32                     // of the tasks
	halted     bool                        // nothing more is created
	failed     error                       // the first error that the status tells of
	wait       time.Duration               // until the next sync; 0 if only an event causes one
}
