package main

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// lean keeps out of the informers' memory what nobody here reads and what is often half of an object. What is written back
// is never a whole object out of an informer, but for statuses.
func lean(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
		object.SetLabels(shared(object.GetLabels()))
		object.SetAnnotations(shared(object.GetAnnotations()))
		owners := object.GetOwnerReferences()
		for i := range owners {
			share(&owners[i].APIVersion, &owners[i].Kind, &owners[i].Name)
		}
		object.SetOwnerReferences(owners)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		leanPod(pod)
	}
	return obj, nil
}

// leanPod leaves of a pod what says whose it is, what it takes from its node and queue, and how it is.
func leanPod(pod *corev1.Pod) {
	spec := &pod.Spec
	spec.Volumes, spec.Tolerations, spec.TopologySpreadConstraints = nil, nil, nil
	spec.Affinity, spec.NodeSelector, spec.SecurityContext = nil, nil, nil
	spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.ReadinessGates = nil, nil, nil, nil
	spec.Hostname, spec.Subdomain, spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", "", "", ""
	share(&pod.Namespace, &spec.NodeName, &spec.SchedulerName, &spec.PriorityClassName)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			share(&c.Name)
			containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
	leanStatus(&pod.Status)
}

// leanStatus leaves of a status what phases, policies and dependencies are about.
func leanStatus(status *corev1.PodStatus) {
	status.PodIPs, status.HostIPs = nil, nil
	var read []corev1.PodCondition
	for _, c := range status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			read = append(read, c)
		}
	}
	status.Conditions = slices.Clip(read)
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range containers {
			c := &containers[i]
			share(&c.Name)
			c.Image, c.ImageID, c.ContainerID = "", "", ""
			c.AllocatedResources, c.Resources, c.VolumeMounts = nil, nil, nil
		}
	}
}

// shared returns labels or annotations whose keys and values are in memory once: pods of a Job have most of them in common.
func shared(own map[string]string) map[string]string {
	if len(own) == 0 {
		return nil
	}
	m := make(map[string]string, len(own))
	for key, value := range own {
		if len(value) <= longestShared {
			value = unique.Make(value).Value()
		}
		m[unique.Make(key).Value()] = value
	}
	return m
}

// share has strings in memory once that many objects have in common.
func share(common ...*string) {
	for _, text := range common {
		*text = unique.Make(*text).Value()
	}
}

// longestShared is the length in bytes up to which values are thought to be common to several objects.
const longestShared = 64
