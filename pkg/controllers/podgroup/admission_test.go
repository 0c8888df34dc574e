package podgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	testingclock "k8s.io/utils/clock/testing"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestOnlyNewsIsRecorded(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := &admission{clock: clock, verdicts: map[string]verdict{}}
	c := newCandidate(mustertesting.MakePodGroup("g").UID("one").Obj())
	lacks := func(want int64, text string) verdict {
		return heldBack(obstacleKind{queue: "q", resource: "cpu", want: want}, words(text))
	}
	message := func() string { return a.verdict(c.key, c.group.UID).message }

	assert.True(t, a.record(c, lacks(4, "3 free")))
	assert.False(t, a.record(c, lacks(4, "3 free")))
	clock.Step(messageAge / 2)
	assert.False(t, a.record(c, lacks(4, "2 free")), "only a number has changed: not worth a write yet")
	assert.Equal(t, "3 free", message())
	clock.Step(messageAge / 2)
	assert.True(t, a.record(c, lacks(4, "1 free")))
	assert.Equal(t, "1 free", message())
	assert.True(t, a.record(c, lacks(5, "1 free of 5")), "it wants something else now")

	namesake := newCandidate(mustertesting.MakePodGroup("g").UID("two").Obj())
	assert.False(t, a.verdict(c.key, namesake.group.UID).blocked(), "what was said about a namesake does not count")
	assert.True(t, a.record(namesake, lacks(5, "1 free of 5")))
	assert.True(t, a.record(namesake, verdict{admitted: true}))
	assert.True(t, a.verdict(c.key, namesake.group.UID).admitted)
	a.forget(c.key)
	assert.Equal(t, verdict{}, a.verdict(c.key, namesake.group.UID))
}
