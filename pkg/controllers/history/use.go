package history

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// use is what pods of one Job had on nodes. The zero value is empty.
type use struct {
	seconds   map[corev1.ResourceName]float64
	evictions int32
	requests  resources.List // of the last pod
}

// add adds what a pod has had until now, or until its end.
func (u *use) add(pod *corev1.Pod, now time.Time) {
	if isEvicted(pod) {
		u.evictions++
	}
	u.requests = resources.PodRequests(pod)
	bound := gang.ScheduledCondition(pod)
	if bound == nil || bound.Status != corev1.ConditionTrue {
		return
	}
	seconds := endOf(pod, now).Sub(bound.LastTransitionTime.Time).Seconds()
	if seconds <= 0 {
		return
	}
	if u.seconds == nil {
		u.seconds = map[corev1.ResourceName]float64{}
	}
	for name, amount := range u.requests {
		if name == corev1.ResourcePods {
			continue
		}
		units := float64(amount)
		if name == corev1.ResourceCPU {
			units /= 1000 // millicores
		}
		u.seconds[name] += units * seconds
	}
}

// with returns what other pods had, too.
func (u *use) with(pods []*corev1.Pod, now time.Time) use {
	sum := use{evictions: u.evictions, requests: u.requests, seconds: map[corev1.ResourceName]float64{}}
	for name, seconds := range u.seconds {
		sum.seconds[name] = seconds
	}
	for _, pod := range pods {
		sum.add(pod, now)
	}
	return sum
}

// endOf is when the last container of a pod that has ended did so, or else now.
func endOf(pod *corev1.Pod, now time.Time) time.Time {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return now
	}
	var last time.Time
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	if last.IsZero() || last.After(now) {
		return now
	}
	return last
}

// isEvicted says that a client had a pod go, such as the scheduler or a drain.
func isEvicted(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
