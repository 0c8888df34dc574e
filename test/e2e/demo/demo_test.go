// Package demo runs `muster demo` as a newcomer does. Build the programs with `make build` first.
package demo

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/localcluster"
)

// timeout is how long the demo may take on a machine that does other work beside it. Alone it takes a minute.
const timeout = 5 * time.Minute

func TestTheDemoHoldsAndLeavesNothingBehind(t *testing.T) {
	binaries, err := localcluster.DefaultBinDir()
	require.NoError(t, err)
	program := filepath.Join(binaries, "muster")
	require.FileExists(t, program, "run `make build` first")
	temporary := t.TempDir()

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	demo := exec.CommandContext(ctx, program, "demo")
	demo.Env = append(os.Environ(), "TMPDIR="+temporary)
	demo.Cancel = func() error { return demo.Process.Signal(os.Interrupt) }
	demo.WaitDelay = time.Minute
	var told bytes.Buffer
	demo.Stdout, demo.Stderr = &told, &told
	require.NoError(t, demo.Run(), "the demo ended with:\n%s", lastLines(told.String(), 80))
	assert.Contains(t, told.String(), "Every claim held.")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left, "the demo cleans up after itself")
}

// lastLines is the end of a text. The demo says at its end what went wrong.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
