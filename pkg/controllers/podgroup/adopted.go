package podgroup

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// adoptedPrefix begins the name of a PodGroup made for pods that have none; a UID follows.
	adoptedPrefix = "podgroup-"
	// inheritedPrefix begins the annotations that this PodGroup takes over from the owner of its pods.
	inheritedPrefix = "volcano.sh/"

	topologyModeAnnotation = "volcano.sh/network-topology-mode"
	topologyTierAnnotation = "volcano.sh/network-topology-highest-tier"
)

// podAnnotations are the annotations that this PodGroup takes over from its pods.
var podAnnotations = []string{
	batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, batchv1alpha1.RevocableZoneKey,
	batchv1alpha1.JDBMinAvailableKey, batchv1alpha1.JDBMaxUnavailableKey,
}

// adoptedName is the name of the PodGroup that is made for a pod: one for all pods of the same controller, or one for a
// pod without a controller.
func adoptedName(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return adoptedPrefix + string(owner.UID)
	}
	return adoptedPrefix + string(pod.UID)
}

// needsGroup says whether a pod must have a PodGroup, or had one before. A pod of a native pod group has one already. A system-critical pod
// needs none: a gang waits until its queue admits it, and cannot preempt while it waits.
func needsGroup(pod *corev1.Pod, served func(schedulerName string) bool) bool {
	name := pod.Annotations[schedulingv1beta1.GroupNameAnnotation]
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && pod.Spec.SchedulingGroup == nil && served(pod.Spec.SchedulerName) && pod.DeletionTimestamp == nil && !isFinished(pod) &&
		(name == "" && !isCritical(pod) || name == adoptedName(pod))
}

func isCritical(pod *corev1.Pod) bool {
	return corev1helpers.PodPriority(pod) >= scheduling.SystemCriticalPriority
}

// adoptedGroup is the PodGroup for a pod whose controller, if it has one, has these annotations.
func adoptedGroup(pod *corev1.Pod, ownerAnnotations map[string]string) *schedulingv1beta1.PodGroup {
	minMember := minMemberOf(ownerAnnotations)
	minResources := resources.PodRequests(pod).Scale(int64(minMember)).ToResourceList()
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            adoptedName(pod),
			OwnerReferences: ownersOf(pod),
			Annotations:     map[string]string{},
			Labels:          map[string]string{},
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			MinMember:         minMember,
			Queue:             pod.Annotations[schedulingv1beta1.QueueNameAnnotation],
			PriorityClassName: pod.Spec.PriorityClassName,
			MinResources:      &minResources,
			NetworkTopology:   topologyOf(pod.Annotations),
		},
	}
	maps.Copy(group.Annotations, ownerAnnotations)
	maps.DeleteFunc(group.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, inheritedPrefix) })
	takeOver(group.Annotations, pod.Annotations, podAnnotations...)
	takeOver(group.Labels, pod.Labels, batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, schedulingv1beta1.UserLabel)
	return group
}

// ownersOf are the owners of the PodGroup of a pod: the pod's, so that it lives as long as its controller, or the pod. None of them waits
// for the PodGroup when it is deleted: a user needs a right of its own to ask for that.
func ownersOf(pod *corev1.Pod) []metav1.OwnerReference {
	owners := []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	if metav1.GetControllerOf(pod) != nil {
		owners = slices.Clone(pod.OwnerReferences)
	}
	for i := range owners {
		owners[i].BlockOwnerDeletion = nil
	}
	return owners
}

// minMemberOf is the number in the owner's annotation, or 1.
func minMemberOf(ownerAnnotations map[string]string) int32 {
	n, err := strconv.ParseInt(ownerAnnotations[schedulingv1beta1.GroupMinMemberAnnotation], 10, 32)
	if err != nil || n < 0 {
		return 1
	}
	return int32(n)
}

// topologyOf is the topology constraint in a pod's annotations; nil if there is none.
func topologyOf(annotations map[string]string) *schedulingv1beta1.NetworkTopologySpec {
	mode, hasMode := annotations[topologyModeAnnotation]
	tier, err := strconv.Atoi(annotations[topologyTierAnnotation])
	hasTier := err == nil && tier >= 0
	if !hasMode && !hasTier {
		return nil
	}
	topology := &schedulingv1beta1.NetworkTopologySpec{Mode: schedulingv1beta1.HardNetworkTopologyMode}
	if mode == string(schedulingv1beta1.SoftNetworkTopologyMode) {
		topology.Mode = schedulingv1beta1.SoftNetworkTopologyMode
	}
	if hasTier {
		topology.HighestTierAllowed = &tier
	}
	return topology
}

func takeOver(to, from map[string]string, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
}

// scaledOwner is the controller of an adopted PodGroup whose kind can be scaled to nothing; nil for other PodGroups.
func scaledOwner(group *schedulingv1beta1.PodGroup) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(group)
	if owner == nil || group.Name != adoptedPrefix+string(owner.UID) {
		return nil
	}
	switch owner.Kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		return owner
	}
	return nil
}

// ownerFacts are the facts about the controller of a pod that matter.
type ownerFacts struct {
	uid         types.UID
	annotations map[string]string
	replicas    *int32 // nil for kinds that are not scaled
}
