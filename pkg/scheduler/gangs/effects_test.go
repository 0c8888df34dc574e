package gangs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// unschedulableGang is theGang of two members, which a decision has refused and nothing has woken since.
func unschedulableGang(t *testing.T) (*gangs.Tracker, *gang.Group) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	setPods(tr, memberNamed("m0").Obj(), memberNamed("m1").Obj())
	refuse(t, tr, memberNamed("m0").Obj(), "no room")
	g := tr.Gangs[theGang]
	g.Reporting = false
	require.Equal(t, gang.Unschedulable, phaseOf(tr, theGang))
	return tr, g
}

// TestEachEffectIsPassedOn: a kind of effect alone has its consequence, which is not there before.
func TestEachEffectIsPassedOn(t *testing.T) {
	looksAt := func(key state.Key) func(*gangs.Tracker, *gang.Group) bool {
		return func(tr *gangs.Tracker, _ *gang.Group) bool { return slices.Contains(toLookAt(tr), key) }
	}
	isWoken := func(_ *gangs.Tracker, g *gang.Group) bool { return g.Refusal != nil && g.Refusal.Woken }
	grows := func(count func(*gangs.Tracker) int64) func(*gangs.Tracker, *gang.Group) bool {
		last := int64(-1)
		return func(tr *gangs.Tracker, _ *gang.Group) bool {
			before := last
			last = count(tr)
			return before >= 0 && last > before
		}
	}
	searchCount := func(tr *gangs.Tracker) int64 { return tr.Changes }
	pod := singleNamed("single", "q").Obj()
	for name, c := range map[string]struct {
		prepare func(*gangs.Tracker, *gang.Group)
		effects gang.Effects
		seen    func(*gangs.Tracker, *gang.Group) bool
	}{
		"a change is reported":                  {nil, gang.Only(gang.HasChanged), func(_ *gangs.Tracker, g *gang.Group) bool { return g.Reporting }},
		"a change is looked at":                 {nil, gang.Only(gang.HasChanged), looksAt(theGang)},
		"a change may help a search":            {nil, gang.Only(gang.HasChanged), grows(searchCount)},
		"a report":                              {nil, gang.Only(gang.ToReport), func(_ *gangs.Tracker, g *gang.Group) bool { return g.Reporting }},
		"a wake":                                {nil, gang.Only(gang.ToWake), isWoken},
		"a look":                                {nil, gang.Only(gang.ToLook), looksAt(theGang)},
		"a later look":                          {nil, gang.LookIn(0), looksAt(theGang)},
		"surplus is let in anew":                {func(_ *gangs.Tracker, g *gang.Group) { g.SurplusOpen = true }, gang.Only(gang.ToOpen), func(_ *gangs.Tracker, g *gang.Group) bool { return !g.SurplusOpen }},
		"room wakes gangs":                      {func(tr *gangs.Tracker, g *gang.Group) { tr.WaitList.Held.Gangs.Insert(g.Key) }, gang.Only(gang.RoomFreed), isWoken},
		"room is counted":                       {nil, gang.Only(gang.RoomFreed), grows(func(tr *gangs.Tracker) int64 { return int64(tr.WaitList.Held.Returned) })},
		"room may help a search":                {nil, gang.Only(gang.RoomFreed), grows(searchCount)},
		"a hold that ends has pods tried":       {func(tr *gangs.Tracker, _ *gang.Group) { tr.WaitList.Held.Pods[pod.UID] = pod }, gang.Only(gang.HoldFreed), looksAt(state.BlockedKey)},
		"a hold that ends is counted":           {nil, gang.Only(gang.HoldFreed), grows(func(tr *gangs.Tracker) int64 { return int64(tr.WaitList.Held.Freed) })},
		"blocked pods are tried":                {func(tr *gangs.Tracker, _ *gang.Group) { tr.WaitList.Held.Pods[pod.UID] = pod }, gang.Only(gang.HeldTried), looksAt(state.BlockedKey)},
		"room on nodes is counted":              {nil, gang.Only(gang.NodeFreed), grows(func(tr *gangs.Tracker) int64 { return int64(tr.WaitList.Sharing.Freed) })},
		"quota wakes gangs":                     {func(tr *gangs.Tracker, g *gang.Group) { tr.Quota.Gangs.Insert(g.Key) }, gang.Only(gang.QuotaFreed), isWoken},
		"quota has pods tried":                  {func(tr *gangs.Tracker, _ *gang.Group) { tr.Quota.Pods[pod.UID] = pod }, gang.Only(gang.QuotaFreed), looksAt(state.QuotaKey)},
		"a search that may differ":              {nil, gang.Only(gang.SearchDiffers), grows(searchCount)},
		"ready pods":                            {nil, gang.TriedIn(0), looksAt(state.ReadyKey)},
		"node groups have pods tried":           {func(tr *gangs.Tracker, _ *gang.Group) { tr.Quota.Grouped[pod.UID] = pod }, gang.Only(gang.GroupsChanged), looksAt(state.NodeGroupsKey)},
		"the earlier of two looks counts first": {nil, both(gang.LookIn(0), gang.LookIn(time.Hour)), looksAt(theGang)},
		"also in the other order":               {nil, both(gang.LookIn(time.Hour), gang.LookIn(0)), looksAt(theGang)},
		"also for pods":                         {nil, both(gang.TriedIn(0), gang.TriedIn(time.Hour)), looksAt(state.ReadyKey)},
	} {
		t.Run(name, func(t *testing.T) {
			tr, g := unschedulableGang(t)
			if c.prepare != nil {
				c.prepare(tr, g)
			}
			toLookAt(tr)
			require.False(t, c.seen(tr, g))
			tr.Apply(g, c.effects)
			assert.True(t, c.seen(tr, g))
		})
	}
}

