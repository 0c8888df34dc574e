// Package localcluster_test starts real clusters and looks at them from outside.
package localcluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// timeout is how long the tests wait for what should take a moment.
const timeout = mustertesting.Timeout

// The parts that this test binary plays when it is started with one of these words.
const (
	superviseRole = "supervise"   // a supervisor process
	holdRole      = "hold"        // a process that runs a cluster in a folder until it is killed
	starterRole   = "start-apart" // a process that starts a supervisor and does not let it go
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if err := play(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(role string, args []string) error {
	ctx := context.Background()
	var err error
	switch role {
	case superviseRole:
		return localcluster.Supervise(ctx)
	case holdRole:
		_, err = localcluster.Up(ctx, controlPlane(args[0]))
	case starterRole:
		_, err = localcluster.UpDetached(ctx, controlPlane(args[0]), os.Args[0], superviseRole)
	default:
		err = fmt.Errorf("no such role: %s", role)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	select {} // until it is killed
}

func controlPlane(dir string) localcluster.Options {
	return localcluster.Options{Dir: dir, ControlPlaneOnly: true}
}

// up starts a cluster that ends with the test.
func up(t *testing.T, options localcluster.Options) *localcluster.Cluster {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "cluster")
	}
	options.Progress = func(message string) { t.Log(message) }
	cluster, err := localcluster.Up(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { down(t, cluster) })
	return cluster
}

func down(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	require.NoError(t, cluster.Down(ctx))
}

func clientOf(t *testing.T, cluster *localcluster.Cluster) kubernetes.Interface {
	t.Helper()
	config, err := cluster.RESTConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// processes are the PIDs of all of a cluster's components, which are running.
func processes(t *testing.T, dir string) []int {
	t.Helper()
	status, err := localcluster.StatusOf(t.Context(), dir)
	require.NoError(t, err)
	require.NotEmpty(t, status.Components)
	var pids []int
	for _, component := range status.Components {
		require.True(t, isAlive(component.PID), component.Name)
		pids = append(pids, component.PID)
	}
	return pids
}

func isAlive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(data), ") Z ")
}

func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	eventually(t, "all processes end", func() bool {
		for _, pid := range pids {
			if isAlive(pid) {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	require.NoError(t, err, what)
}

// startRole runs this binary in a role and waits until its cluster is ready.
func startRole(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], role, dir)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line := make([]byte, 16)
	n, err := output.Read(line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line[:n]))
	return command
}

func TestTwoClustersSideBySide(t *testing.T) {
	var clusters [2]*localcluster.Cluster
	dirs := [2]string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	t.Run("start", func(t *testing.T) {
		for i, dir := range dirs {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				t.Parallel()
				var err error
				clusters[i], err = localcluster.Up(t.Context(), controlPlane(dir))
				require.NoError(t, err)
			})
		}
	})
	if t.Failed() {
		return
	}
	for i, cluster := range clusters {
		t.Cleanup(func() { down(t, cluster) })
		assert.Len(t, processes(t, dirs[i]), 3)
		nodes, err := cluster.AddNodes(t.Context(), i+1)
		require.NoError(t, err)
		assert.Len(t, nodes, i+1)
	}
	for i, cluster := range clusters {
		list, err := clientOf(t, cluster).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, i+1, "each has its own nodes")
	}

	_, err := localcluster.Up(t.Context(), controlPlane(dirs[0]))
	require.ErrorContains(t, err, "a cluster is running in")
	require.ErrorContains(t, localcluster.Remove(t.Context(), dirs[0]), "belongs to process", "only its process may stop it")
}

