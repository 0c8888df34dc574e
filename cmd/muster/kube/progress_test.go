package kube

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgressIsALineForEachChangeWhereThereIsNoTerminal, as in a log.
func TestProgressIsALineForEachChangeWhereThereIsNoTerminal(t *testing.T) {
	out := &bytes.Buffer{}
	progress := NewProgress(out)
	for _, line := range []string{"one", "one", "two"} {
		progress.Say(line)
	}
	progress.End()
	assert.Equal(t, "one\ntwo\n", out.String())
}

func TestProgressIsOneLineOnATerminal(t *testing.T) {
	out := &bytes.Buffer{}
	progress := NewProgress(out)
	progress.terminal = true
	progress.Say("one")
	progress.Say("two")
	progress.End()
	assert.Equal(t, "\r\x1b[Kone\r\x1b[Ktwo\n", out.String())
}

func TestACommandIsSplitAsAShellDoes(t *testing.T) {
	words, err := Words(`sh -c "echo 'a b'" c\ d`)
	require.NoError(t, err)
	assert.Equal(t, []string{"sh", "-c", "echo 'a b'", "c d"}, words)
	_, err = Words(`echo "a`)
	require.ErrorContains(t, err, "close the quotes")
}
