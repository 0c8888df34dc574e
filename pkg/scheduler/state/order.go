package state

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
)

// OrderKey is what a pod is sorted by. It is made when the pod passes the gate, before it enters the queue's heap, and
// never changes there.
type OrderKey struct {
	// Rank: system-critical pods, then members of gangs that are bound below their minimum, then everything else.
	Rank int
	// JobPriority is the priority of the whole gang, or of a pod without one. Higher goes first.
	JobPriority int32
	// Surplus: the minimum of its gang does not need the pod.
	Surplus bool
	// Since is the age of the gang, or when a pod without one entered the queue.
	Since time.Time
	// Gang keeps the members of a gang together.
	Gang types.UID
	// TaskPriority orders within the gang. Higher goes first.
	TaskPriority int32
	// Index of the pod in its task.
	Index int
	// Pod settles ties.
	Pod types.UID
}

// The ranks.
const (
	rankCritical = iota
	rankBroken
	rankNormal
)

// Before says whether a goes ahead of b. It is a strict weak order: a comparison of tuples.
func (a *OrderKey) Before(b *OrderKey) bool {
	return cmp.Or(
		cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(b.JobPriority, a.JobPriority),
		compareBool(a.Surplus, b.Surplus),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Gang, b.Gang),
		cmp.Compare(b.TaskPriority, a.TaskPriority),
		cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.Pod, b.Pod),
	) < 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// OrderKey returns what a pod in the queue is sorted by. A pod without a gang is sorted by its priority and the time it entered
// the queue, as the upstream scheduler does.
func (s *Store) OrderKey(pod *corev1.Pod, queued time.Time) OrderKey {
	if _, ok := groupOf(pod); ok {
		if key, ok := s.order.Load(pod.UID); ok {
			return *key.(*OrderKey)
		}
	}
	priority := corev1helpers.PodPriority(pod)
	return OrderKey{Rank: rankOf(priority, false), JobPriority: priority, Since: queued, TaskPriority: priority, Pod: pod.UID}
}

func rankOf(priority int32, broken bool) int {
	switch {
	case priority >= scheduling.SystemCriticalPriority:
		return rankCritical
	case broken:
		return rankBroken
	}
	return rankNormal
}

// freezeOrder fixes what a member is sorted by while it is in the queue.
func (s *Store) freezeOrder(g *group, m *gang.Member) {
	priority := s.gangPriority(g)
	s.order.Store(m.UID, &OrderKey{
		Rank:         rankOf(priority, g.Broken() || g.rebinding.Len() > 0),
		JobPriority:  priority,
		Surplus:      g.Seated(),
		Since:        g.since,
		Gang:         g.uid,
		TaskPriority: m.Priority,
		Index:        m.Index,
		Pod:          m.UID,
	})
}

// GroupOrderKey is what a native pod group is sorted by: like a pod without a gang.
func GroupOrderKey(priority int32, queued time.Time) OrderKey {
	return OrderKey{Rank: rankOf(priority, false), JobPriority: priority, Since: queued, TaskPriority: priority}
}
