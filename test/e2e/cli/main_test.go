// Package cli runs the commands of `muster` against a local cluster, as a user does. Build the programs with `make build` first.
package cli

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{Nodes: 1, History: true})
}

// limit is how long one command may take.
const limit = time.Minute

// answer is what a command printed, and its exit code.
type answer struct {
	out, err string
	code     int
}

// called runs the program under a name, in the test's namespace.
func called(s *harness.Story, name string, args ...string) answer {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, program(s.T, name), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "HOME="+s.T.TempDir())
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	if err := command.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(s.T, err, &exit)
	}
	require.NoError(s.T, ctx.Err(), "%s %s takes more than %s", name, strings.Join(args, " "), limit)
	return answer{out.String(), errors.String(), command.ProcessState.ExitCode()}
}

// program is the path of the program under a name.
func program(t testing.TB, name string) string {
	t.Helper()
	binaries, err := localcluster.DefaultBinDir()
	require.NoError(t, err)
	path := filepath.Join(binaries, "muster")
	require.FileExists(t, path, "run `make build` first")
	if name == "muster" {
		return path
	}
	link := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Symlink(path, link))
	return link
}

// muster runs a command in the test's namespace that has to succeed, and returns what it printed.
func muster(s *harness.Story, args ...string) string {
	s.T.Helper()
	got := called(s, "muster", append(args, "-n", s.Namespace)...)
	require.Zero(s.T, got.code, "muster %s says %s%s", strings.Join(args, " "), got.out, got.err)
	return got.out
}

// table splits what a command printed into lines, and these into columns, which two spaces or more divide.
func table(out string) [][]string {
	var rows [][]string
	for line := range strings.Lines(out) {
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

// watch is a running command that prints what changes.
type watch struct {
	s     *harness.Story
	lines chan string
}

// watched starts a command of `muster` that goes on to print. It ends with the test.
func watched(s *harness.Story, args ...string) *watch {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	command := exec.CommandContext(ctx, program(s.T, "muster"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "HOME="+s.T.TempDir())
	out, err := command.StdoutPipe()
	require.NoError(s.T, err)
	require.NoError(s.T, command.Start())
	w := &watch{s: s, lines: make(chan string)}
	go func() {
		defer close(w.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case w.lines <- scanner.Text():
			case <-ctx.Done():
			}
		}
	}()
	s.T.Cleanup(func() {
		cancel()
		for range w.lines { // to the end of what it printed
		}
		_ = command.Wait() // it was killed
	})
	return w
}

// until reads lines up to one whose first columns are these.
func (w *watch) until(columns ...string) {
	w.s.T.Helper()
	deadline := time.After(limit)
	for {
		select {
		case line, ok := <-w.lines:
			require.True(w.s.T, ok, "the command ended before it printed %v", columns)
			if cells := strings.Fields(line); len(cells) >= len(columns) && slices.Equal(cells[:len(columns)], columns) {
				return
			}
		case <-deadline:
			require.FailNow(w.s.T, "not printed in time", "%v", columns)
		}
	}
}
