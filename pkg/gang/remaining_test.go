package gang

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestSpare(t *testing.T) {
	a, b := []*Member{m("a0", task("a", 0)), m("a1", task("a", 1))}, []*Member{m("b0", task("b", 0)), m("b1", task("b", 1))}
	all := append(append([]*Member{}, a...), b...)
	tests := map[string]struct {
		spec    Spec
		goFirst []*Member
		want    []string
	}{
		"a gang at its minimum":                  {Spec{MinMember: 4}, all, []string{}},
		"a gang below its minimum":               {Spec{MinMember: 5}, all, []string{}},
		"one beyond the minimum":                 {Spec{MinMember: 3}, all, []string{"a0"}},
		"the order is the caller's":              {Spec{MinMember: 3}, b, []string{"b0"}},
		"no more than are asked about":           {Spec{MinMember: 1}, a, []string{"a0", "a1"}},
		"nothing is needed":                      {Spec{}, all, []string{"a0", "a1", "b0", "b1"}},
		"a task keeps its minimum":               {Spec{MinMember: 2, MinTaskMember: map[string]int{"a": 2}}, all, []string{"b0", "b1"}},
		"a task without members":                 {Spec{MinMember: 2, MinTaskMember: map[string]int{"c": 2}}, all, []string{}},
		"tasks' minimums that do not bind":       {Spec{MinMember: 2, MinTaskMember: map[string]int{"a": 2, "b": 2}}, all, []string{"a0", "a1"}},
		"who has succeeded counts":               {Spec{MinMember: 4, Succeeded: 2}, all, []string{"a0", "a1"}},
		"who has succeeded fills a task's place": {Spec{MinMember: 2, MinTaskMember: map[string]int{"a": 2}, Succeeded: 1}, a, []string{"a0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			remaining := NewRemaining(test.spec, all)
			assert.Equal(t, test.want, names(remaining.Spare(test.goFirst)))
			assert.Equal(t, len(all), remaining.Len(), "the remaining stays as it is")
		})
	}
}

func TestAtRestIsWholeOrNotAtAll(t *testing.T) {
	members := []*Member{m("a"), m("b"), m("c")}
	remaining := NewRemaining(Spec{MinMember: 2}, members)
	assert.True(t, remaining.IsWholeOrGone())
	remaining.Remove(members[0])
	assert.True(t, remaining.IsWholeOrGone())
	remaining.Remove(members[1])
	assert.False(t, remaining.IsWholeOrGone())
	remaining.Remove(members[2])
	assert.True(t, remaining.IsWholeOrGone())
}

// A remaining agrees with the gang itself, and no further member could be spared.
func TestSpareIsAllThatCanGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			MinMember:     rapid.IntRange(0, 6).Draw(t, "minMember"),
			MinTaskMember: map[string]int{"a": rapid.IntRange(0, 3).Draw(t, "minimum of a"), "b": rapid.IntRange(0, 3).Draw(t, "minimum of b")},
			Succeeded:     rapid.IntRange(0, 2).Draw(t, "succeeded"),
		}
		var members []*Member
		for _, name := range []string{"0", "1", "2", "3", "4", "5"}[:rapid.IntRange(0, 6).Draw(t, "members")] {
			members = append(members, m(name, state(Bound), task(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "task"), 0)))
		}
		g := gangOf(spec, members...)
		remaining := NewRemaining(spec, members)
		assert.Equal(t, g.Seated(), remaining.Seated())
		spares := remaining.Spare(members)
		assert.Equal(t, spares, remaining.Spare(members), "the first call changes nothing")
		assert.Equal(t, g.Seated(), remaining.Seated(), "the call changes nothing")
		for _, spare := range spares {
			remaining.Remove(spare)
			g.Remove(spare.UID)
			assert.True(t, g.Seated(), "without %s", spare.Pod.Name)
		}
		for _, rest := range g.Members() {
			fewer := gangOf(spec, g.Members()...)
			fewer.Remove(rest.UID)
			assert.False(t, fewer.Seated(), "%s could be spared too", rest.Pod.Name)
		}
	})
}
