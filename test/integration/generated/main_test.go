// Package generated_test generates Jobs, PodGroups and Queues, valid and invalid ones. It gives them to lint, to a real API server and to
// the controllers. `go test ./test/integration/generated -timeout 2h -args -objects 20000 -seed 7` takes longer and finds more.
package generated_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/test/integration/harness"
)

// Bounds of the generated objects: the same objects for the same seed.
var (
	count = flag.Int("objects", 400, "how many objects each test generates")
	seed  = flag.Uint64("seed", 1, "which objects these are")
)

// each calls a test for each object that is to be generated, until it has failed.
func each(t *testing.T, test func(random *rand.Rand, kind string)) {
	t.Helper()
	for i := 0; i < *count && !t.Failed(); i++ {
		random := rand.New(rand.NewPCG(*seed, uint64(i)))
		test(random, pick(random, kinds))
	}
}

// TestMain starts these, and all tests share them.
var (
	env    *harness.Env
	client dynamic.Interface
	linter *harness.Linter
)

// resources of the kinds.
var resources = map[string]schema.GroupVersionResource{
	"Job":      {Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"},
	"PodGroup": {Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	"Queue":    {Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"},
}

func TestMain(m *testing.M) {
	options := localcluster.Options{Without: []string{localcluster.KWOK, localcluster.MusterScheduler}}
	harness.Main(m, options, func(_ context.Context, started *harness.Env) (func() error, error) {
		env = started
		var err error
		if client, err = dynamic.NewForConfig(env.Config); err != nil {
			return nil, err
		}
		linter, err = harness.NewLinter(env.Config)
		return env.Cluster.Crashed, err
	})
}

// resource returns the client for objects of a kind; all namespaced ones live in the namespace default.
func resource(kind string) dynamic.ResourceInterface {
	if kind == "Queue" {
		return client.Resource(resources[kind])
	}
	return client.Resource(resources[kind]).Namespace("default")
}
