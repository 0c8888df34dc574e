package gangpreemption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// candidate is a plan as the executor gets it.
type candidate struct{ pods []*corev1.Pod }

func (c candidate) Victims() *extenderv1.Victims { return &extenderv1.Victims{Pods: c.pods} }
func (candidate) Name() string                   { return nodeName(0) }
func (candidate) NumPodGroupDisruptions() int    { return 0 }

// preemptor is the pod that it is for.
type preemptor struct{ *corev1.Pod }

func (p preemptor) UID() types.UID               { return p.Pod.UID }
func (preemptor) SchedulerName() string          { return "muster" }
func (p preemptor) Obj() runtime.Object          { return p.Pod }
func (p preemptor) Pods() map[string]*corev1.Pod { return map[string]*corev1.Pod{p.Name: p.Pod} }
func (p preemptor) Priority() int32              { return *p.Spec.Priority }
func (preemptor) Type() string                   { return string(fwk.PodKeyType) }

// permitHandle is what the evictions need of the scheduler.
type permitHandle struct {
	fwk.Handle
	waiting map[types.UID]*waiter
	events  *events.FakeRecorder
}

type waiter struct {
	fwk.WaitingPod
	preempted bool
}

func (w *waiter) Preempt(string, string) bool {
	first := !w.preempted
	w.preempted = true
	return first
}

func (r *permitHandle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w, ok := r.waiting[uid]; ok {
		return w
	}
	return nil
}

func (r *permitHandle) EventRecorder() events.EventRecorderLogger { return r.events }

// recorded is a plugin whose upstream evictions are recorded.
type recorded struct {
	*cluster
	room    *permitHandle
	evict   upstream.EvictFunc
	evicted []string
	during  func() // what happens while upstream evicts a pod
	err     error  // what upstream answers
	memory  bool   // upstream answers that the pod held nothing in the API
}

func newEviction() *recorded { return newEvictionIn(newCluster()) }

func newEvictionIn(c *cluster) *recorded {
	e := &recorded{cluster: c, room: &permitHandle{waiting: map[types.UID]*waiter{}, events: events.NewFakeRecorder(10)}}
	plugin := &GangPreemption{tracker: e.tracker, handle: e.room}
	e.evict = plugin.evictWith(func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
		e.evicted = append(e.evicted, victim.Name)
		if during := e.during; during != nil {
			e.during = nil
			during()
		}
		return e.memory, e.err
	})
	return e
}

// run evicts some pods of a plan for a preemptor, one after the other, and returns the first error.
func (e *recorded) run(priority int32, plan []*corev1.Pod, victims ...*corev1.Pod) error {
	pod := mustertesting.MakePod("urgent").UID("urgent").Priority(priority).Obj()
	for _, victim := range victims {
		if _, err := e.evict(context.Background(), candidate{plan}, preemptor{pod}, victim, Name); err != nil {
			return err
		}
	}
	return nil
}

func boundMember(name string) *corev1.Pod {
	return mustertesting.MakePod(name).Group("g").Node(nodeName(0)).Requests("cpu", "1").Obj()
}

func TestPlanIsCheckedAgainBeforeItsFirstEviction(t *testing.T) {
	tests := map[string]struct {
		priority int32
		change   func(e *recorded) // between the plan and the eviction
		refused  bool
	}{
		"nothing has changed": {10, func(*recorded) {}, false},
		"a member that the gang could spare is needed now": {10, func(e *recorded) {
			e.tracker.DeletePod(e.pods[2])
		}, true},
		"the minimum was raised": {10, func(e *recorded) {
			e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(3).Obj())
		}, true},
		"system-critical pods are not refused": {scheduling.SystemCriticalPriority, func(e *recorded) {
			e.tracker.DeletePod(e.pods[2])
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEviction()
			e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
			e.add(boundMember("g0"), boundMember("g1"), boundMember("g2"))
			e.tracker.Victims.ClaimVictims("urgent", uids(e.pods[:1]))
			test.change(e)
			err := e.run(test.priority, e.pods[:1], e.pods[0])
			if test.refused {
				require.ErrorContains(t, err, "has changed since the victims were chosen")
				assert.Empty(t, e.evicted)
				assert.Empty(t, e.tracker.Claims.Of, "its victims stay")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{"g0"}, e.evicted)
		})
	}
}

