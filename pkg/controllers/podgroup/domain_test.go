package podgroup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/admission"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheConditionSaysInWhichDomainTheGangRuns, and says so again when a member is replaced elsewhere.
func TestTheConditionSaysInWhichDomainTheGangRuns(t *testing.T) {
	group, now := mustertesting.MakePodGroup("g").MinMember(2).Phase(running).Obj(), time.Unix(1000, 0)
	for _, test := range []struct{ paths, want string }{
		{"s1/r1 s1/r1", "the gang runs in domain s1/r1 of the network"},
		{"s1/r1 s1/r2", "the gang runs in domain s1 of the network"},
		{"s1/r1 s2/r1", "the gang runs in several domains of the network"},
		{"s1/r1 s1/r10", "the gang runs in domain s1 of the network"},
	} {
		pods := members("rr")
		for i, path := range strings.Fields(test.paths) {
			pods[i].Annotations = map[string]string{schedulingv1beta1.TopologyPathAnnotation: path}
		}
		group.Status = *nextStatus(group, count(pods, memory{}), admission.Decision{Admitted: true}, now, "id")
		require.Len(t, group.Status.Conditions, 1)
		assert.Equal(t, test.want, group.Status.Conditions[0].Message)
	}
	group.Status.Conditions[0].Message = releasedMessage
	again := nextStatus(group, count(members("rr"), memory{}), admission.Decision{Admitted: true}, now, "id")
	assert.Equal(t, releasedMessage, again.Conditions[0].Message)
}
