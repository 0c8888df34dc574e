package coscheduling

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/text"
)

// nativeCycle is the cycle of a pod whose native pod group upstream tries.
func nativeCycle() *framework.CycleState {
	cycle := newCycle()
	cycle.SetPodGroupSchedulingCycle(framework.NewCycleState())
	return cycle
}

// dryRunCycle is a cycle in which a decision tries a pod.
func dryRunCycle() *framework.CycleState {
	cycle := newCycle()
	placement.MarkDryRun(cycle)
	return cycle
}

// TestAGangThatFitsStartsTogether goes from the scout's cycle to the release of all members from Permit.
func TestAGangThatFitsStartsTogether(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 3, 3, "2")
	cycle := w.start(t, pods[0])
	assert.Equal(t, sets.New("default/g-1", "default/g-2"), activated(t, cycle), "the success of the scout's cycle activates the others")
	for _, pod := range pods[1:] {
		w.start(t, pod)
	}
	assert.Equal(t, fwk.Wait, w.permit(t, pods[1]))
	assert.Equal(t, fwk.Wait, w.permit(t, pods[0]))
	assert.Equal(t, fwk.Success, w.permit(t, pods[2]))
	for _, pod := range pods[:2] {
		assert.Equal(t, []string{Name}, w.waiting[pod.UID].allowedBy, pod.Name)
	}
}

// TestAMemberWaitsInPermitForLongerThanAnyAttempt: the tracker ends the attempt, for the whole gang.
func TestAMemberWaitsInPermitForLongerThanAnyAttempt(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 2, 2, "2")
	w.start(t, pods[0])
	require.True(t, w.plugin.Reserve(t.Context(), newCycle(), pods[0], "n0").IsSuccess())
	status, wait := w.plugin.Permit(t.Context(), newCycle(), pods[0], "n0")
	assert.Equal(t, fwk.Wait, status.Code())
	assert.Equal(t, 15*time.Minute, wait)
}

// TestAGangThatDoesNotFitWaits: no member passes, and the plugins behind, which have not seen the pod in PreFilter, are not asked.
func TestAGangThatDoesNotFitWaits(t *testing.T) {
	w := newWorld(t, nodesOf(1))
	pods := w.gangOf("g", 3, 3, "2")
	require.Empty(t, w.tracker.Gate(pods[0]))
	cycle, _, status := w.preFilter(t, pods[0])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Contains(t, status.Message(), "3 members")
	assert.Empty(t, activated(t, cycle))
	result, status := w.plugin.PostFilter(t.Context(), cycle, pods[0], nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "the chain of PostFilter plugins ends")
	require.NotNil(t, result)
	assert.Equal(t, fwk.ModeOverride, result.Mode())
	assert.Empty(t, result.NominatedNodeName)
	assert.NotEmpty(t, w.tracker.Gate(pods[1]))
}

// TestTheChainEndsForAnyPodThatPreFilterRejected, also where the minimum of its gang runs.
func TestTheChainEndsForAnyPodThatPreFilterRejected(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 1, 2, "1")
	w.tracker.SetPod(bound(pods[0]))
	leaving := pods[1].DeepCopy()
	leaving.DeletionTimestamp = &leaving.CreationTimestamp
	w.tracker.SetPod(leaving)
	cycle, _, status := w.preFilter(t, pods[1])
	require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	_, status = w.plugin.PostFilter(t.Context(), cycle, pods[1], nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
}

func bound(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = "n0"
	return pod
}

// TestAChosenMemberThatFindsNoNodeRollsItsGangBack: it must not preempt other pods by itself.
func TestAChosenMemberThatFindsNoNodeRollsItsGangBack(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 2, 2, "2")
	w.start(t, pods[0])
	require.Equal(t, fwk.Wait, w.permit(t, pods[0]))
	cycle := w.start(t, pods[1])
	result, status := w.plugin.PostFilter(t.Context(), cycle, pods[1], nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	require.NotNil(t, result)
	assert.Equal(t, fwk.ModeOverride, result.Mode(), "its nomination ends")
	assert.Equal(t, fwk.Unschedulable, w.permit(t, pods[1]), "the attempt is over")
}

// TestPodsThatStandForThemselvesMayPreempt: the plugins behind are asked.
func TestPodsThatStandForThemselvesMayPreempt(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 1, 2, "1")
	w.tracker.SetPod(bound(pods[0]))
	single := mustertesting.MakePod("single").UID("single").SchedulerName("muster").Requests("cpu", "1").Obj()
	for _, pod := range []*corev1.Pod{pods[1], single} {
		cycle := w.start(t, pod)
		result, status := w.plugin.PostFilter(t.Context(), cycle, pod, nil)
		assert.Nil(t, result, pod.Name)
		assert.Equal(t, fwk.Unschedulable, status.Code(), pod.Name)
		assert.False(t, w.tracker.Hints.IsBlocked(pod), "nothing is reserved")
		assert.Equal(t, fwk.Success, w.permit(t, pod), pod.Name)
	}
}

