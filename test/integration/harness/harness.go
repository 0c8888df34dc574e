// Package harness starts what the integration tests of a package share: a control plane, and parts of Muster on it.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
)

// longest is how long the start of a cluster may take. -timeout of go test bounds the tests.
const longest = 10 * time.Minute

// parallel is how many tests of a package run at the same time. A package or a flag may set another number. They wait more than they
// compute.
const parallel = "8"

// Env is a cluster and clients for it.
type Env struct {
	// Cluster that runs.
	Cluster *localcluster.Cluster
	// Config of an administrator's clients.
	Config *rest.Config
	// Kube and Muster are such clients.
	Kube   kubernetes.Interface
	Muster versioned.Interface
}

// SetUp prepares an Env for the tests. The function that it returns is called after them, while the cluster is still there; its error fails
// them. It may be nil.
type SetUp func(ctx context.Context, env *Env) (tearDown func() error, err error)

// Main starts a cluster, runs the tests of a package in it and ends the process. Options need no folder.
func Main(m *testing.M, options localcluster.Options, setUp SetUp) {
	err := setParallel()
	code := 1
	if err == nil {
		code, err = run(m, options, setUp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// setParallel sets the number of parallel tests if nothing else has.
func setParallel() error {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if isSet {
		return nil
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fmt.Errorf("setting the number of parallel tests: %w", err)
	}
	return nil
}

func run(m *testing.M, options localcluster.Options, setUp SetUp) (code int, err error) {
	dir, err := os.MkdirTemp("", "muster-test-")
	if err != nil {
		return 0, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	starting, started := context.WithTimeout(ctx, longest)
	defer started()
	options.Dir = filepath.Join(dir, "cluster")
	env := &Env{}
	if env.Cluster, err = localcluster.Up(starting, options); err != nil {
		return 0, fmt.Errorf("starting a cluster: %w", err)
	}
	defer func() { _ = env.Cluster.Down(context.Background()) }()
	if env.Config, err = env.Cluster.RESTConfig(); err != nil {
		return 0, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	env.Config.QPS, env.Config.Burst = 500, 1000
	env.Kube, env.Muster = kubernetes.NewForConfigOrDie(env.Config), versioned.NewForConfigOrDie(env.Config)
	tearDown, err := setUp(ctx, env)
	if err != nil {
		return 0, fmt.Errorf("setting up: %w", err)
	}
	code = m.Run()
	if tearDown != nil {
		err = tearDown()
	}
	return code, err
}

// SchedulerAlone are the options of a cluster with bare Node objects and muster-scheduler. Its configuration is the one for benchmarks,
// where PodGroups need no admission, with more arguments of Coscheduling. Each is a line of YAML. It panics if that configuration is not
// what it was.
func SchedulerAlone(arguments ...string) localcluster.Options {
	const admission = "admission: Ignore"
	data, err := manifests.FS.ReadFile("scheduler/benchmark.yaml")
	if err != nil {
		panic(err)
	}
	lines := strings.Join(append([]string{admission}, arguments...), "\n      ")
	config := strings.Replace(string(data), admission, lines, 1)
	if !strings.Contains(config, lines) {
		panic("manifests/scheduler/benchmark.yaml does not set " + admission)
	}
	return localcluster.Options{SchedulerConfig: config, Without: []string{localcluster.KWOK, localcluster.MusterController}}
}

// Namespace makes a namespace named after the test, waits until pods can be created in it, and returns its name.
func Namespace(ctx context.Context, t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name()))
	name = name[:min(len(name), 50)]
	_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	require.NoError(t, err, "the default service account exists")
	return name
}

// RemovePods removes pods at once. A client that loses its connection sends a request twice, and may find a pod gone then.
func RemovePods(ctx context.Context, t require.TestingT, kube kubernetes.Interface, namespace string, names ...string) {
	for _, name := range names {
		err := kube.CoreV1().Pods(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	}
}
