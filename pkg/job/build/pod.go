// Package build builds the objects of a Job: its pods and its PodGroup.
package build

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/policy"
	"github.com/muster-sched/muster/pkg/job/volumes"
)

// Pod builds the pod of a task's index. The Job has its defaults filled in; its status says which incarnation. The pod belongs to the Job's
// PodGroup, and to no other queue, user or group, whatever the template says. Only the names in the Job were checked.
func Pod(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            policy.PodName(job.Name, task.Name, index),
			Namespace:       job.Namespace,
			Labels:          podLabels(job, task, index),
			Annotations:     podAnnotations(job, task, index),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, JobKind)},
		},
		Spec: *task.Template.Spec.DeepCopy(),
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = job.Spec.SchedulerName
	}
	if pod.Spec.PriorityClassName == "" {
		pod.Spec.PriorityClassName = job.Spec.PriorityClassName
	}
	pod.Spec.SchedulingGroup = nil
	volumes.Mount(&pod.Spec, job)
	return pod
}

// Tie names the PodGroup that a pod is created for, if the scheduler may only know its earlier version.
func Tie(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) {
	delete(pod.Annotations, schedulingv1beta1.GroupResourceVersionAnnotation)
	if group.Generation > 1 {
		pod.Annotations[schedulingv1beta1.GroupResourceVersionAnnotation] = group.ResourceVersion
	}
}

func podLabels(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) map[string]string {
	labels := schedulingv1beta1.WithoutAccount(task.Template.Labels)
	labels[batchv1alpha1.TaskIndexKey] = strconv.Itoa(int(index))
	labels[batchv1alpha1.TaskSpecKey] = task.Name
	labels[batchv1alpha1.JobNameKey] = job.Name
	labels[batchv1alpha1.JobNamespaceKey] = job.Namespace
	labels[batchv1alpha1.QueueNameKey] = job.Spec.Queue
	if task.PartitionPolicy != nil {
		labels[batchv1alpha1.PartitionIDKey] = strconv.Itoa(int(policy.PartitionID(task, index)))
	}
	inherit(labels, job.Labels, batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, schedulingv1beta1.UserLabel)
	return labels
}

// asksForTopology says whether pods of a Job with several tasks are to be close to each other.
func asksForTopology(job *batchv1alpha1.Job) bool {
	return len(job.Spec.Tasks) > 1 && (job.Spec.NetworkTopology != nil || job.Annotations[schedulingv1beta1.NarrowTopologyAnnotation] != "" ||
		slices.ContainsFunc(job.Spec.Tasks, func(t batchv1alpha1.TaskSpec) bool {
			return t.PartitionPolicy != nil && t.PartitionPolicy.NetworkTopology != nil
		}))
}

func podAnnotations(job *batchv1alpha1.Job, task *batchv1alpha1.TaskSpec, index int32) map[string]string {
	annotations := schedulingv1beta1.WithoutAccount(task.Template.Annotations)
	annotations[batchv1alpha1.TaskIndexKey] = strconv.Itoa(int(index))
	annotations[batchv1alpha1.TaskSpecKey] = task.Name
	annotations[schedulingv1beta1.GroupNameAnnotation] = batchv1alpha1.PodGroupName(job)
	annotations[batchv1alpha1.JobNameKey] = job.Name
	annotations[batchv1alpha1.QueueNameKey] = job.Spec.Queue
	annotations[batchv1alpha1.JobVersionKey] = strconv.Itoa(int(job.Status.Version))
	annotations[batchv1alpha1.PodGenerationAnnotation] = strconv.Itoa(int(job.Status.PodGeneration))
	annotations[batchv1alpha1.PodTemplateKey] = job.Name + "-" + task.Name
	annotations[batchv1alpha1.JobRetryCountKey] = strconv.Itoa(int(job.Status.RetryCount))
	if asksForTopology(job) {
		order := slices.IndexFunc(job.Spec.Tasks, func(t batchv1alpha1.TaskSpec) bool { return t.Name == task.Name })
		annotations[schedulingv1beta1.TaskOrderAnnotation] = strconv.Itoa(order)
	}
	if task.TopologyPolicy != "" {
		annotations[batchv1alpha1.NumaTopologyPolicyKey] = string(task.TopologyPolicy)
	}
	inherit(annotations, job.Annotations,
		batchv1alpha1.PodPreemptableKey, batchv1alpha1.CooldownTimeKey, batchv1alpha1.RevocableZoneKey)
	// A budget is a minimum or a maximum; if both are given, the minimum holds.
	if _, ok := job.Annotations[batchv1alpha1.JDBMinAvailableKey]; ok {
		inherit(annotations, job.Annotations, batchv1alpha1.JDBMinAvailableKey)
	} else {
		inherit(annotations, job.Annotations, batchv1alpha1.JDBMaxUnavailableKey)
	}
	return annotations
}

// inherit copies the values of the existing keys.
func inherit(to, from map[string]string, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
}

// JobKind is the kind that the controller's objects name as their owner.
var JobKind = batchv1alpha1.SchemeGroupVersion.WithKind("Job")
