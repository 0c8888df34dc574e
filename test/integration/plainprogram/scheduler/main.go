// Command scheduler is the upstream kube-scheduler with Muster's plugins registered, and nothing else. docs/plain-scheduler.md shows it.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plugins"
)

func main() {
	if err := plugins.RegisterArgs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var options []app.Option
	for name, factory := range plugins.NewRegistry(gangs.New(clock.RealClock{})) {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
