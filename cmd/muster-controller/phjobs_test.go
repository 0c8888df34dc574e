package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
