package gang

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestTheEarlierOfTwoTimesCounts, whichever is added first. An effect without a time changes none.
func TestTheEarlierOfTwoTimesCounts(t *testing.T) {
	for name, in := range map[string]func(time.Duration) Effects{"looks": LookIn, "tries": TriedIn} {
		for _, order := range [][]time.Duration{{1, 2}, {2, 1}, {1}, {2, 3, 1, 4}} {
			e := Only(ToReport)
			for _, wait := range order {
				e.Add(in(wait))
				e.Add(Only(ToWake))
			}
			want := in(1)
			want.What |= ToReport | ToWake
			assert.Equal(t, want, e, "%s %v", name, order)
		}
	}
}

// TestWhatIsKeptFollowsTheMembers: what is kept for further members is asked for before and after each change of the members.
func TestWhatIsKeptFollowsTheMembers(t *testing.T) {
	cpu := func(millis int64) resources.List { return resources.List{corev1.ResourceCPU: millis} }
	asks := func(m *Member) { m.Requests = cpu(1000) }
	g := &Group{}
	g.PodGroup.Reserved = cpu(3000)
	kept := func() int64 { return g.KeptForOthers()[corev1.ResourceCPU] }
	assert.Equal(t, int64(3000), kept())
	first, second := m("first", asks, state(Bound)), m("second", asks)
	g.Join(nil, first)
	assert.Equal(t, int64(2000), kept(), "a member runs")
	g.Join(nil, second)
	assert.Equal(t, int64(2000), kept(), "a member waits")
	g.SetState(second, Reserved)
	assert.Equal(t, int64(1000), kept(), "it has its room")
	g.SetState(second, Returning)
	assert.Equal(t, int64(2000), kept(), "it gives the room back")
	g.Leave(first)
	assert.Equal(t, int64(3000), kept())
}

// TestAFailedSearchIsRepeatedWhenItsAnswerMayDiffer, as something has changed, or a pod may be evicted that had to stay.
func TestAFailedSearchIsRepeatedWhenItsAnswerMayDiffer(t *testing.T) {
	at := func(millis int) time.Time { return time.Unix(1000, 0).Add(time.Duration(millis) * time.Millisecond) }
	for name, c := range map[string]struct {
		begun, again, changed, now int // again 0: no such time
		want                       bool
	}{
		"nothing has changed since":                        {5000, 0, 1000, 9000, false},
		"something has changed since":                      {5000, 0, 6000, 9000, true},
		"the cache may not have learnt of a change before": {5000, 0, 4500, 9000, true},
		"by then it has":                                   {5001, 0, 4000, 9000, false},
		"a pod has still to stay":                          {5000, 9001, 1000, 9000, false},
		"it may be evicted now":                            {5000, 9000, 1000, 9000, true},
	} {
		search := FailedSearch{Begun: at(c.begun)}
		if c.again > 0 {
			search.Again = at(c.again)
		}
		assert.Equal(t, c.want, search.MayDiffer(at(c.changed), at(c.now)), name)
	}
	assert.True(t, (&FailedSearch{}).MayDiffer(at(0), at(1)), "none was made")
}
