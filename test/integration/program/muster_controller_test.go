// Package program_test runs the programs themselves, as processes, against a real API server. It tests how they start, what they serve, how
// they stop, and how one replica takes over from another.
package program_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/pkg/testing/clients"
	"github.com/muster-sched/muster/test/integration/harness"
)

// soon bounds what should take a second or two. It only matters when something is broken, or the machine is very busy.
const soon = time.Minute

// TestMain starts these, and all tests share them.
var (
	binaries   string // the folder of the programs
	kubeconfig string
	config     *rest.Config
	kube       kubernetes.Interface
	muster     versioned.Interface
)

func TestMain(m *testing.M) {
	harness.Main(m, localcluster.Options{ControlPlaneOnly: true}, func(_ context.Context, env *harness.Env) (func() error, error) {
		kubeconfig, config, kube, muster = env.Cluster.Kubeconfig(), env.Config, env.Kube, env.Muster
		var err error
		binaries, err = localcluster.DefaultBinDir()
		return nil, err
	})
}

// process is a running program.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	url   string
	file  string // its log
	ended chan struct{}
}

// start runs muster-controller on a free port. It ends with the test at the latest.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startProgram(t, "muster-controller", args...)
}

// startProgram runs a program on a free port. It ends with the test at the latest.
func startProgram(t *testing.T, name string, args ...string) *process {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())

	p := &process{t: t, name: name, url: fmt.Sprint("https://127.0.0.1:", port), ended: make(chan struct{})}
	args = append([]string{"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port)}, args...)
	p.cmd = exec.Command(filepath.Join(binaries, name), args...)
	p.file = filepath.Join(t.TempDir(), "log")
	log, err := os.Create(p.file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log())
		}
	})
	return p
}

// stop sends SIGTERM, waits for the end and returns the exit code.
func (p *process) stop() int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(soon):
		p.t.Fatal(p.name + " does not stop")
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process without a chance to write anything.
func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	<-p.ended
}

// log returns what the process has logged.
func (p *process) log() string {
	p.t.Helper()
	text, err := os.ReadFile(p.file)
	require.NoError(p.t, err)
	return string(text)
}

// errors returns the error lines of the log. It leaves out client-go's lines about requests under way that the stop ended: a busy machine may
// have one.
func (p *process) errors() []string {
	p.t.Helper()
	var lines []string
	for line := range strings.Lines(p.log()) {
		ended := strings.Contains(line, " request.go:") && strings.Contains(line, `err="context canceled"`)
		if strings.HasPrefix(line, "E") && !ended {
			lines = append(lines, line)
		}
	}
	return lines
}

// get asks for a path, with a token unless it is empty.
func (p *process) get(path, token string) (code int, body string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(p.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is made by the program at its start; its subject does not matter here.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

func (p *process) awaitReady() {
	p.t.Helper()
	eventually(p.t, p.name+" is ready", func() bool { code, _ := p.get("/readyz", ""); return code == http.StatusOK })
}

func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, soon, true, func(context.Context) (bool, error) { return met(), nil })
	require.NoError(t, err, "not seen: %s", what)
}

// awaitWork creates a queue and waits until it is opened: then a controller leads, and works.
func awaitWork(t *testing.T) {
	t.Helper()
	queues := muster.SchedulingV1beta1().Queues()
	queue, err := queues.Create(t.Context(), &schedulingv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the queue is opened", func() bool {
		queue, err := queues.Get(t.Context(), queue.Name, metav1.GetOptions{})
		return err == nil && queue.Status.State == schedulingv1beta1.QueueStateOpen
	})
}

func holder(t *testing.T) string {
	t.Helper()
	return holderOf(t, localcluster.MusterController)
}

func TestAReplicaTakesOverAtOnceAfterAnOrderlyStop(t *testing.T) {
	first := start(t)
	first.awaitReady()
	awaitWork(t)
	leader := holder(t)
	second := start(t)
	second.awaitReady() // standing by is no reason not to be ready
	assert.Equal(t, leader, holder(t))

	changes, err := kube.CoordinationV1().Leases("muster-system").Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: localcluster.MusterController}))
	require.NoError(t, err)
	defer changes.Stop()
	assert.Equal(t, 0, first.stop())
	assert.Contains(t, first.log(), "Stopped")
	assert.Empty(t, first.errors(), "nothing goes wrong in an orderly stop")
	eventually(t, "the second leads", func() bool { now := holder(t); return now != "" && now != leader })
	var holders []string
	for next := leader; next == leader || next == ""; {
		lease, ok := (<-changes.ResultChan()).Object.(*coordinationv1.Lease)
		require.True(t, ok)
		next = ptr.Deref(lease.Spec.HolderIdentity, "")
		holders = append(holders, next)
	}
	assert.Contains(t, holders, "", "the lease was given back: no replica waits for its 15 s to pass")
	awaitWork(t)
	assert.Equal(t, 0, second.stop())
}

