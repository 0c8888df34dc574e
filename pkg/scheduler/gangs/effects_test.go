package gangs

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/reservations"
)

// unschedulableGang is theGang of two members, which a decision has refused and nothing has woken since.
func unschedulableGang(t *testing.T) (*Tracker, *group) {
	tr := openTracker(t)
	tr.SetPodGroup(groupIn(schedulingv1beta1.PodGroupInqueue, 2))
	setPods(tr, memberNamed("m0").Obj(), memberNamed("m1").Obj())
	refuse(t, tr, memberNamed("m0").Obj(), "no room")
	g := tr.gangs[theGang]
	g.reporting = false
	require.Equal(t, gang.Unschedulable, phaseOf(tr, theGang))
	return tr, g
}

// TestEachEffectIsPassedOn: a kind of effect alone has its consequence, which is not there before.
func TestEachEffectIsPassedOn(t *testing.T) {
	looksAt := func(key Key) func(*Tracker, *group) bool {
		return func(tr *Tracker, _ *group) bool { return slices.Contains(toLookAt(tr), key) }
	}
	isWoken := func(_ *Tracker, g *group) bool { return g.decision != nil && g.decision.woken }
	grows := func(count func(*Tracker) int64) func(*Tracker, *group) bool {
		last := int64(-1)
		return func(tr *Tracker, _ *group) bool {
			before := last
			last = count(tr)
			return before >= 0 && last > before
		}
	}
	searchCount := func(tr *Tracker) int64 { return tr.Victims.input.changes }
	pod := singleNamed("single", "q").Obj()
	for name, c := range map[string]struct {
		prepare func(*Tracker, *group)
		effects gang.Effects
		seen    func(*Tracker, *group) bool
	}{
		"a change is reported":                  {nil, gang.Only(gang.HasChanged), func(_ *Tracker, g *group) bool { return g.reporting }},
		"a change is looked at":                 {nil, gang.Only(gang.HasChanged), looksAt(theGang)},
		"a change may help a search":            {nil, gang.Only(gang.HasChanged), grows(searchCount)},
		"a report":                              {nil, gang.Only(gang.ToReport), func(_ *Tracker, g *group) bool { return g.reporting }},
		"a wake":                                {nil, gang.Only(gang.ToWake), isWoken},
		"a look":                                {nil, gang.Only(gang.ToLook), looksAt(theGang)},
		"a later look":                          {nil, gang.LookIn(0), looksAt(theGang)},
		"surplus is let in anew":                {func(_ *Tracker, g *group) { g.surplusOpen = true }, gang.Only(gang.ToOpen), func(_ *Tracker, g *group) bool { return !g.surplusOpen }},
		"room wakes gangs":                      {func(tr *Tracker, g *group) { tr.WaitList.held.gangs.Insert(g.key) }, gang.Only(gang.RoomFreed), isWoken},
		"room is counted":                       {nil, gang.Only(gang.RoomFreed), grows(func(tr *Tracker) int64 { return int64(tr.WaitList.held.returned) })},
		"room may help a search":                {nil, gang.Only(gang.RoomFreed), grows(searchCount)},
		"a hold that ends has pods tried":       {func(tr *Tracker, _ *group) { tr.WaitList.held.pods[pod.UID] = pod }, gang.Only(gang.HoldFreed), looksAt(heldBackKey)},
		"a hold that ends is counted":           {nil, gang.Only(gang.HoldFreed), grows(func(tr *Tracker) int64 { return int64(tr.WaitList.held.freed) })},
		"pods that are held back are tried":     {func(tr *Tracker, _ *group) { tr.WaitList.held.pods[pod.UID] = pod }, gang.Only(gang.HeldTried), looksAt(heldBackKey)},
		"room on nodes is counted":              {nil, gang.Only(gang.NodeFreed), grows(func(tr *Tracker) int64 { return int64(tr.WaitList.sharing.freed) })},
		"quota wakes gangs":                     {func(tr *Tracker, g *group) { tr.Quota.gangs.Insert(g.key) }, gang.Only(gang.QuotaFreed), isWoken},
		"quota has pods tried":                  {func(tr *Tracker, _ *group) { tr.Quota.pods[pod.UID] = pod }, gang.Only(gang.QuotaFreed), looksAt(quotaKey)},
		"a search that may differ":              {nil, gang.Only(gang.SearchDiffers), grows(searchCount)},
		"ready pods":                            {nil, gang.TriedIn(0), looksAt(readyKey)},
		"node groups have pods tried":           {func(tr *Tracker, _ *group) { tr.Quota.grouped[pod.UID] = pod }, gang.Only(gang.GroupsChanged), looksAt(nodeGroupsKey)},
		"the earlier of two looks counts first": {nil, both(gang.LookIn(0), gang.LookIn(time.Hour)), looksAt(theGang)},
		"also in the other order":               {nil, both(gang.LookIn(time.Hour), gang.LookIn(0)), looksAt(theGang)},
		"also for pods":                         {nil, both(gang.TriedIn(0), gang.TriedIn(time.Hour)), looksAt(readyKey)},
	} {
		t.Run(name, func(t *testing.T) {
			tr, g := unschedulableGang(t)
			if c.prepare != nil {
				c.prepare(tr, g)
			}
			toLookAt(tr)
			require.False(t, c.seen(tr, g))
			tr.apply(g, c.effects)
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
	begin := func(t *testing.T) (*Tracker, *group) {
		tr, g := unschedulableGang(t)
		tr.WaitList.book.WaitForRoom(other, reservations.Rank{Priority: 1}, nil, now)
		tr.apply(nil, gang.Effects{})
		return tr, g
	}
	t.Run("its reservation ends", func(t *testing.T) {
		tr, g := begin(t)
		tr.WaitList.book.ReserveNodes(other, reservations.Choice{}, now)
		tr.apply(nil, gang.Effects{})
		tr.WaitList.held.gangs.Insert(g.key)
		tr.WaitList.book.Forget(other)
		tr.apply(nil, gang.Effects{})
		assert.True(t, g.decision.woken)
	})
	t.Run("it needs its room no more", func(t *testing.T) {
		tr, _ := begin(t)
		toLookAt(tr)
		pod := singleNamed("single", "q").Obj()
		tr.WaitList.held.pods[pod.UID] = pod
		freed := tr.WaitList.held.freed
		tr.WaitList.book.Forget(other)
		tr.apply(nil, gang.Effects{})
		assert.Contains(t, toLookAt(tr), heldBackKey)
		assert.Greater(t, tr.WaitList.held.freed, freed)
	})
	t.Run("it has its turn", func(t *testing.T) {
		tr, g := begin(t)
		tr.WaitList.book.Forget(other)
		tr.WaitList.book.WaitForRoom(g.key, reservations.Rank{Repair: true}, nil, now)
		tr.apply(nil, gang.Effects{})
		assert.True(t, g.decision.woken)
	})
}
