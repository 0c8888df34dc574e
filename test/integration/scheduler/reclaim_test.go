package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// queue makes a queue of the test's own. Its share is written, as other tests' nodes would count in one that is worked out.
func (w *world) queue(name, deserved string, change ...func(*schedulingv1beta1.Queue)) string {
	w.t.Helper()
	q := &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	q.Spec.Deserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(deserved)}
	for _, change := range change {
		change(q)
	}
	_, err := muster.SchedulingV1beta1().Queues().Create(w.ctx, q, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = muster.SchedulingV1beta1().Queues().Delete(context.Background(), q.Name, metav1.DeleteOptions{})
	})
	return q.Name
}

// notReclaimable is a queue that gives nothing back, whatever it has borrowed.
func notReclaimable(q *schedulingv1beta1.Queue) { q.Spec.Reclaimable = new(bool) }

func capability(cpu string) func(*schedulingv1beta1.Queue) {
	return func(q *schedulingv1beta1.Queue) {
		q.Spec.Capability = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// submit creates a gang of a queue, each pod of 3 CPUs.
func (w *world) submit(name, queue string, minMember int32, n int, change ...func(*corev1.Pod)) {
	w.t.Helper()
	w.createGroup(name, minMember, queue)
	w.createGang(name, n, change...)
}

// evicted lists the reasons of the eviction events, with the pods.
func (w *world) evicted() (told []string) {
	events, err := kube.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "Reclaimed" || e.Reason == "Preempted" {
			told = append(told, e.Reason+" "+e.InvolvedObject.Name)
		}
	}
	slices.Sort(told)
	return told
}

func TestASeatIsKeptUntilTheVictimsHaveGone(t *testing.T) {
	w := newWorld(t, 2)
	owed, borrows := w.queue("owed", "6"), w.queue("borrows", "0")
	slow := func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 30 }
	for i := range 2 {
		w.submit(fmt.Sprintf("b%d", i), borrows, 1, 1, slow)
	}
	w.expectBound("b", 2)
	w.submit("mine", owed, 2, 2)
	w.expectAllSay("mine-", 2, "WaitingForEvictions", "waiting until 2 pods have gone that were evicted for the gang")
	w.create(w.pod("thief", ""))
	w.remove("b0-0")
	w.expectHeld("thief")
	require.Zero(t, w.bound("mine-"), "it starts whole")
	w.remove("b1-0")
	w.expectBound("mine-", 2)
	require.Zero(t, w.bound("thief"))
}

// aloneIn puts a pod that stands for itself into a queue.
func aloneIn(queue string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, schedulingv1beta1.QueueNameAnnotation, queue)
	}
}

func TestAPodKeepsWhatItTookByShareFromAHigherPriority(t *testing.T) {
	w := newWorld(t, 1)
	owed, borrows, high := w.queue("owed", "3"), w.queue("borrows", "0"), w.class(500)
	w.create(w.pod("runs-0", "", aloneIn(borrows), high))
	w.expectBound("runs-", 1)
	w.create(w.pod("next-0", "", aloneIn(borrows), high))
	w.expectHeld("next-")
	w.create(w.pod("mine-0", "", aloneIn(owed)))
	w.expectBound("mine-", 1)
	w.expectStays("mine-", 1)
	w.expectEvictions("Reclaimed runs 1") // the next one never got the room
}

func TestAPodThatTookBackByShareEvictsNoneWhileItsVictimsLeave(t *testing.T) {
	w := newWorld(t, 2)
	owed, borrows, keeps := w.queue("owed", "9"), w.queue("borrows", "0"), w.queue("keeps", "0", notReclaimable)
	slow := func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 30 }
	w.create(w.pod("first-0", "", aloneIn(borrows), w.class(500), slow), w.pod("second-0", "", aloneIn(keeps), w.class(400), slow))
	w.create(w.pod("small-0", "", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = mustertesting.Resources("cpu", "1") }))
	w.expectBound("", 3)
	w.create(w.pod("mine-0", "", aloneIn(owed)))
	w.expectEvictions("Reclaimed first 1")
	_, err := muster.SchedulingV1beta1().Queues().Patch(w.ctx, keeps, types.MergePatchType, []byte(`{"spec":{"reclaimable":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.remove("small-0") // so that the pod is tried again; now it would choose the second one
	w.expectStays("second-", 1)
	require.Equal(t, "Reclaimed first 1", w.evictions())
	w.remove("first-0")
	w.expectBound("mine-", 1)
	w.expectStays("second-", 1)
}

func TestTheQuotaThatAPodTookBackIsKeptUntilItIsBound(t *testing.T) {
	w := newWorld(t, 3)
	w.queue("org", "6", capability("6"))
	below := func(q *schedulingv1beta1.Queue) { q.Spec.Parent = w.namespace + "-org" }
	owed, borrows := w.queue("owed", "6", below), w.queue("borrows", "0", below)
	w.create(w.pod("first-0", "", aloneIn(borrows), func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 30 }))
	w.create(w.pod("other-0", "", aloneIn(w.queue("keeps", "0", below, notReclaimable))))
	w.expectBound("", 2)
	w.create(w.pod("mine-0", "", aloneIn(owed)))
	w.eventually("the pod says what it waits for", func() bool {
		return w.reported("mine-", []string{"waiting until 1 pod has gone that was evicted for the pod"})
	})
	w.expectEvictions("Reclaimed first 1")
	w.create(w.pod("thief-0", "", aloneIn(owed), w.politeClass(500))) // so that it does not have the other evicted
	w.expectHeld("thief-")
	mine, err := kube.CoreV1().Pods(w.namespace).Get(w.ctx, "mine-0", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, mine.Status.NominatedNodeName)
	w.remove("first-0")
	w.expectBound("mine-", 1)
	w.expectStays("thief-", 0)
	require.Equal(t, "Reclaimed first 1", w.evictions())
}
