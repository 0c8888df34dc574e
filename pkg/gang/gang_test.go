package gang

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/resources"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func m(name string, with ...func(*Member)) *Member {
	member := &Member{UID: types.UID(name), Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	for _, option := range with {
		option(member)
	}
	return member
}

func task(task string, index int) func(*Member) {
	return func(m *Member) { m.Task, m.Index = task, index }
}
func priority(p int32) func(*Member) { return func(m *Member) { m.Priority = p } }
func version(v int64) func(*Member)  { return func(m *Member) { m.Version = v } }
func state(s State) func(*Member)    { return func(m *Member) { m.State = s } }
func goingAway(m *Member)            { m.Terminating = true }

// own is a member that an attempt for the gang's PodGroup has bound.
func own(m *Member) { m.State, m.BoundFor = Bound, "uid" }
func gangOf(spec Spec, members ...*Member) *Gang {
	g := &Gang{Spec: spec}
	g.BelongTo("uid")
	for _, member := range members {
		g.Put(member)
	}
	return g
}

func names(members []*Member) []string {
	out := []string{}
	for _, member := range members {
		out = append(out, member.Pod.Name)
	}
	return out
}

func TestTheGangWithLessSurplusGoesFirst(t *testing.T) {
	spec := Spec{MinMember: 1}
	one := gangOf(spec, m("a", state(Bound)), m("b", state(Bound)), m("c"))
	none := gangOf(spec, m("d", state(Bound)), m("e"))
	released := gangOf(spec, m("f", state(Released)), m("g", state(Reserved)), m("h"))
	full := gangOf(spec, m("i", state(Bound)))
	assert.True(t, none.HasLessSurplus(one))
	assert.False(t, one.HasLessSurplus(none))
	assert.False(t, one.HasLessSurplus(released), "members that are about to be bound count")
	assert.False(t, released.HasLessSurplus(one))
	assert.False(t, full.HasLessSurplus(one), "no member waits")
}

func TestQuorum(t *testing.T) {
	tests := map[string]struct {
		gang             *Gang
		complete, seated bool
		missing          int
		broken           bool
	}{
		"nothing is needed":           {gangOf(Spec{}), true, true, 0, false},
		"no member exists":            {gangOf(Spec{MinMember: 2}), false, false, 2, false},
		"one is missing":              {gangOf(Spec{MinMember: 2}, m("a")), false, false, 1, false},
		"all wait":                    {gangOf(Spec{MinMember: 2}, m("a"), m("b")), true, false, 0, false},
		"one holds room":              {gangOf(Spec{MinMember: 2}, m("a", state(Reserved)), m("b")), true, false, 0, false},
		"all hold room":               {gangOf(Spec{MinMember: 2}, m("a", state(Reserved)), m("b", state(Bound))), true, true, 0, false},
		"found partial after a crash": {gangOf(Spec{MinMember: 2}, m("a", own), m("b")), true, false, 0, true},
		"bound by another client":     {gangOf(Spec{MinMember: 2}, m("a", state(Bound)), m("b")), true, false, 0, false},
		"bound for another PodGroup": {
			gangOf(Spec{MinMember: 2}, m("a", func(m *Member) { m.State, m.BoundFor = Bound, "earlier" }), m("b")), true, false, 0, false},
		"a succeeded member counts": {gangOf(Spec{MinMember: 2, Succeeded: 1}, m("a", state(Bound))), true, true, 0, false},
		"who is going satisfies nothing": {
			gangOf(Spec{MinMember: 2}, m("a", own, goingAway), m("b", own)), false, false, 1, true},
		"the last incarnation satisfies nothing": {
			gangOf(Spec{MinMember: 2}, m("a", state(Bound)), m("b", state(Bound)), m("c", version(1))), false, false, 1, false},
		"more than the minimum": {gangOf(Spec{MinMember: 1}, m("a", state(Bound)), m("b"), m("c")), true, true, 0, false},
		"created anew under the same name": {
			gangOf(Spec{MinMember: 1}, m("old", state(Bound), goingAway), &Member{UID: "new", Pod: m("old").Pod}), true, false, 0, false},
		"all but the successes are gone": {gangOf(Spec{MinMember: 2, Succeeded: 2}), true, true, 0, false},
		"a task is short": {
			gangOf(Spec{MinMember: 2, MinTaskMember: map[string]int{"ps": 1, "worker": 1}}, m("a", task("ps", 0), own), m("b", task("ps", 1), own)),
			false, false, 1, true},
		"task minimums above the gang's do not bind": {
			gangOf(Spec{MinMember: 1, MinTaskMember: map[string]int{"ps": 1, "worker": 1}}, m("a", task("ps", 0), state(Bound))), true, true, 0, false},
		"a succeeded member fills its task's gap": {
			gangOf(Spec{MinMember: 2, MinTaskMember: map[string]int{"ps": 1, "worker": 1}, Succeeded: 1}, m("a", task("worker", 0), state(Bound))),
			true, true, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.complete, test.gang.Complete(), "complete")
			assert.Equal(t, test.seated, test.gang.Seated(), "seated")
			assert.Equal(t, test.missing, test.gang.shortOf(all), "missing")
			assert.Equal(t, test.broken, test.gang.Partial(), "broken")
		})
	}
}

