package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-sched/muster/pkg/connection"
	"github.com/muster-sched/muster/pkg/scheduler/announce"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// setUp makes the upstream scheduler from its options, as its own program does, but for where it hears of pods from, by which
// connection, and when it writes events.
func setUp(ctx context.Context, opts *options.Options, plugins []app.Option) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the default configuration: %w", err)
	}
	opts.ComponentConfig = defaults
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	informerName := opts.InformerName
	opts.InformerName = nil // a name is for one informer of pods, and those made here are put aside
	base, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	watching, err := kubernetes.NewForConfig(connection.Own(rest.AddUserAgent(base.KubeConfig, "scheduler")))
	if err != nil {
		return nil, nil, fmt.Errorf("making the client for watches: %w", err)
	}
	base.InformerFactory = tellApart(scheduler.NewInformerFactory(watching, 0, informerName), watching, informerName)
	broadcaster, err := announcePatiently(ctx, base)
	if err != nil {
		return nil, nil, err
	}
	completed := base.Complete()
	settings := &completed.ComponentConfig

	registry := frameworkruntime.Registry{}
	for _, register := range plugins {
		if err := register(registry); err != nil {
			return nil, nil, err
		}
	}
	var profiles []config.KubeSchedulerProfile
	upstream, err := scheduler.New(ctx, completed.Client, completed.InformerFactory, completed.DynInformerFactory,
		func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(scheme.Scheme, name) },
		scheduler.WithKubeConfig(completed.KubeConfig),
		scheduler.WithComponentConfigVersion(settings.APIVersion),
		scheduler.WithProfiles(settings.Profiles...),
		scheduler.WithExtenders(settings.Extenders...),
		scheduler.WithParallelism(settings.Parallelism),
		scheduler.WithPercentageOfNodesToScore(settings.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(settings.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(settings.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(completed.PodMaxInUnschedulablePodsDuration),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithBuildFrameworkCapturer(func(profile config.KubeSchedulerProfile) { profiles = append(profiles, profile) }),
	)
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, settings, profiles); err != nil {
		return nil, nil, err
	}
	return &completed, upstream, nil
}

// announcePatiently returns a broadcaster of the scheduler's events whose writes give way to the scheduler's other requests, until the
// context ends. Those of leader election stay with the broadcaster that upstream has made.
func announcePatiently(ctx context.Context, base *schedulerconfig.Config) (events.EventBroadcaster, error) {
	traffic := announce.NewTraffic()
	config := rest.AddUserAgent(base.KubeConfig, "scheduler")
	counted, err := kubernetes.NewForConfig(traffic.Count(config))
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	base.Client = counted
	uncounted, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	broadcaster := announce.NewBroadcaster(uncounted, traffic)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("recording events: %w", err)
	}
	return broadcaster, nil
}

// tellApart returns a factory like the scheduler's own, whose pods come from the same informer, by way of handlers that tell
// pods of one name apart: the upstream scheduler's own do not, and then it ends itself.
func tellApart(own informers.SharedInformerFactory, client kubernetes.Interface, name *cache.InformerName) informers.SharedInformerFactory {
	pods := own.Core().V1().Pods().Informer()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithInformerName(name))
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return podInformer{pods} })
	return factory
}

// podInformer wraps the handlers that are added to it.
type podInformer struct{ cache.SharedIndexInformer }

// AddEventHandler adds a handler that tells pods apart.
func (i podInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(state.TellApart(h))
}

// AddEventHandlerWithResyncPeriod adds a handler that tells pods apart.
func (i podInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(state.TellApart(h), resync)
}

// AddEventHandlerWithOptions adds a handler that tells pods apart.
func (i podInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, opts cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(state.TellApart(h), opts)
}
