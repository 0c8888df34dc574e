package demo

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// TestTheRecordingIsOfThisDemo: `make recording` made the picture in README of these acts, and all claims held.
func TestTheRecordingIsOfThisDemo(t *testing.T) {
	picture, err := os.ReadFile("../../../docs/demo.svg")
	require.NoError(t, err)
	rest := string(picture)
	for i, a := range acts {
		title := fmt.Sprintf(">%d. %s<", i+1, html.EscapeString(a.title))
		before, after, found := strings.Cut(rest, title)
		assert.True(t, found, "no %q: run `make recording`", title)
		assert.NotContains(t, before, "✗")
		rest = after
	}
	assert.Contains(t, rest, "Every claim held.")
}

// TestTheReadmeListsTheActs, and says how many there are.
func TestTheReadmeListsTheActs(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	numbers := map[int]string{9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
	assert.Contains(t, string(readme), fmt.Sprintf("plays %s acts", numbers[len(acts)]))
	for i, a := range acts {
		assert.Contains(t, string(readme), fmt.Sprintf("\n%d. %s.\n", i+1, a.title))
	}
}

// TestEveryExampleIsPlayed: the demo starts each of them on nodes as `muster local up` makes them, so none needs what these lack.
func TestEveryExampleIsPlayed(t *testing.T) {
	assert.Equal(t, map[string]string{gpu: gpusPerNode}, localcluster.DefaultNodeResources())
	assert.Equal(t, []string{nodeCPU, nodeMemory}, []string{localcluster.DefaultNodeCPU, localcluster.DefaultNodeMemory})
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var demo strings.Builder
	for _, source := range sources {
		content, err := os.ReadFile(source)
		require.NoError(t, err)
		demo.Write(content)
	}
	examples, err := filepath.Glob("../../../manifests/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		if name := filepath.Base(example); name != "deployment.yaml" { // TestTheCommandsOfThePages runs it with docs/deployments.md.
			assert.Contains(t, demo.String(), `"`+name+`"`)
		}
	}
}
