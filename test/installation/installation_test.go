package installation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSteps reads the first block of a section, and nothing of what follows.
func TestSteps(t *testing.T) {
	for section, want := range map[string][][]string{
		"Beside the default scheduler":      {{"apply", "-k", "my/deploy"}},
		"In place of the default scheduler": {{"apply", "-k", "my/deploy/replace-default"}},
		"Upgrade":                           {{"apply", "-k", "my/deploy"}},
		"Remove": {
			{"delete", "vcjob,podgroups", "--all", "-A"},
			{"delete", "-k", "my/deploy", "--ignore-not-found"},
		},
	} {
		steps, err := Steps("../..", section, "my/deploy")
		require.NoError(t, err)
		assert.Equal(t, want, steps, section)
	}
	for _, section := range []string{"Memory", "No such section"} {
		_, err := Steps("../..", section, "my/deploy")
		assert.ErrorContains(t, err, section)
	}
}
