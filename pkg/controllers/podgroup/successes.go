package podgroup

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/policy"
)

// successes remembers how many members of a PodGroup have succeeded in its present run, also when their pods are removed. It is for
// PodGroups that no Job of ours controls: a Job has its own record. After a restart the PodGroup's status says how many there were. A pod
// that succeeds and is removed while no controller runs is never counted.
type successes struct {
	mu     sync.Mutex
	groups map[string]*success // by "<namespace>/<PodGroup>"
}

// success is the record of one PodGroup.
type success struct {
	group   types.UID           // "" as long as the PodGroup was not looked at
	gone    int32               // members that have succeeded and are gone
	present sets.Set[types.UID] // members that have succeeded and were not seen to go
}

func newSuccesses() *successes { return &successes{groups: map[string]*success{}} }

// saw notes that a pod has succeeded, if it has.
func (s *successes) saw(pod *corev1.Pod) {
	key := admission.PodGroupOf(pod)
	if key == "" || !policy.HasSucceeded(pod) || batchv1alpha1.JobOf(pod) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(key).present.Insert(pod.UID)
}

// gone notes that a pod is gone. Only a pod that was seen to succeed counts: a pod of an earlier run may be reported late.
func (s *successes) gone(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if record := s.groups[admission.PodGroupOf(pod)]; record != nil && record.present.Has(pod.UID) {
		record.present.Delete(pod.UID)
		record.gone++
	}
}

// count lists the members of a PodGroup that exist, and says how many have succeeded in its present run. When the first members of the next
// run have come, it forgets the members that are gone. Members are listed under the lock: none is both listed and counted as gone.
func (s *successes) count(group *schedulingv1beta1.PodGroup, list func() []*corev1.Pod) ([]*corev1.Pod, int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := list()
	record := s.of(group.Namespace + "/" + group.Name)
	for _, pod := range pods {
		if policy.HasSucceeded(pod) {
			record.present.Insert(pod.UID)
		}
	}
	switch {
	case record.group == "": // also after a restart
		record.gone = max(record.gone, group.Status.Succeeded-int32(record.present.Len()))
	case record.group != group.UID:
		record.forgetGone(pods)
	}
	record.group = group.UID
	if gang.IsRunOver(group) && hasUnfinished(pods) {
		record.forgetGone(pods)
	}
	return pods, record.gone + int32(record.present.Len())
}

// forgetGone starts the record anew, with the members that exist.
func (r *success) forgetGone(pods []*corev1.Pod) {
	existing := sets.New[types.UID]()
	for _, pod := range pods {
		existing.Insert(pod.UID)
	}
	r.gone, r.present = 0, r.present.Intersection(existing)
}

// hasUnfinished says whether a member is still to run or running, and not about to go.
func hasUnfinished(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !gang.IsFinished(pod) && pod.DeletionTimestamp == nil })
}

// of is the record of a PodGroup. The lock is held.
func (s *successes) of(key string) *success {
	record := s.groups[key]
	if record == nil {
		record = &success{present: sets.New[types.UID]()}
		s.groups[key] = record
	}
	return record
}

// forget drops the record of a PodGroup that is gone.
func (s *successes) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, key)
}
