package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/benchmark/report"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"--parts", "gpus,plan", "--nodes", "100", "--rounds", "1"})
	require.NoError(t, err)
	assert.Equal(t, &options{parts: []string{"gpus", "plan"}, nodes: 100, rounds: 1}, o)
	o, err = parse(nil)
	require.NoError(t, err)
	assert.Len(t, o.parts, len(parts), "all are measured")
	for _, wrong := range [][]string{{"--parts", "gpu"}, {"--rounds", "0"}, {"--nodes", "9"}, {"--unknown"}} {
		_, err := parse(wrong)
		assert.Error(t, err, "%v", wrong)
	}
}

func TestPodsAreCountedByRole(t *testing.T) {
	w := newPodWatch()
	waiting := mustertesting.MakePod("w").Label(roleLabel, waits)
	running := mustertesting.MakePod("r").Label(roleLabel, runs).Node("n")
	w.see(&corev1.Pod{}, running.Obj())
	w.see(&corev1.Pod{}, waiting.Obj())
	assert.Equal(t, 1, w.role(runs).bound, "it has its node from the start")
	assert.Zero(t, w.role(waits).bound)
	w.lose(running.Obj())
	assert.True(t, w.isEmpty())
	bound := waiting.Obj()
	bound.Spec.NodeName = "n"
	w.see(waiting.Obj(), bound)
	w.see(bound, bound)
	w.see(&corev1.Pod{}, mustertesting.MakePod("other").Node("n").Obj())
	assert.Equal(t, 1, w.role(waits).bound, "once, and not what has no role")
	assert.Equal(t, 1, w.role(runs).gone)
	assert.False(t, w.role(waits).lastBound.Before(w.role(runs).lastGone))
	assert.False(t, w.isEmpty())
	w.reset()
	w.lose(waiting.Obj())
	assert.Equal(t, counts{}, w.role(waits), "an unbound pod is no victim")
}

func TestShapesAreJudgedWithinRounds(t *testing.T) {
	own := []outcome{{1, 50}, {4, 50}, {1, 60}}
	upstream := []outcome{{2, 100}, {4, 100}, {8, 60}}
	assert.Equal(t, []report.Figure{
		report.AtMost("s: victims to native", 0.5, 1, "ratio"), report.AtLeast("s: speed to native", 2, speedGoal, "ratio"),
	}, shape{name: "s"}.judge(own, upstream))
	assert.Equal(t, []report.Figure{report.AtMost("s: victims to native", 0.5, fewer, "ratio")},
		shape{name: "s", mixed: true}.judge(own, upstream))
}

func TestResultsOfOtherBenchmarksAreRead(t *testing.T) {
	ratio, err := ratioOf([]byte(`[{"variant":"jobs","round":0,"toldSeconds":4},{"variant":"queues","round":0,"toldSeconds":5},
		{"variant":"queues","round":1,"toldSeconds":5}]`))
	require.NoError(t, err)
	assert.InDelta(t, 0.8, ratio, 1e-9)
	_, err = ratioOf([]byte(`[{"variant":"jobs","round":0,"toldSeconds":4}]`))
	require.Error(t, err)

	rates, err := decisionsIn("Benchmark/all_fit-2  3  80 ns/op  122547 decisions/s\nBenchmark/none-2  3  9 ns/op  1.5e+06 decisions/s\n")
	require.NoError(t, err)
	assert.Equal(t, []float64{122547, 1.5e6}, rates)
	_, err = decisionsIn("PASS")
	assert.Error(t, err)
}
