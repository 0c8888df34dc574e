package coscheduling

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAScoutThatOnceWaitedAloneWakesItsGang: a pod that found no place beside what was set aside for another may be given to a gang
// later, and become its scout. An event is put to it for its gang then, whose members may be outside the queue.
func TestAScoutThatOnceWaitedAloneWakesItsGang(t *testing.T) {
	store := state.New(clock.RealClock{})
	store.Serve("muster")
	store.Open()
	c := &Coscheduling{store: store}
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
	hint := c.hintFor(names.NodeResourcesFit, func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil })
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()

	store.WaitBehind(pod, &state.Aside{})
	answer, err := hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.Queue, answer, "alone, the queue moves it")

	store.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	store.SetPod(pod)
	require.Empty(t, store.Gate(pod))
	store.Park(store.Judge(pod), pod, "no room", pod, names.NodeResourcesFit)
	answer, err = hint(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, answer, "the Store calls the gang")
	_, parked := store.MayBeHelpedBy(pod, names.NodeResourcesFit)
	assert.False(t, parked, "the gang is to be judged again")
}

// parkedGang parks a gang of one pod of each kind, for want of room; the first is the one that found none.
func parkedGang(t *testing.T, short *plan.Shortfall, kinds ...*corev1.Pod) (*Coscheduling, *state.Store) {
	t.Helper()
	store := state.New(clock.RealClock{})
	store.Serve("muster")
	store.Open()
	store.SetPodGroup(mustertesting.MakePodGroup("g").UID("g").MinMember(int32(len(kinds))).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
	for _, pod := range kinds {
		store.SetPod(pod)
	}
	require.Empty(t, store.Gate(kinds[0]))
	round := store.Judge(kinds[0])
	round.Others, round.Shortfall = kinds[1:], short
	store.Park(round, kinds[0], "no room", kinds[0], names.NodeResourcesFit)
	return &Coscheduling{store: store}, store
}

func isParked(store *state.Store, scout *corev1.Pod) bool {
	_, parked := store.MayBeHelpedBy(scout, names.NodeResourcesFit)
	return parked
}

// TestAGangWakesForAnyKindOfItsMembers: the member that finds no place may need no more than that another moves.
func TestAGangWakesForAnyKindOfItsMembers(t *testing.T) {
	member := func(name string) *corev1.Pod {
		return mustertesting.MakePod(name).UID(name).Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
	}
	helps := func(name string) fwk.QueueingHintFn {
		return func(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
			if pod.Name == name {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}
	}
	node := mustertesting.MakeNode("n").Allocatable("cpu", "1").Obj()
	few := []*corev1.Pod{member("a"), member("b")}
	var many []*corev1.Pod
	for i := range mostAsked + 1 {
		many = append(many, member(fmt.Sprint("m", i)))
	}
	for name, test := range map[string]struct {
		kinds []*corev1.Pod
		helps string
		wakes bool
	}{
		"the one that was rejected":  {few, "a", true},
		"another":                    {few, "b", true},
		"none of them":               {few, "c", false},
		"so many that none is asked": {many, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := parkedGang(t, nil, test.kinds...)
			answer, err := c.hintFor(names.NodeResourcesFit, helps(test.helps))(klog.Background(), test.kinds[0], nil, node)
			require.NoError(t, err)
			assert.Equal(t, fwk.QueueSkip, answer)
			assert.Equal(t, test.wakes, !isParked(store, test.kinds[0]))
		})
	}
}

// TestAGangWakesWhenANodeHasGotItsDevices: a node comes with its CPUs, and its devices are registered later. When it came no member
// fitted on it, so that what it had then was not counted.
func TestAGangWakesWhenANodeHasGotItsDevices(t *testing.T) {
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Requests("cpu", "3", "nvidia.com/gpu", "1").Obj()
	full := plan.Node{Name: "full", Free: resources.List{corev1.ResourceCPU: 1000}}
	short := plan.Lacking([]plan.Demand{{Requests: resources.List{corev1.ResourceCPU: 3000, "nvidia.com/gpu": 1}, Count: 1}}, []plan.Node{full}, plan.IndexOf([]plan.Node{full}, nil), func(int, int) bool { return false })
	require.NotNil(t, short)
	c, store := parkedGang(t, short, pod)
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
	require.True(t, isParked(store, pod))
	_, err = hint(klog.Background(), pod, bare, ready)
	require.NoError(t, err)
	assert.False(t, isParked(store, pod), "the gang fits on the node now")
}

// TestAGangThatLacksRoomRegardlessDoesNotWaitForPromises: hundreds of gangs were judged again at the end of each round of another one, for
// the sake of what was promised to that one, though none of them would have fitted without it.
func TestAGangThatLacksRoomRegardlessDoesNotWaitForPromises(t *testing.T) {
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	for name, test := range map[string]struct {
		promised   int64
		regardless bool
		frees      int64 // what is to come free then
	}{
		"it would fit without":           {3000, false, 3000},
		"it would lack room without":     {2000, true, 1000},
		"nothing is promised to anybody": {0, false, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			free := 3000 - test.promised
			if test.promised == 3000 {
				free = 1000 // 4 in all
			}
			k := &cast{
				plugin: &Coscheduling{}, round: &state.Round{}, demands: []plan.Demand{{Requests: cpu(4000), Count: 1}}, trials: []*trialRun{nil},
				nodes: []plan.Node{{Name: "n", Free: cpu(free)}},
			}
			if test.promised > 0 {
				k.round.Elsewhere = map[string]resources.List{"n": cpu(test.promised)}
			}
			short, regardless := k.shortfall()
			assert.Equal(t, test.regardless, regardless)
			require.NotNil(t, short)
			short.Free("n", cpu(test.frees-1))
			assert.False(t, short.Covered())
			short.Free("n", cpu(1))
			assert.True(t, short.Covered())
		})
	}
}