func both(a, b gang.Effects) gang.Effects {
	a.Add(b)
	return a
}

// TestWhatTheBookSaysIsPassedOn: another gang leaves the waiting list, or has its turn.
func TestWhatTheBookSaysIsPassedOn(t *testing.T) {
	other, now := keyNamed("other"), time.Unix(1000, 0)
	begin := func(t *testing.T) (*gangs.Tracker, *gang.Group) {
		tr, g := unschedulableGang(t)
		tr.WaitList.Book.WaitForRoom(other, reservations.Rank{Priority: 1}, nil, now)
		tr.Apply(nil, gang.Effects{})
		return tr, g
	}
	t.Run("its reservation ends", func(t *testing.T) {
		tr, g := begin(t)
		tr.WaitList.Book.ReserveNodes(other, reservations.Choice{}, now)
		tr.Apply(nil, gang.Effects{})
		tr.WaitList.Held.Gangs.Insert(g.Key)
		tr.WaitList.Book.Forget(other)
		tr.Apply(nil, gang.Effects{})
		assert.True(t, g.Refusal.Woken)
	})
	t.Run("the turn goes to another", func(t *testing.T) {
		tr, g := begin(t)
		for _, queue := range []string{"a", "b"} {
			key := keyNamed(queue)
			tr.WaitList.Book.WaitForRoom(key, reservations.Rank{Queue: queue, Repair: true}, nil, now)
			tr.WaitList.Book.ReserveNodes(key, reservations.Choice{Amounts: map[string]resources.List{"n": {corev1.ResourceCPU: 1000}}}, now)
		}
		tr.Apply(nil, gang.Effects{})
		tr.WaitList.Held.Gangs.Insert(g.Key)
		freed := tr.WaitList.Held.Freed
		tr.WaitList.Book.Tick(now.Add(time.Hour))
		tr.Apply(nil, gang.Effects{})
		assert.True(t, g.Refusal.Woken)
		assert.Greater(t, tr.WaitList.Held.Freed, freed, "pods that left its room alone are tried")
	})
	t.Run("its start is found anew when a pod has ended", func(t *testing.T) {
		tr, g := begin(t)
		book := tr.WaitList.Book
		book.SetBounds(reservations.Bounds{Starts: true})
		book.Forget(other)
		book.WaitForRoom(g.Key, reservations.Rank{}, nil, now)
		book.ReserveNodes(g.Key, reservations.Choice{Amounts: map[string]resources.List{"n": {corev1.ResourceCPU: 1000}}, Start: now.Add(time.Hour)}, now)
		isDecided := func() bool {
			g.Refusal.Woken = false
			book.Tick(now.Add(time.Minute))
			tr.Apply(nil, gang.Effects{})
			return g.Refusal.Woken
		}
		book.TakeEvents()
		require.False(t, isDecided(), "nothing has changed on nodes")
		tr.Apply(nil, gang.Only(gang.NodeFreed))
		assert.True(t, isDecided())
	})
	t.Run("it needs its room no more", func(t *testing.T) {
		tr, _ := begin(t)
		toLookAt(tr)
		pod := singleNamed("single", "q").Obj()
		tr.WaitList.Held.Pods[pod.UID] = pod
		freed := tr.WaitList.Held.Freed
		tr.WaitList.Book.Forget(other)
		tr.Apply(nil, gang.Effects{})
		assert.Contains(t, toLookAt(tr), state.BlockedKey)
		assert.Greater(t, tr.WaitList.Held.Freed, freed)
	})
	t.Run("it has its turn", func(t *testing.T) {
		tr, g := begin(t)
		tr.WaitList.Book.Forget(other)
		tr.WaitList.Book.WaitForRoom(g.Key, reservations.Rank{Repair: true}, nil, now)
		tr.Apply(nil, gang.Effects{})
		assert.True(t, g.Refusal.Woken)
	})
}

// TestTheEndOfABoundPodIsPassedOn: its node may have room. A pod that had no node leaves none, and is tried no more.
func TestTheEndOfABoundPodIsPassedOn(t *testing.T) {
	tr, _ := unschedulableGang(t)
	freed := func() int { return tr.WaitList.Sharing.Freed }
	waits, runs := singleNamed("waits", "").Obj(), singleNamed("runs", "").Node("n").Obj()
	setPods(tr, waits, runs)
	tr.Lock()
	tr.Apply(nil, tr.TryAgain(waits, 0))
	tr.Unlock()
	before := freed()
	tr.DeletePod(waits)
	assert.Equal(t, before, freed())
	assert.Empty(t, dispatch.NewDispatcher(tr).NextActions(state.ReadyKey).Activate)
	tr.DeletePod(runs)
	assert.Greater(t, freed(), before)
}

// TestTheChargeOfAPodReplacesWhatItsSeatAssumed: the pod is not counted twice.
func TestTheChargeOfAPodReplacesWhatItsSeatAssumed(t *testing.T) {
	tr, _ := unschedulableGang(t)
	pod := singleNamed("single", "q").Obj()
	requests := resources.PodRequests(pod)
	require.NotEmpty(t, requests)
	tr.SetPod(pod)
	tr.Quota.Ledger.Assume(state.LedgerKey(pod.UID), "q", requests)
	_, shortage := tr.Quota.Charge(pod)
	require.Nil(t, shortage)
	_, all := tr.Quota.Ledger.Totals("q")
	assert.Equal(t, requests, all.List())
}
