package plugins_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/plugins"
	"github.com/muster-sched/muster/pkg/job/validation"
	mt "github.com/muster-sched/muster/pkg/testing"
)

// allocated returns how many bytes f allocates, given back or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// atBound is a Job of 100 tasks with the most pods that a Job may have, all of them multiplied.
func atBound(times int32) *mt.JobWrapper {
	job := mt.MakeJob("job").Plugin("env").Plugin("svc").Plugin("ssh").
		Plugin("tensorflow", "--worker=task-1").Plugin("mpi", "--master=task-0", "--worker=task-1").Plugin("pytorch", "--master=task-0")
	for i := range 100 {
		job.Task(mt.MakeTask(fmt.Sprintf("task-%d", i), times*batchv1alpha1.MaxReplicas/100))
	}
	return job
}

// Checking a Job, whether it may run or not, costs nothing for each of its pods. One user's Job must not take the memory of all other
// users' Jobs.
func TestJudgingALargeJobTakesLittleMemory(t *testing.T) {
	const bound = 2 << 20
	for name, c := range map[string]struct {
		times  int32
		refuse string
	}{
		"as large as may be":     {1, "of host names"},
		"a hundred times larger": {100, "of host names"},
		"as many as can be said": {1_000_000, "of host names"},
	} {
		t.Run(name, func(t *testing.T) {
			job := defaults.Job(atBound(1).Obj(), "")
			for i := range job.Spec.Tasks {
				job.Spec.Tasks[i].Replicas = int32(min(int64(c.times)*batchv1alpha1.MaxReplicas/100, 1<<31-1))
				job.Spec.Tasks[i].MinAvailable = &job.Spec.Tasks[i].Replicas
			}
			bytes := allocated(func() {
				set, errs := plugins.For(job)
				assert.Nil(t, set)
				assert.Contains(t, errs.ToAggregate().Error(), c.refuse)
				assert.Equal(t, c.times > 1, strings.Contains(fmt.Sprint(validation.Job(job)), "150000 pods in all tasks together"))
			})
			assert.Less(t, bytes, uint64(bound))
		})
	}
}

// A Job that fits costs the memory of its lists when its objects are made, and nothing before or after.
func TestListsAreBuiltWhenTheyAreNeeded(t *testing.T) {
	job := largeJob("train", 9999).Plugin("ssh").Plugin("mpi").Plugin("tensorflow").Obj()
	set, errs := plugins.For(job)
	require.Empty(t, errs)
	assert.Less(t, allocated(func() { _, _ = plugins.For(job) }), uint64(128<<10))
	assert.Less(t, allocated(func() { _ = mutated(job, set, 1, 9998) }), uint64(128<<10))
	assert.Less(t, allocated(func() { _, _ = set.Objects(keptKeys) }), uint64(8<<20))
}