// TestANodeThatHasGrownTooLittleCountsWithThePodThatGoesNext: neither is enough by itself.
func TestANodeThatHasGrownTooLittleCountsWithThePodThatGoesNext(t *testing.T) {
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Requests("cpu", "4").Obj()
	nodes := []plan.Node{{Name: "n", Free: resources.List{corev1.ResourceCPU: 1000}}}
	short := plan.Lacking([]plan.Demand{{Requests: resources.List{corev1.ResourceCPU: 4000}, Count: 1}}, nodes, plan.IndexOf(nodes, nil), func(int, int) bool { return false })
	c, store := parkedGang(t, short, pod)
	answer := func(hint fwk.QueueingHint) fwk.QueueingHintFn {
		return func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return hint, nil }
	}
	was, is := mustertesting.MakeNode("n").Allocatable("cpu", "8").Obj(), mustertesting.MakeNode("n").Allocatable("cpu", "10").Obj()
	_, err := c.hintFor(names.NodeResourcesFit, answer(fwk.QueueSkip))(klog.Background(), pod, was, is)
	require.NoError(t, err)
	require.True(t, isParked(store, pod), "three are free")
	gone := mustertesting.MakePod("gone").Requests("cpu", "1").Node("n").Obj()
	_, err = c.hintFor(names.NodeResourcesFit, answer(fwk.Queue))(klog.Background(), pod, gone, nil)
	require.NoError(t, err)
	assert.False(t, isParked(store, pod), "four are free")
}

// TestAGangSleepsOnWhileRoomComesFreeOnNodesThatRefuseIt goes from what the filters said about the nodes to what the events are worth.
func TestAGangSleepsOnWhileRoomComesFreeOnNodesThatRefuseIt(t *testing.T) {
	pod := mustertesting.MakePod("p").UID("p").Group("g").SchedulerName("muster").Requests("cpu", "2").Obj()
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	rejected := func(plugin string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no").WithPlugin(plugin) }
	gone := func(node string) *corev1.Pod {
		return mustertesting.MakePod("gone").Requests("cpu", "2").Node(node).Obj()
	}
	always := func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil }
	nodes := []plan.Node{{Name: "tainted", Free: cpu(9000)}, {Name: "full", Free: cpu(0)}}
	for name, test := range map[string]struct {
		trial         *trialRun
		refused       map[place]bool
		full, tainted bool // whether a pod that goes there wakes the gang
	}{
		"a filter refuses a node":           {&trialRun{}, map[place]bool{{0, 0}: true}, true, false},
		"nobody refuses one":                {&trialRun{}, nil, true, true}, // there is room: something is in the way that is not understood
		"the filters were never asked":      {nil, nil, true, true},
		"PreFilter leaves other nodes":      {&trialRun{names: sets.New("full"), closed: true}, nil, true, false},
		"it leaves others for now":          {&trialRun{names: sets.New("full")}, nil, true, true},
		"PreFilter refuses them all":        {&trialRun{status: rejected(names.NodeAffinity)}, nil, false, false},
		"it refuses them for now":           {&trialRun{status: rejected(names.DynamicResources)}, nil, true, true},
		"PreFilter says that room is short": {&trialRun{status: rejected(names.NodeResourcesFit)}, nil, true, true},
		"PreFilter fails":                   {&trialRun{status: fwk.AsStatus(errors.New("failed"))}, nil, true, true},
	} {
		for node, wakes := range map[string]bool{"full": test.full, "tainted": test.tainted} {
			t.Run(name+": "+node, func(t *testing.T) {
				k := &cast{plugin: &Coscheduling{}, round: &state.Round{}, demands: []plan.Demand{{Requests: cpu(2000), Count: 1}}, nodes: nodes, trials: []*trialRun{test.trial}, refused: test.refused}
				short, _ := k.shortfall()
				c, store := parkedGang(t, short, pod)
				_, err := c.hintFor(names.NodeResourcesFit, always)(klog.Background(), pod, gone(node), nil)
				require.NoError(t, err)
				assert.Equal(t, wakes, !isParked(store, pod))
			})
		}
	}
}

// TestWhoKeepsPodsOffWhateverRoomThereIs: devices and volumes that a pod holds in memory alone come free without an event of their own.
func TestWhoKeepsPodsOffWhateverRoomThereIs(t *testing.T) {
	for plugin, want := range map[string]bool{
		names.TaintToleration: true, names.NodeAffinity: true, names.NodeUnschedulable: true, names.NodeName: true,
		names.NodeResourcesFit: false, names.DynamicResources: false, names.VolumeBinding: false, names.NodePorts: false,
		names.InterPodAffinity: false, "SomebodyElses": false, "": false,
	} {
		assert.Equal(t, want, keepsOff(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no").WithPlugin(plugin)), plugin)
	}
	assert.False(t, keepsOff(nil))
	assert.False(t, keepsOff(fwk.AsStatus(errors.New("failed")).WithPlugin(names.NodeAffinity)))
}
