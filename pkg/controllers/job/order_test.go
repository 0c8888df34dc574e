package job

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfTasksThatStartFirstAreCreatedFirst: the scheduler starts the first three existing pods of a gang with minimum 3. The driver
// must be one of them, wherever it stands in the spec.
func TestPodsOfTasksThatStartFirstAreCreatedFirst(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("executor", 2)).Task(mustertesting.MakeTask("driver", 1)).Obj()
	all := newPodSet(job, nil, nil)
	sorted := all.sort(job, readRecords(job, all))
	wanted := sorted.missing("j", dependency.Stage{Open: []bool{true, true}}, []int32{0, 100}, nil)
	assert.Equal(t, []string{"j-driver-0", "j-executor-0", "j-executor-1"}, podNames(job, wanted))
}

func podNames(job *batchv1alpha1.Job, pods []missing) []string {
	var names []string
	for _, m := range pods {
		names = append(names, policy.PodName(job.Name, job.Spec.Tasks[m.task].Name, m.index))
	}
	return names
}

// TestPodsWaitForNamesOfHigherPriorities (issue 40, 14): a Job restarts, and one of its earlier pods takes long to go. The gang would start
// with pods of a lower priority in place of its successor. A pod that is overdue is not waited for.
func TestPodsWaitForNamesOfHigherPriorities(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("low", 1)).Task(mustertesting.MakeTask("mid", 2)).
		Task(mustertesting.MakeTask("top", 1)).Obj()
	job.Status.Version, job.Status.State.Phase = 1, batchv1alpha1.Pending
	earlier := *job
	earlier.Status.Version = 0
	going := newPod(&earlier, &job.Spec.Tasks[1], 0)
	due := time.Unix(1000, 0)
	going.DeletionTimestamp = &metav1.Time{Time: due}
	all := newPodSet(job, []*corev1.Pod{going}, nil)
	sorted := all.sort(job, readRecords(job, all))
	missingAt := func(p batchv1alpha1.JobPhase, now time.Time) []string {
		return podNames(job, sorted.missing("j", dependency.Stage{Open: []bool{true, true, true}}, []int32{1, 2, 3}, sorted.awaited(p, now)))
	}
	assert.Equal(t, []string{"j-top-0", "j-mid-1"}, missingAt(batchv1alpha1.Pending, due.Add(overdueAfter-1)))
	assert.Equal(t, []string{"j-top-0", "j-mid-1", "j-low-0"}, missingAt(batchv1alpha1.Pending, due.Add(overdueAfter)))
	assert.Equal(t, []string{"j-top-0", "j-mid-1", "j-low-0"}, missingAt(batchv1alpha1.Running, due), "the gang has started")
}

// TestNoPodIsCreatedBeforeOneOfAHigherPriority (issue 40, 14): not even at the same time. Otherwise the scheduler may see it first.
func TestNoPodIsCreatedBeforeOneOfAHigherPriority(t *testing.T) {
	c := newBulkJobs(t)
	job := defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("low", 30)).Task(mustertesting.MakeTask("mid", 20)).
		Task(mustertesting.MakeTask("top", 2)).Obj(), "")
	var tasks []string
	c.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		task := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Labels[batchv1alpha1.TaskSpecKey]
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(tasks); n > 0 && tasks[n-1] != task {
			assert.Equal(t, map[string]int{"mid": 2, "low": 22}[task], n, "the pods before %s", task)
		}
		tasks = append(tasks, task)
		return false, nil, nil
	})
	require.NoError(t, c.createsInClasses(job, &localState{}, []int32{1, 2, 3}))
	assert.Len(t, tasks, 52)
}

// createsInClasses has a Job create all its pods, by the priorities of its tasks.
func (c *bulkJobs) createsInClasses(job *batchv1alpha1.Job, local *localState, priorities []int32) error {
	c.t.Helper()
	all := newPodSet(job, nil, nil)
	sorted := all.sort(job, readRecords(job, all))
	open := slices.Repeat([]bool{true}, len(job.Spec.Tasks))
	wanted := newCreation(sorted.missing(job.Name, dependency.Stage{Open: open}, priorities, nil), priorities, &job.Spec)
	local.plugins.set = &plugins.Set{}
	_, err := c.createPods(c.t.Context(), job, &schedulingv1beta1.PodGroup{}, local, wanted)
	local.noteCreation(err, c.time.Now())
	return err
}

// TestRefusedPodsBlockLowerPrioritiesForAWhile (issue 40, 14): a quota or a webhook may refuse the pods of one priority for ever. The others
// are created after a while if the minimum can do without.
func TestRefusedPodsBlockLowerPrioritiesForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		minimum int32
		after   map[string]int
	}{
		"the minimum can do without": {minimum: 5, after: map[string]int{"top": 2, "low": 3}},
		"the minimum needs them":     {minimum: 6, after: map[string]int{"top": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBulkJobs(t)
			job := defaults.Job(mustertesting.MakeJob("j").MinAvailable(c.minimum).Task(mustertesting.MakeTask("low", 3)).
				Task(mustertesting.MakeTask("mid", 2)).Task(mustertesting.MakeTask("top", 2)).Obj(), "")
			created := map[string]int{}
			d.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				if pod.Labels[batchv1alpha1.TaskSpecKey] == "mid" {
					return true, nil, apierrors.NewForbidden(podResource, pod.Name, errors.New("exceeded quota"))
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				created[pod.Labels[batchv1alpha1.TaskSpecKey]]++
				return true, pod, nil
			})
			local := &localState{}
			try := func(after time.Duration) map[string]int {
				clear(created)
				d.time.SetTime(d.time.Now().Add(after))
				require.ErrorContains(t, d.createsInClasses(job, local, []int32{1, 2, 3}), "exceeded quota")
				return maps.Clone(created)
			}
			blocked := map[string]int{"top": 2}
			assert.Equal(t, blocked, try(0))
			assert.Equal(t, blocked, try(order.Patience-1))
			assert.Equal(t, c.after, try(1))
			assert.Equal(t, c.after, try(time.Second))
			local.noteCreation(nil, d.time.Now())
			assert.Equal(t, blocked, try(time.Second), "a later refusal is waited for again")
		})
	}
}

// TestHigherIndexesGoFirst: also indexes of two digits, and in each task that is scaled down.
func TestHigherIndexesGoFirst(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 12)).Task(mustertesting.MakeTask("b", 2)).Obj()
	var pods []*corev1.Pod
	for _, place := range []missing{{0, 2}, {1, 0}, {0, 11}, {0, 1}, {1, 1}, {0, 10}} {
		pods = append(pods, newPod(job, &job.Spec.Tasks[place.task], place.index))
	}
	gone := newPod(job, &batchv1alpha1.TaskSpec{Name: "gone"}, 0)
	var names []string
	for _, pod := range highestFirst(job, append(pods, gone)) {
		names = append(names, pod.Name)
	}
	assert.Equal(t, []string{"j-b-1", "j-b-0", "j-a-11", "j-a-10", "j-a-2", "j-a-1", "j-gone-0"}, names)
}
