package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/build"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfTasksThatStartFirstAreCreatedFirst: the scheduler starts the first three existing pods of a gang with minimum 3. The driver
// must be one of them, wherever it stands in the spec.
func TestPodsOfTasksThatStartFirstAreCreatedFirst(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("executor", 2)).Task(mustertesting.MakeTask("driver", 1)).Obj()
	all := newPodSet(job, nil, nil)
	sorted := all.sort(job, readRecords(job, all))
	wanted := sorted.Missing("j", dependency.Stage{Open: []bool{true, true}}, []int32{0, 100}, nil)
	assert.Equal(t, []string{"j-driver-0", "j-executor-0", "j-executor-1"}, podNames(job, wanted))
}

func podNames(job *batchv1alpha1.Job, pods []Missing) []string {
	var names []string
	for _, m := range pods {
		names = append(names, policy.PodName(job.Name, job.Spec.Tasks[m.Task].Name, m.Index))
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
	going := build.Pod(&earlier, &job.Spec.Tasks[1], 0)
	due := time.Unix(1000, 0)
	going.DeletionTimestamp = &metav1.Time{Time: due}
	all := newPodSet(job, []*corev1.Pod{going}, nil)
	sorted := all.sort(job, readRecords(job, all))
	missingAt := func(p batchv1alpha1.JobPhase, now time.Time) []string {
		return podNames(job, sorted.Missing("j", dependency.Stage{Open: []bool{true, true, true}}, []int32{1, 2, 3}, sorted.Awaited(p, now)))
	}
	assert.Equal(t, []string{"j-top-0", "j-mid-1"}, missingAt(batchv1alpha1.Pending, due.Add(OverdueAfter-1)))
	assert.Equal(t, []string{"j-top-0", "j-mid-1", "j-low-0"}, missingAt(batchv1alpha1.Pending, due.Add(OverdueAfter)))
	assert.Equal(t, []string{"j-top-0", "j-mid-1", "j-low-0"}, missingAt(batchv1alpha1.Running, due), "the gang has started")
}

// TestHigherIndexesGoFirst: also indexes of two digits, and in each task that is scaled down.
func TestHigherIndexesGoFirst(t *testing.T) {
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 12)).Task(mustertesting.MakeTask("b", 2)).Obj()
	var pods []*corev1.Pod
	for _, place := range []Missing{{0, 2}, {1, 0}, {0, 11}, {0, 1}, {1, 1}, {0, 10}} {
		pods = append(pods, build.Pod(job, &job.Spec.Tasks[place.Task], place.Index))
	}
	gone := build.Pod(job, &batchv1alpha1.TaskSpec{Name: "gone"}, 0)
	var names []string
	job.Status.State.Phase = batchv1alpha1.Aborting // no pod is wanted
	all := newPodSet(job, append(pods, gone), nil)
	for _, pod := range all.sort(job, readRecords(job, all)).Victims() {
		names = append(names, pod.Name)
	}
	assert.Equal(t, []string{"j-b-1", "j-b-0", "j-a-11", "j-a-10", "j-a-2", "j-a-1", "j-gone-0"}, names)
}
