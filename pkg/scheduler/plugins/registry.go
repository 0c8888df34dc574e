// Package plugins lists Muster's scheduler plugins, for a scheduler that is built with them.
package plugins

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	configscheme "github.com/muster-sched/muster/pkg/apis/config/scheme"
	"github.com/muster-sched/muster/pkg/scheduler/dispatch"
	"github.com/muster-sched/muster/pkg/scheduler/eviction"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/plan"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/capacity"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/coscheduling"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/gangpreemption"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/nodegroup"
	"github.com/muster-sched/muster/pkg/scheduler/plugins/taskpriority"
	"github.com/muster-sched/muster/pkg/scheduler/report"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// NewRegistry makes the factories of all plugins. All profiles of a scheduler share the tracker.
func NewRegistry(tracker *gangs.Tracker) frameworkruntime.Registry {
	tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { plan.Run(ctx, handle, tracker) })
	tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { report.SelfCheck(ctx, handle, tracker) })
	return NewRegistryWithoutPlan(tracker)
}

// NewRegistryWithoutPlan is NewRegistry without expected starts and checks of the books, for simulations of long times.
func NewRegistryWithoutPlan(tracker *gangs.Tracker) frameworkruntime.Registry {
	tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { report.Run(ctx, handle, tracker) })
	return NewSilentRegistry(tracker, state.TickPeriod)
}

// NewSilentRegistry is NewRegistry without all that only tells of decisions: expected starts, and conditions and events of pods. It is for simulations
// of months. The tick is state.TickPeriod, or more.
func NewSilentRegistry(tracker *gangs.Tracker, tick time.Duration) frameworkruntime.Registry {
	tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { dispatch.Dispatch(ctx, handle, tracker, tick) })
	tracker.Feed.OnStart(func(ctx context.Context, handle fwk.Handle) { eviction.LowerUsage(ctx, handle, tracker.Victims) })
	return frameworkruntime.Registry{
		capacity.Name:       capacity.New(tracker),
		coscheduling.Name:   coscheduling.New(tracker),
		gangpreemption.Name: gangpreemption.New(tracker),
		nodegroup.Name:      nodegroup.New(tracker),
		taskpriority.Name:   taskpriority.New(tracker),
	}
}

// RegisterArgs makes the arguments of the plugins known to the scheduler's configuration. It comes before a configuration is
// read.
func RegisterArgs() error {
	// One scheme decodes the arguments, and another converts them.
	for _, scheme := range []*runtime.Scheme{schedulerscheme.Scheme, schedulerconfigv1.GetPluginArgConversionScheme()} {
		if err := configscheme.AddToScheme(scheme); err != nil {
			return fmt.Errorf("registering the plugins' arguments: %w", err)
		}
	}
	return nil
}
