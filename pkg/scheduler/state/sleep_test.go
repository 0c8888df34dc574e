package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/plan"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// noQueue lets the Store have gangs sleep, and does nothing.
type noQueue struct{}

func (noQueue) Dismiss([]*corev1.Pod) {}

// TestWhoSleepsWaitsForNothingOfItsOwn: a pod may have waited alone before it was given to a gang. What it was then must not be
// called while its gang sleeps.
func TestWhoSleepsWaitsForNothingOfItsOwn(t *testing.T) {
	s, clock := newTestStore()
	s.Sleep(noQueue{})
	alone := memberNamed("m").Obj()
	alone.Annotations = nil
	s.quotaWaiters[alone.UID] = alone
	s.WaitBehind(alone, &Aside{})

	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("m").Obj()
	s.SetPod(scout)
	require.Empty(t, s.Gate(scout))
	s.Park(s.Judge(scout), scout, "no room", scout, "NodeResourcesFit")
	clock.Step(sleepAfter)
	require.Equal(t, []string{"m"}, namesOf(s.next(theGang).dismiss))

	assert.True(t, s.Sleeps(scout))
	assert.False(t, s.WaitsBehind(scout))
	assert.Empty(t, s.next(quotaKey).activate)
	assert.Empty(t, s.next(asideKey).activate)
}

// TestWhoSleepsIsNotAskedAboutRoomThatIsTooLittle: hundreds may sleep while thousands of pods end. The gang is of one of two profiles,
// which ask for the same events; what comes free counts once.
func TestWhoSleepsIsNotAskedAboutRoomThatIsTooLittle(t *testing.T) {
	s, clock := newTestStore()
	s.Sleep(noQueue{})
	s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
	scout := memberNamed("m").Obj()
	s.SetPod(scout)
	require.Empty(t, s.Gate(scout))
	cpu := func(amount int64) resources.List { return resources.List{corev1.ResourceCPU: amount} }
	nodes := []plan.Node{{Name: "n", Free: cpu(1000)}}
	round := s.Judge(scout)
	round.Shortfall = plan.Lacking([]plan.Demand{{Requests: cpu(4000), Count: 1}}, nodes, plan.IndexOf(nodes, nil), func(int, int) bool { return false })
	s.Park(round, scout, "no room", scout, "NodeResourcesFit")
	clock.Step(sleepAfter)
	require.Len(t, s.next(theGang).dismiss, 1)

	asked := 0
	hint := Hint{
		Plugin: "NodeResourcesFit",
		Event:  framework.EventAssignedPodDelete,
		Ask: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
			asked++
			return fwk.QueueSkip, nil
		},
		Frees: func(any, any) (string, resources.List, bool) { return "n", cpu(1000), true },
	}
	s.Listen(scout.Spec.SchedulerName, []Hint{hint})
	s.Listen("another", []Hint{hint})
	for i, want := range []int{0, 0, 1, 2} { // 2, 3, and at last 4 are free
		s.Happened(klog.Background(), framework.EventAssignedPodDelete, nil, nil, nil)
		assert.Equal(t, want, asked, "after %d pods", i+1)
	}
}

// TestOnlyWhoMayFitWithoutPromisesIsJudgedWhenOneEnds: where the room would be short regardless, the end of another gang's round is nothing
// to it. Behind what is set aside it is judged for the sake of its report.
func TestOnlyWhoMayFitWithoutPromisesIsJudgedWhenOneEnds(t *testing.T) {
	for name, test := range map[string]struct {
		elsewhere, regardless, behind bool
		judged                        bool
	}{
		"nothing is promised":      {},
		"it may fit without":       {elsewhere: true, judged: true},
		"it lacks room as well":    {elsewhere: true, regardless: true},
		"behind what is set aside": {elsewhere: true, regardless: true, behind: true, judged: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore()
			s.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 1))
			scout := memberNamed("m").Obj()
			s.SetPod(scout)
			require.Empty(t, s.Gate(scout))
			round := s.Judge(scout)
			if test.elsewhere {
				round.Elsewhere["n"] = resources.List{corev1.ResourceCPU: 1}
			}
			round.Regardless, round.Behind = test.regardless, test.behind
			s.Park(round, scout, "no room", scout, "NodeResourcesFit")
			g := s.gangs[theGang]
			require.True(t, g.parked)
			s.dropPromise(s.group(Key{Namespace: "ns", Name: "another"}))
			assert.Equal(t, test.judged, !g.parked)
		})
	}
}

// TestTheNetIsCastOverAllGangsInTime: of many that wait a few are judged at each look, those first that have waited longest.
func TestTheNetIsCastOverAllGangsInTime(t *testing.T) {
	const gangs = 3*netPeriod - 1
	s, clock := newTestStore()
	for i := range gangs {
		g := s.group(Key{Namespace: "ns", Name: fmt.Sprint("g", i)})
		g.parked, g.judged = true, clock.Now().Add(time.Duration(i)*time.Millisecond)
	}
	s.castNet()
	require.Empty(t, s.toJudge, "all have been judged a moment ago")
	clock.Step(netPause + gangs*time.Millisecond)
	judged := sets.New[Key]()
	for range netPeriod {
		s.castNet()
		require.LessOrEqual(t, len(s.toJudge), 3, "few at a time")
		for key := range s.toJudge {
			judged.Insert(key)
			s.gangs[key].parked, s.gangs[key].judged = true, clock.Now() // it does not fit
		}
		clear(s.toJudge)
		require.True(t, judged.Has(Key{Namespace: "ns", Name: "g0"}), "who has waited longest goes first")
	}
	require.Len(t, judged, gangs)
}

// TestNothingIsLeftOfGangsThatSlept: behind plugins whose events come rarely, as those that look at what nodes say of themselves, nobody
// looks for a long time.
func TestNothingIsLeftOfGangsThatSlept(t *testing.T) {
	s, clock := newTestStore()
	s.Sleep(noQueue{})
	s.EnforceQuota()
	s.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "0").Obj())
	group, scout := groupIn(schedulingv1beta1.PodGroupInqueue, 1), memberNamed("m").Obj()
	s.SetPodGroup(group)
	s.SetPod(scout)
	require.Empty(t, s.Gate(scout))
	round := s.Judge(scout)
	round.Elsewhere["n"] = resources.List{corev1.ResourceCPU: 1}
	s.Park(round, scout, "no room", scout, "Capacity", "NodeAffinity", "TaintToleration")
	clock.Step(sleepAfter)
	require.Len(t, s.next(theGang).dismiss, 1)
	require.Len(t, s.asleep.behind["NodeAffinity"], 1)

	s.DeletePod(scout)
	s.DeletePodGroup(group)
	for plugin, gangs := range s.asleep.behind {
		assert.Empty(t, gangs, plugin)
	}
	assert.Empty(t, s.asleep.pods)
	assert.Empty(t, s.quotaParked)
	assert.Empty(t, s.promiseParked)
}
