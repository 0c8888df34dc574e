package podgroup

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// adoptedPrefix begins the name of a PodGroup made for pods that have none; a UID follows.
	adoptedPrefix = "podgroup-"
	// inheritedPrefix begins the annotations that this PodGroup takes over from the owner of its pods.
	inheritedPrefix = "volcano.sh/"
)

// podAnnotations are the annotations that this PodGroup takes over from its pods.
var podAnnotations = []string{
	batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, batchv1alpha1.RevocableZoneKey,
	batchv1alpha1.JDBMinAvailableKey, batchv1alpha1.JDBMaxUnavailableKey, schedulingv1beta1.NarrowTopologyAnnotation, schedulingv1beta1.RunningEstimateAnnotation,
}

// needsGroup says whether a pod must have a PodGroup, or had one before.
func needsGroup(pod *corev1.Pod, served func(schedulerName string) bool) bool {
	return served(pod.Spec.SchedulerName) && pod.DeletionTimestamp == nil && !gang.IsFinished(pod) && (gang.LacksPodGroup(pod) || mayBeAdopted(pod))
}

// mayBeAdopted says whether the PodGroup that a pod names can be one that was made for it. A pod of a ReplicaSet may have that of a
// Deployment, whose UID the pod does not tell.
func mayBeAdopted(pod *corev1.Pod) bool {
	uid, adopted := strings.CutPrefix(pod.Annotations[schedulingv1beta1.GroupNameAnnotation], adoptedPrefix)
	if !adopted || pod.Spec.SchedulingGroup != nil || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return uid == string(pod.UID) || owner != nil && (isOf(uid, owner) || kindOf(owner) == replicaSetKind)
}

// isOf says whether a PodGroup was made for the pods of an owner, by what follows adoptedPrefix in its name.
func isOf(suffix string, owner *metav1.OwnerReference) bool {
	rest, found := strings.CutPrefix(suffix, string(owner.UID))
	return found && (rest == "" || strings.HasPrefix(rest, "-"))
}

// The kinds whose pods are made of one template. They share a PodGroup.
const (
	replicaSetKind            = "apps/v1 ReplicaSet"
	deploymentKind            = "apps/v1 Deployment"
	statefulSetKind           = "apps/v1 StatefulSet"
	daemonSetKind             = "apps/v1 DaemonSet"
	replicationControllerKind = "v1 ReplicationController"
	jobKind                   = "batch/v1 Job"
)

func kindOf(owner *metav1.OwnerReference) string { return owner.APIVersion + " " + owner.Kind }

// sharingOwner is the controller of a pod if its pods share a PodGroup, else nil.
func sharingOwner(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	switch kindOf(owner) {
	case replicaSetKind, statefulSetKind, daemonSetKind, replicationControllerKind, jobKind:
		return owner
	}
	return nil
}

// groupOfJob is the PodGroup of the Job or PhJob that controls a pod: such a pod is never adopted. named is "" while it is not known.
func groupOfJob(pod *corev1.Pod) (named string, isOfJob bool) {
	if job := batchv1alpha1.JobOf(pod); job != nil {
		return batchv1alpha1.PodGroupName(&batchv1alpha1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name, UID: job.UID}}), true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return "", owner != nil && owner.Kind == "PhJob" && strings.HasPrefix(owner.APIVersion, primehubv1alpha1.GroupName+"/")
}

// ownerFacts are the facts about the owner of a PodGroup that matter.
type ownerFacts struct {
	uid         types.UID
	annotations map[string]string
	replicas    *int32                 // nil for kinds that are not scaled
	controller  *metav1.OwnerReference // its own
}

// home is where a pod belongs: the owner of its PodGroup, and what the owner asks for.
type home struct {
	name        string // of the PodGroup
	owners      []metav1.OwnerReference
	annotations map[string]string      // of the controller of the pods
	deployment  *metav1.OwnerReference // of the ReplicaSet of the pods
}

