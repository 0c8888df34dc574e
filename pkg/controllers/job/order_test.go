package job

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/order"
	"github.com/muster-sched/muster/pkg/job/plan"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

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
	var pods []plan.Missing
	for _, task := range order.ByPriority(priorities) {
		for index := range job.Spec.Tasks[task].Replicas {
			pods = append(pods, plan.Missing{Task: task, Index: index})
		}
	}
	_, err := c.pods.create(c.t.Context(), creation(job, local, pods, priorities))
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
			assert.Equal(t, blocked, try(order.Timeout-1))
			assert.Equal(t, c.after, try(1))
			assert.Equal(t, c.after, try(time.Second))
			local.noteCreation(nil, d.time.Now())
			assert.Equal(t, blocked, try(time.Second), "a later refusal is waited for again")
		})
	}
}