// TestAScoutThatDoesNotStartHasDoneItsWork: others start, and it waits for them.
func TestAScoutThatDoesNotStartHasDoneItsWork(t *testing.T) {
	w := newWorld(t, nodesOf(1))
	pods := w.gangOf("g", 1, 1, "9") // fits nowhere
	small := mustertesting.MakePod("small").UID("small").Group("g").SchedulerName("muster").Requests("cpu", "1").Obj()
	w.tracker.SetPod(small)
	require.Empty(t, w.tracker.Gate(pods[0]))
	cycle, _, status := w.preFilter(t, pods[0])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Equal(t, behindMinimum, status.Message())
	assert.Equal(t, sets.New("default/small"), activated(t, cycle))
	w.start(t, small)
	assert.Equal(t, fwk.Success, w.permit(t, small))
}

// TestMembersOfAGangThatChangedWait: the scout's cycle has nothing to decide.
func TestMembersOfAGangThatChangedWait(t *testing.T) {
	w := newWorld(t, nodesOf(1))
	pods := w.gangOf("g", 2, 2, "1")
	require.Empty(t, w.tracker.Gate(pods[0]))
	w.tracker.DeletePod(pods[1])
	_, _, status := w.preFilter(t, pods[0])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.NotEmpty(t, status.Message())
	unknown := mustertesting.MakePod("unknown").UID("unknown").Group("h").SchedulerName("muster").Obj()
	_, _, status = w.preFilter(t, unknown)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "the tracker has not heard of it yet")
}

// TestMembersThatMustComeInOrder come each to its node, when the one before has its room.
func TestMembersThatMustComeInOrder(t *testing.T) {
	w := newWorld(t, nodesOf(3))
	w.tracker.Leadership.Lead() // else one of them passes the gate as the probe
	pods := w.gangOf("g", 3, 3, "1")
	require.Empty(t, w.tracker.Gate(pods[0]))
	s := w.tracker.Decisions.Snapshot(pods[0])
	places, order := map[types.UID]string{}, []types.UID{}
	for i, m := range s.Problem.Members {
		places[m.UID] = fmt.Sprint("n", i)
		order = append(order, m.UID)
	}
	_, ok := w.tracker.Decisions.Commit(s, &placement.Decision{Feasibility: placement.Possible, Members: s.Problem.Members, Places: places, Order: order})
	require.True(t, ok)
	for i, m := range s.Problem.Members {
		if i+1 < len(s.Problem.Members) {
			require.NotEmpty(t, w.tracker.Gate(s.Problem.Members[i+1].Pod))
		}
		require.Empty(t, w.tracker.Gate(m.Pod))
		_, result, status := w.preFilter(t, m.Pod)
		require.True(t, status.IsSuccess(), status)
		assert.Equal(t, sets.New(fmt.Sprint("n", i)), result.NodeNames)
		w.permit(t, m.Pod)
	}
}

// TestADecisionTriesPodsWithoutEffect: the plugin sees pods in the cycles in which it decides itself.
func TestADecisionTriesPodsWithoutEffect(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 2, 2, "2")
	require.Empty(t, w.tracker.Gate(pods[0]))
	_, status := w.plugin.PreFilter(t.Context(), dryRunCycle(), pods[0], w.nodes)
	assert.True(t, status.IsSkip())
	assert.False(t, w.tracker.Leadership.Leads(), "it is no scheduling cycle")

	w.start(t, pods[0])
	require.True(t, w.plugin.Reserve(t.Context(), dryRunCycle(), pods[0], "n0").IsSuccess())
	result, _ := w.tracker.Permit(pods[0])
	assert.Equal(t, gangs.Reject, result, "it holds no room")
	require.Equal(t, fwk.Wait, w.permit(t, pods[0]))
	w.plugin.Unreserve(t.Context(), dryRunCycle(), pods[0], "n0")
	assert.Equal(t, fwk.Success, w.permit(t, pods[1]), "the other still has its room")
}

