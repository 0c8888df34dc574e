package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/testing/clients"
)

// gently bounds what the scheduler does with a lowered capability. It waits half a minute, and looks again every ten seconds.
const gently = 2 * time.Minute

// lower changes the capability of a queue.
func (w *world) lower(queue, cpu string) {
	w.t.Helper()
	client := muster.SchedulingV1beta1().Queues()
	require.NoError(w.t, clients.Change(w.ctx, queue, client.Get, client.Update, func(q *schedulingv1beta1.Queue) {
		q.Spec.Capability[corev1.ResourceCPU] = resource.MustParse(cpu)
	}))
}

// pods lists the test's pods.
func (w *world) pods() (names []string) {
	pods, err := kube.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// evictedBecause says whether a pod is being deleted and has the condition of evictions by the scheduler, with a message.
func (w *world) evictedBecause(name, message string) bool {
	pod, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler && c.Message == message
	})
}

// TestALoweredCapabilityIsTakenBack: surplus goes first, then gangs as a whole. Pods that must stay do so, although the queue uses too
// much.
func TestALoweredCapabilityIsTakenBack(t *testing.T) {
	w := newWorld(t, 5)
	queue := w.queue("lowered", "0", capability("15"))
	w.submit("elastic", queue, 1, 2, func(p *corev1.Pod) {
		if p.Name == "elastic-1" {
			*p.Spec.TerminationGracePeriodSeconds = 600
		}
	})
	w.submit("gang", queue, 2, 2, w.class(500))
	w.submit("stays", queue, 1, 1, func(p *corev1.Pod) { p.Annotations[batchv1alpha1.PodPreemptableKey] = "false" })
	for name, n := range map[string]int{"elastic-": 2, "gang-": 2, "stays-": 1} {
		w.expectBound(name, n)
	}
	w.lower(queue, "12")
	why := `evicted because queue "` + queue + `" uses 15 cpu, and its capability is 12`
	require.Eventually(t, func() bool { return w.evictedBecause("elastic-1", why) }, gently, 100*time.Millisecond)
	require.Equal(t, []string{"elastic-0", "elastic-1", "gang-0", "gang-1", "stays-0"}, w.pods())
	w.remove("elastic-1")
	w.eventually("the eviction is told", func() bool {
		events, err := kube.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=AboveCapability"})
		return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.Name == "elastic-1" &&
			events.Items[0].Message == why
	})
	w.lower(queue, "0")
	require.Eventually(t, func() bool { return slices.Equal(w.pods(), []string{"stays-0"}) }, gently, 100*time.Millisecond)
}

// TestABudgetKeepsPodsOfALoweredQueue: another pod goes in place of one that a disruption budget protects.
func TestABudgetKeepsPodsOfALoweredQueue(t *testing.T) {
	w := newWorld(t, 2)
	queue := w.queue("lowered", "0", capability("6"))
	protected := map[string]string{"app": "protected"}
	w.submit("a", queue, 1, 1, func(p *corev1.Pod) { p.Labels = protected })
	w.submit("b", queue, 1, 1, w.class(500))
	w.expectBound("a-", 1)
	w.expectBound("b-", 1)
	budgets := kube.PolicyV1().PodDisruptionBudgets(w.namespace)
	_, err := budgets.Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: metav1.SetAsLabelSelector(protected)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.lower(queue, "3")
	require.Eventually(t, func() bool { return slices.Equal(w.pods(), []string{"a-0"}) }, gently, 100*time.Millisecond)
}
