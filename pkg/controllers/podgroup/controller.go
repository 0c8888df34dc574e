// Package podgroup is the only writer of PodGroup.status. It admits PodGroups to their queues, and reports the state of their members:
// phase, counts and conditions. It also makes PodGroups for pods that have none.
//
// admission.go has decided what is admitted (pkg/admission). counts.go counts members, status.go computes the status from that, and reconcile.go
// writes it. adoption.go makes PodGroups.
package podgroup

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	batchv1alpha1listers "github.com/muster-sched/muster/pkg/client/listers/batch/v1alpha1"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/runs"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/job/phase"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/runtimes"
	"github.com/muster-sched/muster/pkg/topology"
)

// Config has the inputs of the controller.
type Config struct {
	// KubeClient reads the owners of pods that are given a PodGroup, and annotates these pods.
	KubeClient kubernetes.Interface
	// MusterClient writes PodGroup status, and PodGroups for pods that have none.
	MusterClient versioned.Interface
	// KubeInformers and MusterInformers are shared; they must not have been started.
	KubeInformers   informers.SharedInformerFactory
	MusterInformers musterinformers.SharedInformerFactory
	// Usage is the use of the queues.
	Usage *usage.Tracker
	// Recorder emits the events on PodGroups, and on pods that can be given none.
	Recorder record.EventRecorder
	// Reports delays writes that nothing waits for while there is admission or other controllers' work; nil writes all at once.
	Reports *worker.Reports
	// Runs is the history of run times; nil keeps it in memory only.
	Runs *runs.Runs
	// Clock is the clock; nil means the real one.
	Clock clock.Clock
	// OvercommitFactor holds a PodGroup back whose minimum exceeds this factor times what all nodes have; 0 never does.
	OvercommitFactor float64
	// HoldTimeout is how long room of a queue is kept for an admitted PodGroup that does not start. 0 means for ever.
	HoldTimeout time.Duration
	// OvertakeTime is how long other PodGroups may be admitted past one that lacks room in its queue. 0 means for ever.
	OvertakeTime time.Duration
	// PhJobs knows the PhJobs that PodGroups are for; nil if there are none.
	PhJobs PhJobs
	// Network knows the domains that gangs run in; nil if there are none.
	Network Network
	// AdoptFrom are the scheduler names whose pods are given a PodGroup if they have none. Empty means no pods.
	AdoptFrom []string
}

// Controller admits PodGroups and writes their status.
type Controller struct {
	client       versioned.Interface
	groups       schedulingv1beta1listers.PodGroupLister
	jobs         batchv1alpha1listers.JobLister
	usage        *usage.Tracker
	recorder     record.EventRecorder
	clock        clock.Clock
	admission    *admissions
	adoption     *adoption
	status       *worker.Worker
	reports      *worker.Reports
	synced       []cache.InformerSynced
	written      worker.Written[*schedulingv1beta1.PodGroup]
	writes       writeTimes
	holdTimeouts holdTimeouts
	deletions    *deletions
	successes    *successes
	runs         *runs.Runs
	network      Network  // may be nil
	sizes        sync.Map // "<namespace>/<name>" of a PodGroup -> how many pods the last look found

	versionIsPruned  atomic.Bool // the installed CRD does not know status.jobVersion
	placeIsPruned    atomic.Bool // nor status.place
	estimateIsPruned atomic.Bool // nor status.estimate
}

