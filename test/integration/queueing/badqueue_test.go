package queueing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// valid waits until a queue says of its terms, as it is now, whether they count, and returns the condition.
func (s *fixture) valid(queue string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	s.Helper()
	var condition *metav1.Condition
	s.eventually(fmt.Sprintf("queue %s is valid: %s, %s", queue, status, reason), func() bool {
		now := s.queue(queue)
		condition = meta.FindStatusCondition(now.Status.Conditions, schedulingv1beta1.QueueValidCondition)
		return condition != nil && condition.Status == status && condition.Reason == reason && condition.ObservedGeneration == now.Generation
	})
	return condition
}

func (s *fixture) patchQueue(name, patch string) {
	s.Helper()
	_, err := muster.SchedulingV1beta1().Queues().Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s, err)
}

// TestABadQueueKeepsItsLastValidNumbers: the capability that contradicts the guarantee does not count, before and after a restart of the
// controller. The sibling goes on, and the queue does, by its last valid numbers.
func TestABadQueueKeepsItsLastValidNumbers(t *testing.T) {
	s := newFixture(t)
	bad := s.createQueue(mustertesting.MakeQueue(s.name("bad")).Capability("cpu", "4")).Name
	sibling := s.createQueue(mustertesting.MakeQueue(s.name("sibling")).Capability("cpu", "4")).Name
	s.valid(bad, metav1.ConditionTrue, "Valid")
	group := func(name, queue, cores string) {
		s.createGroup(mustertesting.MakePodGroup(name).Queue(queue).MinMember(1).MinResources("cpu", cores))
	}
	s.patchQueue(bad, `{"spec":{"capability":{"cpu":"1"},"guarantee":{"resource":{"cpu":"2"}}}}`)
	condition := s.valid(bad, metav1.ConditionFalse, "GuaranteeAboveCapability")
	message := "spec.guarantee.resource[cpu] is 2, more than spec.capability[cpu], which is 1: lower spec.guarantee.resource[cpu], or raise the other. " +
		"Until then its last valid terms count."
	assert.Equal(t, message, condition.Message)
	s.event("default", "Queue", bad, "Invalid", message)
	assert.Equal(t, "4", s.queue(bad).Status.Muster.LastValid.Capability.Cpu().String())

	group("fits", bad, "3")
	s.phase("fits", schedulingv1beta1.PodGroupInqueue)
	whileDown(func() {})
	group("full", bad, "2")
	s.why("full", fmt.Sprintf("queue %q has 1 cpu free of its capability, 2 needed", bad))
	group("beside", sibling, "4")
	s.phase("beside", schedulingv1beta1.PodGroupInqueue)
	s.valid(sibling, metav1.ConditionTrue, "Valid")
	assert.Len(t, s.events("default", "Queue", bad)["Invalid"], 1, "one event tells of the fault, after the restart, too")

	s.patchQueue(bad, `{"spec":{"capability":{"cpu":"9"}}}`)
	s.valid(bad, metav1.ConditionTrue, "Valid")
	s.phase("full", schedulingv1beta1.PodGroupInqueue)
	assert.Equal(t, "9", s.queue(bad).Status.Muster.LastValid.Capability.Cpu().String())
}

// TestAQueueWithoutItsParent: it says so until the parent exists. A parent that is below the queue is refused as well.
func TestAQueueWithoutItsParent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	parent := s.name("parent")
	child := s.createQueue(mustertesting.MakeQueue(s.name("child")).Parent(parent).Capability("cpu", "4")).Name
	condition := s.valid(child, metav1.ConditionFalse, "ParentNotFound")
	assert.Equal(t, fmt.Sprintf(`spec.parent: queue %q does not exist: create it, or name another parent. Until then it is a child of queue "root".`, parent), condition.Message)

	s.createQueue(mustertesting.MakeQueue(parent).Capability("cpu", "1"))
	s.valid(child, metav1.ConditionTrue, "Valid")
	s.createGroup(mustertesting.MakePodGroup("g").Queue(child).MinMember(1).MinResources("cpu", "2"))
	s.why("g", fmt.Sprintf("can never fit queue %q: 2 cpu asked, its capability is 1", parent))

	s.patchQueue(parent, fmt.Sprintf(`{"spec":{"parent":%q}}`, child))
	s.valid(parent, metav1.ConditionFalse, "ParentIsDescendant")
	s.valid(child, metav1.ConditionTrue, "Valid")
}
