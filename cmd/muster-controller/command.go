package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

const programName = "muster-controller"

func newCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use: programName,
		Long: `The companion of muster-scheduler. It turns batch.volcano.sh Jobs into PodGroups and pods and
runs their lifecycle policies, admits PodGroups to their Queues, and keeps the Queues themselves.`,
		Version: version.Get().GitVersion,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(o.logs, o.featureGate); err != nil {
				return fmt.Errorf("applying the log options: %w", err)
			}
			cliflag.PrintFlags(cmd.Flags())
			return start(o)
		},
	}
	flags := o.flagSets()
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, flags, columns)
	return cmd
}

// start runs the program until it is told to stop, or fails.
func start(o *options) error {
	if errs := o.validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx = klog.NewContext(ctx, klog.Background())
	// A second signal ends the program at once.
	defer context.AfterFunc(ctx, stop)()

	cfg, err := o.complete()
	if err != nil {
		return err
	}
	return run(ctx, cfg)
}