// New makes the controller and registers it with the informers.
func New(cfg Config) (*Controller, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	scheduling := cfg.MusterInformers.Scheduling().V1beta1()
	c := &Controller{
		client:       cfg.MusterClient,
		groups:       scheduling.PodGroups().Lister(),
		jobs:         cfg.MusterInformers.Batch().V1alpha1().Jobs().Lister(),
		usage:        cfg.Usage,
		recorder:     cfg.Recorder,
		clock:        cfg.Clock,
		holdTimeouts: holdTimeouts{limit: cfg.HoldTimeout, since: map[string]sighting{}},
		deletions:    newDeletions(),
		reports:      cfg.Reports,

		successes: newSuccesses(),
		runs:      cfg.Runs,
		network:   cfg.Network,
	}
	if c.runs == nil {
		c.runs = runs.New(nil, cfg.Clock)
	}
	c.adoption = newAdoption(cfg)
	c.adoption.suspended = c.releaseSuspended
	c.status = worker.New("podgroup", c)
	c.reports.Share(c.status)
	c.admission = &admissions{
		tracker:      cfg.Usage,
		groups:       scheduling.PodGroups().Informer().GetStore(),
		queues:       scheduling.Queues().Lister(),
		priorities:   cfg.KubeInformers.Scheduling().V1().PriorityClasses().Lister(),
		factor:       cfg.OvercommitFactor,
		overtakeTime: cfg.OvertakeTime,
		phJobs:       cfg.PhJobs,
		clock:        cfg.Clock,
		decided:      c.noteDecision,
		placed:       func(key string) { c.status.Enqueue(key) },
		waiting:      map[string]types.UID{},
		decisions:    map[string]admission.Decision{},
	}
	c.admission.loop = worker.New("podgroup-admission", c.admission)
	c.admission.cluster = ledger.NewNodes(cfg.Usage.Ledger(), func(bool) { c.admission.wake() })
	if err := c.listen(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// releaseSuspended keeps no quota for a PodGroup whose Job is suspended.
func (c *Controller) releaseSuspended(group *schedulingv1beta1.PodGroup) {
	key := cache.MetaObjectToName(group).String()
	c.holdTimeouts.suspend(key, group.UID)
	c.status.Enqueue(key)
}

// noteDecision has admission's decision written to the status, first of all an admission.
func (c *Controller) noteDecision(key string, v admission.Decision) {
	if v.Admitted {
		c.status.EnqueueFirst(key)
		return
	}
	c.status.Enqueue(key)
}

// listen registers the handlers that cause syncs and rounds of admission.
func (c *Controller) listen(cfg Config) error {
	scheduling := cfg.MusterInformers.Scheduling().V1beta1()
	classes := cfg.KubeInformers.Scheduling().V1().PriorityClasses().Informer()
	var err error
	c.synced, err = worker.Listen(
		worker.On(scheduling.PodGroups().Informer(), c.groupHandler()),
		worker.On(scheduling.PodGroups().Informer(), c.adoption.groupHandler()),
		worker.On(cfg.KubeInformers.Core().V1().Pods().Informer(), c.adoption.podHandler()),
		worker.On(scheduling.Queues().Informer(), c.queueHandler()),
		worker.On(cfg.MusterInformers.Batch().V1alpha1().Jobs().Informer(), c.jobHandler()),
		worker.On(cfg.KubeInformers.Core().V1().Pods().Informer(), c.podHandler()),
		worker.On(cfg.KubeInformers.Core().V1().Nodes().Informer(), nodeHandler(c.admission.cluster)),
	)
	if err != nil {
		return err
	}
	c.synced = append(c.synced, classes.HasSynced, c.usage.HasSynced)
	if cfg.PhJobs != nil {
		cfg.PhJobs.Watch(c.admission.wake)
	}
	if cfg.Network != nil {
		cfg.Network.Watch(c.networkChanged)
	}
	c.usage.Watch(func(_ string, freed bool) {
		if freed {
			c.admission.wake()
		}
	})
	return nil
}

// tree is the domains of the network. It is nil without a Network.
func (c *Controller) tree() *topology.Tree {
	if c.network == nil {
		return nil
	}
	return c.network.Tree()
}

// networkChanged has the PodGroups synced whose place in the network may be told otherwise.
func (c *Controller) networkChanged() {
	c.syncGroups(func(group *schedulingv1beta1.PodGroup) bool { return gang.TopologyOf(group) != nil })
}

// syncGroups has some PodGroups synced.
func (c *Controller) syncGroups(some func(*schedulingv1beta1.PodGroup) bool) {
	groups, _ := c.groups.List(labels.Everything()) // the informer's store has no errors
	for _, group := range groups {
		if some(group) {
			c.status.Enqueue(group.Namespace + "/" + group.Name)
		}
	}
}

// Removing notes that Muster is about to delete a pod: the deletion makes no gang Unknown.
func (c *Controller) Removing(pod types.UID) { c.deletions.removing(pod) }

// NotRemoved takes back Removing for a pod that was gone already.
func (c *Controller) NotRemoved(pod types.UID) { c.deletions.notRemoved(pod) }

// Run works until the context ends, with that many writers of status.
func (c *Controller) Run(ctx context.Context, workers int) {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	c.deletions.watch(c.usage.Pods())
	c.restore()
	c.runs.Read(ctx)
	c.noteLate()
	c.admission.loop.Enqueue(allPlaces)
	var loops sync.WaitGroup
	loops.Go(func() { c.admission.loop.Run(ctx, 1) })
	loops.Go(func() { c.status.Run(ctx, workers) })
	loops.Go(func() { c.adoption.run(ctx, workers) })
	loops.Go(func() { c.runs.Run(ctx) })
	loops.Wait()
}

// nodeHandler sums up the resources of nodes.
func nodeHandler(nodes *ledger.Nodes) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { nodes.Set(obj.(*corev1.Node)) },
		UpdateFunc: func(_, obj any) { nodes.Set(obj.(*corev1.Node)) },
		DeleteFunc: func(obj any) {
			if node, ok := worker.LastKnown[*corev1.Node](obj); ok {
				nodes.Delete(node)
			}
		},
	}
}

