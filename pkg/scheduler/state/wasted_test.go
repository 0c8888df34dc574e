package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestEvictionsAreWastedUnlessThePodComesToTheirNode has two pods of 30 seconds' grace evicted on node n for another.
func TestEvictionsAreWastedUnlessThePodComesToTheirNode(t *testing.T) {
	waiting := func() *mustertesting.PodWrapper { return mustertesting.MakePod("p").UID("p").SchedulerName("muster") }
	victim := mustertesting.MakePod("victim").Node("n").Obj()
	uid := waiting().Obj().UID
	for name, test := range map[string]struct {
		then   func(s *Store, clock *clocktesting.FakeClock)
		wasted float64
		open   bool // it is not settled yet
	}{
		"bound there":     {func(s *Store, _ *clocktesting.FakeClock) { s.SetPod(waiting().Node("n").Obj()) }, 0, false},
		"bound elsewhere": {func(s *Store, _ *clocktesting.FakeClock) { s.SetPod(waiting().Node("m").Obj()) }, 2, false},
		"deleted":         {func(s *Store, _ *clocktesting.FakeClock) { s.DeletePod(waiting().Obj()) }, 2, false},
		"bound and deleted before anybody looked": {func(s *Store, _ *clocktesting.FakeClock) { s.DeletePod(waiting().Node("n").Obj()) }, 0, false},
		"bound and deleted": {func(s *Store, _ *clocktesting.FakeClock) {
			s.SetPod(waiting().Node("n").Obj())
			s.DeletePod(waiting().Node("n").Obj())
		}, 0, false},
		"it only changes": {func(s *Store, _ *clocktesting.FakeClock) { s.SetPod(waiting().Label("a", "b").Obj()) }, 0, true},
		"not bound in time": {func(s *Store, clock *clocktesting.FakeClock) {
			clock.Step(30*time.Second + useWithin + 1)
			s.check()
		}, 2, false},
		"there is time": {func(s *Store, clock *clocktesting.FakeClock) {
			clock.Step(30*time.Second + useWithin)
			s.check()
		}, 0, true},
		"others are evicted elsewhere": {func(s *Store, _ *clocktesting.FakeClock) { s.Evicting(uid, "m", victim) }, 2, true},
		"others are evicted there":     {func(s *Store, _ *clocktesting.FakeClock) { s.Evicting(uid, "n", victim) }, 0, true},
		"one was not evicted after all": {func(s *Store, _ *clocktesting.FakeClock) {
			s.NotEvicted(uid)
			s.DeletePod(waiting().Obj())
		}, 1, false},
		"none was": {func(s *Store, _ *clocktesting.FakeClock) {
			for range 3 {
				s.NotEvicted(uid)
			}
			s.DeletePod(waiting().Obj())
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore()
			registry := metrics.NewKubeRegistry() // a metric counts only once it is registered
			registry.MustRegister(s.metrics.wasted)
			s.SetPod(waiting().Obj())
			s.Evicting(uid, "n", victim)
			s.Evicting(uid, "n", victim)
			test.then(s, s.clock.(*clocktesting.FakeClock))
			families, err := registry.Gather()
			require.NoError(t, err)
			assert.InDelta(t, test.wasted, families[0].Metric[0].Counter.GetValue(), 0)
			assert.Equal(t, test.open, len(s.sacrifices) > 0)
		})
	}
}
