package gang

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/muster-sched/muster/pkg/resources"
)

// TestAnAttemptAssumesWhatItsMembersToComeRequest compares an attempt with sums made anew after each step. A snapshot that was taken earlier
// shares its lists, and does not change.
func TestAnAttemptAssumesWhatItsMembersToComeRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAttempt()
		var members []*Member
		for i := range 6 {
			requests := resources.List{"cpu": rapid.Int64Range(0, 3).Draw(t, "cpu"), "pods": 1000}
			members = append(members, m(fmt.Sprint(i), func(m *Member) { m.Requests = requests }))
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			snapshot, before := maps.Clone(a.Assumed), copyOf(a.Assumed)
			member := rapid.SampledFrom(members).Draw(t, "member")
			_, comes := a.ToCome[member.UID]
			if !comes && rapid.Bool().Draw(t, "assume") {
				a.Assume(member, rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"))
				a.Order = append(a.Order, member.UID)
			} else {
				assert.Equal(t, comes, a.Take(member), "only a member that was to come is taken")
			}
			assert.Equal(t, before, copyOf(snapshot), "an earlier snapshot")
			checkAttempt(t, a, members)
		}
	})
}

// checkAttempt compares an attempt with the sums of its members to come.
func checkAttempt(t *rapid.T, a *Attempt, members []*Member) {
	quota, assumed := resources.List{}, map[string]resources.List{}
	for _, member := range members {
		node, comes := a.ToCome[member.UID]
		assert.Equal(t, comes, slices.Contains(a.Order, member.UID), "the order has the members to come")
		if !comes {
			continue
		}
		quota.Add(member.Requests)
		if node != "" {
			if assumed[node] == nil {
				assumed[node] = resources.List{}
			}
			assumed[node].Add(member.Requests)
		}
	}
	assert.True(t, quota.Equal(a.Quota), "quota %s, and the members to come request %s", a.Quota, quota)
	assert.Len(t, a.Assumed, len(assumed), "nodes with assumed room")
	for node, want := range assumed {
		assert.True(t, want.Equal(a.Assumed[node]), "%s is assumed on %s, and the members to come request %s", a.Assumed[node], node, want)
	}
}

func copyOf(lists map[string]resources.List) map[string]resources.List {
	copied := map[string]resources.List{}
	for name, list := range lists {
		copied[name] = list.Clone()
	}
	return copied
}

// TestAMemberThatWasReplacedDoesNotCount: a caller may still know a member that was removed, or replaced by what was seen later.
func TestAMemberThatWasReplacedDoesNotCount(t *testing.T) {
	old := m("a", task("worker", 0))
	g := gangOf(Spec{MinMember: 1}, old, m("b", task("worker", 1)))
	g.Put(m("a", task("worker", 0)))
	counted, states := g.total, statesOf(g)
	g.SetState(old, Reserved)
	assert.Equal(t, counted, g.total)
	assert.Equal(t, states, statesOf(g))
	assert.False(t, g.Seated())

	removed := g.Remove(types.UID("b"))
	counted, states = g.total, statesOf(g)
	g.SetState(removed, Reserved)
	assert.Equal(t, counted, g.total)
	assert.Equal(t, states, statesOf(g))
}

// statesOf is how many members are in each state.
func statesOf(g *Gang) map[State]int {
	counts := map[State]int{}
	for state, n := range g.states {
		if n != 0 {
			counts[State(state)] = n
		}
	}
	return counts
}

// TestWhatIsComputedFromMembersFollowsTheirStates: what the waiting members request is computed once, and again after a change.
func TestWhatIsComputedFromMembersFollowsTheirStates(t *testing.T) {
	g := &Group{}
	first, second := m("a"), m("b")
	for _, member := range []*Member{first, second} {
		member.Requests = resources.List{"cpu": 1000}
		g.Join(nil, member)
	}
	assert.Equal(t, resources.List{"cpu": 2000}, g.WaitingRequests())
	g.SetState(first, Reserved)
	assert.Equal(t, resources.List{"cpu": 1000}, g.WaitingRequests())
	g.Leave(second)
	assert.Empty(t, g.WaitingRequests())
}

// TestANewIncarnationForgetsTheLossesOfTheLastOne: the gang is not held for the outcome of a member that does not count any more.
func TestANewIncarnationForgetsTheLossesOfTheLastOne(t *testing.T) {
	g := &Group{}
	g.Join(nil, m("a", version(1)))
	g.PodGroup.Bound = 1
	g.MinimumBound, g.PartialSince, g.OutcomeUntil, g.SurplusOpen = true, time.Unix(1, 0), time.Unix(2, 0), true
	g.Join(nil, m("b", version(2)))
	assert.False(t, g.MinimumBound)
	assert.Zero(t, g.PartialSince)
	assert.Zero(t, g.OutcomeUntil)
	assert.False(t, g.SurplusOpen)
}
