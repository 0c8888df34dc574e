package job

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/muster-sched/muster/pkg/job/dependency"
	"github.com/muster-sched/muster/pkg/job/policy"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPodsOfTasksThatStartFirstAreCreatedFirst: of a gang with minimum 3 the scheduler would start the first three that exist,
// and the driver is to be one of them wherever it stands in the spec.
func TestPodsOfTasksThatStartFirstAreCreatedFirst(t *testing.T) {
	driver := mustertesting.MakeTask("driver", 1).Obj()
	driver.Template.Spec.PriorityClassName = "high"
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("executor", 2)).Obj()
	job.Spec.Tasks = append(job.Spec.Tasks, *driver)
	all := seatAll(&job.Spec, nil)
	sorted := all.sort(job, recallAll(job, all))
	order := byPriority(&job.Spec, func(class string) int32 { return map[string]int32{"high": 100}[class] })

	var names []string
	for _, m := range sorted.missing("j", dependency.Stage{Open: []bool{true, true}}, order) {
		names = append(names, policy.PodName("j", job.Spec.Tasks[m.task].Name, m.index))
	}
	assert.Equal(t, []string{"j-driver-0", "j-executor-0", "j-executor-1"}, names)
}
