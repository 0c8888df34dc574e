package coscheduling

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// answering is a hint that always gives the same answer.
func answering(hint fwk.QueueingHint) fwk.QueueingHintFn {
	return func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return hint, nil }
}

// unschedulableGang has a gang of one pod of each class decided not to fit, because NodeResourcesFit rejected the first.
func unschedulableGang(t *testing.T, shortfall *placement.Shortfall, classes ...*corev1.Pod) (*Coscheduling, *gangs.Tracker) {
	t.Helper()
	tracker := openTracker(t)
	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(int32(len(classes))).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for _, pod := range classes {
		tracker.SetPod(pod)
	}
	refuse(t, tracker, classes[0], &placement.Decision{Rejected: classes, Shortfall: shortfall})
	return &Coscheduling{binds: newBindLimiter(), tracker: tracker}, tracker
}

// refuse has a scout's gang decided not to fit, for want of room.
func refuse(t *testing.T, tracker *gangs.Tracker, scout *corev1.Pod, d *placement.Decision) {
	t.Helper()
	require.Empty(t, tracker.Gate(scout))
	snapshot := tracker.Decisions.Snapshot(scout)
	require.NotNil(t, snapshot)
	d.Feasibility, d.Members, d.Message, d.Rejectors = placement.Impossible, snapshot.Problem.Members, "no room", sets.New(names.NodeResourcesFit)
	_, ok := tracker.Decisions.Commit(snapshot, d)
	require.True(t, ok)
}

// waits says whether a gang still waits for events of NodeResourcesFit.
func waits(tracker *gangs.Tracker, scout *corev1.Pod) bool {
	_, ask := tracker.Hints.RejectedBy(names.NodeResourcesFit, scout)
	return ask
}

func member(name string) *mustertesting.PodWrapper {
	return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster")
}

// lacking is the shortfall of one pod on nodes that do not refuse it.
func lacking(t *testing.T, requests resources.List, nodes ...placement.Node) *placement.Shortfall {
	t.Helper()
	demands := []placement.Demand{{Requests: requests, Count: 1}}
	shortfall := placement.Lacking(demands, nodes, placement.IndexOf(nodes, nil), func(int, int) bool { return false })
	require.NotNil(t, shortfall)
	return shortfall
}

// TestAScoutThatOnceWaitedAloneWakesItsGang: a pod that found no place because of a reservation may later join a gang and become its scout.
// Then an event concerns its gang, whose members may be outside the queue.
func TestAScoutThatOnceWaitedAloneWakesItsGang(t *testing.T) {
	tracker := openTracker(t)
	c := &Coscheduling{binds: newBindLimiter(), tracker: tracker}
	pod := member("p").Requests("cpu", "1").Obj()
	hint := c.hintFor(names.NodeResourcesFit, answering(fwk.Queue))
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()

	tracker.WaitList.WaitForReserved(pod, state.Entry{})
	answer, err := hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.Queue, answer, "alone, the queue moves it")
	answer, err = c.hintFor(names.NodeResourcesFit, answering(fwk.QueueSkip))(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, answer, "unless the plugin says that the event does not help")
	answer, err = c.hintFor(names.NodeAffinity, answering(fwk.Queue))(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, answer, "an event that is not about room")

	tracker.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	tracker.SetPod(pod)
	refuse(t, tracker, pod, &placement.Decision{Rejected: []*corev1.Pod{pod}})
	answer, err = hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, answer, "the tracker wakes the gang")
	assert.False(t, waits(tracker, pod), "the gang is to be decided again")
}

// TestAGangWakesForAnyClassOfItsMembers: the member that finds no place may need no more than that another moves.
func TestAGangWakesForAnyClassOfItsMembers(t *testing.T) {
	of := func(name string) *corev1.Pod { return member(name).Requests("cpu", "1").Obj() }
	helps := func(name string) fwk.QueueingHintFn {
		return func(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
			if pod.Name == name {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}
	}
	fails := func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
		return fwk.QueueSkip, errors.New("failed")
	}
	node := mustertesting.MakeNode("n").Allocatable("cpu", "1").Obj()
	few := []*corev1.Pod{of("a"), of("b")}
	var most, many []*corev1.Pod
	for i := range mostAsked + 1 {
		many = append(many, of(fmt.Sprint("m", i)))
	}
	most = many[:mostAsked]
	for name, test := range map[string]struct {
		classes []*corev1.Pod
		hint    fwk.QueueingHintFn
		wakes   bool
	}{
		"the one that was rejected":  {few, helps("a"), true},
		"another":                    {few, helps("b"), true},
		"none of them":               {few, helps("c"), false},
		"as many as are asked":       {most, helps(""), false},
		"so many that none is asked": {many, helps(""), true},
		"a plugin without a hint":    {few, nil, true},
		"a hint that fails":          {few, fails, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, tracker := unschedulableGang(t, nil, test.classes...)
			answer, err := c.hintFor(names.NodeResourcesFit, test.hint)(klog.Background(), test.classes[0], nil, node)
			require.NoError(t, err)
			assert.Equal(t, fwk.QueueSkip, answer)
			assert.Equal(t, test.wakes, !waits(tracker, test.classes[0]))
		})
	}
}

