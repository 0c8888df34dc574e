package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/validation"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAGangWaitsForWhatIsNotSupported: it could never start, and blocks no other gang.
func TestAGangWaitsForWhatIsNotSupported(t *testing.T) {
	topology := func(mode schedulingv1beta1.NetworkTopologyMode) *schedulingv1beta1.NetworkTopologySpec {
		return &schedulingv1beta1.NetworkTopologySpec{Mode: mode}
	}
	groups := func(size, least int32, keys ...string) func(*schedulingv1beta1.PodGroup) {
		return func(g *schedulingv1beta1.PodGroup) {
			g.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{Name: "a"}, {Name: "b", SubGroupSize: &size, MinSubGroups: &least, MatchLabelKeys: keys}}
		}
	}
	for name, c := range map[string]struct {
		change func(*schedulingv1beta1.PodGroup)
		says   string
	}{
		"nothing":                       {func(*schedulingv1beta1.PodGroup) {}, ""},
		"a hard topology":               {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("hard") }, ""},
		"a topology without mode":       {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("") }, ""},
		"a soft topology":               {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("soft") }, ""},
		"sub groups":                    {groups(2, 0), ""},
		"one sub group without a label": {groups(2, 1), ""},
		"two sub groups without one":    {groups(1, 2), "spec.subGroupPolicy[1].minSubGroups asks for 2 sub groups"},
		"two sub groups with a label":   {groups(2, 2, "part"), ""},
		"sub groups of one pod":         {groups(1, 0), ""},
		"sub groups near each other": {func(g *schedulingv1beta1.PodGroup) {
			g.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{NetworkTopology: topology("hard")}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			group := mustertesting.MakePodGroup("g").MinMember(1).Queue("q").Obj()
			c.change(group)
			if c.says == "" {
				assert.Empty(t, validation.UnsupportedGroup(group))
				return
			}
			assert.Contains(t, validation.UnsupportedGroup(group), c.says)
			v := newFixture(mustertesting.MakeQueue("q").Obj()).round().judge(NewCandidate(group), nil)
			assert.False(t, v.Admitted)
			assert.Equal(t, "NotSupported", v.blocker.gangReason())
			assert.Contains(t, v.blocker.reason.Error(), c.says)
			assert.Empty(t, NewCandidate(group).holdsUp(v.blocker), "later gangs go first")
		})
	}
}
