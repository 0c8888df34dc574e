package dependency

import (
	"testing"

	"github.com/stretchr/testify/assert"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

func TestStageOf(t *testing.T) {
	// a (1 pod) <- b (3 pods) <- c (2 pods, of a and b)
	pipeline := func(edit func(*batchv1alpha1.JobSpec)) *batchv1alpha1.JobSpec {
		job := mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).
			Task(mustertesting.MakeTask("b", 3).DependsOn("a")).Task(mustertesting.MakeTask("c", 2).DependsOn("a", "b")).Obj()
		edit(&job.Spec)
		return &defaults.Job(job, "").Spec
	}
	as := func(condition batchv1alpha1.DependencyCondition, iteration batchv1alpha1.Iteration) func(*batchv1alpha1.JobSpec) {
		return func(spec *batchv1alpha1.JobSpec) {
			for i := range spec.Tasks[1:] {
				spec.Tasks[i+1].DependsOn.Condition, spec.Tasks[i+1].DependsOn.Iteration = condition, iteration
			}
		}
	}
	unchanged := func(*batchv1alpha1.JobSpec) {}
	for name, c := range map[string]struct {
		edit     func(*batchv1alpha1.JobSpec)
		tasks    []Task
		fallback batchv1alpha1.DependencyCondition
		open     []bool
		minimum  int32
	}{
		"at first":                      {edit: unchanged, tasks: []Task{{}, {}, {}}, open: []bool{true, false, false}, minimum: 1},
		"the first runs":                {edit: unchanged, tasks: []Task{{Ready: 1, Started: true}, {}, {}}, open: []bool{true, false, false}, minimum: 1},
		"the first has succeeded":       {edit: unchanged, tasks: []Task{{Succeeded: 1, Started: true}, {}, {}}, open: []bool{true, true, false}, minimum: 4},
		"the first has failed":          {edit: unchanged, tasks: []Task{{Failed: 1, Started: true}, {}, {}}, open: []bool{true, false, false}, minimum: 1},
		"two of three have succeeded":   {edit: unchanged, tasks: []Task{{Succeeded: 1}, {Succeeded: 2, Started: true}, {}}, open: []bool{true, true, false}, minimum: 4},
		"all before have succeeded":     {edit: unchanged, tasks: []Task{{Succeeded: 1}, {Succeeded: 3}, {}}, open: []bool{true, true, true}, minimum: 6},
		"ready is enough if so named":   {edit: as(batchv1alpha1.DependencyReady, ""), tasks: []Task{{Ready: 1}, {}, {}}, open: []bool{true, true, false}, minimum: 4},
		"ready is enough by default":    {edit: unchanged, fallback: batchv1alpha1.DependencyReady, tasks: []Task{{Ready: 1}, {}, {}}, open: []bool{true, true, false}, minimum: 4},
		"fewer than the minimum ready":  {edit: as(batchv1alpha1.DependencyReady, ""), tasks: []Task{{Succeeded: 1}, {Ready: 2, Started: true}, {}}, open: []bool{true, true, false}, minimum: 4},
		"ready, the rest succeeded":     {edit: as(batchv1alpha1.DependencyReady, ""), tasks: []Task{{Succeeded: 1}, {Ready: 2, Succeeded: 1, Started: true}, {}}, open: []bool{true, true, true}, minimum: 6},
		"ready, the rest failed":        {edit: as(batchv1alpha1.DependencyReady, ""), tasks: []Task{{Succeeded: 1}, {Ready: 2, Failed: 1, Started: true}, {}}, open: []bool{true, true, false}, minimum: 4},
		"completed in spite of default": {edit: as(batchv1alpha1.DependencyCompleted, ""), fallback: batchv1alpha1.DependencyReady, tasks: []Task{{Ready: 1}, {}, {}}, open: []bool{true, false, false}, minimum: 1},
		"any of them":                   {edit: as("", batchv1alpha1.IterationAny), tasks: []Task{{Succeeded: 1}, {}, {}}, open: []bool{true, true, true}, minimum: 6},
		"a minimum is enough once all have finished": {edit: func(s *batchv1alpha1.JobSpec) { two := int32(2); s.Tasks[1].MinAvailable = &two },
			tasks: []Task{{Succeeded: 1}, {Succeeded: 2, Failed: 1}, {}}, open: []bool{true, true, true}, minimum: 5},
		"what has started stays":         {edit: as(batchv1alpha1.DependencyReady, ""), tasks: []Task{{}, {Started: true}, {}}, open: []bool{true, true, false}, minimum: 4},
		"a minimum below the first task": {edit: func(s *batchv1alpha1.JobSpec) { s.MinAvailable = 1 }, tasks: []Task{{Succeeded: 1}, {}, {}}, open: []bool{true, true, false}, minimum: 1},
		"a task without pods is done":    {edit: func(s *batchv1alpha1.JobSpec) { s.Tasks[0].Replicas = 0 }, tasks: []Task{{}, {}, {}}, open: []bool{true, true, false}, minimum: 3},
	} {
		t.Run(name, func(t *testing.T) {
			spec := pipeline(c.edit)
			stage := StageOf(spec, c.tasks, c.fallback)
			assert.Equal(t, c.open, stage.Open)
			assert.Equal(t, c.minimum, stage.MinAvailable)
			part := stage.Gang(spec)
			assert.Equal(t, stage.Replicas, defaults.Replicas(part))
			assert.Equal(t, stage.MinAvailable, part.MinAvailable)
			assert.Equal(t, int32(2), spec.Tasks[2].Replicas, "the argument is left alone")
		})
	}
}

