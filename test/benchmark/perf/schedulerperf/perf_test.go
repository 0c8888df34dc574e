// Package schedulerperf runs upstream's scheduler_perf with Muster's plugins out of tree. The command in the folder above
// starts it once for each run, in a process of its own. It works by hand as well:
//
//	PATH=$PWD/bin/controlplane/v1.37.2:$PATH go test -C test/benchmark/perf ./schedulerperf -run '^$' \
//	  -bench PerfScheduling -benchtime 1x -muster.config my-performance-config.yaml -muster.plugins
package schedulerperf

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	_ "k8s.io/component-base/logs/json/register"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/muster-sched/muster/pkg/scheduler/plugins"
)

var (
	config    = flag.String("muster.config", "performance-config.yaml", "test cases, in the form of scheduler_perf")
	enabled   = flag.Bool("muster.plugins", false, "register Muster's plugins")
	namespace = flag.String("muster.namespace", "", "namespace whose pods are timed")
	gangs     = flag.Int("muster.gangs", 0, "number of Muster's PodGroups to create in the namespace: gang-0, gang-1 and so on")
	minMember = flag.Int("muster.min-member", 0, "minimum of each PodGroup")
	timeout   = flag.Duration("muster.timeout", 10*time.Minute, "how long the pods may take to be scheduled")
	result    = flag.String("muster.result", "", "file to write the timing to, as JSON")
	profile   = flag.String("muster.profile", "", "file to write a CPU profile to, from the first pod on")
)

func TestMain(m *testing.M) {
	if err := plugins.RegisterArgs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, "preparing scheduler_perf:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkPerfScheduling runs the test cases of the configuration, and times the pods of the namespace.
func BenchmarkPerfScheduling(b *testing.B) {
	cluster := &cluster{gangs: *gangs, minMember: int32(*minMember), namespace: *namespace}
	stopwatch := newStopwatch(*namespace, *result, *profile)
	perf.RunBenchmarkPerfScheduling(b, *config, "muster", cluster.registry(*enabled),
		perf.WithPrepareFn(cluster.installAPI),
		perf.WithNodeUpdateFn(chain(cluster.connect, cluster.createGangs, stopwatch.start)),
		perf.WithPodsSchedulingTimeout(*timeout),
	)
}
