// Package coscheduling starts gangs: all the pods that a job needs start together, or none does.
//
// If a gang's minimum exists, one pod, the scout, passes the gate. TaskPriority has the gate and the order. In its PreFilter the whole gang
// is decided once. A yes assumes the room that the gang needs and activates the members that start. Each reserves its part, and the one
// that completes the minimum releases them all from Permit. A no makes the gang wait, with one report, until an event can help it.
package coscheduling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/apis/config"
	"github.com/muster-sched/muster/pkg/apis/config/validation"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// Name of the plugin in a scheduler configuration.
const Name = dispatch.PluginName

// longestWait is how long a member may wait in Permit, the most that the framework allows. The tracker rolls the attempt back long before if
// the other members do not come.
const longestWait = 15 * time.Minute

// cannotBePlaced is why a member loses its room.
const cannotBePlaced = "the gang's minimum could not be placed together"

// hasJoined is why a pod starts over that has joined a gang.
const hasJoined = "the pod has joined a gang, which must be decided first"

// lessFirst is why a surplus pod starts over that has found room.
const lessFirst = "a gang that runs with less surplus goes first"

// Coscheduling is the plugin. The tracker holds the state of gangs. All plugins share it.
type Coscheduling struct {
	tracker *gangs.Tracker
	handle  framework.Framework
	planner *placement.Planner
	victims *eviction.Search
	binds   *bindLimiter // of all profiles
	freed   freed
}

var (
	_ fwk.EnqueueExtensions = (*Coscheduling)(nil)
	_ fwk.PreFilterPlugin   = (*Coscheduling)(nil)
	_ fwk.FilterPlugin      = (*Coscheduling)(nil)
	_ fwk.PostFilterPlugin  = (*Coscheduling)(nil)
	_ fwk.PreScorePlugin    = (*Coscheduling)(nil)
	_ fwk.ScorePlugin       = (*Coscheduling)(nil)
	_ fwk.ReservePlugin     = (*Coscheduling)(nil)
	_ fwk.PermitPlugin      = (*Coscheduling)(nil)
	_ fwk.PreBindPlugin     = (*Coscheduling)(nil)
	_ fwk.PostBindPlugin    = (*Coscheduling)(nil)
	_ fwk.SignPlugin        = (*Coscheduling)(nil)
)

// New makes the factory of the plugin on a tracker.
func New(tracker *gangs.Tracker) frameworkruntime.PluginFactory {
	binds := newBindLimiter()
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
		if err := tracker.Configure(profile.ProfileName(), *args); err != nil {
			return nil, fmt.Errorf("the arguments of %s are invalid: %w", Name, err)
		}
		if err := tracker.Feed.Start(ctx, handle); err != nil {
			return nil, fmt.Errorf("starting the tracker of gangs for %s: %w", Name, err)
		}
		planner := placement.NewPlanner(profile)
		victims := eviction.New(tracker.Victims, profile, planner)
		return &Coscheduling{tracker: tracker, handle: profile, planner: planner, victims: victims, binds: binds}, nil
	}
}

// Name returns the name of the plugin.
func (*Coscheduling) Name() string { return Name }

// SignPod adds nothing to a pod's signature, as Filter sees every node that is tried. Scores follow from what NodeResourcesFit signs. But members
// of gangs with a network topology have none: their nodes follow from their ranks.
func (c *Coscheduling) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if gang.IsMember(pod) && c.tracker.Topology.Binds(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the gang has a network topology")
	}
	return nil, nil
}