func TestPlanThatHasBegunIsCarriedThrough(t *testing.T) {
	e := newEviction()
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
	e.add(boundMember("g0"), boundMember("g1"))
	victims := []*corev1.Pod{e.pods[0], e.pods[1]}
	e.tracker.Victims.ClaimVictims("urgent", uids(victims))
	require.NoError(t, e.run(10, victims, victims[0]), "the first alone would break the gang, but the plan is for both")
	e.add(boundMember("g2")) // a member that joins now does not save the rest: it would be a gang of one or two
	require.NoError(t, e.run(10, victims, victims...))
	assert.Equal(t, []string{"g0", "g0", "g1"}, e.evicted)
}

// TestAPreemptorMayHaveTwoPlansAtOnce: upstream tries it again when the last victim of a plan is seen to go. The second plan comes while the
// first victim of the first plan is being evicted. Together they leave no gang below its minimum.
func TestAPreemptorMayHaveTwoPlansAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		minimum, bound int
		first, second  []int
		searched       bool // the second plan was found during the eviction, not before
		evicted        []string
	}{
		"the second plan was found before":        {2, 3, []int{0}, []int{1}, false, []string{"g0"}},
		"the second plan is found now":            {2, 3, []int{0}, []int{1}, true, []string{"g0"}},
		"a victim is in both plans":               {2, 4, []int{0, 1}, []int{0, 2}, false, []string{"g0", "g1"}},
		"the rest of the first plan is not spare": {2, 4, []int{0, 1}, []int{2}, true, []string{"g0", "g2"}},
		"the first plan is for the whole gang":    {3, 3, []int{0, 1, 2}, nil, true, []string{"g0", "g1", "g2"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEviction()
			e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(int32(test.minimum)).Obj())
			for i := range test.bound {
				e.add(boundMember(fmt.Sprint("g", i)))
			}
			run := func(plan []int) {
				var victims []*corev1.Pod
				for _, i := range plan {
					victims = append(victims, e.pods[i])
				}
				e.tracker.Victims.ClaimVictims("urgent", uids(victims))
				_ = e.run(10, victims, victims...) // an eviction that is refused ends the plan
			}
			e.during = func() {
				if test.searched {
					e.tracker.Victims.DropClaims("urgent") // as PostFilter does
				}
				run(test.second)
			}
			run(test.first)
			assert.Equal(t, test.evicted, e.evicted)
		})
	}
}

func TestErrorsOfEvictionsAreReturned(t *testing.T) {
	e := newEviction()
	e.err = errors.New("the API server is away")
	e.add(mustertesting.MakePod("single").Node(nodeName(0)).Obj())
	require.ErrorIs(t, e.run(10, e.pods, e.pods[0]), e.err)
}

// withoutAPI is the handle of a scheduler that cannot reach its API server.
type withoutAPI struct{ fwk.Handle }

func (withoutAPI) KubeConfig() *rest.Config { return &rest.Config{Host: "%"} }

// measured is the cluster whose metrics the process serves: they are the metrics of the first tracker that is started.
var measured = sync.OnceValue(func() *cluster {
	c := newCluster()
	_ = c.tracker.Feed.Start(context.Background(), withoutAPI{}) // it fails, after it has registered the metrics
	return c
})

// wastedEvictions is how many evictions are said to be wasted.
func wastedEvictions(t *testing.T) (wasted float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "muster_wasted_evictions_total" {
			wasted += family.Metric[0].Counter.GetValue()
		}
	}
	return wasted
}

