package monitoring

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	samplesFile      = "testdata/samples.txt"
	recordedInterval = 15 * time.Second
)

// dashboard has the part of a Grafana file that asks Prometheus.
type dashboard struct {
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

// panel is a part of a dashboard.
type panel struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Type        string `json:"type"`
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

// variables are what Grafana puts into queries. A resource is chosen that all queues have.
var variables = strings.NewReplacer("$__rate_interval", "1m", `"$queue"`, `".*"`, `"$resource"`, `"cpu"`)

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("../../manifests/monitoring/dashboards/*.json")
	require.NoError(t, err)
	boards := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var board dashboard
		require.NoError(t, json.Unmarshal(text, &board), file)
		boards[filepath.Base(file)] = board
	}
	return boards
}

// TestEveryPanelShowsSomething evaluates each query of each dashboard on recorded samples.
func TestEveryPanelShowsSomething(t *testing.T) {
	samples := readStore(t, samplesFile, recordedInterval)
	boards := readDashboards(t)
	assert.ElementsMatch(t, []string{"overview.json", "queues.json", "jobs.json", "health.json"}, slices.Collect(maps.Keys(boards)))
	for file, board := range boards {
		assert.Equal(t, "muster-"+strings.TrimSuffix(file, ".json"), board.UID)
		for _, panel := range board.Panels {
			t.Run(file+"/"+panel.Title, func(t *testing.T) {
				assert.NotEmpty(t, panel.Description)
				require.NotEmpty(t, panel.Targets)
				for _, target := range panel.Targets {
					expression := variables.Replace(target.Expr)
					assert.NotContains(t, expression, "$", "a variable that the test does not know")
					result, err := samples.query(expression, origin, samples.end, recordedInterval)
					require.NoError(t, err)
					assert.True(t, slices.ContainsFunc(result, hasNumber), "no value: %s", expression)
				}
			})
		}
	}
}

func hasNumber(s promqlSeries) bool {
	for _, point := range s.Floats {
		if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
			return true
		}
	}
	return false
}

// TestVariablesHaveValues looks for the label that each variable of a dashboard takes its values from.
func TestVariablesHaveValues(t *testing.T) {
	samples := readStore(t, samplesFile, recordedInterval)
	for file, board := range readDashboards(t) {
		for _, variable := range board.Templating.List {
			if variable.Type != "query" {
				continue
			}
			arguments := strings.TrimSuffix(strings.TrimPrefix(variable.Definition, "label_values("), ")")
			metric, label, ok := strings.Cut(arguments, ", ")
			require.True(t, ok, variable.Definition)
			result, err := samples.query("count by ("+label+") ("+metric+")", origin, samples.end, recordedInterval)
			require.NoError(t, err)
			hasLabel := func(s promqlSeries) bool { return s.Metric.Get(label) != "" }
			assert.True(t, slices.ContainsFunc(result, hasLabel), "%s: %s", file, variable.Name)
		}
	}
}