// TestEventsOfPluginsThatHaveNotRejectedTheGangDoNotWakeIt, nor do events about a member that is not the scout.
func TestEventsOfPluginsThatHaveNotRejectedTheGangDoNotWakeIt(t *testing.T) {
	a, b := member("a").Requests("cpu", "1").Obj(), member("b").Requests("cpu", "1").Obj()
	c, tracker := unschedulableGang(t, nil, a, b)
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()
	for plugin, pod := range map[string]*corev1.Pod{names.NodeAffinity: a, names.NodeResourcesFit: b} {
		answer, err := c.hintFor(plugin, answering(fwk.Queue))(klog.Background(), pod, gone, nil)
		require.NoError(t, err)
		assert.Equal(t, fwk.QueueSkip, answer)
		assert.True(t, waits(tracker, a), plugin)
	}
}

// TestAGangWakesWhenANodeHasGotItsDevices: a node comes with its CPUs, and its devices are registered later. When it came no member
// fitted on it, so that what it had then was not counted.
func TestAGangWakesWhenANodeHasGotItsDevices(t *testing.T) {
	pod := member("p").Requests("cpu", "3", "nvidia.com/gpu", "1").Obj()
	full := placement.Node{Name: "full", Free: resources.List{corev1.ResourceCPU: 1000}}
	c, tracker := unschedulableGang(t, lacking(t, resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 1}, full), pod)
	bare := mustertesting.MakeNode("n").Allocatable("cpu", "4").Obj()
	ready := mustertesting.MakeNode("n").Allocatable("cpu", "4", "nvidia.com/gpu", "1").Obj()
	fit := func(_ klog.Logger, _ *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
		if newObj == bare {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	}
	hint := c.hintFor(names.NodeResourcesFit, fit)
	_, err := hint(klog.Background(), pod, nil, bare)
	require.NoError(t, err)
	require.True(t, waits(tracker, pod))
	_, err = hint(klog.Background(), pod, bare, ready)
	require.NoError(t, err)
	assert.False(t, waits(tracker, pod), "the gang fits on the node now")
}

// TestANodeThatHasGrownTooLittleCountsWithThePodThatGoesNext: neither is enough by itself.
func TestANodeThatHasGrownTooLittleCountsWithThePodThatGoesNext(t *testing.T) {
	pod := member("p").Requests("cpu", "4").Obj()
	shortfall := lacking(t, resources.List{corev1.ResourceCPU: 4000}, placement.Node{Name: "n", Free: resources.List{corev1.ResourceCPU: 1000}})
	c, tracker := unschedulableGang(t, shortfall, pod)
	was, is := mustertesting.MakeNode("n").Allocatable("cpu", "8").Obj(), mustertesting.MakeNode("n").Allocatable("cpu", "10").Obj()
	_, err := c.hintFor(names.NodeResourcesFit, answering(fwk.QueueSkip))(klog.Background(), pod, was, is)
	require.NoError(t, err)
	require.True(t, waits(tracker, pod), "three are free")
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()
	_, err = c.hintFor(names.NodeResourcesFit, answering(fwk.Queue))(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.False(t, waits(tracker, pod), "four are free")
}

// TestAGangWaitsUntilEnoughRoomHasComeFree, however often the plugin says that an event helps.
func TestAGangWaitsUntilEnoughRoomHasComeFree(t *testing.T) {
	pod := member("p").Requests("cpu", "2").Obj()
	shortfall := lacking(t, resources.List{corev1.ResourceCPU: 2000}, placement.Node{Name: "n", Free: resources.List{}})
	c, tracker := unschedulableGang(t, shortfall, pod)
	hint := c.hintFor(names.NodeResourcesFit, answering(fwk.Queue))
	for i, waiting := range []bool{true, false} {
		_, err := hint(klog.Background(), pod, mustertesting.MakePod(fmt.Sprint("gone", i)).Requests("cpu", "1").Node("n").Obj(), nil)
		require.NoError(t, err)
		assert.Equal(t, waiting, waits(tracker, pod), i)
	}
}

// events is a plugin that waits for events.
type events struct {
	name   string
	events []fwk.ClusterEventWithHint
	err    error
}

func (e events) Name() string { return e.name }

// EventsToRegister returns them.
func (e events) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return e.events, e.err
}

