// Package job is the controller that turns Jobs into PodGroups and pods and manages their life.
//
// controller.go and watch.go have the events that enqueue a Job. reconcile.go is the main part: take a snapshot (look.go), make a plan
// (pkg/job/plan), write the status that announces it (write.go), and carry it out (act.go).
package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/controller/util/consistency"
	"k8s.io/utils/clock"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	batchlisters "github.com/muster-sched/muster/pkg/client/listers/batch/v1alpha1"
	musterlisters "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/job/ended"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/job/plan"
)

// Config has the inputs of a Controller.
type Config struct {
	// Kube is the client for pods.
	Kube kubernetes.Interface
	// Muster is the client for Jobs, PodGroups and Commands.
	Muster versioned.Interface
	// KubeInformers and MusterInformers are shared with other controllers; the caller that made them starts them, after New.
	KubeInformers   informers.SharedInformerFactory
	MusterInformers externalversions.SharedInformerFactory
	// Recorder writes the events on Jobs.
	Recorder record.EventRecorder
	// Removals receives the UIDs of the pods that the controller deletes. It may be nil.
	Removals Removals
	// Reports delays writes that only report progress while there is other work; nil writes all at once.
	Reports *worker.Reports
	// RegisterMetrics makes the controller's metrics visible. They are not counted if it is nil.
	RegisterMetrics func(...metrics.Registerable)
	// Clock is the clock; the real one if nil.
	Clock clock.PassiveClock
	// SchedulerName is the scheduler of Jobs that name none; defaults.SchedulerName if empty.
	SchedulerName string
	// DependencyCondition is the condition of tasks whose dependsOn names none; Completed if empty.
	DependencyCondition batchv1alpha1.DependencyCondition
	// RestartBackoff is how long a Job waits that is restarted for the second time in a row. Each time the pause doubles, up to 60 times
	// as long. 0 switches it off.
	RestartBackoff time.Duration
	// ServedSchedulerNames are the scheduler names behind which Muster's plugins run. A Job with another name gets a warning. Empty means
	// that this is not known.
	ServedSchedulerNames []string
}

// Removals learns which pods the controller removes, to tell them from removals by other clients.
type Removals interface {
	// Removing is called before the deletion of a pod.
	Removing(pod types.UID)
	// NotRemoved is called if the pod was gone already.
	NotRemoved(pod types.UID)
}

// noRemovals ignores removals.
type noRemovals struct{}

// Removing does nothing.
func (noRemovals) Removing(types.UID) {}

// NotRemoved does nothing.
func (noRemovals) NotRemoved(types.UID) {}

// Resources whose own writes the controller waits to see in the informers.
var (
	podResource   = schema.GroupResource{Resource: "pods"}
	groupResource = schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"}
)

// Indexes of the informers that the controller looks things up by.
const (
	byOwningJob = "controllers/job/owner-uid"
	byQueue     = "controllers/job/queue"
	byParent    = "controllers/job/parent-queue"
	byTargetJob = "controllers/job/target"
	byClaim     = "controllers/job/claim"
)

// Controller reconciles Jobs.
type Controller struct {
	kube            kubernetes.Interface
	muster          versioned.Interface
	recorder        record.EventRecorder
	clock           clock.PassiveClock
	schedulerName   string
	served          []string
	dependency      batchv1alpha1.DependencyCondition
	restartBackoff  time.Duration
	jobs            batchlisters.JobLister
	groups          musterlisters.PodGroupLister
	queues          musterlisters.QueueLister
	priorityClasses schedulinglisters.PriorityClassLister
	limitRanges     corelisters.LimitRangeLister
	runtimeClasses  nodelisters.RuntimeClassLister
	podIndex        cache.Indexer // pods, by the UID of the Job that controls them
	jobIndex        cache.Indexer // Jobs, by their queue, and by the claims that they name
	queueIndex      cache.Indexer // queues, by their parent
	commandIndex    cache.Indexer // Commands, by the key of the Job that they name
	synced          []cache.InformerSynced
	worker          *worker.Worker
	removals        Removals
	reports         *worker.Reports
	localStates     localStates
	podTracker      ended.Tracker
	instruments     *instruments
	requests        chan struct{} // one for each pod that is being created or deleted
	turns           *worker.Turns // of Jobs that have many pods to create or delete
	slowSecrets     *slowSecrets
	secretAccess    secretAccess
	writtenJobs     worker.Written[*batchv1alpha1.Job]
	kinds           *kinds                       // objects of Jobs beside pods and PodGroups
	written         consistency.ConsistencyStore // writes that no informer shows yet
}