// TestNativePodGroupsAreUpstreams: while upstream tries one, the tracker is not told.
func TestNativePodGroupsAreUpstreams(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 2, 2, "2") // a pod of such a group is no member; that shows that the tracker was not asked
	w.start(t, pods[0])
	require.True(t, w.plugin.Reserve(t.Context(), nativeCycle(), pods[0], "n0").IsSuccess())
	status, wait := w.plugin.Permit(t.Context(), nativeCycle(), pods[0], "n0")
	assert.True(t, status.IsSuccess())
	assert.Zero(t, wait)
	result, _ := w.tracker.Permit(pods[0])
	assert.Equal(t, gangs.Reject, result, "it holds no room")
	require.Equal(t, fwk.Wait, w.permit(t, pods[0]))
	w.plugin.Unreserve(t.Context(), nativeCycle(), pods[0], "n0")
	assert.Equal(t, fwk.Success, w.permit(t, pods[1]), "the other still has its room")
}

// TestUnreserveRollsTheGangBack: one member has lost its room while the others wait.
func TestUnreserveRollsTheGangBack(t *testing.T) {
	w := newWorld(t, nodesOf(2))
	pods := w.gangOf("g", 3, 3, "2")
	w.start(t, pods[0])
	require.Equal(t, fwk.Wait, w.permit(t, pods[0]))
	require.Equal(t, fwk.Wait, w.permit(t, pods[1]))
	w.plugin.Unreserve(t.Context(), newCycle(), pods[0], "n0")
	assert.Equal(t, fwk.Unschedulable, w.permit(t, pods[2]))
}

// atOnce is how many members may be bound at the same time.
const atOnce = 100

// TestABoundedNumberOfMembersIsBoundAtOnce: each end of a binding makes room for the next, whether it has succeeded or failed.
func TestABoundedNumberOfMembersIsBoundAtOnce(t *testing.T) {
	ends := map[string]func(*Coscheduling, *corev1.Pod){
		"bound":  func(c *Coscheduling, pod *corev1.Pod) { c.PostBind(context.Background(), newCycle(), pod, "n0") },
		"failed": func(c *Coscheduling, pod *corev1.Pod) { c.Unreserve(context.Background(), newCycle(), pod, "n0") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := &Coscheduling{binds: newBindLimiter(), tracker: openTracker(t)}
			pods := gangIn(c.tracker, "g", "", atOnce+1, atOnce+1, "1")
			for _, pod := range pods[:atOnce] {
				require.True(t, c.PreBind(t.Context(), newCycle(), pod, "n0").IsSuccess())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			status := c.PreBind(ctx, newCycle(), pods[atOnce], "n0")
			assert.Equal(t, fwk.Error, status.Code())
			require.ErrorIs(t, status.AsError(), context.DeadlineExceeded)
			end(c, pods[0])
			end(c, pods[0]) // a second time is no second place
			limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.True(t, c.PreBind(limited, newCycle(), pods[atOnce], "n0").IsSuccess())
			brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			assert.Equal(t, fwk.Error, c.PreBind(brief, newCycle(), pods[0], "n0").Code())
		})
	}
}

// TestOnlyMembersWaitForTheirTurnToBeBound: the others skip PreBind, and take no place.
func TestOnlyMembersWaitForTheirTurnToBeBound(t *testing.T) {
	c := &Coscheduling{binds: newBindLimiter(), tracker: openTracker(t)}
	single := mustertesting.MakePod("single").UID("single").Obj()
	native := mustertesting.MakePod("native").UID("native").Group("g").NativeGroup("n").Obj()
	member := mustertesting.MakePod("member").UID("member").Group("g").Obj()
	for pod, skips := range map[*corev1.Pod]bool{single: true, native: true, member: false} {
		_, status := c.PreBindPreFlight(t.Context(), newCycle(), pod, "n0")
		assert.Equal(t, skips, status.IsSkip(), pod.Name)
		assert.Equal(t, !skips, status.IsSuccess(), pod.Name)
	}
	for range atOnce + 1 {
		require.True(t, c.PreBind(t.Context(), newCycle(), single, "n0").IsSuccess())
	}
}

// TestAMemberThatIsBoundHasNoSortKey: with tens of thousands of pods the memory for it would be felt.
func TestAMemberThatIsBoundHasNoSortKey(t *testing.T) {
	tracker := openTracker(t)
	pod := gangIn(tracker, "g", "", 1, 1, "1")[0]
	require.Empty(t, tracker.Gate(pod))
	require.NotZero(t, tracker.Order.OrderKey(pod, time.Unix(0, 0)).Seen)
	(&Coscheduling{binds: newBindLimiter(), tracker: tracker}).PostBind(t.Context(), framework.NewCycleState(), pod, "n")
	assert.Zero(t, tracker.Order.OrderKey(pod, time.Unix(0, 0)).Seen)
}

