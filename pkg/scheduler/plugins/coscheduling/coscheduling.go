// Package coscheduling starts gangs: all the pods that a job needs start together, or none does.
//
// Of a gang whose minimum exists, one pod, the scout, passes the gate (which TaskPriority keeps, with the order). In its
// PreFilter the whole gang is judged once. A yes promises the gang its room and activates the members that start; each reserves its part, and the one that completes
// the minimum releases them all from Permit. A no parks the gang with one report until an event can help it.
package coscheduling

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/apis/config/validation"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Name of the plugin in a scheduler configuration.
const Name = state.PluginName

// Coscheduling is the plugin. All its state is in the Store, which it shares with the other plugins.
type Coscheduling struct {
	store  *state.Store
	handle framework.Framework
	freed  freed

	nextNode atomic.Int64               // where the next plan on a few nodes begins
	index    atomic.Pointer[plan.Index] // of the nodes on which a gang was found short of room last
}

var (
	_ fwk.EnqueueExtensions = (*Coscheduling)(nil)
	_ fwk.PreFilterPlugin   = (*Coscheduling)(nil)
	_ fwk.FilterPlugin      = (*Coscheduling)(nil)
	_ fwk.PostFilterPlugin  = (*Coscheduling)(nil)
	_ fwk.ReservePlugin     = (*Coscheduling)(nil)
	_ fwk.PermitPlugin      = (*Coscheduling)(nil)
	_ fwk.PreBindPlugin     = (*Coscheduling)(nil)
	_ fwk.PostBindPlugin    = (*Coscheduling)(nil)
	_ fwk.SignPlugin        = (*Coscheduling)(nil)
)

// New makes the factory of the plugin on a Store.
func New(store *state.Store) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*config.CoschedulingArgs)
		if !ok {
			return nil, fmt.Errorf("the arguments of %s are of type %T, CoschedulingArgs needed", Name, obj)
		}
		if err := validation.ValidateCoschedulingArgs(field.NewPath("args"), args); err != nil {
			return nil, fmt.Errorf("the arguments of %s are invalid: %w", Name, err)
		}
		profile, ok := handle.(framework.Framework)
		if !ok {
			return nil, fmt.Errorf("%s needs the scheduler's framework, got %T", Name, handle)
		}
		if err := store.Configure(profile.ProfileName(), *args); err != nil {
			return nil, fmt.Errorf("the arguments of %s are invalid: %w", Name, err)
		}
		store.Serve(profile.ProfileName())
		if err := store.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the state of %s: %w", Name, err)
		}
		return &Coscheduling{store: store, handle: profile}, nil
	}
}

// Name returns the name of the plugin.
func (*Coscheduling) Name() string { return Name }

// SignPod adds nothing to a pod's signature: which node a pod may go to depends on the plugin only in a pinned round and where
// room is set aside, and then Filter sees every node that is tried.
func (*Coscheduling) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// EventsToRegister are the events of all plugins of the profile: what wakes a pod that such a plugin has rejected must wake
// a gang that it stood in the way of. Each event is put to that plugin's own hint, with the pod that was rejected.
func (c *Coscheduling) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	var events []fwk.ClusterEventWithHint
	var hints []state.Hint
	for _, plugin := range c.handle.EnqueueExtensions() {
		if plugin.Name() == Name {
			continue
		}
		theirs, err := plugin.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking %s for its events: %w", plugin.Name(), err)
		}
		for _, event := range theirs {
			ours := fwk.ClusterEventWithHint{Event: event.Event, QueueingHintFn: c.hintFor(plugin.Name(), event.QueueingHintFn)}
			if event.PreQueueingHintFn != nil {
				ours.PreQueueingHintFn = c.preHintFor(plugin.Name())
			}
			events = append(events, ours)
			hint := state.Hint{Plugin: plugin.Name(), Event: event.Event, Ask: ours.QueueingHintFn}
			if plugin.Name() == names.NodeResourcesFit {
				hint.Frees = c.frees
			}
			hints = append(hints, hint)
		}
	}
	c.store.Listen(c.handle.ProfileName(), hints)
	return events, nil
}

// hintFor puts an event to the hint of a plugin, if that plugin stood in the way of the pod's gang. It never lets the queue
// move the pod: a gang that may be helped is activated by the Store, past the queue's back-off and in order with others.
func (c *Coscheduling) hintFor(plugin string, hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		rejected, ask := c.store.MayBeHelpedBy(pod, plugin)
		if !ask {
			if plugin == names.NodeResourcesFit && hint != nil && c.store.WaitsBehind(pod) {
				return hint(logger, pod, oldObj, newObj) // a single pod: room beside what is set aside helps it
			}
			return fwk.QueueSkip, nil
		}
		// What comes free counts whatever the hint says of it: it may be enough together with what comes next.
		if r, known := c.freed.by(oldObj, newObj); known && plugin == names.NodeResourcesFit && !c.store.MayBeEnough(pod, r.node, r.amount) {
			return fwk.QueueSkip, nil
		}
		if !mayHelpAny(logger, hint, rejected, oldObj, newObj) {
			return fwk.QueueSkip, nil
		}
		c.store.Help(pod)
		return fwk.QueueSkip, nil
	}
}