func TestAHealthyStartLogsNoError(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		works func(t *testing.T)
	}{
		"muster-controller": {nil, awaitWork},
		// It reads who may look at it from the cluster.
		"muster-scheduler": {[]string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}, awaitAttempt},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProgram(t, name, c.args...)
			p.awaitReady()
			c.works(t)
			assert.Empty(t, p.errors())
			assert.Equal(t, 0, p.stop())
		})
	}
}

// awaitAttempt creates a pod and waits until a scheduler has found no node for it: there are none.
func awaitAttempt(t *testing.T) {
	t.Helper()
	pods := kube.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}}
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the pod is tried", func() bool {
		pod, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable
	})
}

func TestAStandbyStopsToo(t *testing.T) {
	leader := start(t)
	leader.awaitReady()
	awaitWork(t)
	standby := start(t)
	standby.awaitReady()
	assert.Equal(t, 0, standby.stop())
	assert.Equal(t, 0, leader.stop())
}

func TestHealthIsOpenAndMetricsAreNot(t *testing.T) {
	p := start(t, "--leader-elect=false")
	p.awaitReady()
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		code, body := p.get(path, "")
		assert.Equal(t, http.StatusOK, code, "%s: %s", path, body)
	}
	code, _ := p.get("/metrics", "")
	assert.Equal(t, http.StatusForbidden, code, "an unknown user")
	code, _ = p.get("/metrics", "nonsense")
	assert.Equal(t, http.StatusUnauthorized, code, "a token that is none")
	token := createReader(t)
	eventually(t, "metrics for who may read them", func() bool { code, _ := p.get("/metrics", token); return code == http.StatusOK })
	_, body := p.get("/metrics", token)
	for _, metric := range []string{`workqueue_adds_total{name="queue"}`, "muster_job_start_duration_seconds_count", "rest_client_requests_total", "process_cpu_seconds_total"} {
		assert.Contains(t, body, metric)
	}
	assert.Equal(t, 0, p.stop())
}

// createReader makes a service account that may read metrics, and returns a token of it.
func createReader(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	const namespace, name = metav1.NamespaceDefault, "metrics-reader"
	_, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	request, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return request.Status.Token
}

// TestTasksDependAsTheFlagSays: where dependsOn does not say what a task waits for.
func TestTasksDependAsTheFlagSays(t *testing.T) {
	const namespace = metav1.NamespaceDefault
	ctx, pods := t.Context(), kube.CoreV1().Pods(namespace)
	p := start(t, "--leader-elect=false", "--depends-on-condition=Ready")
	p.awaitReady()
	awaitWork(t)
	eventually(t, "the service account of the namespace", func() bool {
		_, err := kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	exists := func(name string) func() bool {
		return func() bool { _, err := pods.Get(ctx, name, metav1.GetOptions{}); return err == nil }
	}
	addNode(t, "room")
	job := mustertesting.MakeJob("depends").Task(mustertesting.MakeTask("serve", 1)).Task(mustertesting.MakeTask("ask", 1).DependsOn("serve")).Obj()
	_, err := muster.BatchV1alpha1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the task that the other depends on", exists("depends-serve-0"))
	assert.False(t, exists("depends-ask-0")(), "it is not ready yet")
	require.NoError(t, clients.Change(ctx, "depends-serve-0", pods.Get, pods.UpdateStatus, func(serve *corev1.Pod) {
		serve.Status.Phase = corev1.PodRunning
		serve.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}))
	eventually(t, "the task that depends on it", exists("depends-ask-0"))
	assert.Equal(t, 0, p.stop())
}

func TestWhatIsWrongIsSaidAtTheStart(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":         {[]string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		"invalid value":        {[]string{"--concurrent-job-syncs=0"}, "--concurrent-job-syncs: 0 must be at least 1"},
		"argument":             {[]string{"jobs"}, `unknown command "jobs"`},
		"no such kubeconfig":   {[]string{"--kubeconfig=/no/such/file"}, "/no/such/file: no such file or directory"},
		"no such log format":   {[]string{"--logging-format=xml"}, "Unsupported log format"},
		"neither file nor pod": {nil, "KUBERNETES_MASTER"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "muster-controller"), test.args...).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, 1, exit.ExitCode())
			assert.Contains(t, string(output), test.want)
		})
	}
}

func TestVersion(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "muster-controller"), "--version").CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(output), "muster-controller version v")
}
