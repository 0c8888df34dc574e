package coscheduling

import (
	"cmp"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// freed says how much room an event sets free. The queue asks the hints of all unschedulable pods about one event, so the last answer
// is kept.
type freed struct {
	last atomic.Pointer[freedBy]
}

type freedBy struct {
	oldObj, newObj any
	room           room
	known          bool
}

// room is an amount that comes free.
type room struct {
	node   string // where; "" if the node itself is what has changed
	amount resources.List
}

// by returns what an event sets free. The pod is deleted or not nominated any more, or the node is added or grows. For other events the
// freed room is not known. A node that has grown counts as a whole: its earlier room was not counted while no member fitted there.
func (f *freed) by(oldObj, newObj any) (r room, known bool) {
	if last := f.last.Load(); last != nil && last.oldObj == oldObj && last.newObj == newObj {
		return last.room, last.known
	}
	r, known = roomBy(oldObj, newObj)
	f.last.Store(&freedBy{oldObj, newObj, r, known})
	return r, known
}

// roomBy is what by returns, computed.
func roomBy(oldObj, newObj any) (r room, known bool) {
	switch is := newObj.(type) {
	case nil:
		pod, ok := oldObj.(*corev1.Pod)
		if !ok || isBeingResized(pod) {
			return room{}, false
		}
		// A pod that was nominated to a node kept room there from pods of its priority and below. Room on an unknown node is not known.
		node := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
		if node == "" {
			return room{}, false
		}
		return room{node, resources.PodRequests(pod)}, true
	case *corev1.Node:
		return room{"", resources.FromResourceList(is.Status.Allocatable)}, true
	}
	return room{}, false
}

// isBeingResized says whether a pod may hold more than its spec says.
func isBeingResized(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodResizePending || condition.Type == corev1.PodResizeInProgress
	})
}
