package gang

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// grouped is a PodGroup whose members with the label role=w are divided by the label part.
func grouped(minMember, size, least int32) Spec {
	pg := &schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{MinMember: minMember, SubGroupPolicy: []schedulingv1beta1.SubGroupPolicySpec{{
		Name: "p", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "w"}}, MatchLabelKeys: []string{"part"},
		SubGroupSize: ptr.To(size), MinSubGroups: ptr.To(least),
	}}}}
	return SpecOf(pg)
}

// parts are members <part>-<i> in a state, from index 10 x part on.
func parts(part, from, to int, in State) (members []*Member) {
	for i := from; i < to; i++ {
		one := m(fmt.Sprintf("%d-%d", part, i), task("w", 10*part+i), state(in))
		one.Pod.Labels = map[string]string{"role": "w", "part": fmt.Sprint(part)}
		members = append(members, one)
	}
	return members
}

// TestGroupsStartWhole: the least groups are completed, the fullest first. No group is begun that cannot become whole, and groups go before
// single members.
func TestGroupsStartWhole(t *testing.T) {
	single := func(name string) *Member { return m(name, task("z", 0)) }
	for name, test := range map[string]struct {
		spec    Spec
		members [][]*Member
		want    []string // nil for none
	}{
		"one of two":                    {grouped(0, 2, 1), [][]*Member{parts(0, 0, 2, Waiting), parts(1, 0, 2, Waiting)}, []string{"0-0", "0-1"}},
		"both":                          {grouped(0, 2, 2), [][]*Member{parts(0, 0, 2, Waiting), parts(1, 0, 2, Waiting)}, []string{"0-0", "0-1", "1-0", "1-1"}},
		"one is not whole":              {grouped(0, 2, 1), [][]*Member{parts(0, 0, 1, Waiting), parts(1, 0, 2, Waiting)}, []string{"1-0", "1-1"}},
		"too few are whole":             {grouped(0, 2, 2), [][]*Member{parts(0, 0, 1, Waiting), parts(1, 0, 3, Waiting)}, nil},
		"a begun one is completed":      {grouped(0, 2, 1), [][]*Member{parts(0, 0, 2, Waiting), parts(1, 0, 1, Bound), parts(1, 1, 2, Waiting)}, []string{"1-1"}},
		"a whole one is enough":         {grouped(0, 2, 1), [][]*Member{parts(0, 0, 2, Bound), parts(1, 0, 2, Waiting)}, nil},
		"the minimum takes whole ones":  {grouped(3, 2, 0), [][]*Member{parts(0, 0, 2, Waiting), parts(1, 0, 2, Waiting)}, []string{"0-0", "0-1", "1-0", "1-1"}},
		"and a single for the odd one":  {grouped(3, 2, 0), [][]*Member{parts(0, 0, 2, Waiting), parts(1, 0, 2, Waiting), {single("s")}}, []string{"0-0", "0-1", "s"}},
		"a minimum beside the groups":   {grouped(3, 2, 1), [][]*Member{parts(0, 0, 2, Waiting), {single("s")}}, []string{"0-0", "0-1", "s"}},
		"no single in place of a group": {grouped(2, 2, 1), [][]*Member{parts(0, 0, 1, Waiting), {single("s")}, {single("t")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := gangOf(test.spec)
			g.recount()
			for _, members := range test.members {
				for _, member := range members {
					g.Put(member)
				}
			}
			chosen := g.Choose()
			if test.want == nil {
				assert.Empty(t, names(chosen))
				return
			}
			assert.Equal(t, test.want, names(chosen))
			assert.True(t, g.SeatedWith(chosen))
		})
	}
}

// TestMinimumOfGroups: the gang's own minimum is at least what its groups need. A succeeded member fills any gap.
func TestMinimumOfGroups(t *testing.T) {
	assert.Equal(t, 6, grouped(2, 3, 2).MinMember)
	assert.Equal(t, 7, grouped(7, 3, 2).MinMember)
	g := gangOf(grouped(0, 2, 2))
	for _, member := range append(parts(0, 0, 2, Bound), parts(1, 0, 1, Bound)...) {
		g.Put(member)
	}
	assert.False(t, g.Seated())
	assert.Equal(t, "p", g.ShortGroups().Name)
	g.Succeeded, g.SucceededOf = 1, 9
	assert.True(t, g.Seated())
	assert.Nil(t, g.ShortGroups())
	remaining := NewRemaining(g.Asks(), g.Bound())
	assert.Empty(t, remaining.Spare(g.Bound()), "each is needed")
}

// TestSurplusGroupsComeWhole: their members wait until enough exist, start together and wait for each other in Permit. A group that has begun
// takes replacements one by one.
func TestSurplusGroupsComeWhole(t *testing.T) {
	g := gangOf(grouped(0, 3, 1))
	for _, member := range append(parts(0, 0, 3, Bound), parts(1, 0, 2, Waiting)...) {
		g.Put(member)
	}
	first := g.Member("1-0")
	assert.True(t, g.AwaitsGroup(first), "two of three exist")
	g.Failed = 1
	assert.False(t, g.AwaitsGroup(first), "the third has failed and may not come again")
	g.Failed = 0
	for _, member := range parts(1, 2, 4, Waiting) {
		g.Put(member)
	}
	assert.Equal(t, []string{"1-0", "1-1", "1-2"}, names(g.Companions(first)))
	assert.True(t, g.AwaitsGroup(g.Member("1-3")), "it is beyond the size")
	for i := range 3 {
		one := g.Member(parts(1, i, i+1, Waiting)[0].UID)
		g.SetState(one, Reserved)
		assert.Equal(t, i < 2, g.IsGroupToCome(first), "%d hold room", i+1)
	}
	assert.Len(t, g.ReservedWith(first), 3)
	assert.Empty(t, g.Companions(g.Member("1-3")), "beyond a whole group a member starts alone")
	assert.False(t, g.AwaitsGroup(g.Member("1-3")))
	for _, member := range parts(1, 0, 3, Bound) {
		g.Put(member)
	}
	g.Remove("1-0")
	assert.Empty(t, g.Companions(g.Member("1-3")), "the group has begun")
}

// TestAGroupWhoseOthersHaveEndedStarts: none of its members waits for pods that do not exist.
func TestAGroupWhoseOthersHaveEndedStarts(t *testing.T) {
	g := gangOf(grouped(0, 3, 1))
	for _, member := range append(parts(0, 0, 3, Bound), parts(1, 0, 2, Waiting)...) {
		g.Put(member)
	}
	g.Failed = 1
	first := g.Member("1-0")
	g.SetState(first, Reserved)
	assert.True(t, g.IsGroupToCome(first))
	g.SetState(g.Member("1-1"), Reserved)
	assert.False(t, g.IsGroupToCome(first))
}

// TestMembersWithoutTheLabelHaveNoGroup, as in Volcano, and one of them can be named.
func TestMembersWithoutTheLabelHaveNoGroup(t *testing.T) {
	g := gangOf(grouped(0, 2, 1))
	lost := m("lost")
	lost.Pod.Labels = map[string]string{"role": "w"}
	for _, member := range append(parts(0, 0, 1, Waiting), lost, m("other")) {
		g.Put(member)
	}
	name, _ := g.GroupOf(lost)
	assert.Empty(t, name)
	assert.False(t, g.Complete())
	pod, label := g.LacksLabel()
	assert.Equal(t, []string{"lost", "part"}, []string{pod, label})
}
