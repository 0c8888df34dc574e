// Package root is the command that all others hang below, under each name that the program may be called by.
package root

import (
	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/muster-sched/muster/cmd/muster/cluster"
	"github.com/muster-sched/muster/cmd/muster/demo"
	"github.com/muster-sched/muster/cmd/muster/explain"
	"github.com/muster-sched/muster/cmd/muster/job"
	"github.com/muster-sched/muster/cmd/muster/lint"
	"github.com/muster-sched/muster/cmd/muster/local"
	"github.com/muster-sched/muster/cmd/muster/migrate"
	"github.com/muster-sched/muster/cmd/muster/phjob"
	"github.com/muster-sched/muster/cmd/muster/pod"
	"github.com/muster-sched/muster/cmd/muster/queue"
	"github.com/muster-sched/muster/cmd/muster/report"
	"github.com/muster-sched/muster/cmd/muster/top"
	"github.com/muster-sched/muster/cmd/muster/vc"
	"github.com/muster-sched/muster/cmd/muster/version"
)

// commands lists what the tool can do. Each has a folder of its own.
var commands = []func() *cobra.Command{
	explain.NewCommand,
	job.NewCommand,
	phjob.NewCommand,
	queue.NewCommand,
	pod.NewCommand,
	cluster.NewCommand,
	top.NewCommand,
	report.NewCommand,
	lint.NewCommand,
	migrate.NewCommand,
	demo.NewCommand,
	local.NewCommand,
	version.NewCommand,
}

// pluginName is what this program is called as a plugin of kubectl.
const pluginName = "kubectl-muster"

// New makes the command that the program stands for under the name that it was called by.
func New(name string) *cobra.Command {
	if program, isVolcanos := vc.Programs[name]; isVolcanos {
		return finish(program())
	}
	root := &cobra.Command{
		Use:     "muster",
		Short:   "Run Jobs on Muster, and learn what becomes of them",
		Version: componentversion.Get().GitVersion,
	}
	root.SetVersionTemplate("muster {{.Version}}\n")
	if name == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl muster"}
	}
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	return finish(root)
}

// finish leaves errors to main, which prints them once, without a page of usage.
func finish(command *cobra.Command) *cobra.Command {
	refuseUnknown(command)
	command.SilenceUsage, command.SilenceErrors = true, true
	return command
}