func TestChooseTheDriverAndTheFirstExecutors(t *testing.T) {
	g := gangOf(Spec{MinMember: 3},
		m("e2", task("executor", 2)), m("e0", task("executor", 0)), m("e1", task("executor", 1)),
		m("driver", task("driver", 0), priority(1000)))
	assert.Equal(t, []string{"driver", "e0", "e1"}, names(g.Choose()))
}

func TestChooseMeetsTheMinimumOfEachTask(t *testing.T) {
	g := gangOf(Spec{MinMember: 3, MinTaskMember: map[string]int{"low": 2}},
		m("high0", task("high", 0), priority(10)), m("high1", task("high", 1), priority(10)),
		m("low0", task("low", 0)), m("low1", task("low", 1)))
	assert.Equal(t, []string{"high0", "low0", "low1"}, names(g.Choose()))
}

func TestChooseOnlyWhatIsStillMissing(t *testing.T) {
	g := gangOf(Spec{MinMember: 3, Succeeded: 1}, m("a", state(Bound)), m("b"), m("c"))
	assert.Equal(t, []string{"b"}, names(g.Choose()))
	g.MinMember = 5
	assert.Nil(t, g.Choose())
}

func TestALoweredMinimumSeatsAndARaisedOneBreaks(t *testing.T) {
	g := gangOf(Spec{MinMember: 3}, m("a", own), m("b", own), m("c"))
	assert.False(t, g.Seated())
	g.MinMember = 2
	assert.True(t, g.Seated())
	g.MinMember = 4
	assert.False(t, g.Complete())
	assert.True(t, g.Partial())
	assert.Equal(t, 1, g.shortOf(all))
}

func TestWhichTaskIsShort(t *testing.T) {
	driver, first, second := m("d", task("driver", 0)), m("w0", task("worker", 0)), m("w1", task("worker", 1))
	minimums := map[string]int{"driver": 1, "worker": 2}
	tests := map[string]struct {
		gang    *Gang
		task    string
		minimum int
	}{
		"all tasks have their minimum":           {gangOf(Spec{MinMember: 3, MinTaskMember: minimums}, driver, first, second), "", 0},
		"the gang as a whole is short":           {gangOf(Spec{MinMember: 3, MinTaskMember: minimums}, driver, first), "", 0},
		"one task is short":                      {gangOf(Spec{MinMember: 3, MinTaskMember: minimums}, driver, first, m("o", task("other", 0))), "worker", 2},
		"the first of two tasks by name":         {gangOf(Spec{MinMember: 3, MinTaskMember: minimums}, m("o", task("other", 0)), m("p", task("other", 1)), m("q")), "driver", 1},
		"a succeeded member counts for the gang": {gangOf(Spec{MinMember: 3, MinTaskMember: minimums, Succeeded: 1}, driver, first), "worker", 2},
		"a terminating member does not count":    {gangOf(Spec{MinMember: 2, MinTaskMember: map[string]int{"driver": 1}}, first, second, m("d", task("driver", 0), goingAway)), "driver", 1},
		"task minimums above the gang's":         {gangOf(Spec{MinMember: 2, MinTaskMember: minimums}, driver, m("o", task("other", 0))), "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			short, minimum := test.gang.ShortTask()
			assert.Equal(t, test.task, short)
			assert.Equal(t, test.minimum, minimum)
		})
	}
}

func TestSeatedWith(t *testing.T) {
	a, b, c := m("a", state(Reserved)), m("b"), m("c")
	g := gangOf(Spec{MinMember: 2}, a, b, c)
	assert.True(t, g.SeatedWith([]*Member{b}))
	assert.False(t, g.SeatedWith(nil))
	g.MinMember = 4
	assert.False(t, g.SeatedWith([]*Member{b, c}))
}

func TestAReservationOutlivesUpdatesOfThePod(t *testing.T) {
	g := gangOf(Spec{MinMember: 1}, m("a", state(Reserved)))
	g.Put(m("a"))
	assert.True(t, g.Seated())
	g.Put(m("a", state(Bound)))
	g.Remove("a")
	assert.Zero(t, g.Len())
}

