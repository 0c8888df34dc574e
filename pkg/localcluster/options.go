package localcluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-sched/muster/pkg/localcluster/realnode"
)

const (
	// DefaultNodeCPU is the CPU of a simulated node, in cores.
	DefaultNodeCPU = "8"
	// DefaultNodeMemory is the memory of a simulated node.
	DefaultNodeMemory = "32Gi"
	// DefaultNodePods is how many pods a simulated node takes, as the kubelet has it.
	DefaultNodePods = "110"
	// DefaultTimeout is how long [Up] waits for all parts to be ready.
	DefaultTimeout = 90 * time.Second
	// MaxNodes limits the simulated nodes of one cluster.
	MaxNodes = 10000
)

// DefaultNodeResources are the further resources of the nodes that users start: enough for manifests/examples.
func DefaultNodeResources() map[string]string { return map[string]string{"nvidia.com/gpu": "2"} }

// Options say what a cluster consists of. The zero value of every field but Dir is usable.
type Options struct {
	// Dir is the cluster's folder. It is made if it does not exist, and must be empty if it does.
	Dir string `json:"dir"`

	// Nodes is how many simulated nodes the cluster starts with.
	Nodes int `json:"nodes"`
	// NodeCPU and NodeMemory are the size of each node (defaults: 8 and 32Gi).
	NodeCPU    string `json:"nodeCPU,omitempty"`
	NodeMemory string `json:"nodeMemory,omitempty"`
	// NodeResources are further resources of each node, such as nvidia.com/gpu, by name; "pods"
	// and "ephemeral-storage" may be set here too.
	NodeResources map[string]string `json:"nodeResources,omitempty"`

	// RealNode adds a node with a real kubelet and containerd, which needs root and some packages ([realnode.Check]). Then the simulated
	// nodes have the taint [SimulatedNodeTaint], so that only pods that tolerate it are simulated.
	RealNode bool `json:"realNode,omitempty"`

	// KubernetesVersion is the release of the control plane: [KubernetesVersion] or one of [OlderVersions]. Empty means what
	// [VersionVariable] says, else [KubernetesVersion]. A cluster of an older release keeps its own scheduler: Muster's runs beside it.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// History has muster-controller keep a history of Jobs, and the API server serve it.
	History bool `json:"history,omitempty"`

	// ControlPlaneOnly leaves out everything but etcd, kube-apiserver and kube-controller-manager.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// Without names components to leave out. Examples are [KWOK] where nodes can stay static, and [MusterController] where a test takes its
	// part.
	Without []string `json:"without,omitempty"`
	// Scheduler is [MusterScheduler] (the default) or [KubeScheduler], the stock one.
	Scheduler string `json:"scheduler,omitempty"`
	// SchedulerConfig is the KubeSchedulerConfiguration to use, as YAML. Empty means
	// manifests/scheduler/replace-default.yaml for Muster's scheduler (second-scheduler.yaml beside
	// the stock one) and the built-in defaults for the stock one. Its clientConnection.kubeconfig is filled in.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
	// ExtraArgs are further command line flags, by component name. They come last, so they win.
	ExtraArgs map[string][]string `json:"extraArgs,omitempty"`

	// BinDir has muster-scheduler, muster-controller and the folder controlplane. Empty means
	// what [DefaultBinDir] finds.
	BinDir string `json:"binDir,omitempty"`
	// Timeout bounds the start (default [DefaultTimeout]; building missing binaries is not counted).
	Timeout time.Duration `json:"timeout,omitempty"`
	// Progress is told, in a few words, what is being done. It may be nil.
	Progress func(message string) `json:"-"`
}

// complete fills in defaults and makes paths absolute.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("no folder given for the cluster")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("finding folder %q: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.BinDir == "" {
		if o.BinDir, err = DefaultBinDir(); err != nil {
			return o, err
		}
	}
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
		return o, fmt.Errorf("finding the folder of binaries: %w", err)
	}
	if o.KubernetesVersion == "" {
		o.KubernetesVersion = cmp.Or(os.Getenv(VersionVariable), KubernetesVersion)
	}
	if o.NodeCPU == "" {
		o.NodeCPU = DefaultNodeCPU
	}
	if o.NodeMemory == "" {
		o.NodeMemory = DefaultNodeMemory
	}
	if o.Scheduler == "" {
		o.Scheduler = MusterScheduler
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// validate reports everything that is wrong with the options, in the words of the flags.
func (o Options) validate() error {
	var errs []error
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		errs = append(errs, fmt.Errorf("nodes: %d is not between 0 and %d", o.Nodes, MaxNodes))
	}
	if o.Scheduler != MusterScheduler && o.Scheduler != KubeScheduler {
		errs = append(errs, fmt.Errorf("scheduler: %q is neither %s nor %s", o.Scheduler, MusterScheduler, KubeScheduler))
	}
	if versions := append([]string{KubernetesVersion}, OlderVersions...); !slices.Contains(versions, o.KubernetesVersion) {
		errs = append(errs, fmt.Errorf("%s: %q is none of %s", VersionVariable, o.KubernetesVersion, strings.Join(versions, ", ")))
	}
	if o.RealNode && o.isOlder() {
		errs = append(errs, fmt.Errorf("real-node: its kubelet %s is newer than the API server %s: leave one of both out", KubernetesVersion, o.KubernetesVersion))
	}
	for _, name := range o.Without {
		if !slices.Contains(optionalComponents, name) {
			errs = append(errs, fmt.Errorf("without: %q is none of %s", name, strings.Join(optionalComponents, ", ")))
		}
	}
	if _, err := o.nodeCapacity(); err != nil {
		errs = append(errs, err)
	}
	if o.RealNode {
		errs = append(errs, realnode.Check(o.Dir))
	}
	return errors.Join(errs...)
}

// has tells whether a component is part of the cluster.
func (o Options) has(name string) bool {
	if !slices.Contains(optionalComponents, name) {
		return true
	}
	if name == RealNode {
		return o.RealNode
	}
	if o.ControlPlaneOnly || slices.Contains(o.Without, name) {
		return false
	}
	switch name {
	case MusterScheduler:
		return o.Scheduler == name
	case KubeScheduler:
		return o.Scheduler == name || o.isOlder()
	}
	return true
}

// isOlder tells whether the control plane is of an older release than the pinned one.
func (o Options) isOlder() bool { return o.KubernetesVersion != KubernetesVersion }

// nodeCapacity is what each simulated node has.
func (o Options) nodeCapacity() (corev1.ResourceList, error) {
	amounts := map[string]string{
		string(corev1.ResourceCPU):              o.NodeCPU,
		string(corev1.ResourceMemory):           o.NodeMemory,
		string(corev1.ResourcePods):             DefaultNodePods,
		string(corev1.ResourceEphemeralStorage): "100Gi",
	}
	for name, amount := range o.NodeResources {
		amounts[name] = amount
	}
	capacity := corev1.ResourceList{}
	for name, amount := range amounts {
		if problems := utilvalidation.IsQualifiedName(name); len(problems) > 0 {
			return nil, fmt.Errorf("node resource %q: %s", name, strings.Join(problems, "; "))
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("node resource %s: %q is not a quantity like 8, 500m or 32Gi", name, amount)
		}
		if quantity.Sign() < 0 {
			return nil, fmt.Errorf("node resource %s: %s is negative", name, amount)
		}
		capacity[corev1.ResourceName(name)] = quantity
	}
	return capacity, nil
}
