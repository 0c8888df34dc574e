package gangs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
)

// Key names a gang: its PodGroup.
type Key = gang.Key

// keyOf returns the gang of a pod. A pod that must have a PodGroup and names none is a gang of its own, whose PodGroup is missing.
func (t *Tracker) keyOf(pod *corev1.Pod) (Key, bool) {
	if key, ok := gang.KeyOf(pod); ok {
		return key, true
	}
	if _, required := t.podGroupRequired.Load(pod.Spec.SchedulerName); required && awaitsPodGroup(pod) {
		return gang.AwaitingKey(pod), true
	}
	return Key{}, false
}

// awaitsPodGroup says whether a pod waits until muster-controller has given it a PodGroup. Scheduling gates hold a pod by themselves.
func awaitsPodGroup(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && gang.LacksPodGroup(pod)
}
