package localcluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClaimDir(t *testing.T) {
	write := func(t *testing.T, dir, name string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
	}

	t.Run("makes a new folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		require.NoError(t, claimDir(dir))
		assert.DirExists(t, dir)
	})
	t.Run("takes an empty folder", func(t *testing.T) {
		require.NoError(t, claimDir(t.TempDir()))
	})
	t.Run("refuses a folder of another program", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "thesis.txt")
		require.ErrorContains(t, claimDir(dir), "is not empty and has no cluster in it")
	})
	t.Run("names the way out of a stopped cluster", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, stateName)
		write(t, dir, lockName)
		err := claimDir(dir)
		require.ErrorContains(t, err, "stopped cluster")
		require.ErrorContains(t, err, "muster local down --dir "+dir)
	})
	t.Run("names the way out of a running cluster", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, stateName)
		lock, err := takeLock(dir)
		require.NoError(t, err)
		defer lock.Close()
		require.ErrorContains(t, claimDir(dir), "a cluster is running in")
	})
}

func TestLockIsExclusive(t *testing.T) {
	dir := t.TempDir()
	held, err := lockHeld(dir)
	require.NoError(t, err)
	assert.False(t, held)

	lock, err := takeLock(dir)
	require.NoError(t, err)
	_, err = takeLock(dir)
	require.ErrorContains(t, err, "another program is using the cluster")
	held, err = lockHeld(dir)
	require.NoError(t, err)
	assert.True(t, held)

	lock.Close()
	held, err = lockHeld(dir)
	require.NoError(t, err)
	assert.False(t, held)
}

func TestRemoveMadeLeavesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{stateName, kubeconfigName, "mine.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, internalName, "etcd"), 0o700))
	require.NoError(t, removeMade(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "mine.txt", entries[0].Name())

	require.NoError(t, os.Remove(filepath.Join(dir, "mine.txt")))
	require.NoError(t, removeMade(dir))
	assert.NoDirExists(t, dir)
	require.NoError(t, removeMade(dir), "removing twice is fine")
}

func TestPortsAreHeldUntilReleased(t *testing.T) {
	p, err := reservePorts("a", "b")
	require.NoError(t, err)
	defer p.releaseAll()
	assert.NotEqual(t, p.port("a"), p.port("b"))

	_, err = net.Listen("tcp", p.address("a"))
	require.Error(t, err, "no other program can take it")
	p.release("a")
	listener, err := net.Listen("tcp", p.address("a"))
	require.NoError(t, err)
	listener.Close()
}

func TestLastWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	assert.Empty(t, lastWords(path, 3), "a log that is not there")
	stacks := strings.Repeat("\ngoroutine 1 [running]:", 9)
	tests := map[string]struct {
		log  string
		want []string
	}{
		"an empty log":                 {log: ""},
		"a short log":                  {log: "1\n2\n", want: []string{"1", "2"}},
		"the last lines":               {log: "1\n2\n3\n4\n5\n", want: []string{"3", "4", "5"}},
		"a panic above its stacks":     {log: "1\n2\npanic: oh\nno" + stacks, want: []string{"panic: oh", "no", "goroutine 1 [running]:"}},
		"a signal above the stacks":    {log: "1\nSIGABRT: abort" + stacks, want: []string{"SIGABRT: abort", "goroutine 1 [running]:", "goroutine 1 [running]:"}},
		"the last of several runs":     {log: "panic: old\nF1120 16:00:00 new\nend", want: []string{"F1120 16:00:00 new", "end"}},
		"what lies at the end of much": {log: strings.Repeat("long line\n", 1<<17) + "last", want: []string{"long line", "long line", "last"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(test.log), 0o600))
			assert.Equal(t, test.want, lastWords(path, 3))
		})
	}
}