// TestOnlyEvictionsThatWereMadeCountAsWasted: the preemptor is deleted before it is bound.
func TestOnlyEvictionsThatWereMadeCountAsWasted(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		memory bool
		wasted float64
	}{
		"the pod was evicted":             {nil, false, 1},
		"the API refused the eviction":    {errors.New("the API server is away"), false, 0},
		"the pod held nothing in the API": {nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvictionIn(measured())
			e.err, e.memory = test.err, test.memory
			victim := mustertesting.MakePod("single").UID("single").Node(nodeName(0)).Obj()
			before := wastedEvictions(t)
			require.ErrorIs(t, e.run(10, []*corev1.Pod{victim}, victim), test.err)
			e.tracker.DeletePod(mustertesting.MakePod("urgent").UID("urgent").Obj())
			assert.InDelta(t, test.wasted, wastedEvictions(t)-before, 0)
		})
	}
}

// TestAGangInAnAttemptIsRolledBackWithoutDeletingPods: its members have no node in the API yet. The rejection of the first member rolls the
// whole gang back. When their evictions come they do not wait in Permit any more, and must not be deleted for that.
func TestAGangInAnAttemptIsRolledBackWithoutDeletingPods(t *testing.T) {
	e := newEviction()
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(3).Phase("Inqueue").Obj())
	e.tracker.Feed.Open()
	for _, name := range []string{"g0", "g1", "g2"} {
		e.add(mustertesting.MakePod(name).Group("g").SchedulerName("muster").Requests("cpu", "1").Obj())
	}
	scout := e.pods[0]
	require.Empty(t, e.tracker.Gate(scout))
	snapshot := e.tracker.Decisions.Snapshot(scout)
	require.NotNil(t, snapshot)
	_, ok := e.tracker.Decisions.Commit(snapshot, &placement.Decision{Feasibility: placement.Uncertain, Members: snapshot.Problem.Members})
	require.True(t, ok)
	for _, pod := range e.pods[:2] {
		e.tracker.Reserve(pod)
		result, _ := e.tracker.Permit(pod)
		require.Equal(t, gangs.Wait, result)
		e.room.waiting[pod.UID] = &waiter{}
	}
	first := e.room.waiting["g0"]
	require.NoError(t, e.run(10, e.pods[:2], e.pods[0]))
	assert.True(t, first.preempted)
	assert.Len(t, e.room.events.Events, 1)
	// The scheduler unreserves it, and that rolls the other back.
	e.tracker.Unreserve(e.pods[0])
	e.room.waiting = nil
	require.NoError(t, e.run(10, e.pods[:2], e.pods[1]))
	e.tracker.Unreserve(e.pods[1])
	require.NoError(t, e.run(10, e.pods[:2], e.pods[1]))
	assert.Empty(t, e.evicted, "pods that have no node are not deleted")
}

// TestAVictimThatHeldNothingInTheAPIIsNoVictimAnyMore: it may hold room again, and then it counts for its gang.
func TestAVictimThatHeldNothingInTheAPIIsNoVictimAnyMore(t *testing.T) {
	for name, test := range map[string]struct {
		memory bool
		err    error
		holds  bool
	}{
		"in memory":                    {true, nil, true},
		"in the API":                   {false, nil, false},
		"the API refused the eviction": {false, errors.New("the API server is away"), true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEviction()
			e.memory, e.err = test.memory, test.err
			e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Obj())
			e.add(boundMember("g0"), boundMember("g1"))
			e.tracker.Victims.ClaimVictims("urgent", uids(e.pods[:1]))
			require.ErrorIs(t, e.run(10, e.pods[:1], e.pods[0]), test.err)
			standing := e.tracker.Victims.Standing(state.Key{Namespace: "default", Name: "g"})
			require.NotNil(t, standing)
			assert.Equal(t, test.holds, standing.Holding["g0"] != nil)
		})
	}
}