func (c *Controller) groupHandler() cache.ResourceEventHandler {
	changed := func(obj any) {
		group := obj.(*schedulingv1beta1.PodGroup)
		c.admission.observe(group)
		c.status.Enqueue(group.Namespace + "/" + group.Name)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: func(obj any) {
			if group, ok := worker.LastKnown[*schedulingv1beta1.PodGroup](obj); ok {
				c.groupLost(group)
				c.admission.lose(group.Namespace + "/" + group.Name)
				c.status.Enqueue(group.Namespace + "/" + group.Name)
			}
		},
	}
}

// queueHandler wakes admission for changes of queues that may make room: not for the numbers in their status.
func (c *Controller) queueHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.admission.wake()
			c.runtimeChanged(nil, obj.(*schedulingv1beta1.Queue))
		},
		UpdateFunc: func(oldObj, newObj any) {
			last, next := oldObj.(*schedulingv1beta1.Queue), newObj.(*schedulingv1beta1.Queue)
			if last.Generation != next.Generation || last.Status.State != next.Status.State {
				c.admission.wake()
				c.runtimeChanged(last, next)
			}
		},
		DeleteFunc: func(any) { c.admission.wake() },
	}
}

// runtimeChanged has the PodGroups of a queue synced whose default run time has changed.
func (c *Controller) runtimeChanged(last, next *schedulingv1beta1.Queue) {
	if runtimes.DefaultOf(last) != runtimes.DefaultOf(next) {
		c.syncGroups(func(group *schedulingv1beta1.PodGroup) bool { return admission.QueueOf(group) == next.Name })
	}
}

// jobHandler enqueues the PodGroups of Jobs whose incarnation or number of succeeded pods has changed. It does so, too, for Jobs that create
// no more pods, or create pods again.
func (c *Controller) jobHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			last, next := oldObj.(*batchv1alpha1.Job), newObj.(*batchv1alpha1.Job)
			ended := phase.KeepsOnlyFinished(next.Status.State.Phase) != phase.KeepsOnlyFinished(last.Status.State.Phase)
			if ended || last.Status.Version != next.Status.Version || last.Status.Succeeded != next.Status.Succeeded {
				c.gather(next.Namespace + "/" + batchv1alpha1.PodGroupName(next))
			}
			if last.Status.State.Phase != next.Status.State.Phase && phase.Ended(next.Status.State.Phase) {
				c.jobEnded(next, ptr.Deref(next.Status.CompletionTime, metav1.Time{}).Time)
			}
		},
		DeleteFunc: func(obj any) {
			if job, ok := worker.LastKnown[*batchv1alpha1.Job](obj); ok && phase.Runs(job.Status.State.Phase) {
				c.jobEnded(job, c.clock.Now())
			}
		},
	}
}

// gather has a PodGroup synced once changes of its pods have been gathered.
func (c *Controller) gather(key string) { c.status.EnqueueAfter(key, c.gatherPause(key)) }

func (c *Controller) gatherPause(key string) time.Duration {
	pods, _ := c.sizes.Load(key)
	known, _ := pods.(int)
	return worker.GatherPause(known)
}

func (c *Controller) podHandler() cache.ResourceEventHandler {
	gather := func(obj any) {
		if pod, ok := worker.LastKnown[*corev1.Pod](obj); ok {
			if group := admission.PodGroupOf(pod); group != "" {
				c.gather(group)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.successes.saw(obj.(*corev1.Pod))
			gather(obj)
		},
		UpdateFunc: func(oldObj, newObj any) {
			last, next := oldObj.(*corev1.Pod), newObj.(*corev1.Pod)
			c.successes.saw(next)
			if last.UID != next.UID {
				c.deletions.gone(last)
				c.successes.gone(last)
			} else {
				c.deletions.change(last, next)
			}
			if admission.PodGroupOf(last) != admission.PodGroupOf(next) {
				gather(last)
			}
			gather(next)
		},
		DeleteFunc: func(obj any) {
			if pod, ok := worker.LastKnown[*corev1.Pod](obj); ok {
				c.deletions.gone(pod)
				c.successes.gone(pod)
				gather(pod)
			}
		},
	}
}
