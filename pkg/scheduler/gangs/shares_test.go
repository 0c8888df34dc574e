package gangs_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// newTenants is a cluster of 32 cores. The queue tiny deserves 1 of them, the queue big 30, and the borrower nothing.
func newTenants(t *testing.T) *quotaTest {
	q := newQuotaTest(t)
	q.Quota.Ledger.SetTotal(resources.List{corev1.ResourceCPU: 32_000})
	q.SetQueue(mustertesting.MakeQueue("org").Capability("cpu", "32").Obj())
	for name, share := range map[string]string{"tiny": "1", "big": "30", "borrower": "0"} {
		q.SetQueue(mustertesting.MakeQueue(name).Parent("org").Deserved("cpu", share).Obj())
	}
	return q
}

// TestNoReservationKeepsRoomFromAShare: a gang of a tiny queue has waited long, and room on nodes is reserved for it.
func TestNoReservationKeepsRoomFromAShare(t *testing.T) {
	q := newTenants(t)
	stuck := q.gang("stuck", "tiny", 8)
	q.decide(stuck)
	q.clock.Step(time.Minute)
	q.decide(stuck, func(d *placement.Decision) {
		d.Reserve = &placement.Places{Of: map[types.UID]string{}}
		for _, m := range d.Members {
			d.Reserve.Of[m.UID] = "n"
		}
	})
	require.NotNil(t, q.WaitList.Book.Nodes())
	for name, c := range map[string]struct {
		queue, cpu string
		passes     bool
	}{
		"a pod of a queue below its share": {"big", "30", true},
		"a pod that is beyond it":          {"big", "31", false},
		"a queue that deserves nothing":    {"borrower", "1", false},
		"a pod of the same queue":          {"tiny", "1", false},
		"a pod without a queue":            {"", "1", false},
	} {
		pod := q.single(c.queue, "cpu", c.cpu, 0)
		assert.Equal(t, c.passes, reservedAgainst(q.Tracker, pod) == nil, name)
	}
	for name, passes := range map[string]bool{"big": true, "borrower": false} {
		g := q.gang("of-"+name, name, 2)
		s := q.Decisions.Snapshot(g.Waiting()[0].Pod)
		assert.Equal(t, passes, !s.Problem.HeldByReservation, name)
		assert.Equal(t, passes, len(s.Problem.Held) == 0, name)
		_, ok := q.Decisions.Commit(s, &placement.Decision{Feasibility: placement.Possible, Members: s.Problem.Members, Places: map[types.UID]string{}})
		require.True(t, ok)
		assert.Equal(t, passes, reservedAgainst(q.Tracker, g.Waiting()[0].Pod) == nil, name)
	}
}

// TestNoReservedQuotaKeepsAShareOut: the quota that starving gangs and started ones have reserved is left to a queue within its share.
func TestNoReservedQuotaKeepsAShareOut(t *testing.T) {
	for name, keep := range map[string]func(q *quotaTest){
		"for a starving gang": func(q *quotaTest) {
			require.True(q, q.start(q.single("tiny", "cpu", "7", 0)))
			q.waitLong(q.gang("stuck", "tiny", 26))
			q.clock.Step(time.Minute)
			dispatch.NewDispatcher(q.Tracker).Tick()
		},
		"for further members": func(q *quotaTest) {
			require.True(q, q.start(q.single("tiny", "cpu", "6", 0)))
			group := mustertesting.MakePodGroup("driver").UID("driver").Queue("tiny").MinMember(1).Phase(schedulingv1beta1.PodGroupRunning).Obj()
			group.Status.Reserved = corev1.ResourceList{corev1.ResourceCPU: resources.Quantity(corev1.ResourceCPU, 26_000)}
			q.SetPodGroup(group)
			q.SetPod(mustertesting.MakePod("driver0").UID("driver0").Group("driver").SchedulerName("muster").Requests("cpu", "10m").Node("n").Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newTenants(t)
			keep(q)
			assert.Nil(t, q.Quota.QuotaShortage(q.single("big", "cpu", "20", 0)))
			assert.NotNil(t, q.Quota.QuotaShortage(q.single("borrower", "cpu", "1", 0)))
			assert.NotNil(t, q.Quota.QuotaShortage(q.single("tiny", "cpu", "1", 0)))
		})
	}
}