// TestAPlanBeginsWithItsFirstVictim, although that is a pod without a gang. Then no other pod may claim the rest, and give it up.
func TestAPlanBeginsWithItsFirstVictim(t *testing.T) {
	e := newEviction()
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(1).Obj())
	e.add(boundMember("g0"), boundMember("g1"))
	plan := []*corev1.Pod{mustertesting.MakePod("single").UID("single").Node(nodeName(0)).Obj(), e.pods[0]}
	e.tracker.Victims.ClaimVictims("urgent", uids(plan))
	require.NoError(t, e.run(10, plan, plan[0]))
	e.tracker.Victims.ClaimVictims("rival", uids(plan))
	assert.Equal(t, types.UID("urgent"), e.tracker.Claims.Of["g0"].By)
}

// TestAPlanThatFailsClaimsNothing: upstream evicts no more of it. If the rest counted as gone, another could take all but that.
func TestAPlanThatFailsClaimsNothing(t *testing.T) {
	e := newEviction()
	e.err = errors.New("the API server is away")
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
	e.add(boundMember("g0"), boundMember("g1"), boundMember("g2"))
	plan := []*corev1.Pod{mustertesting.MakePod("single").UID("single").Node(nodeName(0)).Obj(), e.pods[0]}
	e.tracker.Victims.ClaimVictims("urgent", uids(plan))
	require.ErrorIs(t, e.run(10, plan, plan[0]), e.err)
	assert.Empty(t, e.tracker.Claims.Of)
	assert.False(t, e.tracker.Victims.BeginEviction("rival", "g1", []types.UID{"g1", "g2"}, false), "g0 would be left")
}

// TestAPlanThatIsOverClaimsNothing: its victims held nothing in the API. Their gang is as large as before when it is placed again.
func TestAPlanThatIsOverClaimsNothing(t *testing.T) {
	e := newEviction()
	e.memory = true
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
	e.add(boundMember("g0"), boundMember("g1"), mustertesting.MakePod("single").UID("single").Node(nodeName(0)).Obj())
	e.tracker.Victims.ClaimVictims("urgent", uids(e.pods))
	require.NoError(t, e.run(10, e.pods, e.pods...))
	assert.Empty(t, e.tracker.Claims.Of)
}

// TestAVictimWithoutANodeWakesThePreemptor: its binding has failed, and the scheduler has not forgotten it yet. Its deletion is no event of
// a pod on a node. So upstream must activate the preemptor, as for a victim that held nothing in the API.
func TestAVictimWithoutANodeWakesThePreemptor(t *testing.T) {
	for node, wakes := range map[string]bool{"": true, nodeName(0): false} {
		e := newEviction()
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		require.NoError(t, store.Add(mustertesting.MakePod("single").UID("single").Node(node).Obj()))
		e.tracker.PodLister = corelisters.NewPodLister(store)
		victim := mustertesting.MakePod("single").UID("single").Node(nodeName(0)).Obj() // as the snapshot has it
		pod := mustertesting.MakePod("urgent").UID("urgent").Priority(10).Obj()
		activate, err := e.evict(t.Context(), candidate{[]*corev1.Pod{victim}}, preemptor{pod}, victim, Name)
		require.NoError(t, err)
		assert.Equal(t, wakes, activate, "node %q", node)
		assert.Equal(t, []string{"single"}, e.evicted)
	}
}

// nativePreemptor is a native pod group that preempts.
type nativePreemptor struct{ preemptor }

func (nativePreemptor) Type() string { return "podGroup" }

// TestVictimsOfNativePodGroupsAreEvicted: upstream plans them without regard to our gangs, and half of a plan would be worse.
func TestVictimsOfNativePodGroupsAreEvicted(t *testing.T) {
	e := newEviction()
	e.group(mustertesting.MakePodGroup("g").UID("g").MinMember(2).Obj())
	e.add(boundMember("g0"), boundMember("g1"))
	pod := mustertesting.MakePod("urgent").UID("urgent").Priority(10).Obj()
	_, err := e.evict(t.Context(), candidate{e.pods[:1]}, nativePreemptor{preemptor{pod}}, e.pods[0], Name)
	require.NoError(t, err)
	assert.Equal(t, []string{"g0"}, e.evicted)
}
