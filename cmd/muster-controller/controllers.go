package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterscheme "github.com/muster-sched/muster/pkg/client/clientset/versioned/scheme"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/connection"
	historycontroller "github.com/muster-sched/muster/pkg/controllers/history"
	"github.com/muster-sched/muster/pkg/controllers/job"
	"github.com/muster-sched/muster/pkg/controllers/podgroup"
	"github.com/muster-sched/muster/pkg/controllers/queue"
	"github.com/muster-sched/muster/pkg/controllers/runs"
	"github.com/muster-sched/muster/pkg/controllers/topology"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// parts is what the controllers share.
type parts struct {
	kube            kubernetes.Interface
	muster          versioned.Interface
	musterWatching  versioned.Interface // on a connection of its own
	foreign         dynamic.Interface   // on the same
	kubeInformers   informers.SharedInformerFactory
	musterInformers musterinformers.SharedInformerFactory
	broadcaster     record.EventBroadcaster
	events          typedcorev1.EventInterface
	recorder        record.EventRecorder
	history         *historycontroller.Controller // nil if it is off
}

// controller works until the context ends.
type controller func(ctx context.Context)

// newControllers lists all that the program runs.
func newControllers(ctx context.Context, cfg *config, p *parts) ([]controller, error) {
	if err := tellMissingDefaults(ctx, p.kube.Discovery()); err != nil {
		return nil, err
	}
	used, err := usage.New(p.kubeInformers, p.musterInformers)
	if err != nil {
		return nil, fmt.Errorf("setting up the usage tracker: %w", err)
	}
	legacyregistry.MustRegister(used.Drift())
	reports := worker.NewReports()
	phJobs, err := newPhJobs(ctx, cfg, p, used, reports)
	if err != nil {
		return nil, err
	}
	network, err := topology.New(topology.Config{
		Muster: p.muster, Watching: p.musterWatching, Foreign: p.foreign, Nodes: p.kubeInformers.Core().V1().Nodes(), Recorder: p.recorder,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the topology controller: %w", err)
	}
	podGroups, err := podgroup.New(podgroup.Config{
		KubeClient: p.kube, MusterClient: p.muster, KubeInformers: p.kubeInformers, MusterInformers: p.musterInformers,
		Usage: used, Recorder: p.recorder, OvercommitFactor: cfg.overcommitFactor, HoldTimeout: cfg.holdTimeout, OvertakeTime: cfg.overtakeTime,
		AdoptFrom: cfg.adoptFrom, Reports: reports, PhJobs: phJobs.known(), Network: network,
		Runs: runs.New(p.kube.CoreV1().ConfigMaps(cfg.leaderElection.ResourceNamespace), clock.RealClock{}),
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the podgroup controller: %w", err)
	}
	queues, err := queue.New(queue.Config{
		MusterClient: p.muster, MusterInformers: p.musterInformers, Usage: used, Shares: podGroups.Shares, Waiting: podGroups.Waiting, Recorder: p.recorder,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the queue controller: %w", err)
	}
	legacyregistry.MustRegister(queues.AdmissionWait())
	legacyregistry.CustomMustRegister(queues.Gauges())
	if err := newHistory(cfg, p, phJobs.jobs != nil); err != nil {
		return nil, err
	}
	jobs := job.New(job.Config{
		Kube: p.kube, Muster: p.muster, KubeInformers: p.kubeInformers, MusterInformers: p.musterInformers,
		Recorder: p.recorder, SchedulerName: cfg.schedulerName, ServedSchedulerNames: cfg.servedSchedulerNames,
		DependencyCondition: batchv1alpha1.DependencyCondition(cfg.dependsOnCondition),
		RestartBackoff:      cfg.restartBackoff,
		RegisterMetrics:     legacyregistry.MustRegister,
		Removals:            podGroups,
		Reports:             reports,
		MayDelete:           p.mayDelete,
	})
	return append(phJobs.run(cfg.jobSyncs),
		p.runHistory,
		network.Run,
		used.RunSelfCheck,
		queues.Run,
		func(ctx context.Context) { jobs.Run(ctx, cfg.jobSyncs) },
		phJobs.runAfter(podGroups, cfg.podGroupSyncs),
	), nil
}

// newParts makes the clients, informers and the event recorder.
func newParts(ctx context.Context, cfg *config) (*parts, error) {
	core := rest.CopyConfig(cfg.client)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	// Events have a client of their own, so that they never wait with pods, nor pods with them.
	events, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(core), "events"))
	if err != nil {
		return nil, fmt.Errorf("making the client for events: %w", err)
	}
	muster, err := versioned.NewForConfig(cfg.client)
	if err != nil {
		return nil, fmt.Errorf("making the client of Muster's API: %w", err)
	}
	watching, err := kubernetes.NewForConfig(connection.Own(core))
	if err != nil {
		return nil, fmt.Errorf("making the client for watches: %w", err)
	}
	musterConfig := connection.Own(cfg.client)
	musterWatching, err := versioned.NewForConfig(musterConfig)
	if err != nil {
		return nil, fmt.Errorf("making the client for watches of Muster's API: %w", err)
	}
	foreign, err := dynamic.NewForConfig(musterConfig)
	if err != nil {
		return nil, fmt.Errorf("making the client for watches of Kueue's API: %w", err)
	}
	lean := new(leaner).lean
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	return &parts{
		kube:            kube,
		muster:          muster,
		musterWatching:  musterWatching,
		foreign:         foreign,
		kubeInformers:   informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithTransform(lean)),
		musterInformers: musterinformers.NewSharedInformerFactoryWithOptions(musterWatching, 0, musterinformers.WithTransform(lean)),
		broadcaster:     broadcaster,
		events:          events.CoreV1().Events(""),
		recorder:        boundedRecorder{broadcaster.NewRecorder(eventScheme(), corev1.EventSource{Component: programName})},
	}, nil
}

// eventScheme knows the kinds of all objects that events are about.
func eventScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(musterscheme.AddToScheme(scheme))
	return scheme
}

// startInformers starts all informers that the controllers have asked for.
func (p *parts) startInformers(ctx context.Context) {
	p.kubeInformers.Start(ctx.Done())
	p.musterInformers.Start(ctx.Done())
}

// waitForInformers returns when all informers have synced, or false when the context ends before.
func (p *parts) waitForInformers(ctx context.Context) bool {
	for _, synced := range p.kubeInformers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return false
		}
	}
	for _, synced := range p.musterInformers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return false
		}
	}
	return true
}

// newHistory makes the controller of the history, unless it is off.
func newHistory(cfg *config, p *parts, phJobs bool) (err error) {
	if cfg.records == nil && !cfg.history.log {
		return nil
	}
	var lines io.Writer
	if cfg.history.log {
		lines = os.Stdout
	}
	p.history, err = historycontroller.New(historycontroller.Config{
		Muster: p.muster, KubeInformers: p.kubeInformers, MusterInformers: p.musterInformers, PhJobs: phJobs,
		Store: cfg.records, Lines: lines, RegisterMetrics: legacyregistry.MustRegister,
	})
	if err != nil {
		return fmt.Errorf("setting up the history of Jobs: %w", err)
	}
	return nil
}

// runHistory records how Jobs end, unless the history is off.
func (p *parts) runHistory(ctx context.Context) {
	if p.history != nil {
		p.history.Run(ctx)
	}
}

// mayDelete says whether the history has what it keeps of a Job that ended at a time.
func (p *parts) mayDelete(uid types.UID, ended time.Time) bool {
	return p.history == nil || p.history.MayDelete(uid, ended)
}
