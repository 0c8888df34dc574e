// Package histories_test drives muster-scheduler through random histories. It uses the upstream scheduler's queue, cache and framework
// runtime, the shipped profile, and an API server in memory. Each history runs in a bubble of testing/synctest, where time
// stands still until all goroutines wait for it. So there is no sleeping, and "at rest" is a fact.
package histories_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/apis/config"
	configscheme "github.com/muster-sched/muster/pkg/apis/config/scheme"
)

// shipped is the profile "muster" as the manifests have it.
var shipped schedulerapi.KubeSchedulerProfile

// verbosity is for looking into one history.
var verbosity = flag.Int("scheduler-verbosity", -1, "log verbosity of the scheduler; -1 for none")

func TestMain(m *testing.M) {
	// The seed repeats a failure, if it can be repeated: rapid is not given the means to make it smaller.
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	if *verbosity < 0 {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	} else {
		var level klog.Level
		_ = level.Set(strconv.Itoa(*verbosity))
	}
	if err := readProfile(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Without the handler that delays error reports, by a clock that is not the bubble's.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, _ ...any) {
		if *verbosity >= 0 {
			fmt.Fprintln(os.Stderr, "error:", msg, err)
		}
	}}
	// The scheduler listens for a signal. Goroutines that the runtime starts for the first listener must not belong to a bubble.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	os.Exit(m.Run())
}

func readProfile() error {
	for _, scheme := range []*runtime.Scheme{schedulerscheme.Scheme, schedulerconfigv1.GetPluginArgConversionScheme()} {
		if err := configscheme.AddToScheme(scheme); err != nil {
			return fmt.Errorf("registering the plugins' arguments: %w", err)
		}
	}
	data, err := manifests.FS.ReadFile("scheduler/second-scheduler.yaml")
	if err != nil {
		return fmt.Errorf("reading the shipped configuration: %w", err)
	}
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return fmt.Errorf("decoding the shipped configuration: %w", err)
	}
	for _, profile := range obj.(*schedulerapi.KubeSchedulerConfiguration).Profiles {
		if profile.SchedulerName == "muster" {
			shipped = profile
			for _, plugin := range shipped.PluginConfig {
				if args, ok := plugin.Args.(*config.CoschedulingArgs); ok {
					args.RequirePodGroup = false // no controller makes PodGroups for single pods here
				}
			}
			// Last at each point, and heavier than all scores together.
			shipped.Plugins.MultiPoint.Enabled = append(shipped.Plugins.MultiPoint.Enabled, schedulerapi.Plugin{Name: fateName, Weight: 1000})
			return nil
		}
	}
	return fmt.Errorf("the shipped configuration has no profile muster")
}
