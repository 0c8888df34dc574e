package podgroup

import (
	"sync"

	"github.com/muster-sched/muster/pkg/gang"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/admission"
)

// deletions notes which gangs have lost members that were bound and not removed by Muster. Users deleted them, other clients evicted them, or
// their node is gone. A gang below its minimum need not have lost any. Muster removes members too, in a restart, say, and a minimum may be
// raised. Deletions while the controller did not watch do not count: the last leader may have removed the pod.
type deletions struct {
	mu       sync.Mutex
	watching bool
	// leaving are the pods that are deleted before they have finished, or about to be. The number says how often Muster has asked for that.
	// An answer that a pod was gone already takes back one request only: an earlier one may have removed it.
	leaving map[types.UID]int
	groups  sets.Set[string] // "<namespace>/<PodGroup>" of deletions since the last question
}

func newDeletions() *deletions {
	return &deletions{leaving: map[types.UID]int{}, groups: sets.New[string]()}
}

// watch begins to note deletions. For pods that are being deleted already, the deleting client is not known.
func (l *deletions) watch(pods []*corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching = true
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			l.leaving[pod.UID] = 1
		}
	}
}

// removing notes that Muster is about to delete a pod.
func (l *deletions) removing(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving[pod]++
}

// notRemoved takes back removing for a pod: it was gone already.
func (l *deletions) notRemoved(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving[pod]--
	if l.leaving[pod] <= 0 {
		delete(l.leaving, pod)
	}
}

// change notes that a bound pod is deleted before it has finished. When it is gone it may look as if it had finished before.
func (l *deletions) change(last, next *corev1.Pod) {
	if last.DeletionTimestamp != nil || next.DeletionTimestamp == nil || !isAtWork(next) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.leaving[next.UID]; !known {
		l.leaving[next.UID] = 0
	}
}

// gone notes the last state of a pod that is gone.
func (l *deletions) gone(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests, left := l.leaving[pod.UID]
	delete(l.leaving, pod.UID)
	group := admission.PodGroupOf(pod)
	if l.watching && group != "" && requests == 0 && !isPreempted(pod) && (left || isAtWork(pod)) {
		l.groups.Insert(group)
	}
}

// take says whether a PodGroup has lost members since the last question. Ask before looking at the members.
func (l *deletions) take(group string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.groups.Has(group)
	l.groups.Delete(group)
	return lost
}

// putBack undoes take, when the status could not be written.
func (l *deletions) putBack(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups.Insert(group)
}

// isAtWork says whether a pod is bound and has not finished.
func isAtWork(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !gang.IsFinished(pod) }

// isPreempted says whether Muster's scheduler has evicted a pod.
func isPreempted(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget {
			return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
		}
	}
	return false
}
