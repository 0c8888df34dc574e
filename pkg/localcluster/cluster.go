package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Cluster is a local cluster. It is one that this process runs ([Up]), or a handle on one that a
// supervisor process runs ([UpDetached], [Load]).
type Cluster struct {
	dir        string
	options    Options
	components []Component // only with supervisor
	supervisor *supervisor // nil for a handle
	lifeline   *os.File    // closed by Detach or the end of this process; nil if there is none

	mu     sync.Mutex
	killed map[int]bool // PIDs that Kill has sent a signal
}

// Load returns a handle on the running cluster in a folder.
func Load(dir string) (*Cluster, error) {
	cluster, err := open(dir)
	if err != nil {
		return nil, err
	}
	alive, err := lockHeld(cluster.dir)
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, fmt.Errorf("the cluster in %s is stopped: remove it with `muster local down --dir %s` and start a new one", cluster.dir, cluster.dir)
	}
	return cluster, nil
}

// open reads what a folder says about its cluster, running or not.
func open(dir string) (*Cluster, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding folder %q: %w", dir, err)
	}
	state, err := readState(absolute)
	if err != nil {
		return nil, err
	}
	options := state.Options
	options.Dir = absolute
	return &Cluster{dir: absolute, options: options}, nil
}

// Dir is the cluster's folder, as an absolute path.
func (c *Cluster) Dir() string { return c.dir }

// Options are the options that the cluster was started with, completed.
func (c *Cluster) Options() Options { return c.options }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, kubeconfigName) }

// Kubectl is the path of the kubectl that fits the cluster.
func (c *Cluster) Kubectl() string { return binaries{dir: c.options.BinDir}.Kubectl() }

// LogPath is where a component's output goes.
func (c *Cluster) LogPath(component string) string { return logPath(c.dir, component) }

// ScrapeConfig is the path of a configuration with which Prometheus reads the metrics of all components that serve them. It asks as the
// administrator.
func (c *Cluster) ScrapeConfig() string { return filepath.Join(c.dir, scrapeConfigName) }

// RESTConfig is the administrator's client configuration, without client-side limits.
func (c *Cluster) RESTConfig() (*rest.Config, error) { return restConfig(c.Kubeconfig()) }

func (c *Cluster) client() (kubernetes.Interface, error) { return clientOf(c.Kubeconfig()) }

// AwaitUsable waits for what the first pods and Jobs need. These are the service account of their
// namespace, the admission policies, and the queue default. For some seconds after it is ready, a new API server refuses Jobs: it has
// not read their schema.
func (c *Cluster) AwaitUsable(ctx context.Context) error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	serviceAccounts := client.Resource(corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
	if err := awaitObject(ctx, serviceAccounts.Namespace(metav1.NamespaceDefault), "default"); err != nil {
		return fmt.Errorf("waiting for the service account of the default namespace: %w", err)
	}
	kube, err := c.client()
	if err != nil {
		return err
	}
	if err := awaitDefaults(ctx, kube.Discovery(), client); err != nil {
		return err
	}
	if !c.options.has(MusterController) {
		return nil
	}
	queues := client.Resource(schedulingv1beta1.SchemeGroupVersion.WithResource("queues"))
	if err := awaitObject(ctx, queues, "default"); err != nil {
		return fmt.Errorf("waiting for the queue default: %w", err)
	}
	return nil
}

// awaitObject waits until an object exists.
func awaitObject(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, ignoreOverload(err)
	})
}

// Kill sends a signal to a component, behind the supervisor's back, as a crash does.
func (c *Cluster) Kill(component string, signal syscall.Signal) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(state.Processes, func(p Process) bool { return p.Name == component })
	if i < 0 || state.Processes[i].Ended != nil {
		return fmt.Errorf("killing %s: it is not running", component)
	}
	pid := state.Processes[i].PID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed == nil {
		c.killed = map[int]bool{}
	}
	c.killed[pid] = true
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("killing %s: %w", component, err)
	}
	return nil
}

// Crashed returns an error with the last output of components that have ended by themselves. Components that Kill has sent a signal do not
// count. Tests ask before they take a cluster down.
func (c *Cluster) Crashed() error {
	state, err := c.state()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, process := range state.Processes {
		if process.Crashed() && !c.killed[process.PID] {
			path := c.LogPath(process.Name)
			errs = append(errs, fmt.Errorf("%s ended by itself: %s; from %s:\n  %s",
				process.Name, process.Outcome, path, strings.Join(lastWords(path, lastWordsLines), "\n  ")))
		}
	}
	return errors.Join(errs...)
}

// AwaitEnd waits until a component has ended.
func (c *Cluster) AwaitEnd(ctx context.Context, component string) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		state, err := c.state()
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(state.Processes, func(p Process) bool { return p.Name == component })
		return i >= 0 && state.Processes[i].Ended != nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of %s: %w", component, err)
	}
	return nil
}

// Start runs a component again that has ended, with the same flags, and waits until it is ready.
// Only the process that runs the cluster can do so.
func (c *Cluster) Start(ctx context.Context, component string) error {
	if c.supervisor == nil {
		return errors.New("starting a component: only the process that runs the cluster can")
	}
	i := slices.IndexFunc(c.components, func(known Component) bool { return known.Name == component })
	if i < 0 {
		return fmt.Errorf("starting %s: it is not part of the cluster", component)
	}
	child, err := c.supervisor.start(c.components[i])
	if err != nil {
		return err
	}
	if err := child.awaitReady(ctx); err != nil {
		path := c.LogPath(component)
		return &componentError{name: component, err: err, logFile: path, lastWords: lastWords(path, lastWordsLines)}
	}
	return nil
}

func (c *Cluster) state() (State, error) {
	if c.supervisor != nil {
		return c.supervisor.snapshot(), nil
	}
	return readState(c.dir)
}

// Down stops all components and removes everything that the cluster made. It may be called for
// a cluster that has stopped or crashed.
func (c *Cluster) Down(ctx context.Context) error {
	if err := c.stop(ctx); err != nil {
		return err
	}
	return removeMade(c.dir)
}

func (c *Cluster) stop(ctx context.Context) error {
	if c.supervisor != nil {
		return c.supervisor.stopAll()
	}
	alive, err := lockHeld(c.dir)
	if err != nil || !alive {
		return err
	}
	state, err := readState(c.dir)
	if err != nil {
		return err
	}
	if !state.Detached {
		return fmt.Errorf("the cluster in %s belongs to process %d (a test, perhaps) and ends with it: stop that instead", c.dir, state.Supervisor)
	}
	return stopSupervisor(ctx, c.dir, state.Supervisor)
}

// supervisorGrace is how long a supervisor may take to stop its components. After it, it is
// killed, and the kernel kills its components.
const supervisorGrace = 30 * time.Second

func stopSupervisor(ctx context.Context, dir string, pid int) error {
	gone := func(context.Context) (bool, error) {
		alive, err := lockHeld(dir)
		return !alive, err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping the cluster's supervisor, process %d: %w", pid, err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, supervisorGrace, true, gone)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing the cluster's supervisor, process %d: %w", pid, err)
	}
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, stopTimeout, true, gone); err != nil {
		return fmt.Errorf("waiting for the end of the cluster's supervisor, process %d: %w", pid, err)
	}
	return nil
}

// Remove stops and removes the cluster in a folder, whatever state it is in.
func Remove(ctx context.Context, dir string) error {
	cluster, err := open(dir)
	if err != nil {
		return err
	}
	return cluster.Down(ctx)
}
