package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nativev1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
)

func TestANativeGangThatFitsIsBoundWholeBesideOneOfOurs(t *testing.T) {
	w := newWorld(t, 4, "100")
	w.native("native", 2)
	w.ours("ours", 2)
	w.expectBound("native", 2)
	w.expectBound("ours", 2)
	w.expectScheduled("native", metav1.ConditionTrue)
	w.expectLeftAlone("native")
	w.expectCharged("6")
}

func TestANativeGangThatDoesNotFitIsNotBoundWhileOursIs(t *testing.T) {
	w := newWorld(t, 3, "100")
	w.native("native", 4)
	w.expectScheduled("native", metav1.ConditionFalse)
	w.ours("ours", 2)
	w.expectBound("ours", 2)
	w.expectNoneBound("native")
	w.expectLeftAlone("native")
	w.expectCharged("6")
	// It is reported by upstream, in upstream's words.
	for _, pod := range w.pods("native") {
		_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
		require.NotNil(t, c)
		assert.Equal(t, corev1.PodReasonUnschedulable, c.Reason)
		assert.NotContains(t, c.Message, "members of the gang")
	}
	w.removeGang("ours", 2)
	w.addNode(3)
	w.expectBound("native", 4)
	w.expectScheduled("native", metav1.ConditionTrue)
	w.expectCharged("")
}

func TestAGangOfOursThatDoesNotFitIsNotBoundWhileANativeOneIs(t *testing.T) {
	w := newWorld(t, 3, "100")
	w.ours("ours", 4)
	w.eventually("it is reported to wait", func() bool {
		pods := w.pods("ours")
		_, c := podutil.GetPodCondition(&pods[0].Status, corev1.PodScheduled)
		return c != nil && strings.Contains(c.Message, "room for 3 of the 4 members that start together")
	})
	w.native("native", 2)
	w.expectBound("native", 2)
	w.expectNoneBound("ours")
	w.removeGang("native", 2)
	w.addNode(3)
	w.expectBound("ours", 4)
}

func TestANativeGangWaitsForItsMinimumBesideOneOfOurs(t *testing.T) {
	w := newWorld(t, 4, "100")
	w.nativeGroup("native", 2)
	w.create(w.nativeMember("native", 0))
	w.ours("ours", 2)
	w.expectBound("ours", 2)
	w.expectNoneBound("native")
	w.create(w.nativeMember("native", 1))
	w.expectBound("native", 2)
	w.expectLeftAlone("native")
}

func TestOfANativeGangAndOneOfOursThatEachFitAloneOneStartsAndTheOtherHoldsNothing(t *testing.T) {
	w := newWorld(t, 4, "100")
	for round := range 3 {
		native, ours := fmt.Sprintf("native%d", round), fmt.Sprintf("ours%d", round)
		w.nativeGroup(native, 3)
		w.group(ours, 3)
		// Their pods come by turns, so that both become complete at about the same time.
		for i := range 3 {
			w.create(w.nativeMember(native, i))
			w.create(w.member(ours, i))
		}
		w.eventually("one of them is bound", func() bool { return w.bound(native) == 3 || w.bound(ours) == 3 })
		first, second := native, ours
		if w.bound(ours) == 3 {
			first, second = ours, native
		}
		w.expectNoneBound(second)
		w.removeGang(first, 3)
		w.expectBound(second, 3)
		w.removeGang(second, 3)
	}
}

// A pod that names a queue is charged to it, in native gangs, too. The user asked for it, and a limit that native gangs could exceed is no
// limit.
func TestANativeGangWhosePodsNameAQueueStaysWithinItsCapability(t *testing.T) {
	inQueue := func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "scheduling.volcano.sh/queue-name", pod.Namespace)
	}
	w := newWorld(t, 4, "8") // of 3 CPUs each two fit
	w.native("large", 3, inQueue)
	w.expectScheduled("large", metav1.ConditionFalse)
	w.expectNoneBound("large")
	w.native("small", 2, inQueue)
	w.expectBound("small", 2)
	w.expectCharged("6")
	w.expectNoneBound("large")
}

// expectScheduled waits until a native PodGroup says whether it has been scheduled.
func (w *world) expectScheduled(name string, status metav1.ConditionStatus) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("PodGroup %s has %s=%s", name, nativev1beta1.PodGroupInitiallyScheduled, status), func() bool {
		group, err := kube.SchedulingV1beta1().PodGroups(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		return err == nil && apimeta.IsStatusConditionPresentAndEqual(group.Status.Conditions, nativev1beta1.PodGroupInitiallyScheduled, status)
	})
}

// expectLeftAlone checks that nothing of ours was made of native pods. There is none of our PodGroups, and pods have nothing that would tie
// them to one. Their binding says at most that no queue is charged.
func (w *world) expectLeftAlone(prefix string) {
	w.t.Helper()
	for _, pod := range w.pods(prefix) {
		if account, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written {
			assert.Empty(w.t, account, pod.Name)
			delete(pod.Annotations, schedulingv1beta1.ChargedToAnnotation)
		}
		assert.Empty(w.t, pod.Annotations, pod.Name)
	}
	groups, err := muster.SchedulingV1beta1().PodGroups(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	for _, group := range groups.Items {
		assert.Equal(w.t, "ours", group.Name, "a PodGroup of ours was made for a native pod")
	}
}

// expectCharged waits until the test's queue is charged so many CPUs, by the scheduler and by the controller. "" for nothing.
func (w *world) expectCharged(cpu string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("the queue is charged %q CPUs by the controller", cpu), func() bool {
		queue, err := muster.SchedulingV1beta1().Queues().Get(w.ctx, w.namespace, metav1.GetOptions{})
		if err != nil {
			return false
		}
		allocated := queue.Status.Allocated[corev1.ResourceCPU]
		return allocated.String() == cpu || cpu == "" && allocated.IsZero()
	})
	w.eventually(fmt.Sprintf("the queue is charged %q CPUs by the scheduler", cpu), func() bool {
		page, err := cluster.Get(w.ctx, localcluster.MusterScheduler, "/metrics")
		if err != nil {
			return false
		}
		line := fmt.Sprintf("\nmuster_queue_used{queue=%q,resource=\"cpu\"} ", w.namespace)
		_, value, charged := strings.Cut(string(page), line)
		value, _, _ = strings.Cut(value, "\n")
		return value == cpu || cpu == "" && (!charged || value == "0")
	})
}
