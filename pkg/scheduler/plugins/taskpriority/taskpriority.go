// Package taskpriority decides which pods enter the scheduling queue, and in which order. It closes the gate for gangs that are not ready.
// Gangs that are bound below their minimum go first. Then come the priority of the job, minimum members before surplus, and the older gang.
// Within a gang, tasks are ordered by priority, and their pods by index. Pods without a gang are ordered by priority and age, as the
// upstream scheduler does.
//
// The gate is here, and not in Coscheduling, because this plugin waits for no cluster events. The queue asks the gating plugin's hints
// about every gated pod at every event. There may be many such pods. The tracker activates them itself.
package taskpriority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// Name of the plugin in a scheduler configuration.
const Name = "TaskPriority"

// TaskPriority is the plugin.
type TaskPriority struct {
	tracker *gangs.Tracker
}

var (
	_ fwk.PreEnqueuePlugin  = (*TaskPriority)(nil)
	_ fwk.EnqueueExtensions = (*TaskPriority)(nil)
	_ fwk.QueueSortPlugin   = (*TaskPriority)(nil)
)

// New makes the factory of the plugin on a tracker of gangs.
func New(tracker *gangs.Tracker) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if _, ok := obj.(*config.TaskPriorityArgs); !ok {
			return nil, fmt.Errorf("the arguments of %s are of type %T, TaskPriorityArgs needed", Name, obj)
		}
		if err := tracker.Feed.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the tracker of gangs for %s: %w", Name, err)
		}
		return &TaskPriority{tracker: tracker}, nil
	}
}

// Name returns the name of the plugin.
func (*TaskPriority) Name() string { return Name }

// PreEnqueue is the gate: it holds the members of a gang whose turn has not come. It fixes the sort key of all other pods. It runs under
// the queue's lock.
func (t *TaskPriority) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if reason := t.tracker.Gate(pod); reason != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}

// EventsToRegister is empty: the tracker activates pods when they may pass.
func (*TaskPriority) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// Less says whether a goes ahead of b. It runs under the queue's lock and reads only what cannot change while the two are in
// the heap.
func (t *TaskPriority) Less(a, b fwk.QueuedEntityInfo) bool {
	keyA, keyB := t.key(a), t.key(b)
	return keyA.Before(&keyB)
}

// key is the sort key of a pod, or of a native pod group as a whole.
func (t *TaskPriority) key(entity fwk.QueuedEntityInfo) gangs.OrderKey {
	if queued, ok := entity.(interface{ GetPod() *corev1.Pod }); ok {
		return t.tracker.Order.OrderKey(queued.GetPod(), entity.GetTimestamp())
	}
	return gangs.GroupOrderKey(entity.GetPriority(), entity.GetTimestamp())
}
