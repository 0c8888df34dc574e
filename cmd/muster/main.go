// Command muster is the tool for people: it runs local clusters to try Muster on, and shows what
// Muster does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/muster-sched/muster/cmd/muster/demo"
	"github.com/muster-sched/muster/cmd/muster/lint"
	"github.com/muster-sched/muster/cmd/muster/local"
)

// commands lists what the tool can do. Each has a folder of its own.
var commands = []func() *cobra.Command{
	demo.NewCommand,
	lint.NewCommand,
	local.NewCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
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

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Try Muster, the batch scheduler, on this machine",
		// Errors are printed once, by main, and a failed start needs no page of usage.
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	return root
}
