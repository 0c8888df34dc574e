package queueing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfAbsurdSizeAdmitNoOther: three pods of 8Ei are put on a node by hand, and go. A second PodGroup must not be admitted beside the
// first. The queue says what is used meanwhile.
func TestPodsOfAbsurdSizeAdmitNoOther(t *testing.T) {
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("memory", "10Gi")).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	s.createGroup(mustertesting.MakePodGroup("first").Queue(team).MinMember(1).MinResources("memory", "8Gi"))
	s.phase("first", schedulingv1beta1.PodGroupInqueue)

	used := func(memory string) func() bool {
		return func() bool { return s.queue(team).Status.Allocated.Memory().String() == memory }
	}
	names := []string{"huge-0", "huge-1", "huge-2"}
	for _, name := range names {
		pod := mustertesting.MakePod(name).Namespace(s.namespace).QueueName(team).Requests("memory", "8Ei").SchedulerName("none").Node(node).Obj()
		_, err := kube.CoreV1().Pods(s.namespace).Create(s.ctx, pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.changePods(func(status *corev1.PodStatus) { // the kubelet has taken them
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	}, names...)
	s.eventually("the queue uses as much as a quantity can say", used("9223372036854775807"))
	s.deletePods(names...)
	s.eventually("the queue uses nothing", func() bool { _, uses := s.queue(team).Status.Allocated["memory"]; return !uses })

	s.createGroup(mustertesting.MakePodGroup("second").Queue(team).MinMember(1).MinResources("memory", "8Gi"))
	s.why("second", fmt.Sprintf("queue %q has 2Gi memory free of its capability, 8Gi needed", team))
	s.deleteGroup("first")
	s.phase("second", schedulingv1beta1.PodGroupInqueue)
}

// TestAnAbsurdMinimumIsRefusedWithTheReason, and holds nothing of the queue.
func TestAnAbsurdMinimumIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	team := s.createQueue(mustertesting.MakeQueue(s.name("team")).Capability("cpu", "4").Dequeue(schedulingv1beta1.DequeueStrategyFIFO)).Name
	s.queueState(team, schedulingv1beta1.QueueStateOpen)
	const message = "the minimum asks for 4611686018427387904m or more of cpu, which no cluster has: see minResources and minMember"
	for i, quantity := range []string{"8Ei", "10E", "10000000000000000", "1e999"} {
		name := fmt.Sprint("absurd-", i)
		s.createGroup(mustertesting.MakePodGroup(name).Queue(team).MinMember(1).MinResources("cpu", quantity))
		s.why(name, message)
		s.event(s.namespace, "PodGroup", name, "Unschedulable", message)
	}
	s.createGroup(mustertesting.MakePodGroup("good").Queue(team).MinMember(1).MinResources("cpu", "4"))
	s.phase("good", schedulingv1beta1.PodGroupInqueue)
}
