package phase

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	"github.com/muster-sched/muster/pkg/job/defaults"
	"github.com/muster-sched/muster/pkg/job/dependency"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestStepsAreThoseOfTheTable: a Job takes only the transitions in the picture, and each of them for some counts.
func TestStepsAreThoseOfTheTable(t *testing.T) {
	var gone []Way
	job := func() *mustertesting.JobWrapper {
		return mustertesting.MakeJob("j").MinAvailable(2).MaxRetry(2).Task(mustertesting.MakeTask("a", 3).MinAvailable(1))
	}
	for _, one := range []*mustertesting.JobWrapper{job(), job().MinSuccess(1)} {
		gone = goAllWays(t, defaults.Job(one.Obj(), ""), gone)
	}
	assert.Len(t, gone, len(steps), "ways that no Job goes")
}

// goAllWays adds the ways that a Job of one task "a" goes for some counts.
func goAllWays(t *testing.T, job *batchv1alpha1.Job, gone []Way) []Way {
	t.Helper()
	whole := dependency.StageOf(&job.Spec, make([]dependency.Task, 1), "")
	const few = 4 // each count goes from 0 to 3
	for n := range few * few * few * few * few * few {
		digit := func(position int) int32 { return int32(n / position % few) }
		for _, from := range allPhases {
			status := &batchv1alpha1.JobStatus{
				State:   batchv1alpha1.JobState{Phase: from},
				Pending: digit(1), Running: digit(4), Succeeded: digit(16), Failed: digit(64), Terminating: digit(256), RetryCount: digit(1024),
			}
			status.TaskStatusCount = map[string]batchv1alpha1.TaskState{"a": {Phase: map[corev1.PodPhase]int32{corev1.PodSucceeded: status.Succeeded}}}
			step := Next(&job.Spec, whole, status)
			isStep := func(w Way) bool { return w.From == from && w.To == step.Next }
			if step.Next == from || slices.ContainsFunc(gone, isStep) {
				continue
			}
			require.True(t, slices.ContainsFunc(steps, isStep), "%q -> %q is not in the table", from, step.Next)
			gone = append(gone, Way{From: from, To: step.Next})
		}
	}
	return gone
}

func TestWaysAreThoseOfTheTable(t *testing.T) {
	ways := Ways()
	for _, from := range allPhases {
		for _, action := range Actions() {
			effect, honoured := Act(from, action, 0, 3)
			found := slices.ContainsFunc(ways, func(w Way) bool {
				return w.From == from && slices.Contains(w.Actions, action) && w.To == effect.Next
			})
			assert.Equal(t, honoured, found, "%s in %q", action, from)
			assert.Equal(t, honoured, Honours(from, action), "%s in %q", action, from)
		}
	}
	assert.ElementsMatch(t, allPhases[1:], Phases())
	assert.NotContains(t, Actions(), busv1alpha1.SyncJobAction)
}

// TestThePictureHasAllWays: docs/lifecycle.svg has an arrow for each way from one phase to another, and no other arrow.
func TestThePictureHasAllWays(t *testing.T) {
	picture, err := os.ReadFile("../../../docs/lifecycle.svg")
	require.NoError(t, err)
	var drawn, want []string
	for _, match := range regexp.MustCompile(` data-ways="([^"]*)"`).FindAllSubmatch(picture, -1) {
		drawn = append(drawn, strings.Fields(string(match[1]))...)
	}
	for _, way := range Ways() {
		if name := string(way.From + ">" + way.To); way.From != way.To && !slices.Contains(want, name) {
			want = append(want, name)
		}
	}
	assert.ElementsMatch(t, want, drawn)
	for _, phase := range Phases() {
		assert.Contains(t, string(picture), ">"+string(phase)+"</text>")
	}
}
