package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/validation"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAGangWaitsForWhatIsNotSupported: it is not started in a form that its author has ruled out, and blocks no other gang.
func TestAGangWaitsForWhatIsNotSupported(t *testing.T) {
	topology := func(mode schedulingv1beta1.NetworkTopologyMode) *schedulingv1beta1.NetworkTopologySpec {
		return &schedulingv1beta1.NetworkTopologySpec{Mode: mode}
	}
	groups := func(size, least int32) func(*schedulingv1beta1.PodGroup) {
		return func(g *schedulingv1beta1.PodGroup) {
			g.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{Name: "a"}, {Name: "b", SubGroupSize: &size, MinSubGroups: &least}}
		}
	}
	for name, c := range map[string]struct {
		change func(*schedulingv1beta1.PodGroup)
		says   string
	}{
		"nothing":                 {func(*schedulingv1beta1.PodGroup) {}, ""},
		"a hard topology":         {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("hard") }, ""},
		"a topology without mode": {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("") }, ""},
		"a soft topology":         {func(g *schedulingv1beta1.PodGroup) { g.Spec.NetworkTopology = topology("soft") }, ""},
		"sub groups":              {groups(2, 0), "spec.subGroupPolicy[1] is not supported yet"},
		"a minimum of sub groups": {groups(1, 2), "spec.subGroupPolicy[1] is not supported yet"},
		"sub groups of one pod":   {groups(1, 0), ""},
		"sub groups near each other": {func(g *schedulingv1beta1.PodGroup) {
			g.Spec.SubGroupPolicy = []schedulingv1beta1.SubGroupPolicySpec{{NetworkTopology: topology("hard")}}
		}, ""},
		"partitions of a Job": {func(g *schedulingv1beta1.PodGroup) {
			groups(2, 1)(g)
			job := mustertesting.MakeJob("j").Obj()
			g.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job"))}
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
