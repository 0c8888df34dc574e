// Command muster-scheduler is the upstream kube-scheduler with Muster's plugins: Coscheduling, Capacity, TaskPriority, NodeGroup and
// GangPreemption.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plugins"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/upstream/program"
)

func main() {
	if err := plugins.RegisterArgs(); err != nil {
		fmt.Fprintln(os.Stderr, "muster-scheduler:", err)
		os.Exit(1)
	}
	tracker := gangs.New(clock.RealClock{}) // one for all profiles
	os.Exit(cli.Run(program.NewCommand(program.Program{
		Plugins:     plugins.NewRegistry(tracker),
		Explainer:   report.NewReports(tracker),
		QuotaReason: report.ReasonWaitingForQuota,

		KeepInformer:       os.Getenv(program.KeepInformerVariable) != "",
		KeepFailureHandler: os.Getenv(program.KeepFailureHandlerVariable) != "",
	})))
}