// TestSignaturesAreLeftToOtherPlugins: otherwise equal pods would be filtered and scored one by one.
func TestSignaturesAreLeftToOtherPlugins(t *testing.T) {
	fragments, status := (&Coscheduling{tracker: openTracker(t)}).SignPod(t.Context(), mustertesting.MakePod("p").Group("g").Obj())
	assert.Empty(t, fragments)
	assert.True(t, status.IsSuccess())
}

// TestAGangThatLacksQuotaIsNotPlaced: the message says how much is missing, and what becomes of the gang.
func TestAGangThatLacksQuotaIsNotPlaced(t *testing.T) {
	for name, test := range map[string]struct {
		members int
		message string
		absent  string
	}{
		"for now":                        {3, "the gang's 3 members wait for quota: ", "reserved for it"},
		"more than the whole capability": {5, "; no quota is reserved for it: it asks for more than the whole capability", "being reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodesOf(4))
			w.tracker.Quota.EnforceQuota()
			w.tracker.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "4").Obj())
			w.tracker.Quota.Charge(mustertesting.MakePod("used").UID("used").QueueName("q").Requests("cpu", "2").Obj())
			pods := gangIn(w.tracker, "g", "q", test.members, test.members, "1")
			require.Empty(t, w.tracker.Gate(pods[0]))
			_, _, status := w.preFilter(t, pods[0])
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.Contains(t, status.Message(), test.message)
			assert.NotContains(t, status.Message(), test.absent)
			assert.Equal(t, test.members > 4, text.RulesOut(status.Message()))
			w.tracker.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8").Obj())
			w.start(t, pods[0])
			assert.Equal(t, fwk.Wait, w.permit(t, pods[0]))
		})
	}
}

// TestAGangThatAsksForMoreThanCanBeCountedIsNotPlaced, whether quota is enforced or not. It does not wait for room of other gangs.
func TestAGangThatAsksForMoreThanCanBeCountedIsNotPlaced(t *testing.T) {
	for _, quantity := range []string{"10000000000000000", "10E", "4000000000000000"} {
		for _, queue := range []string{"q", ""} {
			w := newWorld(t, nodesOf(4))
			w.tracker.Quota.EnforceQuota()
			w.tracker.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "8Ei").Obj())
			pods := gangIn(w.tracker, "g", queue, 2, 2, quantity)
			require.Empty(t, w.tracker.Gate(pods[0]))
			_, _, status := w.preFilter(t, pods[0])
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.Equal(t, "the gang asks for 4611686018427387904m or more of cpu, which no cluster has", status.Message())
			assert.Nil(t, w.tracker.LimitsOf(mustertesting.MakePod("other").UID("other").Obj()).Reserved)
		}
	}
}

func TestWhatIsSaidOfReservedQuota(t *testing.T) {
	assert.Nil(t, lacksQuota(&gangs.Snapshot{}, nil))
	w := newWorld(t, nodesOf(1))
	w.tracker.Quota.EnforceQuota()
	w.tracker.SetQueue(mustertesting.MakeQueue("q").Capability("cpu", "1").Obj())
	w.tracker.Quota.Charge(mustertesting.MakePod("used").UID("used").QueueName("q").Requests("cpu", "1").Obj())
	scout := gangIn(w.tracker, "g", "q", 1, 1, "1")[0]
	require.Empty(t, w.tracker.Gate(scout))
	s := w.tracker.Decisions.Snapshot(scout)
	s.QuotaReserved = true
	d := lacksQuota(s, scout)
	require.NotNil(t, d)
	assert.Equal(t, placement.Impossible, d.Feasibility)
	assert.Contains(t, d.Message, "; quota is being reserved for it")
	assert.Equal(t, sets.New("Capacity"), d.Rejectors)
	assert.Equal(t, []*corev1.Pod{scout}, d.Rejected)
}

// TestWithoutThePodsToActivateTheDispatcherActivates: the plugin must not fail where the scheduler gives it none.
func TestWithoutThePodsToActivateTheDispatcherActivates(t *testing.T) {
	w := newWorld(t, nodesOf(1))
	pods := w.gangOf("g", 2, 2, "1")
	require.Empty(t, w.tracker.Gate(pods[0]))
	_, status := w.plugin.PreFilter(t.Context(), framework.NewCycleState(), pods[0], w.nodes)
	assert.True(t, status.IsSkip() || status.IsSuccess(), status)
	cycle := framework.NewCycleState()
	cycle.Write(framework.PodsToActivateKey, &limits{})
	activateWith(cycle, pods[0], pods)
}
