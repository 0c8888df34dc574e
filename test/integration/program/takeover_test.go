package program_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-sched/muster/manifests"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// replica is one of two processes of a program. It reaches the API server through a proxy of the test, which sees all that it writes.
type replica struct {
	*process
	mu     sync.Mutex
	writes []string // method and path of each write but those of Leases
}

// startReplica starts a program with leader election. Its lease is as long as by default: a shorter one is lost on a busy machine.
func startReplica(t *testing.T, program string, args ...string) *replica {
	t.Helper()
	r := &replica{}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: r.proxy(t)}}, Contexts: map[string]*api.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, kubeconfig))
	if program == localcluster.MusterScheduler {
		args = append(args, "--config="+schedulerConfig(t, kubeconfig))
	}
	r.process = startProgram(t, program, append(args, "--kubeconfig="+kubeconfig)...)
	r.awaitReady()
	return r
}

// proxy passes everything on to the API server, and returns its address.
func (r *replica) proxy(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, err = rest.TransportFor(config)
	require.NoError(t, err)
	proxy.FlushInterval = -1 // watches
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/leases") {
			r.mu.Lock()
			r.writes = append(r.writes, request.Method+" "+request.URL.Path)
			r.mu.Unlock()
		}
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // watches never end by themselves
		server.Close()
	})
	return server.URL
}

// schedulerConfig is the shipped configuration of the scheduler, for a kubeconfig.
func schedulerConfig(t *testing.T, kubeconfig string) string {
	t.Helper()
	shipped, err := manifests.FS.ReadFile("scheduler/second-scheduler.yaml")
	require.NoError(t, err)
	text := strings.Replace(string(shipped), "clientConnection:\n", "clientConnection:\n  kubeconfig: "+kubeconfig+"\n", 1)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (r *replica) written() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.writes...)
}

// holderOf is who holds a lease.
func holderOf(t *testing.T, name string) string {
	t.Helper()
	lease, err := kube.CoordinationV1().Leases("muster-system").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// takeOver stops the leader of a program until the standby leads, and lets it go on. It returns what the old leader has written since.
func takeOver(t *testing.T, program string, first, second, third func()) (since []string) {
	t.Helper()
	old := startReplica(t, program)
	eventually(t, "a first leader", func() bool { return holderOf(t, program) != "" })
	leader := holderOf(t, program)
	startReplica(t, program)
	first()
	require.NotEmpty(t, old.written(), "the first leader works")

	require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
	eventually(t, "the standby leads", func() bool { now := holderOf(t, program); return now != "" && now != leader })
	before := len(old.written())
	require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
	second()
	eventually(t, "the old leader has ended", func() bool {
		select {
		case <-old.ended:
			return true
		default:
			return false
		}
	})
	assert.Equal(t, 1, old.cmd.ProcessState.ExitCode(), "so that it is started anew")
	third()
	return old.written()[before:]
}

// TestASchedulerThatWasStoppedWritesNothingWhenItGoesOn: pods fill the nodes while two schedulers think that they lead.
func TestASchedulerThatWasStoppedWritesNothingWhenItGoesOn(t *testing.T) {
	const cpus = 8
	nodes := []string{"taken-over-0", "taken-over-1", "taken-over-2", "taken-over-3"}
	room := len(nodes) * cpus
	t.Cleanup(func() { // other tests want no nodes
		ctx, now := context.Background(), int64(0)
		for _, name := range nodes {
			_ = kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		}
		_ = kube.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	})
	log, err := watchlog.Start(t.Context(), kube, muster)
	require.NoError(t, err)
	start(t, "--leader-elect=false") // it makes the PodGroups of the pods
	awaitWork(t)
	for _, name := range nodes {
		node := mustertesting.MakeNode(name).Allocatable("cpu", fmt.Sprint(cpus), "memory", "64Gi", "pods", "200").Obj()
		_, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	bound := func(node string) int {
		return len(log.Pods(func(p watchlog.Pod) bool {
			return strings.HasPrefix(p.Name, "filler-") && p.Gone.IsZero() && p.Node != "" && (node == "" || p.Node == node)
		}))
	}
	create := func(round string, pods int) {
		for i := range pods {
			pod := mustertesting.MakePod(fmt.Sprintf("filler-%s-%d", round, i)).SchedulerName("muster").Requests("cpu", "1").Obj()
			_, err := kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	checkRoom := func() {
		eventually(t, "the nodes are full", func() bool { return bound("") >= room })
		for _, node := range nodes {
			assert.LessOrEqual(t, bound(node), cpus, "pods of one cpu on %s", node)
		}
	}
	since := takeOver(t, localcluster.MusterScheduler,
		func() {
			create("first", room/2)
			eventually(t, "the first pods are bound", func() bool { return bound("") == room/2 })
		},
		func() { create("second", room); checkRoom() },
		func() {
			for i := range room / 2 {
				now := int64(0) // there is no kubelet
				err := kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), fmt.Sprint("filler-first-", i), metav1.DeleteOptions{GracePeriodSeconds: &now})
				require.NoError(t, err)
			}
			eventually(t, "the first pods are gone", func() bool {
				return len(log.Pods(func(p watchlog.Pod) bool { return p.Gone.IsZero() && strings.HasPrefix(p.Name, "filler-first-") })) == 0
			})
			checkRoom()
		})
	assert.Empty(t, since, "written by the old leader")
}

func TestAControllerThatWasStoppedWritesNothingWhenItGoesOn(t *testing.T) {
	work := func(name string) func() {
		return func() {
			awaitWork(t)
			job := mustertesting.MakeJob(name).Task(mustertesting.MakeTask("t", 2)).Obj()
			_, err := muster.BatchV1alpha1().Jobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{})
			require.NoError(t, err)
			eventually(t, "a PodGroup for "+name, func() bool {
				groups, err := muster.SchedulingV1beta1().PodGroups(job.Namespace).List(t.Context(), metav1.ListOptions{})
				return err == nil && slices.ContainsFunc(groups.Items, func(g schedulingv1beta1.PodGroup) bool { return strings.HasPrefix(g.Name, name) })
			})
		}
	}
	since := takeOver(t, localcluster.MusterController, work("taken-over-first"), work("taken-over-second"), work("taken-over-third"))
	assert.Empty(t, since, "written by the old leader")
}
