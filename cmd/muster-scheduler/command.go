package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/muster-sched/muster/pkg/scheduler/hooks"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// newCommand is the upstream scheduler's command, with two differences: pods of one name are told apart (setUp), and between
// making the scheduler and running it, Muster connects its ends with the Store. What the upstream command does by itself
// gives no hold for that.
func newCommand(store *state.Store, plugins ...app.Option) *cobra.Command {
	opts := options.NewOptions()
	command := &cobra.Command{
		Use:  "muster-scheduler",
		Long: "muster-scheduler is the upstream kube-scheduler with Muster's plugins: Coscheduling, Capacity, TaskPriority and GangPreemption.",
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set() // before RunE, which reads the feature gates
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command, opts, store, plugins)
		},
	}
	sections := opts.Flags
	verflag.AddFlags(sections.FlagSet("global"))
	globalflag.AddGlobalFlags(sections.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, section := range sections.FlagSets {
		command.Flags().AddFlagSet(section)
	}
	columns, _, err := term.TerminalSize(command.OutOrStdout())
	if err != nil {
		columns = 0 // not a terminal: lines are not broken
	}
	flag.SetUsageAndHelpFunc(command, *sections, columns)
	return command
}

// run is the life of the program.
func run(command *cobra.Command, opts *options.Options, store *state.Store, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return fmt.Errorf("setting up the log: %w", err)
	}
	flag.PrintFlags(command.Flags())
	if opts.InformerName == nil {
		name, err := cache.NewInformerName(command.Name())
		if err != nil {
			return fmt.Errorf("naming the informers: %w", err)
		}
		opts.InformerName = name
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-server.SetupSignalHandler()
		cancel()
	}()
	store.AwaitLeadership()
	config, upstream, err := setUp(ctx, opts, plugins)
	if err != nil {
		return fmt.Errorf("making the scheduler: %w", err)
	}
	hooks.Install(upstream, store)
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, upstream)
}
