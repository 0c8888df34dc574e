package v1beta1

import "cmp"

// ParentName is the queue above a queue. It is "" for the root.
func (q *Queue) ParentName() string { return ParentOf(q.Name, q.Spec.Parent) }

// ParentOf is the queue above a queue that names the given parent in its spec. It is "" for the root.
func ParentOf(queue, parent string) string {
	if queue == RootQueue {
		return ""
	}
	return cmp.Or(parent, RootQueue)
}

// IsShut says whether a queue takes no work.
func (s QueueState) IsShut() bool { return s == QueueStateClosed || s == QueueStateClosing }

// CurrentCondition is the condition of a PodGroup that holds now, the one with the latest transition. It is nil if there is none.
func CurrentCondition(conditions []PodGroupCondition) *PodGroupCondition {
	var current *PodGroupCondition
	for i := range conditions {
		if c := &conditions[i]; current == nil || !c.LastTransitionTime.Before(&current.LastTransitionTime) {
			current = c
		}
	}
	return current
}
