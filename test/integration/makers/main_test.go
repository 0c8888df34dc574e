// Package makers_test crosses makers of pods with events. A maker is a program that writes pods that Muster did not make: a controller of
// Kubernetes, or an operator. It is played by what it writes. The cluster is whole, with simulated nodes that are never full: only queues
// have bounds. A record of what the API server says is judged for each cell of the table. It shares no code with the product.
package makers_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/localcluster"
	mustertesting "github.com/muster-sched/muster/pkg/testing"
	"github.com/muster-sched/muster/test/integration/harness"
)

const (
	// parallel is how many cells are under way at the same time. They wait more than they compute.
	parallel = "12"
	// timeout is how long anything may take that is expected.
	timeout = time.Minute
	// partialGangTimeout is how long the scheduler waits before it evicts a partial gang.
	partialGangTimeout = 2 * time.Second
	// watched is how long a cell looks out for an eviction that must not come.
	watched = 3 * partialGangTimeout
	// probes is the namespace and the queue of probes.
	probes = "probes"
	// ascend is a resource of nodes that only some makers ask for.
	ascend = "huawei.com/Ascend910"
)

// TestMain starts these, and all cells share them.
var (
	env *harness.Env
	all *record
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	options := localcluster.Options{
		Nodes: 8, NodeCPU: "64", NodeMemory: "256Gi", NodeResources: map[string]string{ascend: "64"}, SchedulerConfig: schedulerConfig(),
		// Without a lease, a controller that was killed has a successor at once. A slow one stays the leader.
		ExtraArgs: map[string][]string{localcluster.MusterController: {"--leader-elect=false"}},
	}
	harness.Main(m, options, func(ctx context.Context, started *harness.Env) (func() error, error) {
		env = started
		var err error
		if all, err = startRecord(ctx, env); err != nil {
			return nil, err
		}
		if err := createNamespace(ctx, probes); err != nil {
			return nil, err
		}
		queue := mustertesting.MakeQueue(probes).Obj()
		if _, err := env.Muster.SchedulingV1beta1().Queues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating the queue of probes: %w", err)
		}
		return env.Cluster.Crashed, nil
	})
}

// schedulerConfig is the shipped configuration with partialGangTimeout.
func schedulerConfig() string {
	data, err := manifests.FS.ReadFile("scheduler/replace-default.yaml")
	if err != nil {
		panic(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		panic(err)
	}
	for _, profile := range config["profiles"].([]any) {
		setArgument(profile.(map[string]any), "Coscheduling", "partialGangTimeout", partialGangTimeout.String())
	}
	if data, err = yaml.Marshal(config); err != nil {
		panic(err)
	}
	return string(data)
}

// setArgument sets an argument of a plugin in a profile.
func setArgument(profile map[string]any, plugin, name, value string) {
	plugins, _ := profile["pluginConfig"].([]any)
	for _, one := range plugins {
		if entry := one.(map[string]any); entry["name"] == plugin {
			entry["args"].(map[string]any)[name] = value
			return
		}
	}
	profile["pluginConfig"] = append(plugins, map[string]any{"name": plugin, "args": map[string]any{name: value}})
}
