package hooks

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// queue is the upstream scheduling queue without the members of gangs that sleep. Upstream pays for each pod that waits at every
// event: it copies the list of them all, looks at each, and asks the plugins about those that are not gated. So the members of a
// gang that has waited for a while leave it, and come back when the Store calls them; meanwhile events reach the gang by way of
// the Store, which knows for which it waits.
type queue struct {
	upstream.SchedulingQueue
	store *state.Store
	gated metrics.MetricRecorder // those who sleep count as gated, which they were before

	// mu orders what happens to a member's pod. It is taken before the locks of the upstream queue and of the Store.
	mu       sync.Mutex
	sleepers map[types.UID]*sleeper
}

// sleeper is a pod that has left the queue, and what of its entry cannot be made anew when it comes back. The rest is forgotten:
// there may be tens of thousands.
type sleeper struct {
	pod      *corev1.Pod
	attempts int
	since    *time.Time // the first attempt; nil before
}

var _ metrics.Entity = (*sleeper)(nil)

// Size says that it is one pod.
func (*sleeper) Size() int { return 1 }

// Type says that it is a pod.
func (*sleeper) Type() fwk.EntityKeyType { return fwk.PodKeyType }

var (
	_ upstream.SchedulingQueue = (*queue)(nil)
	_ state.Queue              = (*queue)(nil)
)

// installQueue puts a queue that gangs can leave in the place of a scheduler's own.
func installQueue(s *scheduler.Scheduler, store *state.Store) {
	q := &queue{
		SchedulingQueue: s.SchedulingQueue,
		store:           store,
		gated:           metrics.NewGatedEntitiesRecorder(),
		sleepers:        map[types.UID]*sleeper{},
	}
	s.SchedulingQueue = q
	for _, profile := range s.Profiles {
		profile.SetPodActivator(q)
	}
	store.Sleep(q)
}

// Dismiss takes waiting pods out of the queue until they are activated. A pod that is being tried at this moment stays.
func (q *queue) Dismiss(pods []*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	logger := klog.Background()
	for _, pod := range pods {
		if !q.store.Sleeps(pod) {
			continue // it was activated meanwhile
		}
		// The queue's own pod is what the scheduler heard last; what the Store heard may be older.
		info, waits := q.GetPod(pod.Name, pod.Namespace, nil)
		if !waits || info.Pod.UID != pod.UID {
			continue
		}
		q.SchedulingQueue.Delete(logger, info.Pod)
		q.sleepers[pod.UID] = &sleeper{pod: info.Pod, attempts: info.Attempts, since: info.InitialAttemptTimestamp}
		q.gated.Add(q.sleepers[pod.UID])
	}
}

// Activate has pods tried at once, also those that sleep. They all come back before the gate opens to the first of them, so that
// they are sorted before one is tried.
func (q *queue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.recall(klog.NewContext(context.Background(), logger), pods)
	q.SchedulingQueue.Activate(logger, pods)
}

func (q *queue) recall(ctx context.Context, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		entry, sleeps := q.sleepers[pod.UID]
		if !sleeps {
			continue
		}
		q.forget(pod.UID)
		latest := entry.pod
		if !q.store.Sleeps(latest) {
			latest = pod // it is called because it has left its gang, of which the queue has not heard yet
		}
		q.SchedulingQueue.Delete(klog.FromContext(ctx), latest) // it was being tried when it should have left, and is back
		q.Add(ctx, latest)
		if back, waits := q.GetPod(pod.Name, pod.Namespace, nil); waits && back.Gated() {
			// The metrics count a pod's attempts, and time it from the first.
			back.Attempts, back.InitialAttemptTimestamp = entry.attempts, entry.since
		}
	}
	q.store.Awake(pods)
}

// Update takes over what a pod looks like now. A pod that sleeps goes on sleeping, unless the change helps its gang: if the pod is the
// scout, the plugins are asked, as the upstream queue asks them. Of what else a change means the Store is told by its own informer.
func (q *queue) Update(ctx context.Context, oldPod, newPod *corev1.Pod) {
	if !state.IsMember(oldPod) && !state.IsMember(newPod) {
		q.SchedulingQueue.Update(ctx, oldPod, newPod)
		return
	}
	if !q.updateAsleep(ctx, oldPod, newPod) {
		return
	}
	isIt := func(pod *corev1.Pod) bool { return pod.UID == newPod.UID }
	for _, event := range framework.PodSchedulingPropertiesChange(newPod, oldPod, true) {
		q.store.Happened(klog.FromContext(ctx), event, oldPod, newPod, isIt)
	}
}

// updateAsleep says whether the pod sleeps on.
func (q *queue) updateAsleep(ctx context.Context, oldPod, newPod *corev1.Pod) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if entry, sleeps := q.sleepers[newPod.UID]; sleeps {
		if q.store.Sleeps(newPod) {
			entry.pod = newPod
			return true
		}
		q.forget(newPod.UID)
	}
	q.SchedulingQueue.Update(ctx, oldPod, newPod)
	return false
}

// Delete forgets a pod.
func (q *queue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(pod.UID)
	q.SchedulingQueue.Delete(logger, pod)
}

// forget is called with the lock held.
func (q *queue) forget(uid types.UID) {
	if entry, sleeps := q.sleepers[uid]; sleeps {
		q.gated.Remove(entry)
		delete(q.sleepers, uid)
	}
}

// MoveAllToActiveOrBackoffQueue puts an event to all who wait, whether they are in the queue or sleep. Who falls asleep meanwhile is
// asked twice rather than not at all: the Store counts a pod as asleep before it has left.
func (q *queue) MoveAllToActiveOrBackoffQueue(logger klog.Logger, event fwk.ClusterEvent, oldObj, newObj any, concerns upstream.PreEnqueueCheck) {
	q.store.Happens(event)
	q.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, event, oldObj, newObj, concerns)
	q.store.Happened(logger, event, oldObj, newObj, concerns)
}
