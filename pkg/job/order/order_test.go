package order_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/order"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestPriorities: a template without a class has that of the Job, and then the cluster's default, as its pods do.
func TestPriorities(t *testing.T) {
	values := map[string]int32{"": 5, "job": 50, "task": 20}
	valueOf := func(class string) int32 { return values[class] }
	job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 1).PriorityClass("task")).
		Task(mustertesting.MakeTask("c", 1))
	assert.Equal(t, []int32{5, 20, 5}, order.Priorities(&job.Obj().Spec, valueOf))
	assert.Equal(t, []int32{50, 20, 50}, order.Priorities(&job.PriorityClass("job").Obj().Spec, valueOf))
	assert.Equal(t, []int{0, 2, 1}, order.ByPriority([]int32{50, 20, 50}), "equal ones stay in the order of the spec")
}

func TestClasses(t *testing.T) {
	priorities := []int32{1, 2, 3, 2}
	for name, c := range map[string]struct{ tasks, ends []int }{
		"none":                      {},
		"one priority":              {[]int{1, 1, 3}, []int{3}},
		"each priority":             {[]int{2, 2, 1, 3, 3, 0}, []int{2, 5, 6}},
		"the highest is there":      {[]int{1, 0, 0}, []int{1, 3}},
		"one pod of the last alone": {[]int{2, 0}, []int{1, 2}},
	} {
		assert.Equal(t, c.ends, order.Classes(c.tasks, priorities), name)
	}
}

func TestCanStartWithout(t *testing.T) {
	for name, c := range map[string]struct {
		minimum, minimumOfTop int32
		lacking               []int
		can                   bool
	}{
		"surplus":                      {minimum: 4, minimumOfTop: 2, lacking: []int{0, 0}, can: true},
		"one more than surplus":        {minimum: 4, minimumOfTop: 2, lacking: []int{0, 0, 1}},
		"the minimum of a task":        {minimum: 4, minimumOfTop: 2, lacking: []int{1}},
		"a task that needs fewer":      {minimum: 4, minimumOfTop: 1, lacking: []int{1}, can: true},
		"a task whose does not bind":   {minimum: 2, minimumOfTop: 2, lacking: []int{1, 1}, can: true},
		"nothing is lacking":           {minimum: 6, minimumOfTop: 2, can: true},
		"all is needed, one is absent": {minimum: 6, minimumOfTop: 1, lacking: []int{0}},
	} {
		job := defaults.Job(mustertesting.MakeJob("j").MinAvailable(c.minimum).Task(mustertesting.MakeTask("low", 4).MinAvailable(2)).
			Task(mustertesting.MakeTask("top", 2).MinAvailable(c.minimumOfTop)).Obj(), "")
		assert.Equal(t, c.can, order.CanStartWithout(&job.Spec, c.lacking), name)
	}
}
