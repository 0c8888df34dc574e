// Command muster-scheduler is the upstream kube-scheduler with Muster's plugins: Coscheduling, Capacity, TaskPriority and
// GangPreemption.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/heap"
	"github.com/muster-sched/muster/pkg/scheduler/plugins"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

func main() {
	if err := plugins.RegisterArgs(); err != nil {
		fmt.Fprintln(os.Stderr, "muster-scheduler:", err)
		os.Exit(1)
	}
	go heap.Pace(context.Background(), heap.ForSpeed)
	store := state.New(clock.RealClock{}) // one for all profiles
	var options []app.Option
	for name, factory := range plugins.NewRegistry(store) {
		options = append(options, app.WithPlugin(name, factory))
	}
	command := newCommand(store, options...)
	os.Exit(cli.Run(command))
}
