package job

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfTasksThatStartFirstAreCreatedFirst: the scheduler starts the first three existing pods of a gang with minimum 3. The driver
// must be one of them, wherever it stands in the spec.
func TestPodsOfTasksThatStartFirstAreCreatedFirst(t *testing.T) {
	driver := mustertesting.MakeTask("driver", 1).Obj()
	driver.Template.Spec.PriorityClassName = "high"
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("executor", 2)).Obj()
	job.Spec.Tasks = append(job.Spec.Tasks, *driver)
	all := newPodSet(job, nil, nil)
	sorted := all.sort(job, readRecords(job, all))
	order := byPriority(&job.Spec, func(class string) int32 { return map[string]int32{"high": 100}[class] })

	var names []string
	for _, m := range sorted.missing("j", dependency.Stage{Open: []bool{true, true}}, order) {
		names = append(names, policy.PodName("j", job.Spec.Tasks[m.task].Name, m.index))
	}
	assert.Equal(t, []string{"j-driver-0", "j-executor-0", "j-executor-1"}, names)
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