func TestAGangHasNoPodsThatAreLost(t *testing.T) {
	two := func(minAvailable, ofA, ofB int32) *batchv1alpha1.JobSpec {
		return &defaults.Job(mustertesting.MakeJob("j").MinAvailable(minAvailable).Task(mustertesting.MakeTask("a", 4).MinAvailable(ofA)).
			Task(mustertesting.MakeTask("b", 4).MinAvailable(ofB)).Obj(), "").Spec
	}
	for name, c := range map[string]struct {
		spec    *batchv1alpha1.JobSpec
		lost    [2]int32
		minimum int32
		tasks   [2]int32
	}{
		"none":                              {two(8, 4, 4), [2]int32{}, 8, [2]int32{4, 4}},
		"of a minimum of all":               {two(8, 4, 4), [2]int32{1, 2}, 5, [2]int32{3, 2}},
		"fewer than may be spared":          {two(4, 2, 2), [2]int32{2, 1}, 4, [2]int32{2, 2}},
		"more than may be spared":           {two(4, 2, 2), [2]int32{3, 2}, 3, [2]int32{1, 2}},
		"all":                               {two(8, 4, 4), [2]int32{4, 4}, 0, [2]int32{0, 0}},
		"where minimums of tasks bind none": {two(3, 4, 1), [2]int32{3, 0}, 3, [2]int32{4, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			part := StageOf(c.spec, []Task{{Lost: c.lost[0]}, {Lost: c.lost[1]}}, "").Gang(c.spec)
			assert.Equal(t, c.minimum, part.MinAvailable)
			for i := range part.Tasks {
				assert.Equal(t, c.tasks[i], *part.Tasks[i].MinAvailable, part.Tasks[i].Name)
				assert.Equal(t, 4-c.lost[i], part.Tasks[i].Replicas, "what asks for resources")
			}
			assert.EqualValues(t, 4, c.spec.Tasks[0].Replicas, "the argument is left alone")
		})
	}
}

// TestWhichTaskWaitsForWhich: the first task that waits is named with one that it waits for, the rest is counted.
func TestWhichTaskWaitsForWhich(t *testing.T) {
	job := defaults.Job(mustertesting.MakeJob("j").Task(mustertesting.MakeTask("a", 1)).Task(mustertesting.MakeTask("b", 1).DependsOn("a")).
		Task(mustertesting.MakeTask("c", 1).DependsOn("a", "b")).Task(mustertesting.MakeTask("d", 1).DependsOnAny("a", "c")).Obj(), "")
	for want, progress := range map[string][]Task{
		"task b waits for task a; tasks that wait beside it: 2": {{}, {}, {}, {}},
		"task c waits for task b":                               {{Succeeded: 1}, {Started: true}, {}, {}},
		"":                                                      {{Succeeded: 1}, {Succeeded: 1}, {}, {}},
	} {
		assert.Equal(t, want, StageOf(&job.Spec, progress, "").Waiting(&job.Spec))
	}
	assert.Equal(t, "task d waits for task a and 1 more", StageOf(&job.Spec, []Task{{}, {Started: true}, {Started: true}, {}}, "").Waiting(&job.Spec))
}
