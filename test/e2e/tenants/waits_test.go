package tenants

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/e2e/harness"
)

// TestAPodJoinsNoGangOfAnotherNamespace: a pod names the gang of another namespace, which lacks one member. It waits, and the gang does not
// count it.
func TestAPodJoinsNoGangOfAnotherNamespace(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	const other = "stranger"
	_, err := s.Kube.CoreV1().Namespaces().Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{})
	require.NoError(t, err)
	gang := s.CreateGroup(mustertesting.MakePodGroup("gang").MinMember(2))
	s.CreatePod(mustertesting.MakePod("first").Group("gang"))
	stranger := mustertesting.MakePod("stranger").Namespace(other).Group("gang").Obj()
	stranger.Spec.NodeSelector = s.Pod("first").Spec.NodeSelector
	_, err = s.Kube.CoreV1().Pods(other).Create(s.Ctx, stranger, metav1.CreateOptions{})
	require.NoError(t, err)
	waits := func() *corev1.Pod {
		pod, err := s.Kube.CoreV1().Pods(other).Get(s.Ctx, stranger.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return pod
	}
	s.Soon("the stranger is told why it waits", func() bool {
		for _, condition := range waits().Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return condition.Message != ""
			}
		}
		return false
	}, func() any { return waits().Status })
	s.PodsStay(0, "the gang does not start with a stranger", s.In(harness.Bound))

	s.CreatePod(mustertesting.MakePod("second").Group("gang"))
	s.Pods(2, "the gang runs", s.In(harness.Running))
	assert.Empty(t, waits().Spec.NodeName)
	s.Soon("the gang counts its own pods", func() bool {
		group, err := s.Muster.SchedulingV1beta1().PodGroups(gang.Namespace).Get(s.Ctx, gang.Name, metav1.GetOptions{})
		return err == nil && group.Status.Running == 2
	}, func() any { return waits().Status })
}

// TestAJobThatCanNeverRunHoldsNoLine: it is first in a FIFO queue, and asks for more than the queue's capability.
func TestAJobThatCanNeverRunHoldsNoLine(t *testing.T) {
	s := harness.New(t)
	s.AddNodes(1, "cpu", "4")
	s.CreateQueue(mustertesting.MakeQueue("in-line").Capability("cpu", "2").Dequeue(schedulingv1beta1.DequeueStrategyFIFO))
	never := s.CreateJob(mustertesting.MakeJob("never").Queue("in-line").Task(mustertesting.MakeTask("worker", 3).Requests("cpu", "1")))
	s.Soon("the first is told that it never fits", func() bool {
		groups, err := s.Muster.SchedulingV1beta1().PodGroups(s.Namespace).List(s.Ctx, metav1.ListOptions{})
		return err == nil && len(groups.Items) == 1 && slices.ContainsFunc(groups.Items[0].Status.Conditions,
			func(c schedulingv1beta1.PodGroupCondition) bool { return c.Reason == "QuotaExceeded" })
	}, func() any { return s.Job(never).Status })
	second := s.CreateJob(mustertesting.MakeJob("second").Queue("in-line").Task(mustertesting.MakeTask("worker", 2).Requests("cpu", "1")))
	s.JobPhase(second, batchv1alpha1.Running)
	assert.NotEqual(t, batchv1alpha1.Running, s.Job(never).Status.State.Phase)
}
