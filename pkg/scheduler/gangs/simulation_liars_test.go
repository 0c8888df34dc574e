package gangs_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestHistoriesOfUsersWhoLie drives random histories in which users write what they like on their pods and PodGroups. The books believe only
// the bindings that the scheduler has made.
func TestHistoriesOfUsersWhoLie(t *testing.T) {
	mustertesting.Histories(t, 100, func(t *rapid.T) {
		s := newRapidSimulation(t)
		policies := rapid.Bool().Draw(t, "policies")
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			if s.draw("lies", 0, 2) == 2 {
				s.lie(policies)
			} else {
				s.randomStep()
			}
		}
		s.calmDown()
		s.books.checkRest()
		s.drain()
		s.books.checkNothingLeft()
	})
}

// lie is something that a user does. With the policies, the API server refuses what manifests/admission/pods.yaml forbids.
func (s *simulation) lie(policies bool) {
	switch s.draw("lie", 0, 9) {
	case 0:
		if key, ok := simPick(s, "gang", s.keys()); ok {
			s.changeGroup(key, func(pg *schedulingv1beta1.PodGroup) {
				pg.Spec.MinMember = int32(s.draw("minimum", 0, 12))
				pg.Spec.MinTaskMember = map[string]int32{"a": int32(s.draw("minimumOfA", 0, 4))}
				pg.Spec.PriorityClassName = []string{"", "high"}[s.draw("class", 0, 1)]
				pg.Labels = map[string]string{schedulingv1beta1.UserLabel: []string{"", "ann", "bob"}[s.draw("user", 0, 2)]}
			})
		}
	case 1: // a PodGroup of many with few pods
		s.createGang(s.newName("phantom"), gangSpec{
			queue: s.drawQueue(), names: s.drawQueue(), size: s.draw("size", 0, 2), minimum: s.draw("minimum", 3, 16),
			cpu: int64(s.draw("cpu", 1, 5)) * 1000, priority: s.drawPriority(), ofOthers: s.draw("ofOthers", 0, 1) == 1, beyond: int64(s.draw("beyond", 0, 8)),
		})
	case 2:
		s.bindByHand()
	default:
		if uid, ok := simPick(s, "pod", simUIDs(s.api)); ok {
			pod := s.api[uid].DeepCopy()
			s.lieOn(pod)
			if !policies && pod.Spec.NodeName == "" && s.room[uid] == nil && s.draw("forges", 0, 3) == 3 {
				s.forge(pod)
			} else if !policies || !simRefuses(s.api[uid], pod) {
				s.tellPod(pod)
			}
		}
	}
}

// lieOn writes something at random on a pod. The simulation has gangs of equal members only.
func (s *simulation) lieOn(pod *corev1.Pod) {
	alike := func(key state.Key) bool {
		return s.shapes[key].cpu == simCPU(pod) && s.shapes[key].priority == *pod.Spec.Priority
	}
	groups := slices.DeleteFunc(s.keys(), func(key state.Key) bool { return !alike(key) })
	names := []string{"", "phantom"}
	for _, key := range groups {
		names = append(names, key.Name)
	}
	write := func(key string, values ...string) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, values[s.draw("value", 0, len(values)-1)])
	}
	switch s.draw("key", 0, 6) {
	case 0:
		write(schedulingv1beta1.QueueNameAnnotation, "", "q", "team", "nowhere")
	case 1, 2:
		write(schedulingv1beta1.GroupNameAnnotation, names...)
	case 3:
		write(batchv1alpha1.JobVersionKey, "0", "1", "2", "none")
	case 4:
		write(batchv1alpha1.TaskSpecKey, "", "a", "b")
		write(batchv1alpha1.TaskIndexKey, "0", "1", "-1", "none")
	case 5:
		s.lieOfOwner(pod)
	case 6:
		pod.Labels = map[string]string{schedulingv1beta1.UserLabel: []string{"", "ann", "bob"}[s.draw("user", 0, 2)]}
	}
}

// forge writes on a pod that waits what only the scheduler may write. The scheduler learns of it before it tries the pod.
func (s *simulation) forge(pod *corev1.Pod) {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulingv1beta1.ChargedToAnnotation, s.drawQueue())
	if key, ok := simPick(s, "gang", s.keys()); ok {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulingv1beta1.BoundForAnnotation, string(s.groups[key].UID))
	}
	s.tellPod(pod)
	s.deliverAll(&s.toScheduler)
}

// lieOfOwner gives a pod the owner of another one, or none.
func (s *simulation) lieOfOwner(pod *corev1.Pod) {
	pod.OwnerReferences = nil
	var owners []metav1.OwnerReference
	for _, uid := range simUIDs(s.api) {
		if other := s.api[uid]; simCPU(other) == simCPU(pod) && *other.Spec.Priority == *pod.Spec.Priority {
			owners = append(owners, other.OwnerReferences...)
		}
	}
	if owner, ok := simPick(s, "owner", owners); ok {
		pod.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

// simRefuses says whether a policy refuses a change of a pod. Keys that decide stay on a pod with a node. Others may get one that they
// lack.
func simRefuses(old, pod *corev1.Pod) bool {
	for _, key := range []string{schedulingv1beta1.QueueNameAnnotation, schedulingv1beta1.GroupNameAnnotation, batchv1alpha1.JobVersionKey, batchv1alpha1.TaskSpecKey, batchv1alpha1.TaskIndexKey} {
		if before := old.Annotations[key]; before != pod.Annotations[key] && (old.Spec.NodeName != "" || before != "") {
			return true
		}
	}
	before := old.Labels[schedulingv1beta1.UserLabel]
	return before != pod.Labels[schedulingv1beta1.UserLabel] && (old.Spec.NodeName != "" || before != "")
}
