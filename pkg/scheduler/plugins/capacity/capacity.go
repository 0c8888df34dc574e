// Package capacity keeps what a queue's pods use within the capability of the queue and of all its ancestors.
//
// Gangs are checked against their queue as a whole, by Coscheduling, when this plugin is part of the profile. This plugin checks the pods
// that come alone. These are surplus members of gangs, and pods without a gang that name a queue themselves. It charges all pods. A pod that
// names no queue is charged nowhere. The account is written on the pod with its binding.
//
// With GangPreemption in the profile, package eviction finds pods whose eviction frees the quota that a pod lacks.
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
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// Name of the plugin in a scheduler configuration.
const Name = "Capacity"

// Capacity is the plugin.
type Capacity struct {
	tracker *gangs.Tracker
	victims *eviction.Search
	handle  fwk.Handle
}

var (
	_ fwk.EnqueueExtensions = (*Capacity)(nil)
	_ fwk.PreFilterPlugin   = (*Capacity)(nil)
	_ fwk.PostFilterPlugin  = (*Capacity)(nil)
	_ fwk.ReservePlugin     = (*Capacity)(nil)
	_ fwk.BindPlugin        = (*Capacity)(nil)
	_ fwk.SignPlugin        = (*Capacity)(nil)
)

// New makes the factory of the plugin on a tracker of gangs.
func New(tracker *gangs.Tracker) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if _, ok := obj.(*config.CapacityArgs); !ok {
			return nil, fmt.Errorf("the arguments of %s are of type %T, CapacityArgs needed", Name, obj)
		}
		tracker.Quota.EnforceQuota()
		if err := tracker.Feed.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the tracker of gangs for %s: %w", Name, err)
		}
		victims, err := eviction.ForProfile(tracker.Victims, handle)
		if err != nil {
			return nil, fmt.Errorf("making %s: %w", Name, err)
		}
		return &Capacity{tracker: tracker, victims: victims, handle: handle}, nil
	}
}

// Name returns the name of the plugin.
func (*Capacity) Name() string { return Name }

// SignPod adds nothing to a pod's signature: quota does not depend on the node.
func (*Capacity) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// EventsToRegister is empty: the tracker sees every released charge and every change of a queue. It activates the pods that wait for quota
// itself.
func (*Capacity) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreFilter rejects a pod for which its queue, or an ancestor, has no room, or which no cluster could hold. Pods are scheduled in sequence
// and charged in Reserve. So quota that is free here is usually free there.
func (c *Capacity) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if placement.IsDryRun(cycle) {
		return nil, fwk.NewStatus(fwk.Skip) // the caller counts the quota
	}
	c.tracker.Feed.AwaitRead(ctx)
	c.tracker.Leadership.Lead() // here, too: Coscheduling does not see a pod that is rejected
	blocker, ofQuota := c.blocker(pod)
	if blocker == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cycle.Write(rejectedKey, rejected{ofQuota: ofQuota})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, blocker)
}

// blocker says why a single pod or surplus may not start; "" if it may. Amounts that upstream's plugins cannot count overflow there,
// and the pod would be bound.
func (c *Capacity) blocker(pod *corev1.Pod) (message string, ofQuota bool) {
	if err := resources.ValidateRequests(pod); err != nil && !report.NewReports(c.tracker).Explains(pod) {
		return "the pod " + err.Error(), false
	}
	shortage := c.tracker.Quota.QuotaShortage(pod)
	if shortage == nil {
		return "", false
	}
	if message := c.tracker.Victims.WaitsForSeat(pod.UID); message != "" {
		return message, true
	}
	return "waiting for quota: " + shortage.Error(), true
}

// PreFilterExtensions returns nil: preempting a pod on a node does not help, quota is not a node's.
func (*Capacity) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

const rejectedKey fwk.StateKey = "PreFilter" + Name

// rejected marks the cycle of a pod that PreFilter has rejected.
type rejected struct {
	ofQuota bool // for lack of quota
}

// Clone returns the mark itself.
func (r rejected) Clone() fwk.StateData { return r }

// PostFilter evicts pods for a pod that lacks quota, for quota and room together. It ends the cycle of every pod that PreFilter has
// rejected: later plugins have not seen that pod in PreFilter. If nothing is evicted, a nomination ends, as it would keep room from other
// pods.
func (c *Capacity) PostFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	data, err := cycle.Read(rejectedKey)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if r, ok := data.(rejected); ok && r.ofQuota && c.tracker.Victims.SearchesFor(pod) {
		result, status := c.victims.MakeRoomFor(ctx, pod)
		if status.IsSuccess() {
			return result, status
		}
		return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // PreFilter says what the pod waits for
	}
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// Reserve charges the pod to its queue. While upstream tries a native pod group, each pod assumes its part of the queue. So the next pods
// see it.
func (c *Capacity) Reserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	switch {
	case placement.IsDryRun(cycle):
	case cycle.IsPodGroupSchedulingCycle():
		c.assume(pod)
	default:
		charge, shortage := c.tracker.Quota.Charge(pod)
		if shortage != nil {
			return fwk.NewStatus(fwk.Unschedulable, "waiting for quota: "+shortage.Error())
		}
		cycle.Write(chargedKey, charged{charge})
	}
	return nil
}

const chargedKey fwk.StateKey = "Reserve" + Name

// charged is what Reserve has charged the pod to.
type charged struct{ state.Charged }

// Clone returns the charge itself.
func (c charged) Clone() fwk.StateData { return c }

// Bind writes on the pod, with its node, what it was charged to and for which PodGroup. So the charge does not depend on what happens to its
// PodGroup, its owner or its labels. It leaves pods that Reserve has not seen to the next plugin. It must be named before DefaultBinder.
func (c *Capacity) Bind(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	var annotations map[string]string
	if data, err := cycle.Read(chargedKey); err == nil {
		annotations = data.(charged).Annotations(pod)
		if path := c.tracker.Topology.PathFor(pod, node); path != "" || pod.Annotations[schedulingv1beta1.TopologyPathAnnotation] != "" {
			annotations[schedulingv1beta1.TopologyPathAnnotation] = path
		}
	}
	if len(annotations) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return fwk.AsStatus(upstream.BindPod(ctx, c.handle, pod, node, annotations))
}

// Unreserve takes the charge back, or what the pod assumed while its native pod group was tried.
func (c *Capacity) Unreserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) {
	switch {
	case placement.IsDryRun(cycle):
	case cycle.IsPodGroupSchedulingCycle():
		c.tracker.Quota.Ledger.DropAssumed(assumptionOf(pod))
	default:
		c.tracker.Quota.Refund(pod)
	}
}

// assume books the quota of a pod of a native pod group that names a queue. Upstream tries all pods of the group first and takes everything
// back. Then it reserves for the pods that found a place, and does not ask the plugins about room again. So the pods of the group must see
// each other's part of the queue. It is no charge: a charge of the same pod that comes from the API meanwhile must stay.
func (c *Capacity) assume(pod *corev1.Pod) {
	if account := c.tracker.Quota.Groups.AccountOf(pod); account != "" {
		c.tracker.Quota.Ledger.Assume(assumptionOf(pod), account, resources.PodRequests(pod))
	}
}

// assumptionOf is the key under which a pod assumes quota. It cannot be a gang's, which has a slash.
func assumptionOf(pod *corev1.Pod) string { return "native:" + string(pod.UID) }
