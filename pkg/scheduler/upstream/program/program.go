// Package program is kube-scheduler's program with what muster-scheduler changes. It is not in package upstream because it depends on the
// libraries of a whole API server. With these, tests cannot use the race detector in reasonable time.
package program

import (
	"context"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

const programName = "muster-scheduler"

// Program is kube-scheduler's program with what muster-scheduler changes.
type Program struct {
	// Plugins are the out-of-tree plugins.
	Plugins frameworkruntime.Registry
	// Explainer is the component that tells users why a pod waits.
	Explainer upstream.Explainer
	// QuotaReason is the reason of the condition of a single pod that waits for quota.
	QuotaReason string
	// KeepInformer leaves the scheduler the informer of pods that upstream makes, which does not tell pods of one name apart.
	KeepInformer bool
	// KeepFailureHandler leaves the scheduler its failure handler, which writes a condition and an event for each pod that was tried.
	KeepFailureHandler bool
}

// The environment variables that set KeepInformer and KeepFailureHandler of muster-scheduler, for benchmarks. The value of a part is the
// difference between off and on.
const (
	KeepInformerVariable       = "MUSTER_KEEP_UPSTREAM_INFORMER"
	KeepFailureHandlerVariable = "MUSTER_KEEP_UPSTREAM_FAILURE_HANDLER"
)

// NewCommand is app.NewSchedulerCommand with four differences. Two have the switches KeepInformer and KeepFailureHandler. The third is that
// it works as the release of an older API server. The fourth is that it writes nothing when another replica may lead. That command has no
// options for them, so its steps stand here.
func NewCommand(p Program) *cobra.Command {
	opts := options.NewOptions()
	command := &cobra.Command{
		Use:  programName,
		Long: "muster-scheduler is the upstream kube-scheduler with Muster's plugins: Coscheduling, Capacity, TaskPriority and GangPreemption.",
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set() // before RunE, which reads the feature gates
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command, opts, p)
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
func run(command *cobra.Command, opts *options.Options, p Program) error {
	verflag.PrintAndExitIfRequested()
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return fmt.Errorf("setting up the log: %w", err)
	}
	ctx := server.SetupSignalContext()
	if err := emulateOlderServer(ctx, opts); err != nil {
		return err
	}
	flag.PrintFlags(command.Flags())
	if opts.InformerName == nil {
		name, err := cache.NewInformerName(command.Name())
		if err != nil {
			return fmt.Errorf("naming the informers: %w", err)
		}
		opts.InformerName = name
	}

	config, sched, err := setUp(ctx, opts, p)
	if err != nil {
		return fmt.Errorf("making the scheduler: %w", err)
	}
	if !p.KeepFailureHandler {
		upstream.HandleFailures(sched, p.Explainer, p.QuotaReason)
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, sched)
}

// setUp makes the upstream scheduler from its options, as its own program does, but for the informer of pods.
func setUp(ctx context.Context, opts *options.Options, p Program) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the default configuration: %w", err)
	}
	opts.ComponentConfig = defaults
	if reflect.ValueOf(*opts.Metrics).IsZero() {
		opts.Metrics = nil // component-base logs an error where no file of allowed labels is given
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	informerName := opts.InformerName
	if !p.KeepInformer {
		opts.InformerName = nil // a name is for one informer of pods, and those made here are not used
	}
	base, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := putBehindFence(ctx, base); err != nil {
		return nil, nil, err
	}
	if !p.KeepInformer {
		client, err := kubernetes.NewForConfig(rest.AddUserAgent(base.KubeConfig, "scheduler"))
		if err != nil {
			return nil, nil, fmt.Errorf("making the client: %w", err)
		}
		base.InformerFactory = upstream.TellPodsApart(scheduler.NewInformerFactory(client, 0, informerName), client, informerName)
	}
	completed := base.Complete()
	settings := &completed.ComponentConfig

	var profiles []config.KubeSchedulerProfile
	sched, err := scheduler.New(ctx, completed.Client, completed.InformerFactory, completed.DynInformerFactory,
		func(name string) events.EventRecorderLogger { return completed.EventBroadcaster.NewRecorder(name) },
		scheduler.WithKubeConfig(completed.KubeConfig),
		scheduler.WithComponentConfigVersion(settings.APIVersion),
		scheduler.WithProfiles(settings.Profiles...),
		scheduler.WithExtenders(settings.Extenders...),
		scheduler.WithParallelism(settings.Parallelism),
		scheduler.WithPercentageOfNodesToScore(settings.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(settings.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(settings.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(completed.PodMaxInUnschedulablePodsDuration),
		scheduler.WithFrameworkOutOfTreeRegistry(p.Plugins),
		scheduler.WithBuildFrameworkCapturer(func(profile config.KubeSchedulerProfile) { profiles = append(profiles, profile) }),
	)
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, settings, profiles); err != nil {
		return nil, nil, err
	}
	return &completed, sched, nil
}