// TestSurplusOfAShareLeavesNoRoomToABorrower: the minimum of a gang waits that would be beyond the share of its queue.
func TestSurplusOfAShareLeavesNoRoomToABorrower(t *testing.T) {
	for queue, held := range map[string]int{"big": 0, "borrower": 1, "tiny": 1} {
		q := newTenants(t)
		waits := q.gang("waits", "tiny", 8)
		q.decide(waits, func(d *placement.Decision) { d.Shortfall = &placement.Shortfall{} })
		q.gang("elastic", queue, 1)
		q.SetPod(mustertesting.MakePod("elastic0").UID("elastic0").Group("elastic").SchedulerName("muster").Requests("cpu", "1").Node("n").Obj())
		surplus := mustertesting.MakePod("elastic1").UID("elastic1").Group("elastic").SchedulerName("muster").Requests("cpu", "1").Obj()
		q.SetPod(surplus)
		assert.Len(t, q.LimitsOf(surplus).Holds, held, queue)
	}
}

// reserveOn decides on a gang that does not fit, and reserves a node for it if that is asked for.
func (q *quotaTest) reserveOn(g *gang.Group, node string) (asked bool) {
	return q.decide(g, func(d *placement.Decision) {
		d.Reserve = &placement.Places{Of: map[types.UID]string{}}
		for _, m := range d.Members {
			d.Reserve.Of[m.UID] = node
		}
	}).Problem.Reserve
}

// isBarred says whether room is reserved against a pod of a queue.
func (q *quotaTest) isBarred(queue string) bool {
	return reservedAgainst(q.Tracker, q.single(queue, "cpu", "1", 0)) != nil
}

// TestAStuckGangTakesTurnsWithOtherQueues: an older gang of a third tenant never starts, and small pods bypass a large gang.
func TestAStuckGangTakesTurnsWithOtherQueues(t *testing.T) {
	q := newQuotaTest(t)
	stuck, large := q.gang("stuck", "other", 6), q.gang("large", "a", 6)
	q.decide(stuck)
	q.decide(large)
	require.True(t, q.start(q.single("b", "cpu", "1", 0)), "both are bypassed")
	require.True(t, q.reserveOn(stuck, "n"))
	require.True(t, q.reserveOn(large, "m"), "each queue has a reservation")
	barred := func() []bool { return []bool{q.isBarred("other"), q.isBarred("a"), q.isBarred("b"), q.isBarred("")} }
	require.Equal(t, []bool{true, true, true, true}, barred())
	require.Equal(t, []string{"n"}, nodesOf(reservedAgainst(q.Tracker, q.single("b", "cpu", "1", 0))), "the older one goes first")
	q.clock.Step(4 * time.Minute)
	dispatch.NewDispatcher(q.Tracker).Tick()
	assert.Equal(t, []string{"m"}, nodesOf(reservedAgainst(q.Tracker, q.single("b", "cpu", "1", 0))), "its turn is over")
	assert.Equal(t, []string{"m", "n"}, nodesOf(reservedAgainst(q.Tracker, q.single("other", "cpu", "1", 0))), "its own queue leaves both alone")
	s := q.decide(stuck)
	assert.Equal(t, []string{"m"}, slices.Sorted(maps.Keys(s.Problem.Held)))
}

func nodesOf(kept state.Kept) []string {
	amounts := map[string]resources.List{}
	for _, reserved := range kept {
		state.AddAmounts(amounts, reserved.Amounts)
	}
	return slices.Sorted(maps.Keys(amounts))
}

// TestBypassesByItsOwnQueueGiveAGangNothingOfOthers: it has made itself starving.
func TestBypassesByItsOwnQueueGiveAGangNothingOfOthers(t *testing.T) {
	q := newQuotaTest(t)
	big := q.gang("big", "a", 5)
	q.decide(big)
	for range 5 {
		require.True(t, q.start(q.single("a", "memory", "1", 0)))
	}
	require.True(t, q.reserveOn(big, "n"))
	assert.True(t, q.isBarred("a"))
	for _, queue := range []string{"b", "other", ""} {
		assert.False(t, q.isBarred(queue), queue)
	}
	require.True(t, q.start(q.single("b", "memory", "1", 0)))
	assert.True(t, q.isBarred("b"), "another queue has bypassed it, too")
}
