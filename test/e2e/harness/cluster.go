// Package harness runs a local cluster for a package of end-to-end tests. It gives each test a namespace, its own nodes and the verbs of
// pkg/testing.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/watchlog"
)

// parallel is how many tests of a package run at the same time. They wait more than they compute.
const parallel = "8"

// stopTimeout is how long the cluster may take to go down.
const stopTimeout = time.Minute

// Cluster is the cluster that all tests of a package share, with clients and the record of its watches.
type Cluster struct {
	*localcluster.Cluster
	Kube   kubernetes.Interface
	Muster versioned.Interface
	Log    *watchlog.Log
}

// shared is set by Main before the tests run.
var shared *Cluster

// Shared is the cluster of the package's tests.
func Shared() *Cluster { return shared }

// Main is what TestMain calls: it starts a cluster, runs the tests and stops the cluster. The cluster ends with the
// test process, however that ends. If a test fails, the components' logs are kept and their place is printed.
// When all tests have passed, the checks read the API server's audit log of what Muster's programs did.
func Main(m *testing.M, options localcluster.Options, checks ...func(auditLog string) error) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, "setting the number of parallel tests:", err)
		os.Exit(1)
	}
	code, err := run(m, options, checks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, options localcluster.Options, checks []func(auditLog string) error) (code int, err error) {
	dir, err := os.MkdirTemp("", "muster-e2e-")
	if err != nil {
		return 1, fmt.Errorf("making a folder for the cluster: %w", err)
	}
	options.Dir = filepath.Join(dir, "cluster")
	var auditLog string
	if len(checks) > 0 {
		if auditLog, err = recordRequests(&options, dir); err != nil {
			return 1, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cluster, err := localcluster.Up(ctx, options)
	if err != nil {
		return 1, fmt.Errorf("bringing up the cluster in %s (binaries come from `make build`): %w", options.Dir, err)
	}
	defer func() {
		// A component that crashed fails the tests, even if it was not missed.
		err = errors.Join(err, cluster.Crashed())
		err = errors.Join(err, bringDown(cluster, dir, code != 0 || err != nil))
	}()
	if shared, err = connect(ctx, cluster); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 || !runsAll() {
		return code, nil
	}
	for _, check := range checks {
		err = errors.Join(err, check(auditLog))
	}
	return code, err
}

// runsAll returns false if flags of go test leave tests out.
func runsAll() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// connect makes clients of a cluster and starts to record what its API server says.
func connect(ctx context.Context, cluster *localcluster.Cluster) (*Cluster, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: cluster}
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.Muster, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.Log, err = watchlog.Start(ctx, c.Kube, c.Muster); err != nil {
		return nil, fmt.Errorf("recording the watches: %w", err)
	}
	return c, nil
}

// bringDown stops the cluster and removes its folder, but for the logs if they are wanted.
func bringDown(cluster *localcluster.Cluster, dir string, keepLogs bool) error {
	if keepLogs {
		logs := filepath.Dir(cluster.LogPath(localcluster.MusterScheduler))
		kept := filepath.Join(dir, "logs")
		if err := os.Rename(logs, kept); err != nil {
			return fmt.Errorf("keeping the logs: %w", err)
		}
		fmt.Fprintln(os.Stderr, "the logs of the cluster are in", kept)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := cluster.Down(ctx); err != nil {
		return fmt.Errorf("stopping the cluster: %w", err)
	}
	if keepLogs {
		return nil
	}
	return os.RemoveAll(dir)
}