// New makes a Controller and adds its handlers and indexes to the informers. It panics if an informer has been
// started already, which only a mistake in a main can cause.
func New(cfg Config) *Controller {
	jobs := cfg.MusterInformers.Batch().V1alpha1().Jobs()
	groups := cfg.MusterInformers.Scheduling().V1beta1().PodGroups()
	queues := cfg.MusterInformers.Scheduling().V1beta1().Queues()
	commands := cfg.MusterInformers.Bus().V1alpha1().Commands().Informer()
	pods := cfg.KubeInformers.Core().V1().Pods()
	classes := cfg.KubeInformers.Scheduling().V1().PriorityClasses()
	limits := cfg.KubeInformers.Core().V1().LimitRanges()
	runtimes := cfg.KubeInformers.Node().V1().RuntimeClasses()

	c := &Controller{
		requests:        make(chan struct{}, maxRequests),
		instruments:     newInstruments(),
		kube:            cfg.Kube,
		muster:          cfg.Muster,
		recorder:        cfg.Recorder,
		clock:           cfg.Clock,
		schedulerName:   cfg.SchedulerName,
		served:          cfg.ServedSchedulerNames,
		dependency:      cfg.DependencyCondition,
		restartBackoff:  cfg.RestartBackoff,
		jobs:            jobs.Lister(),
		groups:          groups.Lister(),
		queues:          queues.Lister(),
		priorityClasses: classes.Lister(),
		limitRanges:     limits.Lister(),
		runtimeClasses:  runtimes.Lister(),
		podIndex:        pods.Informer().GetIndexer(),
		jobIndex:        jobs.Informer().GetIndexer(),
		queueIndex:      queues.Informer().GetIndexer(),
		commandIndex:    commands.GetIndexer(),
		removals:        cfg.Removals,
		reports:         cfg.Reports,
	}
	if c.removals == nil {
		c.removals = noRemovals{}
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if cfg.RegisterMetrics != nil {
		c.instruments.register(cfg.RegisterMetrics)
	}
	c.worker = worker.New("job", c)
	c.turns = worker.NewTurns(turnsAtOnce, turnBounds, c.worker.Enqueue)
	c.slowSecrets = newSlowSecrets(c.worker.Enqueue)
	c.reports.Share(c.worker)
	c.secretAccess.reviews = cfg.Kube.AuthenticationV1().SelfSubjectReviews()
	c.kinds = newKinds(cfg.Kube, cfg.KubeInformers)
	c.synced = append(c.synced, classes.Informer().HasSynced)
	c.watchOwned(pods.Informer(), groups.Informer())
	c.watch(jobs.Informer(), c.jobHandler(), cache.Indexers{byQueue: queueOfJob, byClaim: claimsOfJob})
	c.watch(jobs.Informer(), c.instruments.jobs.handler(), nil)
	c.watch(queues.Informer(), c.queueHandler(), cache.Indexers{byParent: parentOfQueue})
	c.watch(limits.Informer(), c.additionsHandler(), nil)
	c.watch(runtimes.Informer(), c.additionsHandler(), nil)
	c.watch(commands, c.commandHandler(), cache.Indexers{byTargetJob: jobOfCommand})
	return c
}

// watchOwned watches the objects of Jobs. It remembers the controller's own writes until the informers show them.
func (c *Controller) watchOwned(pods, groups cache.SharedIndexInformer) {
	stores := map[schema.GroupResource]consistency.LastSyncRVGetter{
		podResource:   pods.GetStore(),
		groupResource: groups.GetStore(),
	}
	for _, kind := range c.kinds.all() {
		stores[kind.resource()] = kind.watched().GetStore()
		c.watch(kind.watched(), c.ownedHandler(c.lookPause), cache.Indexers{byOwningJob: owningJob})
	}
	c.written = consistency.NewConsistencyStore(stores)
	c.watch(pods, c.podHandler(), cache.Indexers{byOwningJob: owningJob})
	c.watch(groups, c.ownedHandler(c.lookPause), nil)
	c.watch(c.kinds.claims.watched(), c.claimHandler(), nil)
}

func (c *Controller) watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler, indexers cache.Indexers) {
	must(informer.AddIndexers(indexers))
	registration, err := informer.AddEventHandler(handler)
	must(err)
	c.synced = append(c.synced, registration.HasSynced)
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("setting up the job controller: %v", err))
	}
}