// PreFilter lets single pods and surplus pass, sends chosen members to their nodes, and decides the gang of a scout.
func (c *Coscheduling) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if placement.IsDryRun(cycle) {
		return limit(cycle, pod, c.tracker.LimitsOf(pod), c.tracker.EndOf) // for victims of a single pod or surplus
	}
	c.tracker.Feed.AwaitRead(ctx)
	entry := c.tracker.Enter(pod)
	if entry.Scout {
		var message string
		if entry, message = c.decide(ctx, cycle, pod, nodes); message != "" {
			return reject(cycle, message)
		}
	}
	if entry.Reason != "" {
		return reject(cycle, entry.Reason)
	}
	if entry.Together != nil {
		if message := c.placeGroup(ctx, cycle, pod, &entry, nodes); message != "" {
			c.tracker.WaitList.WaitForReserved(pod, entry)
			return reject(cycle, message)
		}
	}
	result, status := limit(cycle, pod, entry, c.tracker.EndOf)
	if near := entry.Near; near != nil && result == nil && status.IsSuccess() {
		if nodes := c.planner.Nearest(ctx, near, nodes); nodes != nil {
			result = &fwk.PreFilterResult{NodeNames: nodes}
		}
	}
	return result, status
}

// PreFilterExtensions returns nil: adding or removing a pod changes no gang.
func (*Coscheduling) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter holds a member to the node that was decided for it. It keeps pods off room that is reserved for other gangs.
func (*Coscheduling) Filter(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if l := limitsOf(cycle); l != nil {
		return l.refuses(node)
	}
	return nil
}

// PostFilter rolls the whole gang back when a member finds no node. A single member must not preempt other pods for a gang that may never
// start. Single pods and surplus are left to the plugins behind. A nomination of the member ends: it would keep room from other pods.
func (c *Coscheduling) PostFilter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	l := limitsOf(cycle)
	if c.tracker.Fail(pod) || l != nil && (l.rejected || l.entry.Together != nil) {
		// The plugins behind have not seen a pod in PreFilter that was rejected there.
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if l != nil && l.barred.Load() {
		c.tracker.WaitList.WaitForReserved(pod, l.entry)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve notes that a member has its room. It rejects a pod that has joined a gang since PreFilter. It also rejects surplus of a gang
// that runs with more surplus than another.
func (c *Coscheduling) Reserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	switch {
	case cycle.IsPodGroupSchedulingCycle(), placement.IsDryRun(cycle):
		return nil
	case c.tracker.WaitList.LetsOthersGoFirst(pod):
		return fwk.NewStatus(fwk.Unschedulable, lessFirst)
	case !c.tracker.Reserve(pod):
		return fwk.NewStatus(fwk.Unschedulable, hasJoined)
	}
	if nominated := pod.Status.NominatedNodeName; nominated != "" && nominated != node {
		c.tracker.Hints.NominationUnused(nominated, resources.PodRequests(pod))
	}
	return nil
}

// Unreserve notes that a member has lost its room; in an attempt, the whole gang is rolled back.
func (c *Coscheduling) Unreserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) {
	if !cycle.IsPodGroupSchedulingCycle() && !placement.IsDryRun(cycle) {
		c.binds.release(pod.UID)
		c.tracker.Unreserve(pod)
	}
}

// Permit holds the members of a gang until its minimum has its room. The one that completes it releases all. Members that are released here
// entered the waiting room in earlier cycles of this same loop, so none is missed.
func (c *Coscheduling) Permit(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if cycle.IsPodGroupSchedulingCycle() {
		return nil, 0
	}
	result, release := c.tracker.Permit(pod)
	switch result {
	case gangs.Wait:
		return fwk.NewStatus(fwk.Wait), longestWait
	case gangs.Reject:
		return fwk.NewStatus(fwk.Unschedulable, cannotBePlaced), 0
	}
	for _, uid := range release { // the pod itself does not wait
		if waiting := c.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	return nil, 0
}

// PreBindPreFlight says that only members wait for their turn to be bound.
func (*Coscheduling) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if gang.IsMember(pod) {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreBind has a member wait for its turn. The members of a large gang are released at once, and the API server refuses as many requests.
func (c *Coscheduling) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if !gang.IsMember(pod) {
		return nil
	}
	return fwk.AsStatus(c.binds.acquire(ctx, pod.UID))
}

// PostBind ends the turn of a member. It has left the scheduling queue.
func (c *Coscheduling) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	if gang.IsMember(pod) {
		c.binds.release(pod.UID)
		c.tracker.Order.Bound(pod.UID)
	}
}
