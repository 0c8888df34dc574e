package placement

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/resources"
)

// FreeOn is the free amount of the named resources on a node. It may be below 0. Counting all resources of a node takes twice as long.
func FreeOn(info fwk.NodeInfo, names []corev1.ResourceName) resources.List {
	free := make(resources.List, len(names))
	for _, name := range names {
		free[name] = leftOn(info, name)
	}
	return free
}

// leftOn is the free amount of a resource on a node.
func leftOn(info fwk.NodeInfo, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return int64(info.GetAllocatable().GetAllowedPodNumber() - len(info.GetPods()))
	}
	return resources.Left(amountOf(info.GetAllocatable(), name), amountOf(info.GetRequested(), name))
}

// MayHold says whether a node has what a pod requests without all pods below a priority, by amounts alone.
func MayHold(node fwk.NodeInfo, requests resources.List, below int32) bool {
	names := slices.Collect(maps.Keys(requests))
	for name, free := range FreeOn(node, names) {
		lacks := resources.Left(requests[name], free)
		for _, pod := range node.GetPods() {
			if lacks > 0 && corev1helpers.PodPriority(pod.GetPod()) < below {
				lacks -= freedOf(pod, name)
			}
		}
		if lacks > 0 && requests[name] > 0 && isOn(node, name) {
			return false
		}
	}
	return true
}

// AllocatableOn is what a node has in all.
func AllocatableOn(info fwk.NodeInfo) resources.List {
	all := make(resources.List, len(info.Node().Status.Allocatable))
	for name := range info.Node().Status.Allocatable {
		all[name] = amountOf(info.GetAllocatable(), name)
	}
	return all
}

// amountOf is the amount of a resource in the scheduler's own type.
func amountOf(counted fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return counted.GetMilliCPU()
	case corev1.ResourceMemory:
		return counted.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return counted.GetEphemeralStorage()
	case corev1.ResourcePods:
		return int64(counted.GetAllowedPodNumber())
	}
	return counted.GetScalarResources()[name]
}

// advertisedBy are the resources that the demands request and some node has, sorted.
func advertisedBy(infos []fwk.NodeInfo, demands []Demand) []corev1.ResourceName {
	names := sets.New[corev1.ResourceName]()
	for _, demand := range demands {
		for name := range demand.Requests {
			if !names.Has(name) && slices.ContainsFunc(infos, func(info fwk.NodeInfo) bool { return isOn(info, name) }) {
				names.Insert(name)
			}
		}
	}
	return sets.List(names)
}

// isOn says whether a node has a resource at all. Every node has the resources that are not extended ones.
func isOn(info fwk.NodeInfo, name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	}
	_, has := info.GetAllocatable().GetScalarResources()[name]
	return has
}

// only keeps the requests for the named resources. The filters decide on the other resources: a device class may stand for a resource that
// no node has.
func only(names []corev1.ResourceName, requests resources.List) resources.List {
	kept := make(resources.List, len(names))
	for _, name := range names {
		if amount, requested := requests[name]; requested {
			kept[name] = amount
		}
	}
	return kept
}
