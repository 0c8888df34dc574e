// Command muster-scheduler is the upstream kube-scheduler with Muster's plugins: Coscheduling, Capacity and TaskPriority.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/utils/clock"

	configscheme "github.com/muster-sched/muster/pkg/apis/config/scheme"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/capacity"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/coscheduling"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/taskpriority"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

func main() {
	// One scheme decodes the arguments, the other converts them.
	for _, scheme := range []*runtime.Scheme{schedulerscheme.Scheme, schedulerconfigv1.GetPluginArgConversionScheme()} {
		if err := configscheme.AddToScheme(scheme); err != nil {
			fmt.Fprintln(os.Stderr, "muster-scheduler: registering the plugins' arguments:", err)
			os.Exit(1)
		}
	}
	store := state.New(clock.RealClock{}) // one for all profiles
	command := app.NewSchedulerCommand(
		app.WithPlugin(coscheduling.Name, coscheduling.New(store)),
		app.WithPlugin(capacity.Name, capacity.New(store)),
		app.WithPlugin(taskpriority.Name, taskpriority.New(store)),
	)
	command.Use = "muster-scheduler"
	os.Exit(cli.Run(command))
}
