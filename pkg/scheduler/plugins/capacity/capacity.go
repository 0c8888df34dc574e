// Package capacity keeps what a queue's pods use within the capability of the queue and of all its ancestors.
//
// Gangs are judged against their queue as a whole, by Coscheduling, when this plugin is part of the profile; here stand the
// pods that come alone: those beyond the minimum of their gang, and those without a gang that name a queue themselves. A pod that
// names no queue is charged nowhere.
package capacity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Name of the plugin in a scheduler configuration.
const Name = "Capacity"

// Capacity is the plugin.
type Capacity struct {
	store *state.Store
}

var (
	_ fwk.EnqueueExtensions = (*Capacity)(nil)
	_ fwk.PreFilterPlugin   = (*Capacity)(nil)
	_ fwk.PostFilterPlugin  = (*Capacity)(nil)
	_ fwk.ReservePlugin     = (*Capacity)(nil)
	_ fwk.SignPlugin        = (*Capacity)(nil)
)

// New makes the factory of the plugin on a Store.
func New(store *state.Store) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if _, ok := obj.(*config.CapacityArgs); !ok {
			return nil, fmt.Errorf("the arguments of %s are of type %T, CapacityArgs needed", Name, obj)
		}
		store.EnforceQuota()
		if err := store.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the state of %s: %w", Name, err)
		}
		return &Capacity{store: store}, nil
	}
}

// Name returns the name of the plugin.
func (*Capacity) Name() string { return Name }

// SignPod adds nothing to a pod's signature: quota does not depend on the node.
func (*Capacity) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// EventsToRegister is empty: the Store sees every charge that is taken back and every queue that changes, and wakes the pods
// that wait for quota itself.
func (*Capacity) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreFilter rejects a pod for which its queue, or an ancestor, has no room. Pods are scheduled one after the other and charged
// in Reserve, so that what was free here is free there.
func (c *Capacity) PreFilter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if shortage := c.store.QuotaShortage(pod); shortage != nil {
		cycle.Write(shortageKey, short{})
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for quota: "+shortage.Error())
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions returns nil: preempting a pod on a node does not help, quota is not a node's.
func (*Capacity) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

const shortageKey fwk.StateKey = "PreFilter" + Name

// short marks the cycle of a pod that waits for quota.
type short struct{}

// Clone returns the mark itself.
func (short) Clone() fwk.StateData { return short{} }

// PostFilter ends the cycle of a pod that waits for quota: no victim on a node helps it, and the plugins behind have not seen it
// in PreFilter. A nomination of the pod ends: it would keep room from others.
func (c *Capacity) PostFilter(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := cycle.Read(shortageKey); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// Reserve charges the pod to its queue. Coscheduling may have done so already: a pod is charged once. While upstream tries a native
// pod group, each pod takes its part of the queue for the next ones to see.
func (c *Capacity) Reserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	switch {
	case state.IsTrial(cycle):
	case cycle.IsPodGroupSchedulingCycle():
		c.store.TryNative(pod)
	default:
		c.store.Reserve(pod, node)
	}
	return nil
}

// Unreserve takes the charge back, or what the pod took for the time of the trial.
func (c *Capacity) Unreserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) {
	switch {
	case state.IsTrial(cycle):
	case cycle.IsPodGroupSchedulingCycle():
		c.store.EndTryOfNative(pod)
	default:
		c.store.Unreserve(pod)
	}
}
