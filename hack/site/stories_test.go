package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheFirstChangeOfAContributor does the five steps of CONTRIBUTING.md in a copy of the packages. Commands and results are those of the page.
func TestTheFirstChangeOfAContributor(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "../..", "CONTRIBUTING.md"), "## Ten minutes to a first change\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	assert.Contains(t, section, "Five steps")
	assert.Len(t, regexp.MustCompile(`(?m)^\d\. `).FindAllString(section, -1), 5)
	copied := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "pkg", "manifests"} {
		copyTree(t, filepath.Join("..", "..", name), filepath.Join(copied, name))
	}
	lines := strings.Split(section, "\n")
	commands := 0
	for i, line := range lines {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !is || strings.HasPrefix(command, "export ") {
			continue
		}
		commands++
		process := exec.CommandContext(t.Context(), "bash", "-c", command)
		process.Dir = copied
		process.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off")
		out, err := process.CombinedOutput()
		want, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " (")
		if strings.HasPrefix(want, "--- FAIL") {
			require.Error(t, err, command)
		} else {
			require.NoError(t, err, "%s: %s", command, out)
		}
		if want != "```" && !strings.HasPrefix(want, "$ ") && !strings.HasPrefix(command, "grep ") {
			assert.Contains(t, string(out), want, command)
		}
	}
	assert.Equal(t, 6, commands)
}

// TestTheStepsOfAnAdministrator: docs/install.md has the steps that replace the default scheduler, as the file that they are about has them.
// TestInPlaceOfTheDefaultScheduler in test/real/staticpod does them on a real node.
func TestTheStepsOfAnAdministrator(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "../..", "docs/install.md"), "## In place of the default scheduler\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	assert.Contains(t, section, "Do three steps")
	page := regexp.MustCompile(`(?m)^\d\. `).Split(section, -1)[1:]
	comment, _, found := strings.Cut(readFile(t, "../..", "manifests/deploy/replace-default/static-pod/static-pod.yaml"), "# To go back")
	require.True(t, found)
	file := regexp.MustCompile(`(?m)^#   \d\. `).Split(comment, -1)[1:]
	require.Len(t, page, 3)
	require.Len(t, file, 3)
	target := regexp.MustCompile(`/etc/kubernetes/[\w./-]+\.(?:yaml|conf)`)
	for i := range page {
		assert.Equal(t, target.FindAllString(file[i], -1), target.FindAllString(page[i], -1), "step %d", i+1)
	}
}

// copyTree copies a file or a folder, without the links in it.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	}))
}

func TestNotesOfARelease(t *testing.T) {
	changes := filepath.Join(t.TempDir(), "CHANGELOG.md")
	require.NoError(t, os.WriteFile(changes, []byte("# Changes\n\n## Unreleased\n\n- new\n\n## v1.2.0 (2026-12-01)\n\n### Added\n\n- this\n\n## v1.1.0\n\n- old\n"), 0o600))
	notes := func(version string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "../release-notes.sh", version, changes).CombinedOutput()
		return string(out), err
	}
	out, err := notes("v1.2.0")
	require.NoError(t, err, out)
	assert.Equal(t, "# Muster v1.2.0\n\n### Added\n\n- this\n", out)
	for version, says := range map[string]string{"v1.3.0": "has no section", "1.2.0": "write one like v1.2.0"} {
		out, err := notes(version)
		require.Error(t, err)
		assert.Contains(t, out, says)
	}
}