// Run reconciles Jobs, that many at once, until the context ends. The informers must be started by then or soon.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.kinds.informers.Start(ctx.Done())
	defer c.kinds.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	c.podTracker.Open()
	c.instruments.jobs.show()
	var loops sync.WaitGroup
	loops.Go(func() { c.slowSecrets.worker.Run(ctx, 1) })
	loops.Go(func() { c.worker.Run(ctx, workers) })
	loops.Wait()
}

// Sync syncs the Job with that key once. It implements worker.Syncer.
func (c *Controller) Sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("splitting the key %q: %w", key, err)
	}
	owner := types.NamespacedName{Namespace: namespace, Name: name}
	cached, err := c.jobs.Jobs(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.forget(owner, key)
		return 0, c.dropCommands(ctx, namespace, name)
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the Job: %w", err)
	}
	job := c.writtenJobs.Latest(key, cached)
	if plan.IsOrphaning(job) {
		c.turns.Leave(key) // it has nothing to do any more, and may be like this for long
		return 0, nil
	}
	local := c.localStates.of(key, job.UID)
	after, err := c.look(ctx, owner, job, local)
	if early := (*notYet)(nil); errors.As(err, &early) {
		return plan.Soonest(after, c.again(ctx, job, early, &local.retries)), nil
	}
	local.retries = retries{}
	if err != nil || !phase.Ended(job.Status.State.Phase) {
		return after, err
	}
	c.podTracker.Forget(job.UID)
	c.slowSecrets.forget(key)
	if left := worker.LeastStatusInterval - c.clock.Now().Sub(local.lastWrite); left > 0 {
		return plan.Soonest(after, left), nil // the local state keeps the status from being written too often
	}
	c.localStates.forget(key)
	return after, nil
}

// look syncs the Job once the informers show the controller's own writes.
func (c *Controller) look(ctx context.Context, owner types.NamespacedName, job *batchv1alpha1.Job, local *localState) (time.Duration, error) {
	if err := c.written.EnsureReady(owner); err != nil {
		// The informer shows the last write soon, which brings the Job back here; the pause is for the case that it was deleted again
		// before it was seen.
		return 0, &notYet{err.Error(), plan.RetrySoon}
	}
	after, err := c.reconcile(ctx, job, local)
	if !local.unfinished {
		c.turns.Leave(keyOf(job))
	}
	return after, err
}

func (c *Controller) forget(owner types.NamespacedName, key string) {
	c.turns.Leave(key)
	c.slowSecrets.forget(key)
	c.localStates.forget(key)
	c.writtenJobs.Forget(key)
	c.written.Clear(owner, "")
}

// podsOf returns the pods that the Job controls, of whatever incarnation.
func (c *Controller) podsOf(job *batchv1alpha1.Job) ([]*corev1.Pod, error) {
	found, err := c.podIndex.ByIndex(byOwningJob, string(job.UID))
	if err != nil {
		return nil, fmt.Errorf("looking up the Job's pods: %w", err)
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, one := range found {
		pods = append(pods, one.(*corev1.Pod))
	}
	return pods, nil
}

// childrenOf returns the number of queues below the queue.
func (c *Controller) childrenOf(queue string) int {
	children, err := c.queueIndex.ByIndex(byParent, queue)
	if err != nil {
		return 0
	}
	return len(children)
}

func nameOf(job *batchv1alpha1.Job) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
}

func keyOf(job *batchv1alpha1.Job) string { return job.Namespace + "/" + job.Name }
