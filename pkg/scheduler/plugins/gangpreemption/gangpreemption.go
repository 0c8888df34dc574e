// Package gangpreemption has pods evicted for one that finds no room. No gang is left with fewer members than its minimum.
//
// A pod is a gang of one: package eviction finds its victims as for a gang. If a queue is charged for it, shares and priority decide. For any
// other pod priority alone does, on a sample of the nodes. Upstream's plugin does the rest for it: which pods may preempt, extenders,
// nominations and evictions. Where there are no gangs and no queues, upstream's plugin chooses the victims, too.
//
// System-critical pods are placed even if that breaks a gang.
package gangpreemption

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// Name of the plugin in a scheduler configuration. It takes the place of DefaultPreemption, which must be disabled.
const Name = "GangPreemption"

// mostRefused is how many nodes extenders may refuse in one search.
const mostRefused = 8

// GangPreemption is the plugin.
type GangPreemption struct {
	*defaultpreemption.DefaultPreemption
	// breaking is the same without regard to gangs and to what pods say.
	breaking *defaultpreemption.DefaultPreemption
	tracker  *gangs.Tracker
	handle   fwk.Handle
	victims  *eviction.Search
}

var (
	_ fwk.PreEnqueuePlugin         = (*GangPreemption)(nil)
	_ fwk.EnqueueExtensions        = (*GangPreemption)(nil)
	_ fwk.PostFilterPlugin         = (*GangPreemption)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*GangPreemption)(nil)
)

// New makes the factory of the plugin on a tracker of gangs.
func New(tracker *gangs.Tracker) frameworkruntime.PluginFactory {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*config.GangPreemptionArgs)
		if !ok {
			return nil, fmt.Errorf("the arguments of %s are of type %T, GangPreemptionArgs needed", Name, obj)
		}
		victims, err := eviction.ForProfile(tracker.Victims, handle)
		if err != nil {
			return nil, fmt.Errorf("making %s: %w", Name, err)
		}
		plugin := &GangPreemption{tracker: tracker, handle: handle, victims: victims}
		stock, err := upstream.NewPreemption(ctx, &upstreamconfig.DefaultPreemptionArgs{
			MinCandidateNodesPercentage: args.MinCandidateNodesPercentage,
			MinCandidateNodesAbsolute:   args.MinCandidateNodesAbsolute,
		}, handle)
		if err != nil {
			return nil, fmt.Errorf("making the upstream plugin within %s: %w", Name, err)
		}
		plugin.takeOver(stock)
		if err := tracker.Feed.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the tracker of gangs for %s: %w", Name, err)
		}
		tracker.Victims.EvictPods()
		if !args.EvictOutsideQueues {
			tracker.Victims.SpareOutsiders()
		}
		return plugin, nil
	}
}

// takeOver makes upstream's plugin part of this one. It evicts no pod that asks to stay.
func (p *GangPreemption) takeOver(upstream *defaultpreemption.DefaultPreemption) {
	breaking := *upstream
	p.DefaultPreemption, p.breaking = upstream, &breaking
	upstream.IsEligiblePod = func(_ fwk.NodeInfo, victim preemption.Victim, _ *corev1.Pod) bool {
		return !slices.ContainsFunc(victim.Pods(), func(pod fwk.PodInfo) bool { return eviction.AsksToStay(pod.GetPod(), time.Now()) })
	}
	upstream.Executor.PreemptPod = p.evictWith(upstream.Executor.PreemptPod)
}

// Name returns the name of the plugin.
func (*GangPreemption) Name() string { return Name }

// PostFilter has pods evicted so that one that found no node fits, and nominates it to the node.
func (p *GangPreemption) PostFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	upstream.CountPreemption()
	result, status := p.postFilter(ctx, cycle, pod, statuses)
	if message := status.Message(); message != "" {
		return result, fwk.NewStatus(status.Code(), "preemption: "+message)
	}
	return result, status
}

