package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/phjob"
)

// TestPhJobSettings: PrimeHub's variable switches PhJobs off. An unusable file is an error that says what is wrong.
func TestPhJobSettings(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "primehub.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, c := range map[string]struct {
		variable, path string
		off            bool
		wrong          string
	}{
		"nothing is said":       {},
		"on":                    {variable: "true", path: file("jobSubmission: {workingDirSize: 7Gi}")},
		"off":                   {variable: "false", path: "none", off: true},
		"neither on nor off":    {variable: "maybe", wrong: `PRIMEHUB_FEATURE_JOB_SUBMISSION is "maybe": it must be true or false`},
		"no file":               {path: "none", wrong: "--primehub-config: open none"},
		"a key that is unknown": {path: file("jobSubmission: {workdirSize: 7Gi}"), wrong: `unknown field "workdirSize"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(jobSubmissionVariable, c.variable)
			settings, err := readPhJobSettings(c.path)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.off, settings == nil)
		})
	}
	settings, err := readPhJobSettings(file("jobSubmission: {workingDirSize: 7Gi}"))
	require.NoError(t, err)
	assert.Equal(t, "7Gi", settings.JobSubmission.WorkingDirSize.String())
}

// chartValue is a part of the schema of the Helm chart's values.
type chartValue struct {
	Description string                `json:"description"`
	Properties  map[string]chartValue `json:"properties"`
}

// TestTheChartKnowsEachPhJobSetting: the Helm chart takes each setting, and no other, and its description names the default.
func TestTheChartKnowsEachPhJobSetting(t *testing.T) {
	text, err := os.ReadFile("../../manifests/charts/muster/values.schema.json")
	require.NoError(t, err)
	var schema chartValue
	require.NoError(t, json.Unmarshal(text, &schema))
	text, err = json.Marshal(phjob.DefaultConfig())
	require.NoError(t, err)
	requireSettings(t, schema.Properties["phjobs"].Properties["config"], text)
}

// requireSettings compares a part of the schema with settings in JSON.
func requireSettings(t *testing.T, schema chartValue, text []byte) {
	t.Helper()
	var settings map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &settings))
	require.ElementsMatch(t, slices.Collect(maps.Keys(settings)), slices.Collect(maps.Keys(schema.Properties)))
	for name, value := range settings {
		property, value := schema.Properties[name], strings.Trim(string(value), `"`)
		switch {
		case property.Properties != nil:
			requireSettings(t, property, settings[name])
		case value == "" || value == "null":
			assert.Contains(t, property.Description, ": none", name)
		default:
			assert.Contains(t, property.Description, ": "+value, name)
		}
	}
}
