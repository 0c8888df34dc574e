package queueing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestAWaitingTimeEnds: a PodGroup is admitted to a full queue when its waiting time is over, and another one is not.
func TestAWaitingTimeEnds(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	queue := s.createQueue(mustertesting.MakeQueue(s.name("full")).Capability("cpu", "2")).Name
	s.queueState(queue, schedulingv1beta1.QueueStateOpen)
	create := func(name string, annotations map[string]string) {
		group := mustertesting.MakePodGroup(name).Namespace(s.namespace).Queue(queue).MinMember(1).MinResources("cpu", "2").Obj()
		group.Annotations = annotations
		_, err := muster.SchedulingV1beta1().PodGroups(s.namespace).Create(s.ctx, group, metav1.CreateOptions{})
		require.NoError(s, err)
	}
	create("first", nil)
	s.phase("first", schedulingv1beta1.PodGroupInqueue)
	full := fmt.Sprintf("queue %q has 0 cpu free of its capability, 2 needed", queue)
	create("wrong", map[string]string{"volcano.sh/sla-waiting-time": "soon"})
	s.why("wrong", full+`; annotation volcano.sh/sla-waiting-time is "soon" and is ignored: it must be a duration above 0, such as "1h30m"`)
	create("timed", map[string]string{"sla-waiting-time": "4s"})
	s.why("timed", full)
	s.phase("timed", schedulingv1beta1.PodGroupInqueue)
	require.Equal(s, schedulingv1beta1.PodGroupPending, s.group("wrong").Status.Phase)
}

// TestAQueueWithAFactorOfItsOwn: all that queues have counts, so that the first PodGroup keeps the second out; another queue goes on. The nodes
// have 1000 cpu.
func TestAQueueWithAFactorOfItsOwn(t *testing.T) {
	s := newFixture(t)
	counting := s.createQueue(mustertesting.MakeQueue(s.name("counting")).Annotation("volcano.sh/overcommit-factor", "1")).Name
	other := s.createQueue(mustertesting.MakeQueue(s.name("other"))).Name
	s.valid(counting, metav1.ConditionTrue, "Valid")
	s.queueState(other, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("a").Queue(counting).MinMember(1).MinResources("cpu", "700"))
	s.phase("a", schedulingv1beta1.PodGroupInqueue)
	s.createGroup(mustertesting.MakePodGroup("b").Queue(counting).MinMember(1).MinResources("cpu", "700"))
	s.eventually("b does not fit beside a", func() bool {
		status := s.group("b").Status
		return status.Phase == schedulingv1beta1.PodGroupPending && len(status.Conditions) == 1 && status.Conditions[0].Reason == "NotEnoughResources"
	})
	s.createGroup(mustertesting.MakePodGroup("c").Queue(other).MinMember(1).MinResources("cpu", "700"))
	s.phase("c", schedulingv1beta1.PodGroupInqueue)
	s.deleteGroup("c")
	s.deleteGroup("a")
	s.phase("b", schedulingv1beta1.PodGroupInqueue)
	s.deleteGroup("b")

	s.patchQueue(counting, `{"metadata":{"annotations":{"volcano.sh/overcommit-factor":"much"}}}`)
	s.valid(counting, metav1.ConditionFalse, "InvalidAnnotation")
	s.event("default", "Queue", counting, "Invalid", `metadata.annotations[volcano.sh/overcommit-factor] is "much": it must be a number from 1 to 1000, such as "1.2". `+
		"Until then it is ignored.")
}
