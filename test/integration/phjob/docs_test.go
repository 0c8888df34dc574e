package phjob_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDocsNameTestsThatExist: each sentence of PrimeHub's documentation that the page lists has tests, where the page says.
func TestTheDocsNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../../docs/phjob.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| sentence | test |")
	require.True(t, found)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.Contains(line, "---") {
			continue
		}
		rows++
		// "TestA, TestB in pkg/x": those before "in" that no other folder follows are there, the others here.
		for _, group := range regexp.MustCompile(`((?:Test\w+(?:, )?)+)( in ([\w/-]+))?`).FindAllStringSubmatch(cells[2], -1) {
			for _, name := range strings.Split(strings.Trim(group[1], ", "), ", ") {
				assert.True(t, isTest(t, ".", name) || group[3] != "" && isTest(t, "../../../"+group[3], name), "%s of %q", name, cells[1])
			}
		}
	}
	assert.Greater(t, rows, 30)
}

// isTest tells whether a folder has a test of that name.
func isTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(folder + "/*_test.go")
	require.NoError(t, err)
	return exec.Command("grep", append([]string{"-q", "func " + name + "(t "}, files...)...).Run() == nil
}
