package validation

import (
	"fmt"

	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// UnsupportedGroup names a field of a PodGroup that no members can satisfy, and says what to do. It is "" if there is none.
func UnsupportedGroup(group *schedulingv1beta1.PodGroup) string {
	for i, policy := range group.Spec.SubGroupPolicy {
		if least := ptr.Deref(policy.MinSubGroups, 0); least > 1 && len(policy.MatchLabelKeys) == 0 {
			return fmt.Sprintf("spec.subGroupPolicy[%d].minSubGroups asks for %d sub groups, and without matchLabelKeys all members of the policy are one: "+
				"name the label that tells them apart", i, least)
		}
	}
	return ""
}
