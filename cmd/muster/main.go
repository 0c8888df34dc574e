// Command muster is the tool for people: it lists, runs and explains Jobs and queues, checks manifests, and runs local clusters to try
// Muster on. kubectl runs it as "kubectl muster" if it is called kubectl-muster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/cmd/muster/demo"
	"github.com/muster-sched/muster/cmd/muster/job"
	"github.com/muster-sched/muster/cmd/muster/lint"
	"github.com/muster-sched/muster/cmd/muster/local"
	"github.com/muster-sched/muster/cmd/muster/pod"
	"github.com/muster-sched/muster/cmd/muster/queue"
	"github.com/muster-sched/muster/cmd/muster/version"
)

// commands lists what the tool can do. Each has a folder of its own.
var commands = []func() *cobra.Command{
	job.NewCommand,
	queue.NewCommand,
	pod.NewCommand,
	lint.NewCommand,
	demo.NewCommand,
	local.NewCommand,
	version.NewCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand(filepath.Base(os.Args[0])).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode is 1, unless an error asks for another.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

// pluginName is what this program is called as a plugin of kubectl.
const pluginName = "kubectl-muster"

// newRootCommand makes the command that the program stands for under the name that it was called by.
func newRootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Run Jobs on Muster, and learn what becomes of them",
		// Errors are printed once, by main, and a failed start needs no page of usage.
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if name == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl muster"}
	}
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	return root
}
