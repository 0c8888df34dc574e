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
	t.Run("refuses somebody else's folder", func(t *testing.T) {
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
	require.Error(t, err, "nobody else can take it")
	p.release("a")
	listener, err := net.Listen("tcp", p.address("a"))
	require.NoError(t, err)
	listener.Close()
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	assert.Empty(t, tail(path, 3), "a log that is not there")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	assert.Empty(t, tail(path, 3))
	require.NoError(t, os.WriteFile(path, []byte("1\n2\n3\n4\n"), 0o600))
	assert.Equal(t, []string{"3", "4"}, tail(path, 2))
	assert.Equal(t, []string{"1", "2", "3", "4"}, tail(path, 9))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("long line\n", 10000)+"last"), 0o600))
	assert.Equal(t, []string{"long line", "last"}, tail(path, 2))
}