// ownHome is the home of a pod that shares its PodGroup with no other.
func ownHome(pod *corev1.Pod) home {
	return home{
		name:   adoptedPrefix + string(pod.UID),
		owners: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}
}

// sharedHome is the home of the pods of a controller. The pods of all ReplicaSets of a Deployment are one gang if the Deployment has a
// minimum. In a rolling update, new pods count in place of old ones.
func sharedHome(owners []metav1.OwnerReference, owner *metav1.OwnerReference, facts *ownerFacts) home {
	h := home{name: adoptedPrefix + string(owner.UID), owners: owners}
	if facts == nil {
		return h
	}
	h.annotations = facts.annotations
	if facts.controller != nil && kindOf(facts.controller) == deploymentKind {
		h.deployment = facts.controller
	}
	if h.deployment != nil && minMemberOf(facts.annotations) > 1 {
		h.name, h.owners = adoptedPrefix+string(h.deployment.UID), []metav1.OwnerReference{*h.deployment}
	}
	return h
}

// ofAccount is the home of the pods of an owner that are for another account than its PodGroup.
func (h home) ofAccount(account string) home {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(account)) // it cannot fail
	h.name = fmt.Sprintf("%s-%08x", h.name, hash.Sum32())
	return h
}

// accountFor is the account that a pod asks for: its queue, and its user there.
func accountFor(pod *corev1.Pod) string {
	return quota.Account(cmp.Or(pod.Annotations[schedulingv1beta1.QueueNameAnnotation], schedulingv1beta1.DefaultQueue), pod.Labels[schedulingv1beta1.UserLabel])
}

// adoptedGroup is the PodGroup for a pod.
func adoptedGroup(pod *corev1.Pod, h home) *schedulingv1beta1.PodGroup {
	minMember := minMemberOf(h.annotations)
	topology, _ := schedulingv1beta1.TopologyOf(pod.Annotations)
	minResources := resources.PodRequests(pod).Scale(int64(minMember)).ToResourceList()
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            h.name,
			OwnerReferences: withoutBlocking(h.owners),
			Annotations:     map[string]string{},
			Labels:          map[string]string{},
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			MinMember:         minMember,
			Queue:             pod.Annotations[schedulingv1beta1.QueueNameAnnotation],
			PriorityClassName: pod.Spec.PriorityClassName,
			MinResources:      &minResources,
			NetworkTopology:   topology,
		},
	}
	maps.Copy(group.Annotations, h.annotations)
	maps.DeleteFunc(group.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, inheritedPrefix) })
	takeOver(group.Annotations, h.annotations, schedulingv1beta1.RunningEstimateAnnotation)
	takeOver(group.Annotations, pod.Annotations, podAnnotations...)
	takeOver(group.Labels, pod.Labels, batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, schedulingv1beta1.UserLabel)
	return group
}

// withoutBlocking are owners none of which waits for the PodGroup when it is deleted. A user needs a right of its own to ask for that.
func withoutBlocking(owners []metav1.OwnerReference) []metav1.OwnerReference {
	owners = slices.Clone(owners)
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
	suffix, adopted := strings.CutPrefix(group.Name, adoptedPrefix)
	if owner == nil || !adopted || !isOf(suffix, owner) {
		return nil
	}
	switch kindOf(owner) {
	case replicaSetKind, deploymentKind, statefulSetKind, replicationControllerKind, jobKind:
		return owner
	}
	return nil
}

// wantedPods is how many pods a batch/v1 Job wants to run: none if it is suspended. It is nil for a Job that has finished.
func wantedPods(job *batchv1.Job) *int32 {
	finished := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	switch {
	case finished:
		return nil
	case ptr.Deref(job.Spec.Suspend, false):
		return ptr.To[int32](0)
	}
	return ptr.To(ptr.Deref(job.Spec.Parallelism, 1))
}