// TestChosenMembersSeatTheGangAndNoneIsTooMany draws gangs at random: if enough members exist, some are chosen. With them the gang is
// seated, and without any one of them it is not.
func TestChosenMembersSeatTheGangAndNoneIsTooMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Gang{Spec: Spec{
			MinMember: rapid.IntRange(0, 8).Draw(t, "minMember"),
			Succeeded: rapid.IntRange(0, 2).Draw(t, "succeeded"),
			MinTaskMember: map[string]int{
				"a": rapid.IntRange(0, 3).Draw(t, "minA"), "b": rapid.IntRange(0, 3).Draw(t, "minB"),
			},
		}}
		for i := range rapid.IntRange(0, 12).Draw(t, "members") {
			g.Put(m(fmt.Sprint(i),
				task(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "task"), i),
				priority(rapid.Int32Range(0, 2).Draw(t, "priority")),
				version(rapid.Int64Range(0, 1).Draw(t, "version")),
				state(State(rapid.IntRange(0, int(Bound)).Draw(t, "state"))),
				func(m *Member) { m.Terminating = rapid.Bool().Draw(t, "terminating") }))
		}
		chosen := g.Choose()
		if g.Seated() {
			assert.Empty(t, chosen)
			return
		}
		assert.Equal(t, g.Complete(), len(chosen) > 0)
		for _, member := range chosen {
			assert.True(t, g.Counts(member) && member.State == Waiting)
			g.SetState(member, Reserved)
		}
		if len(chosen) == 0 {
			return
		}
		assert.True(t, g.Seated())
		for _, member := range chosen {
			g.SetState(member, Waiting)
			assert.False(t, g.Seated(), "%s is one too many", member.Pod.Name)
			g.SetState(member, Reserved)
		}
	})
}

// TestCountsAreWhatCountingGives drives a gang through random changes and compares its kept counts with a recount.
func TestCountsAreWhatCountingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Gang{Spec: Spec{MinMember: 2, MinTaskMember: map[string]int{"a": 1, "b": 1}}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			uid := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "uid"))
			switch rapid.IntRange(0, 3).Draw(t, "verb") {
			case 3:
				g.BelongTo(types.UID(rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "podGroup")))
			case 0:
				g.Put(m(uid, task(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "task"), 0),
					version(rapid.Int64Range(0, 2).Draw(t, "version")),
					state(State(rapid.IntRange(0, int(Returning)).Draw(t, "state"))),
					func(m *Member) {
						m.Terminating = rapid.Bool().Draw(t, "terminating")
						m.BoundFor = types.UID(rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "boundFor"))
						m.Pod.Status.NominatedNodeName = rapid.SampledFrom([]string{"", "n"}).Draw(t, "nominated")
					}))
			case 1:
				g.Remove(types.UID(uid))
			case 2:
				if member := g.Member(types.UID(uid)); member != nil {
					g.SetState(member, State(rapid.IntRange(0, int(Returning)).Draw(t, "state")))
				}
			}
			kept := *g
			g.recount()
			assert.Equal(t, g.version, kept.version)
			assert.Equal(t, g.current, kept.current)
			assert.Equal(t, g.states, kept.states)
			assert.Equal(t, g.total, kept.total)
			assert.Equal(t, slices.ContainsFunc(g.Members(), func(m *Member) bool { return m.Pod.Status.NominatedNodeName != "" }), kept.Nominated > 0)
			for _, name := range []string{"a", "b", "c"} {
				assert.Equal(t, g.tasks[name], kept.tasks[name])
			}
		}
	})
}

func TestWhenARunIsOver(t *testing.T) {
	status := func(phase schedulingv1beta1.PodGroupPhase, succeeded, failed int32) schedulingv1beta1.PodGroupStatus {
		return schedulingv1beta1.PodGroupStatus{Phase: phase, Succeeded: succeeded, Failed: failed}
	}
	job := mustertesting.MakeJob("j").UID("j").Obj()
	for name, c := range map[string]struct {
		group  *mustertesting.PodGroupWrapper
		status schedulingv1beta1.PodGroupStatus
		want   bool
	}{
		"it runs":                             {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupRunning, 3, 0), false},
		"all have succeeded":                  {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupCompleted, 3, 0), true},
		"more than the minimum has succeeded": {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupCompleted, 4, 0), true},
		"a member has failed":                 {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupCompleted, 2, 1), false},
		"a member beyond has failed":          {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupCompleted, 3, 1), false},
		"the failed member is removed":        {mustertesting.MakePodGroup("g"), status(schedulingv1beta1.PodGroupCompleted, 2, 0), false},
		"the gang of a Job of ours":           {mustertesting.MakePodGroup("g").Owner(job), status(schedulingv1beta1.PodGroupCompleted, 3, 0), false},
	} {
		group := c.group.MinMember(3).Obj()
		group.Status = c.status
		assert.Equal(t, c.want, IsRunOver(group), name)
		want := int(c.status.Succeeded)
		if c.want {
			want = 0
		}
		assert.Equal(t, want, SpecOf(group).Succeeded, name)
	}
}