func (p *GangPreemption) postFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	isCritical := upstream.IsCritical(corev1helpers.PodPriority(pod))
	if p.tracker.Victims.SearchesFor(pod) {
		if result, status := p.victims.MakeRoomFor(ctx, pod); !isCritical || status.IsSuccess() {
			return result, status
		}
	}
	// Its earlier claims are free again, but for pods that are being evicted or were. The rest of an earlier plan is checked anew.
	p.tracker.Victims.DropClaims(pod.UID)
	result, status := p.preempt(ctx, cycle, pod, statuses)
	if noVictims := status.Code() == fwk.Unschedulable && result != nil; noVictims && isCritical {
		return p.preemptAsUpstream(ctx, cycle, pod, statuses, p.breaking)
	}
	return result, status
}

// preempt has pods evicted by priority alone.
func (p *GangPreemption) preempt(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.tracker.Victims.NoneIsManaged() {
		return p.preemptAsUpstream(ctx, cycle, pod, statuses, p.DefaultPreemption)
	}
	for refused := sets.New[string](); ; {
		c := p.choose(ctx, cycle, pod, statuses, refused)
		result, status := p.preemptWith(ctx, cycle, pod, c)
		if status.Code() != fwk.Unschedulable || c.node == "" || len(refused) == mostRefused {
			return result, status
		}
		refused.Insert(c.node) // by an extender
	}
}

// preemptAsUpstream is upstream's search and eviction.
func (p *GangPreemption) preemptAsUpstream(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
	as *defaultpreemption.DefaultPreemption) (*fwk.PostFilterResult, *fwk.Status) {
	return preemption.NewEvaluator(Name, p.handle, as, p.Executor).Preempt(ctx, cycle, pod, statuses)
}

// evictWith looks again, at the moment of eviction, whether gangs stay whole, and evicts in upstream's way.
func (p *GangPreemption) evictWith(evict upstream.EvictFunc) upstream.EvictFunc {
	return func(ctx context.Context, candidate preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error) {
		// Upstream chooses the victims of native pod groups without regard to our gangs.
		native := preemptor.Type() != string(fwk.PodKeyType)
		force := upstream.IsCritical(preemptor.Priority()) || native
		if !p.tracker.Victims.BeginEviction(preemptor.UID(), victim.UID, uids(candidate.Victims().Pods), force) {
			p.tracker.Victims.DropClaims(preemptor.UID()) // at once, as others count on the plan
			return false, fmt.Errorf("evicting %s for %s: a gang has changed since the victims were chosen", klog.KObj(victim), klog.KObj(preemptor))
		}
		if p.tracker.Victims.HoldsNothingInTheAPI(victim.UID) {
			p.takeBack(ctx, preemptor, victim, plugin)
			p.tracker.Victims.DropClaims(preemptor.UID(), victim.UID)
			return true, nil
		}
		known := p.tracker.Known(victim)
		if known == nil {
			return true, nil // upstream activates the preemptor, as no event may come any more that wakes it
		}
		if !native {
			p.tracker.Evictions.Begin(preemptor.UID(), candidate.Name(), victim) // before, as the preemptor may be bound at once
		}
		inMemory, err := evict(ctx, candidate, preemptor, victim, plugin)
		if err != nil {
			p.tracker.Victims.DropClaims(preemptor.UID()) // upstream leaves the rest of the plan
		}
		if err == nil && !inMemory {
			p.tracker.Victims.Evicted(victim, gangmetrics.Preempted)
		} else {
			p.tracker.Victims.DropClaims(preemptor.UID(), victim.UID)
			p.tracker.Evictions.Cancel(preemptor.UID()) // of none, for a native group
		}
		return inMemory || known.Spec.NodeName == "", err // no event about nodes tells that a pod without one is gone
	}
}

// takeBack rejects a member that waits in Permit, which rolls its whole gang back. Other victims of that gang may have been rolled back by
// that already: such a pod must not be deleted.
func (p *GangPreemption) takeBack(ctx context.Context, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) {
	waiting := p.handle.GetWaitingPod(victim.UID)
	if waiting == nil || !waiting.Preempt(plugin, "preempted") {
		return
	}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Preemptor preempted a waiting pod", "preemptor", klog.KObj(preemptor), "waitingPod", klog.KObj(victim))
	p.handle.EventRecorder().WithLogger(logger).Eventf(victim, preemptor.Obj(), corev1.EventTypeNormal, "Preempted", "Preempting",
		"Preempted by %s %v while waiting for its gang", preemptor.Type(), preemptor.UID())
}
