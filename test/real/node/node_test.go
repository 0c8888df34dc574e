//go:build real

// Package node tests the real node of a local cluster: it runs containers, and leaves nothing behind however it ends. `make test-real`
// runs it; it needs root and the packages of docs/real-node.md.
package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/localcluster/realnode"
	"github.com/muster-sched/muster/test/real/workloads"
)

const timeout = 3 * time.Minute

// TestARealNode runs a pod to its exit code, reads its log, and takes the cluster down. Then everything is as before.
func TestARealNode(t *testing.T) {
	before := takeSnapshot(t)
	cluster := up(t, localcluster.Options{Nodes: 1, ControlPlaneOnly: true})
	client := clientOf(t, cluster)

	pod := run(t, client, "seven", "echo written in a container; cat /proc/sys/kernel/hostname; exit 7")
	ended := awaitEnd(t, client, pod.Name)
	require.Len(t, ended.Status.ContainerStatuses, 1)
	require.NotNil(t, ended.Status.ContainerStatuses[0].State.Terminated, "status: %v", ended.Status)
	assert.EqualValues(t, 7, ended.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	assert.Equal(t, "written in a container\nseven\n", logOf(t, client, pod.Name))

	// A Service that exists already, and the API server through its address.
	resolver := run(t, client, "resolver", "nslookup kubernetes.default.svc.cluster.local && nc -w 5 10.0.0.1 443 </dev/null")
	assert.Equal(t, corev1.PodSucceeded, awaitEnd(t, client, resolver.Name).Status.Phase, "log: %s", logOf(t, client, resolver.Name))

	node, err := client.CoreV1().Nodes().Get(t.Context(), localcluster.NodeNamePrefix+"0", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, node.Spec.Taints, 1, "no pod lands on a simulated node by mistake")
	assert.Equal(t, localcluster.SimulatedNodeTaint, node.Spec.Taints[0].Key)

	down(t, cluster)
	assert.Equal(t, before, takeSnapshot(t))
}

// TestAKilledNode kills the node while a container runs: the kernel ends all of it, and Down removes the rest.
func TestAKilledNode(t *testing.T) {
	before := takeSnapshot(t)
	cluster := up(t, localcluster.Options{ControlPlaneOnly: true})
	client := clientOf(t, cluster)
	pod := run(t, client, "endless", "sleep 1000000")
	require.Eventually(t, func() bool {
		now, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.PodRunning
	}, timeout, 100*time.Millisecond, "the pod runs")

	require.NoError(t, cluster.Kill(localcluster.RealNode, syscall.SIGKILL))
	require.NoError(t, cluster.AwaitEnd(t.Context(), localcluster.RealNode))
	down(t, cluster)
	assert.Equal(t, before, takeSnapshot(t))
}

// up starts a cluster with a real node that has the image busybox.
func up(t *testing.T, options localcluster.Options) *localcluster.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-real-")
	require.NoError(t, err)
	options.Dir, options.RealNode, options.Timeout = filepath.Join(dir, "cluster"), true, timeout
	options.Progress = func(message string) { t.Log(message) }
	cluster, err := localcluster.Up(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cluster's folder is kept: %s", dir)
			return
		}
		assert.NoError(t, os.RemoveAll(dir))
	})

	require.NoError(t, workloads.ImportBusybox(t.Context(), cluster))
	return cluster
}

func down(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	require.NoError(t, cluster.Down(ctx))
	assert.NoDirExists(t, cluster.Dir())
}

func clientOf(t *testing.T, cluster *localcluster.Cluster) kubernetes.Interface {
	t.Helper()
	config, err := cluster.RESTConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// run creates a pod on the real node that runs a line of busybox's shell.
func run(t *testing.T, client kubernetes.Interface, name, line string) *corev1.Pod {
	t.Helper()
	for _, applet := range []string{"sleep", "cat", "nslookup", "nc"} {
		line = "alias " + applet + "='/busybox " + applet + "'\n" + line
	}
	pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:      realnode.NodeName,
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: workloads.Busybox, ImagePullPolicy: corev1.PullNever, Command: []string{"/busybox", "sh", "-c", line},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

func awaitEnd(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	require.Eventually(t, func() bool {
		var err error
		pod, err = client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	}, timeout, 100*time.Millisecond, "pod %s ends", name)
	return pod
}

func logOf(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	stream, err := client.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(name, &corev1.PodLogOptions{}).Stream(t.Context())
	require.NoError(t, err)
	defer stream.Close()
	text, err := io.ReadAll(stream)
	require.NoError(t, err)
	return string(text)
}

// snapshot is what a node could leave on the machine.
type snapshot struct {
	Mounts, Interfaces, Namespaces, Cgroups, Programs, Sysctls []string
}

func takeSnapshot(t *testing.T) snapshot {
	t.Helper()
	var s snapshot
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	s.Mounts = strings.Split(string(mounts), "\n")
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		s.Interfaces = append(s.Interfaces, i.Name)
	}
	for _, pattern := range []string{"/run/netns/*", "/var/run/docker/netns/*"} {
		s.Namespaces = append(s.Namespaces, glob(t, pattern)...)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/muster-*", "/sys/fs/cgroup/*/muster-*", "/sys/fs/cgroup/*/kubepods", "/sys/fs/cgroup/*/k8s.io"} {
		s.Cgroups = append(s.Cgroups, glob(t, pattern)...)
	}
	for _, link := range glob(t, "/proc/[0-9]*/exe") {
		program, err := os.Readlink(link)
		name := filepath.Base(program)
		if err == nil && (strings.HasPrefix(name, "containerd") || name == "kubelet" || name == "coredns" || name == "pause") {
			s.Programs = append(s.Programs, fmt.Sprintf("%s %s", link, program))
		}
	}
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		require.NoError(t, err)
		s.Sysctls = append(s.Sysctls, name+" = "+strings.TrimSpace(string(value)))
	}
	return s
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return found
}
