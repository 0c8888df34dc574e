package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestEvictionsAreWastedUnlessThePodComesToTheirNode has two pods of 30 seconds' grace evicted on node n for another.
func TestEvictionsAreWastedUnlessThePodComesToTheirNode(t *testing.T) {
	waiting := func() *mustertesting.PodWrapper { return mustertesting.MakePod("p").UID("p").SchedulerName("muster") }
	victim := mustertesting.MakePod("victim").Node("n").Obj()
	uid := waiting().Obj().UID
	for name, test := range map[string]struct {
		then   func(tr *gangs.Tracker, clock *clocktesting.FakeClock)
		wasted float64
		open   bool // it is not settled yet
	}{
		"bound there":                  {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPod(waiting().Node("n").Obj()) }, 0, false},
		"bound elsewhere":              {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPod(waiting().Node("m").Obj()) }, 2, false},
		"deleted":                      {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.DeletePod(waiting().Obj()) }, 2, false},
		"bound and deleted in between": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.DeletePod(waiting().Node("n").Obj()) }, 0, false},
		"bound and deleted": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.SetPod(waiting().Node("n").Obj())
			tr.DeletePod(waiting().Node("n").Obj())
		}, 0, false},
		"it only changes": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.SetPod(waiting().Label("a", "b").Obj()) }, 0, true},
		"not bound in time": {func(tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			clock.Step(30*time.Second + evict.UseWithin + 1)
			dispatch.NewDispatcher(tr).Tick()
		}, 2, false},
		"there is time": {func(tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			clock.Step(30*time.Second + evict.UseWithin)
			dispatch.NewDispatcher(tr).Tick()
		}, 0, true},
		"the last to go has most time": {func(tr *gangs.Tracker, clock *clocktesting.FakeClock) {
			quick := victim.DeepCopy()
			quick.Spec.TerminationGracePeriodSeconds = new(int64)
			tr.Evictions.Begin(uid, "n", quick)
			clock.Step(30*time.Second + evict.UseWithin)
			dispatch.NewDispatcher(tr).Tick()
		}, 0, true},
		"others are evicted elsewhere": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.Evictions.Begin(uid, "m", victim) }, 2, true},
		"others are evicted there":     {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) { tr.Evictions.Begin(uid, "n", victim) }, 0, true},
		"one was not evicted after all": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			tr.Evictions.Cancel(uid)
			tr.DeletePod(waiting().Obj())
		}, 1, false},
		"none was": {func(tr *gangs.Tracker, _ *clocktesting.FakeClock) {
			for range 3 {
				tr.Evictions.Cancel(uid)
			}
			tr.DeletePod(waiting().Obj())
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr, clock := newTestTracker(t)
			wasted := counting(t, tr.Metrics.Wasted)
			tr.SetPod(waiting().Obj())
			tr.Evictions.Begin(uid, "n", victim)
			tr.Evictions.Begin(uid, "n", victim)
			test.then(tr, clock)
			assert.InDelta(t, test.wasted, wasted(), 0)
			assert.Equal(t, test.open, len(tr.Evictions.Made) > 0)
		})
	}
}
