package phjob_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

const (
	// waitsInLine is what a job says that is not the first in its queue.
	waitsInLine = "Insufficient group/user quota: an earlier job of the group waits, and jobs of a group start in the order of their creation"
	// longerThanMessages is longer than a message stays that is wrong in its numbers.
	longerThanMessages = 2 * time.Minute
)

// TestManyJobsKeepTheirOrder: the controller finds many jobs when it starts, makes their PodGroups at the same time, and admits the first.
func TestManyJobsKeepTheirOrder(t *testing.T) {
	const jobs, fit = 60, 4
	w := newWorld(t, fmt.Sprint(fit), fmt.Sprint(fit))
	// The names are in the order of creation, as it decides between jobs of one second.
	name := func(i int) string { return fmt.Sprintf("job-%02d", i) }
	whileDown(func() {
		for i := range jobs {
			w.create(name(i), fmt.Sprint("user-", i%3), 1)
		}
	})
	for i := range fit {
		w.phase(name(i), preparing)
	}
	w.eventually("all have a PodGroup", func() bool { return len(w.groups()) == jobs })
	for i := fit; i < jobs; i++ {
		assert.Equal(t, pending, w.job(name(i)).Status.Phase, name(i))
	}
}

// TestAStartChangesNoOtherJob: when a job starts, only the next one gets a new message, however long all have waited. Places may change, each few
// seconds.
func TestAStartChangesNoOtherJob(t *testing.T) {
	w := newWorld(t, "4", "8")
	const others = 10
	for _, name := range []string{"runs", "first", "second"} {
		w.submit(name, "bob", 4)
	}
	name := func(i int) string { return fmt.Sprint("other-", i) }
	states := func() map[string]string {
		states := map[string]string{}
		for i := range others {
			job := w.job(name(i))
			group, err := muster.SchedulingV1beta1().PodGroups(w.namespace).Get(t.Context(), "phjob-"+string(job.UID)+"-0", metav1.GetOptions{})
			require.NoError(t, err)
			states[name(i)] = fmt.Sprint(job.ResourceVersion, group.Status.Phase, group.Status.Conditions)
		}
		return states
	}
	for i := range others {
		w.create(name(i), "bob", 4)
	}
	for i := range others {
		w.says(name(i), primehubv1alpha1.ReasonOverQuota, waitsInLine)
	}
	w.starts("runs")
	before := states()
	w.elapse(longerThanMessages)
	w.podStatus("runs", `{"phase":"Succeeded"}`)
	w.phase("first", preparing)
	w.says("second", primehubv1alpha1.ReasonOverQuota, `Insufficient group/user quota: queue "`+w.group+`" has 0 cpu free of its capability, 4 needed`)
	assert.Equal(t, before, states())
}

// moveGroup moves the labels of the group to another queue, and returns its name.
func (w *world) moveGroup() string {
	w.Helper()
	other := mustertesting.MakeQueue(w.group+"-new").Parent("root").Capability("cpu", "8").Dequeue(schedulingv1beta1.DequeueStrategyFIFO).Obj()
	_, err := muster.SchedulingV1beta1().Queues().Create(w.Context(), other, metav1.CreateOptions{})
	require.NoError(w, err)
	relabel := func(queue string, labels map[string]string) {
		w.eventually("queue "+queue+" has other labels", func() bool {
			q, err := muster.SchedulingV1beta1().Queues().Get(w.Context(), queue, metav1.GetOptions{})
			require.NoError(w, err)
			q.Labels = labels
			_, err = muster.SchedulingV1beta1().Queues().Update(w.Context(), q, metav1.UpdateOptions{})
			return err == nil
		})
	}
	labels := w.queue().Labels
	relabel(w.group, nil)
	w.never("a job fails while no queue has the labels", func() bool { return w.job("second").Status.Phase != pending })
	relabel(other.Name, labels)
	return other.Name
}

// TestJobsMoveWithTheirGroup: when the labels of a group are moved to another queue, the jobs that wait move there. A job that has its
// quota keeps it.
func TestJobsMoveWithTheirGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "4", "4")
	for i, name := range []string{"runs", "first", "second"} {
		w.submit(name, fmt.Sprint("user-", i), 4)
	}
	w.starts("runs")
	w.says("second", primehubv1alpha1.ReasonOverQuota, waitsInLine)
	queue := w.moveGroup()
	w.phase("first", preparing)
	w.phase("second", preparing)
	list, err := muster.SchedulingV1beta1().PodGroups(w.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	in := map[string]int{}
	for i := range list.Items {
		in[list.Items[i].Spec.Queue]++
	}
	assert.Equal(t, map[string]int{w.group: 1, queue: 2}, in)
}

// TestAJobWithoutAPodGroup holds up later jobs of its group, but not for ever. A job of another namespace need not wait until the limit of
// objects in the first one is raised.
func TestAJobWithoutAPodGroup(t *testing.T) {
	w := newWorld(t, "4", "4")
	const limit = corev1.ResourceName("count/podgroups.scheduling.volcano.sh")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{limit: resource.MustParse("0")}}}
	_, err := kube.CoreV1().ResourceQuotas(w.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
	w.eventually("the limit counts", func() bool {
		quota, err := kube.CoreV1().ResourceQuotas(w.namespace).Get(t.Context(), "limit", metav1.GetOptions{})
		require.NoError(t, err)
		_, counts := quota.Status.Hard[limit]
		return counts
	})
	elsewhere := &world{T: t, group: w.group}
	elsewhere.createNamespace()
	elsewhere.createPresets()

	w.submit("first", "bob", 4)
	elsewhere.submit("second", "lin", 4)
	elsewhere.never("the second job starts", func() bool { return elsewhere.job("second").Status.Phase != pending })
	assert.Empty(t, w.groups())
	w.elapse(longerThanMessages)
	elsewhere.phase("second", preparing)

	require.NoError(t, kube.CoreV1().ResourceQuotas(w.namespace).Delete(t.Context(), "limit", metav1.DeleteOptions{}))
	elsewhere.change("second", cancel)
	w.phase("first", preparing)
}
