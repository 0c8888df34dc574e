package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
)

// TestAStarvingGangWithoutPlacesLeavesItsTurn: a decision may find neither places to reserve nor a reason why there are none. Members that run in
// too wide a domain have such ones. The gang is not decided again at once, and the next gang of its queue has places chosen.
func TestAStarvingGangWithoutPlacesLeavesItsTurn(t *testing.T) {
	q := newQuotaTest(t)
	first, second := q.gang("first", "q", 2), q.gang("second", "q", 1)
	q.decide(first)
	q.decide(second)
	q.clock.Step(time.Minute)
	s := q.decide(first)
	require.True(t, s.Problem.Reserve && !s.Problem.OnlyWithStart, "it is starving")
	assert.False(t, first.Refusal.Woken, "it would be decided again and again")
	assert.True(t, q.decide(second).Problem.Reserve)
	q.clock.Step(time.Hour)
	dispatch.NewDispatcher(q.Tracker).Tick()
	assert.True(t, first.Refusal.Woken, "places are looked for later")
}