// extended is a framework with plugins that wait for events.
type extended struct {
	framework.Framework
	plugins []fwk.EnqueueExtensions
}

func (e extended) EnqueueExtensions() []fwk.EnqueueExtensions { return e.plugins }

func TestEventsOfAllOtherPluginsAreRegistered(t *testing.T) {
	pod := member("p").Requests("cpu", "1").Obj()
	c, tracker := unschedulableGang(t, nil, pod)
	node := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	claim := fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add}
	named := func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
		return fwk.PreQueueingHintResult{}, nil
	}
	c.handle = extended{plugins: []fwk.EnqueueExtensions{
		c,
		events{name: names.NodeResourcesFit, events: []fwk.ClusterEventWithHint{
			{Event: node, QueueingHintFn: answering(fwk.Queue)},
			{Event: claim, QueueingHintFn: answering(fwk.QueueSkip), PreQueueingHintFn: named},
		}},
		events{name: "Other", events: []fwk.ClusterEventWithHint{{Event: claim, QueueingHintFn: answering(fwk.Queue), PreQueueingHintFn: named}}},
	}}
	registered, err := c.EventsToRegister(t.Context())
	require.NoError(t, err)
	require.Len(t, registered, 3)
	for i, want := range []struct {
		event fwk.ClusterEvent
		names bool // the event names the pods that it concerns
	}{{node, false}, {claim, true}, {claim, true}} {
		assert.Equal(t, want.event, registered[i].Event)
		require.Equal(t, want.names, registered[i].PreQueueingHintFn != nil, i)
		if want.names {
			result, err := registered[i].PreQueueingHintFn(klog.Background(), nil, nil)
			require.NoError(t, err)
			assert.True(t, result.AllPods, "the plugin that names pods does not know the scouts")
		}
	}
	_, err = registered[1].QueueingHintFn(klog.Background(), pod, nil, nil)
	require.NoError(t, err)
	assert.True(t, waits(tracker, pod), "its own hint says that the event does not help")
	_, err = registered[2].QueueingHintFn(klog.Background(), pod, nil, nil)
	require.NoError(t, err)
	assert.True(t, waits(tracker, pod), "another plugin's event")
	_, err = registered[0].QueueingHintFn(klog.Background(), pod, nil, mustertesting.MakeNode("n").Allocatable("cpu", "1").Obj())
	require.NoError(t, err)
	assert.False(t, waits(tracker, pod))

	c.handle = extended{plugins: []fwk.EnqueueExtensions{events{name: "Other", err: errors.New("failed")}}}
	_, err = c.EventsToRegister(t.Context())
	require.ErrorContains(t, err, "asking Other for its events: failed")
}

// TestAGangIsWokenWhenANominationEnds: a pod that was nominated to a node kept room there. With the rest of the node it is enough for a gang.
func TestAGangIsWokenWhenANominationEnds(t *testing.T) {
	nominated := mustertesting.MakePod("nominated").UID("nominated").SchedulerName("muster").Requests("cpu", "1").Obj()
	nominated.Status.NominatedNodeName = "n"
	for name, c := range map[string]struct {
		ends  func(c *Coscheduling, scout *corev1.Pod)
		waits bool
	}{
		"the pod is deleted, or nominated no more": {func(c *Coscheduling, scout *corev1.Pod) {
			_, err := c.hintFor(names.NodeResourcesFit, answering(fwk.Queue))(klog.Background(), scout, nominated, nil)
			require.NoError(t, err)
		}, false},
		"it goes to another node": {func(c *Coscheduling, _ *corev1.Pod) {
			require.Nil(t, c.Reserve(t.Context(), newCycle(), nominated, "other"))
		}, false},
		"it goes to that node": {func(c *Coscheduling, _ *corev1.Pod) {
			require.Nil(t, c.Reserve(t.Context(), newCycle(), nominated, "n"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			scout := member("m").Requests("cpu", "2").Obj()
			node := placement.Node{Name: "n", Free: resources.List{corev1.ResourceCPU: 1000, corev1.ResourcePods: 100}}
			plugin, tracker := unschedulableGang(t, lacking(t, resources.PodRequests(scout), node), scout)
			c.ends(plugin, scout)
			assert.Equal(t, c.waits, waits(tracker, scout))
		})
	}
}
