package gangs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// fruitless is a full cluster. The queue "q" is below its share and "other" above its own, but no pod may be evicted now. Single pods and gangs of
// "q" wait.
type fruitless struct {
	*gangs.Tracker
	t     *testing.T
	clock *clocktesting.FakeClock
	tried map[string]int // searches by name
	again time.Time      // when the victims have run long enough, as searches say
}

func newFruitless(t *testing.T, pods, gangs int) *fruitless {
	tr, clock := newTestTracker(t)
	f := &fruitless{Tracker: tr, t: t, clock: clock, tried: map[string]int{}}
	tr.Victims.EvictPods()
	tr.SetQueue(mustertesting.MakeQueue("q").Deserved("cpu", "2").Obj())
	tr.SetQueue(mustertesting.MakeQueue("other").Deserved("cpu", "2").Obj())
	for i := range 4 {
		tr.SetPod(on(singleNamed(fmt.Sprint("runs-", i), "other").Obj(), "node0"))
	}
	for i := range pods {
		pod := singleNamed(fmt.Sprint("pod-", i), "q").Obj() // all are alike
		tr.SetPod(pod)
		f.try(pod)
	}
	for i := range gangs {
		name := fmt.Sprint("gang-", i)
		pod := gangOf(tr, name, 1, 1)[0]
		tr.SetPodGroup(mustertesting.MakePodGroup(name).UID(name).Queue("q").MinMember(1).Phase(schedulingv1beta1.PodGroupInqueue).Obj())
		f.tryGang(pod)
	}
	return f
}

// try is the cycle of a single pod.
func (f *fruitless) try(pod *corev1.Pod) {
	search, _ := f.Victims.SearchFor(pod)
	if search == nil {
		return
	}
	f.tried["pods"]++
	f.Victims.Rules(&search.Claimant, resources.List{corev1.ResourceCPU: 4000}, nil)
	search.Again = f.again
	_, ok := f.Victims.CommitSeat(search, nil)
	require.False(f.t, ok)
}

// tryGang is the cycle of a scout.
func (f *fruitless) tryGang(pod *corev1.Pod) {
	s := f.Decisions.Snapshot(pod)
	require.NotNil(f.t, s)
	d := no(s, "no room", pod, "NodeResourcesFit")
	if s.MayEvict {
		f.tried["gangs"]++
		f.Victims.Rules(s.Claimant(), resources.List{corev1.ResourceCPU: 4000}, nil)
		d.SearchAgain = f.again
	}
	_, ok := f.Decisions.Commit(s, d)
	require.True(f.t, ok)
}

// searchesIn counts the searches of some seconds in which no event comes.
func (f *fruitless) searchesIn(seconds int) (pods, gangs int) {
	f.tried = map[string]int{}
	for range seconds {
		f.clock.Step(time.Second)
		dispatch.NewDispatcher(f.Tracker).Tick()
		for _, pod := range dispatch.NewDispatcher(f.Tracker).NextActions(state.ReadyKey).Activate {
			f.try(pod)
		}
		for _, g := range f.Gangs {
			if g.Refusal != nil && g.Refusal.Woken {
				f.tryGang(g.Waiting()[0].Pod)
			}
		}
	}
	return f.tried["pods"], f.tried["gangs"]
}

// TestAFailedSearchIsNotRepeatedWhileNothingChanges: the pauses between searches end, and nothing has happened that could change the answer.
func TestAFailedSearchIsNotRepeatedWhileNothingChanges(t *testing.T) {
	f := newFruitless(t, 100, 20)
	pods, gangs := f.searchesIn(30)
	assert.LessOrEqual(t, pods, 5, "the changes of the first second")
	assert.LessOrEqual(t, gangs, 5*20)
	pods, gangs = f.searchesIn(600)
	assert.Zero(t, pods)
	assert.Zero(t, gangs)
}

