package job

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/util/consistency"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/controllers/worker"
)

// New makes a Controller and adds its handlers and indexes to the informers. It panics if an informer has been
// started already, which only a mistake in a main can cause.
func New(cfg Config) *Controller {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	jobs := cfg.MusterInformers.Batch().V1alpha1().Jobs()
	queues := cfg.MusterInformers.Scheduling().V1beta1().Queues()
	c := &Controller{
		cfg:         cfg,
		jobs:        jobs.Lister(),
		groups:      cfg.MusterInformers.Scheduling().V1beta1().PodGroups().Lister(),
		queues:      queues.Lister(),
		queueIndex:  queues.Informer().GetIndexer(),
		podTracker:  &ended.Tracker{},
		instruments: newInstruments(),
		writtenJobs: &worker.Written[*batchv1alpha1.Job]{},
	}
	if cfg.RegisterMetrics != nil {
		cfg.RegisterMetrics(c.instruments.Collectors...)
	}
	c.worker = worker.New("job", c)
	c.turns = worker.NewTurns(turnsAtOnce, turnBounds, c.worker.Enqueue)
	cfg.Reports.Share(c.worker)
	c.addParts(&cfg)
	c.watchOwned(&cfg)
	c.watchOthers(&cfg)
	return c
}

// addParts makes the parts of the controller.
func (c *Controller) addParts(cfg *Config) {
	kinds := newKinds(cfg.Kube, cfg.KubeInformers)
	podInformer, commands := cfg.KubeInformers.Core().V1().Pods().Informer(), cfg.MusterInformers.Bus().V1alpha1().Commands().Informer()
	stores := map[schema.GroupResource]consistency.LastSyncRVGetter{
		podResource:   podInformer.GetStore(),
		groupResource: cfg.MusterInformers.Scheduling().V1beta1().PodGroups().Informer().GetStore(),
	}
	for _, kind := range kinds.all() {
		stores[kind.resource] = kind.informer.GetStore()
	}
	c.written = consistency.NewConsistencyStore(stores)
	c.defaults = &podDefaults{
		priorityClasses: cfg.KubeInformers.Scheduling().V1().PriorityClasses().Lister(),
		limitRanges:     cfg.KubeInformers.Core().V1().LimitRanges().Lister(),
		runtimeClasses:  cfg.KubeInformers.Node().V1().RuntimeClasses().Lister(),
	}
	c.handlers = &handlers{worker: c.worker, jobs: c.jobs, groups: c.groups,
		jobIndex: cfg.MusterInformers.Batch().V1alpha1().Jobs().Informer().GetIndexer(), podTracker: c.podTracker}
	c.commands = &commandClient{muster: cfg.Muster, recorder: cfg.Recorder, instruments: c.instruments, index: commands.GetIndexer(),
		enqueue: c.worker.Enqueue}
	c.status = &statusWriter{muster: cfg.Muster, recorder: cfg.Recorder, instruments: c.instruments, queues: c.queues, reports: cfg.Reports,
		worker: c.worker, writtenJobs: c.writtenJobs, podTracker: c.podTracker}
	c.pods = &pods{kube: cfg.Kube, index: podInformer.GetIndexer(), removals: cfg.Removals, turns: c.turns, instruments: c.instruments, clock: cfg.Clock,
		written: c.written, requests: make(chan struct{}, maxRequests)}
	c.objects = &objects{muster: cfg.Muster, recorder: cfg.Recorder, clock: cfg.Clock, enqueue: c.worker.Enqueue, defaults: c.defaults, kinds: kinds,
		access: &secretAccess{reviews: cfg.Kube.AuthenticationV1().SelfSubjectReviews()}, slowSecrets: newSlowSecrets(c.worker.Enqueue),
		writtenJobs: c.writtenJobs, written: c.written, mayDelete: cfg.MayDelete}
}

// watchOwned watches the objects of Jobs.
func (c *Controller) watchOwned(cfg *Config) {
	for _, kind := range c.objects.kinds.all() {
		c.watch(kind.informer, c.handlers.ownedHandler(), indexBy(byOwningJob, owningJob))
	}
	c.watch(cfg.KubeInformers.Core().V1().Pods().Informer(), c.handlers.podHandler(), indexBy(byOwningJob, owningJob))
	c.watch(cfg.MusterInformers.Scheduling().V1beta1().PodGroups().Informer(), c.handlers.ownedHandler(), nil)
	c.watch(c.objects.kinds.claims.informer, c.handlers.claimHandler(), nil)
}

// watchOthers watches Jobs, and what they depend on.
func (c *Controller) watchOthers(cfg *Config) {
	jobs := cfg.MusterInformers.Batch().V1alpha1().Jobs().Informer()
	c.synced = append(c.synced, cfg.KubeInformers.Scheduling().V1().PriorityClasses().Informer().HasSynced)
	c.watch(jobs, c.handlers.jobHandler(), indexBy(byQueue, queueOfJob))
	c.watch(jobs, c.instruments.jobs.handler(), indexBy(byClaim, claimsOfJob))
	c.watch(cfg.MusterInformers.Scheduling().V1beta1().Queues().Informer(), c.handlers.queueHandler(), indexBy(byParent, parentOfQueue))
	c.watch(cfg.KubeInformers.Core().V1().LimitRanges().Informer(), c.handlers.additionsHandler(), nil)
	c.watch(cfg.KubeInformers.Node().V1().RuntimeClasses().Informer(), c.handlers.additionsHandler(), nil)
	c.watch(cfg.MusterInformers.Bus().V1alpha1().Commands().Informer(), c.handlers.commandHandler(), indexBy(byTargetJob, jobOfCommand))
}

func (c *Controller) watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler, indexers cache.Indexers) {
	must(informer.AddIndexers(indexers))
	registration, err := informer.AddEventHandler(handler)
	must(err)
	c.synced = append(c.synced, registration.HasSynced)
}

// Run reconciles Jobs, that many at once, until the context ends. The informers must be started by then or soon.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.objects.kinds.informers.Start(ctx.Done())
	defer c.objects.kinds.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	c.podTracker.Open()
	c.instruments.jobs.show()
	var loops sync.WaitGroup
	loops.Go(func() { c.objects.slowSecrets.worker.Run(ctx, 1) })
	loops.Go(func() { c.worker.Run(ctx, workers) })
	loops.Wait()
}