// frees says how much room comes free by an event.
func (c *Coscheduling) frees(oldObj, newObj any) (node string, amount resources.List, known bool) {
	r, known := c.freed.by(oldObj, newObj)
	return r.node, r.amount, known
}

// mostAsked limits for how many kinds of members a hint is asked about one event: it runs under the queue's lock.
const mostAsked = 16

// mayHelpAny says whether an event may help one of the pods. A gang of very many kinds is taken to be helped.
func mayHelpAny(logger klog.Logger, hint fwk.QueueingHintFn, pods []*corev1.Pod, oldObj, newObj any) bool {
	if hint == nil || len(pods) > mostAsked {
		return true
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		answer, err := hint(logger, pod, oldObj, newObj)
		return err != nil || answer != fwk.QueueSkip
	})
}

// preHintFor names the pods whose hint is to be asked about an event for which a plugin names its own. It knows those that it has
// rejected, not the scouts that are parked for them. Where none of the plugins names any, all are asked.
func (c *Coscheduling) preHintFor(plugin string) fwk.PreQueueingHintFn {
	return func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
		return fwk.PreQueueingHintResult{Pods: c.store.ParkedBehind(plugin)}, nil
	}
}

// PreFilter lets single pods and the surplus of started gangs pass, sends chosen members on their way, and has the gang of a
// scout judged.
func (c *Coscheduling) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if state.IsTrial(cycle) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	switch entry := c.store.Enter(pod); entry.Role {
	case state.Chosen:
		return c.send(cycle, pod, entry)
	case state.Scout:
		return c.judge(ctx, cycle, pod, nodes)
	case state.Held:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, entry.Reason)
	default:
		return c.limit(cycle, pod, "")
	}
}

// PreFilterExtensions returns nil: adding or removing a pod changes no gang.
func (*Coscheduling) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter holds a member to the node that the plan has for it, and keeps pods off what is set aside for others.
func (*Coscheduling) Filter(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if l := limitsOf(cycle); l != nil {
		return l.refuses(node)
	}
	return nil
}

// PostFilter lets the whole gang go when a member finds no node. A single member must not preempt others for a gang that may
// never start; single pods and surplus are left to the plugins behind. A nomination of the member ends: it would keep room from
// others.
func (c *Coscheduling) PostFilter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if c.store.Fail(pod) {
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if l := limitsOf(cycle); l != nil && l.barred.Load() {
		c.store.WaitBehind(pod, l.aside)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve books the pod's room.
func (c *Coscheduling) Reserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if !cycle.IsPodGroupSchedulingCycle() && !state.IsTrial(cycle) {
		c.store.Reserve(pod, node)
	}
	return nil
}

// Unreserve gives the pod's room back; in a round, for the whole gang.
func (c *Coscheduling) Unreserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) {
	if !cycle.IsPodGroupSchedulingCycle() && !state.IsTrial(cycle) {
		c.store.EndTurn(pod)
		c.store.Unreserve(pod)
	}
}

// Permit holds the members of a gang until its minimum has its room. The one that completes it releases all. Members that are
// released here entered the waiting room in earlier cycles of this same loop, so none is missed.
func (c *Coscheduling) Permit(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if cycle.IsPodGroupSchedulingCycle() {
		return nil, 0
	}
	verdict, wait, release := c.store.Permit(pod)
	switch verdict {
	case state.Wait:
		return fwk.NewStatus(fwk.Wait), wait
	case state.Reject:
		return fwk.NewStatus(fwk.Unschedulable, "the gang's minimum could not be placed together"), 0
	}
	for _, uid := range release {
		if waiting := c.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	return nil, 0
}

// PreBindPreFlight says that only members wait for their turn to be bound.
func (*Coscheduling) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if state.IsMember(pod) {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreBind has a member wait for its turn: the members of a large gang are released at once, and the API server refuses as many
// requests.
func (c *Coscheduling) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if !state.IsMember(pod) {
		return nil
	}
	return fwk.AsStatus(c.store.AwaitTurn(ctx, pod))
}

// PostBind ends the turn of a member.
func (c *Coscheduling) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	if state.IsMember(pod) {
		c.store.NoteBound(pod)
	}
}
