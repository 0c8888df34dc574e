// Package tenants_test plays tenants who do not trust each other. They are administrators of one namespace each, and may use one queue each. The
// cluster is whole, with simulated nodes and all policies, those of manifests/tenancy too. Each row is something that red tries. It says with
// which message the API server refuses that, or what must hold afterwards. Blue and green have Jobs beside it that must run.
package tenants_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/muster-sched/muster/pkg/localcluster"
	"github.com/muster-sched/muster/pkg/watchlog"
	"github.com/muster-sched/muster/test/integration/harness"
)

// parallel is how many rows are under way at the same time. They wait more than they compute.
const parallel = "10"

// TestMain starts these, and all rows share them.
var (
	env  *harness.Env
	log  *watchlog.Log
	book *record
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	options := localcluster.Options{Nodes: 6, NodeCPU: "64", NodeMemory: "256Gi"}
	harness.Main(m, options, func(ctx context.Context, started *harness.Env) (func() error, error) {
		env = started
		var err error
		if log, err = watchlog.Start(ctx, env.Kube, env.Muster); err != nil {
			return nil, err
		}
		if book, err = startRecord(ctx); err != nil {
			return nil, err
		}
		if err := harness.SeparateTenants(ctx, env.Config); err != nil {
			return nil, fmt.Errorf("separating the tenants: %w", err)
		}
		return func() error { return harness.CheckScheduler(ctx, env.Cluster) }, nil
	})
}
