package gang

import (
	"cmp"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

// MemberOf reads a pod that requests an amount.
func MemberOf(pod *corev1.Pod, requests resources.List) *Member {
	m := &Member{
		UID:         pod.UID,
		Pod:         pod,
		Task:        pod.Annotations[batchv1alpha1.TaskSpecKey],
		Priority:    corev1helpers.PodPriority(pod),
		Requests:    requests,
		Terminating: pod.DeletionTimestamp != nil,
	}
	if index, err := strconv.Atoi(pod.Annotations[batchv1alpha1.TaskIndexKey]); err == nil {
		m.Index = index
	}
	if order, err := strconv.Atoi(pod.Annotations[schedulingv1beta1.TaskOrderAnnotation]); err == nil {
		m.TaskOrder = order
	}
	if version, err := strconv.ParseInt(pod.Annotations[batchv1alpha1.JobVersionKey], 10, 64); err == nil {
		m.Version = version
	}
	if pod.Spec.NodeName != "" {
		m.State, m.Node, m.BoundFor = Bound, pod.Spec.NodeName, types.UID(pod.Annotations[schedulingv1beta1.BoundForAnnotation])
	}
	return m
}

// LacksPodGroup says whether a pod names no PodGroup and must have one. The controller makes it, and the scheduler has the pod wait for it
// where a profile says so (requirePodGroup). A system-critical pod needs none: a gang waits until its queue admits it, and cannot preempt
// while it waits. Mirror pods and pods of native pod groups are not scheduled as gangs of ours.
func LacksPodGroup(pod *corev1.Pod) bool {
	return pod.Annotations[schedulingv1beta1.GroupNameAnnotation] == "" && pod.Labels[schedulingx.PodGroupLabel] == "" &&
		pod.Annotations[corev1.MirrorPodAnnotationKey] == "" && pod.Spec.SchedulingGroup == nil &&
		!IsCritical(pod)
}

// IsFinished says whether a pod has ended by itself.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsCritical says whether a pod is system-critical.
func IsCritical(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) >= scheduling.SystemCriticalPriority
}

// SpecOf reads a PodGroup. Members that have succeeded in a run that is over do not count for members that come now.
func SpecOf(group *schedulingv1beta1.PodGroup) Spec {
	spec := Spec{
		MinMember: int(group.Spec.Minimum()), MinTaskMember: map[string]int{}, Groups: groupPoliciesOf(group),
		Succeeded: int(group.Status.Succeeded), SucceededOf: IncarnationOf(group), Failed: int(group.Status.Failed),
	}
	if IsRunOver(group) {
		spec.Succeeded = 0
	}
	for task, n := range group.Spec.MinTaskMember {
		spec.MinTaskMember[task] = int(n)
	}
	return spec
}

// IsRunOver says whether a run of a PodGroup that no Job of ours controls is over. All members have finished, as many as the minimum have
// succeeded, and none has failed. Members that come later belong to the next run, which has to meet the minimum anew. A member that has
// failed may be replaced, which is no new run.
func IsRunOver(group *schedulingv1beta1.PodGroup) bool {
	status := &group.Status
	return status.Phase == schedulingv1beta1.PodGroupCompleted && status.Failed == 0 && status.Succeeded >= group.Spec.Minimum() &&
		batchv1alpha1.JobOf(group) == nil
}

// IncarnationOf is the incarnation that a PodGroup's status is about. A status without an incarnation is about any.
func IncarnationOf(group *schedulingv1beta1.PodGroup) int64 {
	if group.Status.JobVersion == nil {
		return math.MaxInt64
	}
	return int64(*group.Status.JobVersion)
}

// LeastImportantFirst orders members by priority, and then by index and name from the end.
func LeastImportantFirst(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Index, a.Index), cmp.Compare(b.Pod.Name, a.Pod.Name))
}

// WillingFirst orders members as LeastImportantFirst, but those last of whose pods a function says that they ask to stay.
func WillingFirst(asks func(*corev1.Pod) bool) func(a, b *Member) int {
	return func(a, b *Member) int {
		switch asksA, asksB := asks(a.Pod), asks(b.Pod); {
		case asksA == asksB:
			return LeastImportantFirst(a, b)
		case asksA:
			return 1
		}
		return -1
	}
}

// MayBeEvicted says whether a pod may ever be evicted for other pods. It may not if it goes soon, is system-critical, or is of an upstream pod
// group. The caller looks at its priority, and at what it says itself (AsksToStay).
func MayBeEvicted(pod *corev1.Pod) bool {
	return !IsCritical(pod) && (pod.DeletionTimestamp == nil || Lingers(pod)) && pod.Annotations[corev1.MirrorPodAnnotationKey] == "" && pod.Spec.SchedulingGroup == nil
}

// AsksToStay says whether a pod says itself that it must not be evicted. It has a key of Volcano's for that, a DaemonSet owns it, or it is being
// deleted and Lingers. Anybody can write that on a pod. So it counts where priority decides, and not for what a queue has borrowed from
// other queues.
func AsksToStay(pod *corev1.Pod) bool {
	return IsOfDaemonSet(pod) || Lingers(pod) || AnnotationOrLabel(pod, batchv1alpha1.PodPreemptableKey) == "false"
}

// IsOfDaemonSet says whether a pod names a DaemonSet as its controller. It could go to no other node then. It may name one that does
// not exist.
func IsOfDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == appsv1.GroupName
}

// StartOf is when a pod began to run, or was created if that is not known.
func StartOf(pod *corev1.Pod) metav1.Time {
	if pod.Status.StartTime != nil {
		return *pod.Status.StartTime
	}
	return pod.CreationTimestamp
}

// NeverPreempts says whether nothing may be evicted for a pod.
func NeverPreempts(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
}

// AnnotationOrLabel is the value of a pod's annotation, or else of its label.
func AnnotationOrLabel(pod *corev1.Pod, key string) string {
	if value, ok := pod.Annotations[key]; ok {
		return value
	}
	return pod.Labels[key]
}

// ScheduledCondition is the condition PodScheduled of a pod. It is nil if there is none.
func ScheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}

// BoundAt is when a pod was bound, to the next whole second: the API has no fractions. Without the condition it is when its kubelet saw it, or
// when it was created.
func BoundAt(pod *corev1.Pod) time.Time {
	switch c := ScheduledCondition(pod); {
	case c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero():
		return c.LastTransitionTime.Add(time.Second)
	case pod.Status.StartTime != nil:
		return pod.Status.StartTime.Add(time.Second)
	}
	return pod.CreationTimestamp.Add(time.Second)
}
