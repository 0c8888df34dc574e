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

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
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

// evicted lists the reasons of the events that tell of evictions, with the pods.
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
