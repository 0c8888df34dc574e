package report_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/test/benchmark/report"
)

var runs = report.Runs{
	{Workload: "w", Variant: "base", Round: 0, Pods: 10, PodsPerSecond: 100, CPUSeconds: 1},
	{Workload: "w", Variant: "base", Round: 1, Pods: 10, PodsPerSecond: 10, CPUSeconds: 4},
	{Workload: "w", Variant: "ours", Round: 0, Pods: 20, PodsPerSecond: 50, CPUSeconds: 1},
	{Workload: "w", Variant: "ours", Round: 1, Pods: 10, PodsPerSecond: 20, CPUSeconds: 2},
	{Workload: "w", Variant: "ours", Round: 2, PodsPerSecond: 30},
	{Workload: "v", Variant: "ours", Round: 1, PodsPerSecond: 7},
}

func TestRatiosAreWithinARound(t *testing.T) {
	assert.Equal(t, []float64{0.5, 2}, runs.Ratios("w", "ours", "base", report.Speed), "the third round has no base")
	assert.Equal(t, []float64{0.5, 0.5}, runs.Ratios("w", "ours", "base", report.CPU), "by pod")
	assert.Empty(t, runs.Ratios("v", "ours", "base", report.Speed))
	assert.Equal(t, []float64{50, 20, 30}, runs.Of("w", "ours").Speeds())
}

func TestMedian(t *testing.T) {
	assert.InDelta(t, 2, report.Median([]float64{9, 1, 2}), 0)
	assert.InDelta(t, 2.5, report.Median([]float64{3, 9, 1, 2}), 0)
}

func TestSavedRunsAreFoundAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "runs.json")
	none, err := report.Load(path)
	require.NoError(t, err)
	assert.Empty(t, none)

	require.NoError(t, runs.Save(path))
	loaded, err := report.Load(path)
	require.NoError(t, err)
	assert.Equal(t, runs, loaded)
	found, ok := loaded.Find("v", "ours", 1)
	assert.True(t, ok)
	assert.InDelta(t, 7, found.PodsPerSecond, 0)
	_, ok = loaded.Find("v", "ours", 0)
	assert.False(t, ok)
}