func TestCrashIsReportedAndMended(t *testing.T) {
	cluster := up(t, controlPlane(""))
	require.NoError(t, cluster.Kill(localcluster.KubeControllerManager, syscall.SIGKILL))
	require.NoError(t, cluster.AwaitEnd(t.Context(), localcluster.KubeControllerManager))
	require.NoError(t, cluster.Crashed(), "what the test killed is no crash")

	status, err := localcluster.StatusOf(t.Context(), cluster.Dir())
	require.NoError(t, err)
	require.Len(t, status.Problems(), 1)
	assert.Contains(t, status.Problems()[0], "kube-controller-manager")
	assert.Contains(t, status.Problems()[0], "ended by itself")
	assert.Contains(t, status.Problems()[0], "signal: killed")
	crashed := status.Components[len(status.Components)-1]
	assert.NotEmpty(t, crashed.LastWords)

	require.NoError(t, cluster.Start(t.Context(), localcluster.KubeControllerManager))
	status, err = cluster.Status(t.Context())
	require.NoError(t, err)
	assert.Empty(t, status.Problems())

	pids := processes(t, cluster.Dir())
	require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGABRT))
	require.NoError(t, cluster.AwaitEnd(t.Context(), localcluster.KubeControllerManager))
	require.ErrorContains(t, cluster.Crashed(), "kube-controller-manager ended by itself")
	require.ErrorContains(t, cluster.Crashed(), "SIGABRT", "its last words are in the error")
	down(t, cluster)
	awaitGone(t, pids)
	assert.NoDirExists(t, cluster.Dir())
}

func TestFailedStartLeavesLogsButNoProcess(t *testing.T) {
	options := controlPlane(filepath.Join(t.TempDir(), "cluster"))
	options.ExtraArgs = map[string][]string{localcluster.KubeAPIServer: {"--no-such-flag"}}
	_, err := localcluster.Up(t.Context(), options)
	require.ErrorContains(t, err, "starting kube-apiserver: it ended")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag", "the end of the log is in the error")

	status, err := localcluster.StatusOf(t.Context(), options.Dir)
	require.NoError(t, err)
	assert.False(t, status.Running)
	for _, component := range status.Components {
		assert.False(t, isAlive(component.PID), component.Name)
	}
	_, err = localcluster.Up(t.Context(), options)
	require.ErrorContains(t, err, "stopped cluster")
	require.NoError(t, localcluster.Remove(t.Context(), options.Dir))
	assert.NoDirExists(t, options.Dir)
}

func TestDetachedClusterOutlivesItsHandle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	starting, err := localcluster.UpDetached(t.Context(), controlPlane(dir), os.Args[0], superviseRole)
	require.NoError(t, err)
	require.NoError(t, starting.Detach())
	t.Cleanup(func() { _ = localcluster.Remove(context.Background(), dir) })

	cluster, err := localcluster.Load(dir)
	require.NoError(t, err)
	added, err := cluster.AddNodes(t.Context(), 2)
	require.NoError(t, err)
	assert.Equal(t, []string{"node-0", "node-1"}, added)
	status, err := cluster.Status(t.Context())
	require.NoError(t, err)
	assert.Empty(t, status.Problems())
	assert.Equal(t, 2, status.ReadyNodes)

	pids := processes(t, dir)
	down(t, cluster)
	awaitGone(t, append(pids, status.Supervisor))
	assert.NoDirExists(t, dir)
	_, err = localcluster.Load(dir)
	require.ErrorContains(t, err, "no cluster in")
}

// TestNothingOutlivesAKill kills, as nothing can prevent, each kind of process that a cluster
// depends on.
func TestNothingOutlivesAKill(t *testing.T) {
	t.Run("of the process that runs it", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "cluster")
		holder := startRole(t, holdRole, dir)
		pids := processes(t, dir)
		require.NoError(t, holder.Process.Kill())
		awaitGone(t, pids)
		// A process of several threads looks dead a moment before the last one has closed its files, and the lock.
		stopped := []string{"the cluster in " + dir + " is stopped"}
		eventually(t, "its status tells that it is stopped", func() bool {
			status, err := localcluster.StatusOf(t.Context(), dir)
			return err == nil && slices.Equal(stopped, status.Problems())
		})
		require.NoError(t, localcluster.Remove(t.Context(), dir))
	})
	t.Run("of the process that started its supervisor", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "cluster")
		starter := startRole(t, starterRole, dir)
		pids := processes(t, dir)
		require.NoError(t, starter.Process.Kill())
		awaitGone(t, pids)
		eventually(t, "the supervisor clears up", func() bool {
			_, err := os.Stat(dir)
			return os.IsNotExist(err)
		})
	})
	t.Run("of its supervisor", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "cluster")
		startRole(t, starterRole, dir)
		pids := processes(t, dir)
		status, err := localcluster.StatusOf(t.Context(), dir)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(status.Supervisor, syscall.SIGKILL))
		awaitGone(t, pids)
		require.NoError(t, localcluster.Remove(t.Context(), dir))
		assert.NoDirExists(t, dir)
	})
}
