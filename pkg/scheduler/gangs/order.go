package gangs

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// OrderKey is the sort key of a pod. It is made when the pod passes the gate, before it enters the queue's heap, and never changes there.
type OrderKey struct {
	// Rank: system-critical pods, then members of gangs under repair, then everything else.
	Rank int
	// JobPriority is the priority of the whole gang, or of a pod without one. Higher goes first.
	JobPriority int32
	// Share is how many surplus pods of the gang run once this one has started. It makes gangs of the same priority share what is left
	// evenly. 0 for pods that are no surplus: they go first.
	Share int
	// Since is when the gang was created, or when a pod without one entered the queue.
	Since time.Time
	// Seen orders gangs of the same second as they were first seen, and keeps the members of a gang together.
	Seen int64
	// TaskPriority orders within the gang. Higher goes first.
	TaskPriority int32
	// Index of the pod in its task.
	Index int
	// Pod settles ties.
	Pod types.UID
}

// The ranks.
const (
	RankCritical = iota
	RankPartial
	RankNormal
)

// Before says whether a comes before b. It is a strict weak order: a comparison of tuples.
func (a *OrderKey) Before(b *OrderKey) bool {
	return cmp.Or(
		cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(b.JobPriority, a.JobPriority),
		cmp.Compare(a.Share, b.Share),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Seen, b.Seen),
		cmp.Compare(b.TaskPriority, a.TaskPriority),
		cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.Pod, b.Pod),
	) < 0
}

// Order has the sort keys of pods in the scheduling queue.
type Order struct {
	t    *state.State
	Keys sync.Map // pod UID -> *OrderKey; QueueSort reads it without the lock
}

// OrderKey returns the sort key of a pod in the queue. A pod without a gang is sorted by its priority and its time in the queue, as
// upstream does.
func (o *Order) OrderKey(pod *corev1.Pod, queued time.Time) OrderKey {
	if _, ok := gang.KeyOf(pod); ok {
		if key, ok := o.Keys.Load(pod.UID); ok {
			return *key.(*OrderKey)
		}
	}
	key := GroupOrderKey(corev1helpers.PodPriority(pod), queued)
	key.Pod = pod.UID
	return key
}

func rankOf(priority int32, partial bool) int {
	switch {
	case upstream.IsCritical(priority):
		return RankCritical
	case partial:
		return RankPartial
	}
	return RankNormal
}

// freezeOrder fixes the sort key of a member while it is in the queue.
func (o *Order) freezeOrder(g *gang.Group, m *gang.Member) {
	priority := o.t.PriorityOf(g)
	share := 0
	if g.Seated() {
		share = g.CountSurplus() + 1 + g.RankOf(m.UID)
	}
	o.Keys.Store(m.UID, &OrderKey{
		Rank:         rankOf(priority, g.UnderRepair || g.Attempt != nil && g.Attempt.Failed.Len() > 0),
		JobPriority:  priority,
		Share:        share,
		Since:        g.PodGroup.Created,
		Seen:         g.Seen,
		TaskPriority: m.Priority,
		Index:        m.Index,
		Pod:          m.UID,
	})
}

// GroupOrderKey is the sort key of a native pod group: like a pod without a gang.
func GroupOrderKey(priority int32, queued time.Time) OrderKey {
	return OrderKey{Rank: rankOf(priority, false), JobPriority: priority, Since: queued, TaskPriority: priority}
}

// Bound forgets the sort key of a pod that has left the scheduling queue for good.
func (o *Order) Bound(pod types.UID) {
	o.Keys.Delete(pod)
	o.t.Lock()
	defer o.t.Unlock()
	o.t.Leaving.Delete(pod) // it was bound although it had left its gang
}