// TestAGangIsRepairedOnlyForItsOwnPodGroup: when the PodGroup is deleted or made again, no member is its own.
func TestAGangIsRepairedOnlyForItsOwnPodGroup(t *testing.T) {
	g := gangOf(Spec{MinMember: 3}, m("a", own), m("b", state(Bound)), m("c"))
	assert.True(t, g.Partial())
	assert.Equal(t, []string{"a"}, names(g.Own()))
	for _, podGroup := range []types.UID{"", "another"} {
		g.BelongTo(podGroup)
		assert.False(t, g.Partial())
		assert.Empty(t, g.Own())
		assert.Equal(t, []string{"c"}, names(g.Choose()), "the others count all the same")
	}
	g.BelongTo("uid")
	assert.True(t, g.Partial())
}

// TestMembersReplaceOnlyWhatWasLost: what was bound by hand, or for another PodGroup, was never had.
func TestMembersReplaceOnlyWhatWasLost(t *testing.T) {
	member := func(uid string, cpu int64, bound types.UID) *Member {
		m := &Member{UID: types.UID(uid), Pod: podNamed(types.UID(uid)), Requests: resources.List{corev1.ResourceCPU: cpu}}
		if bound != "" {
			m.State, m.BoundFor = Bound, bound
		}
		return m
	}
	whole := func(boundFor types.UID) *Gang {
		g := &Gang{Spec: Spec{MinMember: 2}}
		g.BelongTo("group")
		g.Put(member("a", 2, boundFor))
		g.Put(member("b", 3, boundFor))
		return g
	}
	replacement := []*Member{member("c", 3, "")}

	g := whole("group")
	assert.False(t, g.Replace(replacement), "nothing is lost")
	g.Remove("b")
	assert.True(t, g.Replace(replacement))
	assert.False(t, g.Replace([]*Member{member("c", 4, "")}), "a larger one")
	assert.False(t, g.Replace(append(replacement, member("d", 1, ""))), "one more")

	g = whole("group")
	leaves := member("b", 3, "group")
	leaves.Terminating = true
	g.Put(leaves)
	assert.True(t, g.Replace(replacement))
	seenAgain := member("b", 3, "group")
	seenAgain.Terminating = true
	g.Put(seenAgain)
	assert.False(t, g.Replace(append(replacement, member("d", 3, ""))), "a pod that goes changes, and is still lost once")
	g.Remove("b")
	assert.False(t, g.Replace(append(replacement, member("d", 3, ""))), "it is lost once")

	g.Put(member("c", 3, "group"))
	g.Remove("a")
	assert.False(t, g.Replace(replacement), "what was lost before is replaced")

	g = whole("elsewhere")
	g.Remove("b")
	assert.False(t, g.Replace(replacement))
}

// TestAClassCountsAtMostAsThePods: the API server judges the classes of pods only. So no PodGroup gives its pods a priority that they may not
// have.
func TestAClassCountsAtMostAsThePods(t *testing.T) {
	low, high := m("low", priority(10)), m("high", priority(50))
	class := func(value int32) *int32 { return &value }
	for name, test := range map[string]struct {
		class   *int32
		members []*Member
		want    int32
	}{
		"no class":                      {nil, []*Member{low, high}, 50},
		"no class and no pod":           {nil, nil, 0},
		"a class and no pod yet":        {class(100), nil, 100},
		"a class above all pods":        {class(100), []*Member{low, high}, 50},
		"a class that a pod has":        {class(50), []*Member{low, high}, 50},
		"a class below some of them":    {class(20), []*Member{low, high}, 20},
		"a class below all of them":     {class(-5), []*Member{low, high}, -5},
		"pods of a negative priority":   {class(0), []*Member{m("a", priority(-5)), m("b", priority(-7))}, -5},
		"a class and pods of default 0": {class(1000), []*Member{m("a"), m("b")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, gangOf(Spec{MinMember: 2}, test.members...).Priority(test.class))
		})
	}
}