// TestAFailedSearchIsRepeatedWhenItsAnswerMayDiffer: each of the changes may let a pod be evicted.
func TestAFailedSearchIsRepeatedWhenItsAnswerMayDiffer(t *testing.T) {
	for name, change := range map[string]func(f *fruitless){
		"a pod is bound":          func(f *fruitless) { f.SetPod(on(singleNamed("new", "other").Obj(), "node0")) },
		"a pod ends":              func(f *fruitless) { f.DeletePod(on(singleNamed("runs-0", "other").Obj(), "node0")) },
		"a queue changes":         func(f *fruitless) { f.SetQueue(mustertesting.MakeQueue("other").Deserved("cpu", "1").Obj()) },
		"a queue goes":            func(f *fruitless) { f.DeleteQueue(mustertesting.MakeQueue("other").Obj()) },
		"nodes change":            func(f *fruitless) { f.Quota.NodesChanged(false) },
		"a PodGroup changes":      func(f *fruitless) { f.SetPodGroup(mustertesting.MakePodGroup("new").UID("new").MinMember(1).Obj()) },
		"an amount is assumed":    func(f *fruitless) { f.Quota.Ledger.Assume("k", "other", resources.List{corev1.ResourceCPU: 1}) },
		"held room is given back": func(f *fruitless) { f.Apply(nil, gang.Only(gang.RoomFreed)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFruitless(t, 3, 2)
			f.searchesIn(60)
			change(f)
			pods, gangs := f.searchesIn(60)
			assert.NotZero(t, pods)
			assert.NotZero(t, gangs)
			pods, gangs = f.searchesIn(600)
			assert.Zero(t, pods+gangs)
		})
	}
}

// TestAFailedSearchIsRepeatedWhenAPodHasRunLongEnough, at that time, also if shares alone allow no eviction.
func TestAFailedSearchIsRepeatedWhenAPodHasRunLongEnough(t *testing.T) {
	f := newFruitless(t, 3, 2)
	f.again = f.clock.Now().Add(10 * time.Minute)
	f.searchesIn(100)
	f.SetQueue(mustertesting.MakeQueue("other").Deserved("cpu", "4").Obj())
	f.searchesIn(100)
	pods, gangs := f.searchesIn(399)
	assert.Zero(t, pods+gangs)
	f.again = time.Time{}
	pods, gangs = f.searchesIn(1)
	assert.Equal(t, 1, pods)
	assert.Equal(t, 2, gangs)
	pods, gangs = f.searchesIn(600)
	assert.Zero(t, pods+gangs)
}

// TestASearchAnswersForEqualPodsOnly: bare pods of a namespace that filters tell apart are searched for one by one.
func TestASearchAnswersForEqualPodsOnly(t *testing.T) {
	tr, _, mine, _ := full(t)
	s, _ := tr.Victims.SearchFor(mine)
	require.NotNil(t, s)
	_, ok := tr.Victims.CommitSeat(s, nil)
	require.False(t, ok)
	similar := singleNamed("similar", "q").Priority(10).Obj()
	s, _ = tr.Victims.SearchFor(similar)
	assert.Nil(t, s)
	other := singleNamed("other", "q").Priority(10).Obj()
	other.Spec.NodeSelector = map[string]string{"zone": "a"}
	s, _ = tr.Victims.SearchFor(other)
	assert.NotNil(t, s)
}

// TestASearchWhoseVictimsCannotGoIsRepeated: a gang has changed between the search and its result.
func TestASearchWhoseVictimsCannotGoIsRepeated(t *testing.T) {
	tr, clock, waiting, low := evicting(t)
	tr.DeletePod(waiting[0])
	tr.Victims.Total = resources.List{corev1.ResourceCPU: 2000}
	mine := singleNamed("mine", "q").Priority(10).Obj()
	clock.Step(time.Minute)
	s, _ := tr.Victims.SearchFor(mine)
	_, ok := tr.Victims.CommitSeat(s, seatOf(t, mine, low[0]))
	require.False(t, ok)
	clock.Step(gang.FirstSearchPause)
	dispatch.NewDispatcher(tr).Tick()
	assert.True(t, isReady(tr, "mine"))
}
