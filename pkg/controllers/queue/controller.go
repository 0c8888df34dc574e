// Package queue is the only writer of Queue.status. It creates the queues root and default, opens and closes queues, and counts their
// PodGroups and use.
package queue

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/admission"
	busv1alpha1 "github.com/muster-sched/muster/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

const (
	// gatherPause is how long the controller waits for further changes of a queue's PodGroups and pods before it counts them. A queue's
	// status is written at most that often for their sake. A queue that has become empty does not wait.
	gatherPause = time.Second
	// sharesPeriod is how often the shares of queues are computed. One change may change the share of all queues, and each costs a write.
	sharesPeriod = 5 * time.Second
	// childrenIndex maps a queue to the queues that name it as their parent.
	childrenIndex = "muster-parent"
)

// Config has the inputs of the controller.
type Config struct {
	// MusterClient reads and writes Queues and deletes Commands.
	MusterClient versioned.Interface
	// MusterInformers are shared; they must not have been started.
	MusterInformers musterinformers.SharedInformerFactory
	// Usage is the use of the queues.
	Usage *usage.Tracker
	// Shares computes the present share of each queue.
	Shares func() quota.Shares
	// Waiting is the sum of the minimums that wait to be admitted, by queue. The metrics show it.
	Waiting func() map[string]resources.Sums
	// Clock is the clock; nil means the real one.
	Clock clock.Clock
	// Recorder emits the events on Queues.
	Recorder record.EventRecorder
}

// Controller reconciles Queues, one at a time: the next state of a queue may depend on its parent.
type Controller struct {
	client   versioned.Interface
	queues   schedulingv1beta1listers.QueueLister
	children cache.Indexer
	commands cache.Indexer
	usage    *usage.Tracker
	shareOut func() quota.Shares
	clock    clock.Clock
	recorder record.EventRecorder
	worker   *worker.Worker
	synced   []cache.InformerSynced

	written  worker.Written[*schedulingv1beta1.Queue]
	executed map[string]sets.Set[types.UID] // queue -> its Commands that were executed and are still in the informer
	settled  map[string]settled             // queue -> which of its terms count
	shares   quota.Shares                   // as they were at sharedAt
	sharedAt time.Time

	gauges *Gauges
}

// New makes the controller and registers it with the informers.
func New(cfg Config) (*Controller, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	queues := cfg.MusterInformers.Scheduling().V1beta1().Queues()
	commands := cfg.MusterInformers.Bus().V1alpha1().Commands().Informer()
	if err := queues.Informer().AddIndexers(cache.Indexers{childrenIndex: indexByParent}); err != nil {
		return nil, fmt.Errorf("indexing queues by parent: %w", err)
	}
	if err := commands.AddIndexers(cache.Indexers{targetIndex: indexByTarget}); err != nil {
		return nil, fmt.Errorf("indexing commands by target: %w", err)
	}
	c := &Controller{
		client:   cfg.MusterClient,
		queues:   queues.Lister(),
		children: queues.Informer().GetIndexer(),
		commands: commands.GetIndexer(),
		usage:    cfg.Usage,
		shareOut: cfg.Shares,
		clock:    cfg.Clock,
		recorder: cfg.Recorder,
		executed: map[string]sets.Set[types.UID]{},
	}
	c.gauges = newGauges(c.queues, cfg.Usage.Ledger(), cfg.Waiting)
	c.worker = worker.New("queue", c)
	return c, c.listen(cfg)
}

func (c *Controller) listen(cfg Config) error {
	scheduling := cfg.MusterInformers.Scheduling().V1beta1()
	var err error
	c.synced, err = worker.Listen(
		worker.On(scheduling.Queues().Informer(), c.queueHandler()),
		worker.On(scheduling.PodGroups().Informer(), c.groupHandler()),
		worker.On(cfg.MusterInformers.Bus().V1alpha1().Commands().Informer(), c.commandHandler()),
	)
	if err != nil {
		return err
	}
	c.synced = append(c.synced, c.usage.HasSynced)
	c.usage.Watch(c.countLater)
	return nil
}

// Run works until the context ends. At its start it makes the queues that must exist.
func (c *Controller) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	c.gauges.leads.Store(true)
	c.worker.Enqueue(everyQueue)
	c.worker.Enqueue(schedulingv1beta1.RootQueue)
	c.worker.Enqueue(schedulingv1beta1.DefaultQueue)
	c.worker.Run(ctx, 1)
}

// countLater has a queue counted soon, and its ancestors, as their numbers include its own.
func (c *Controller) countLater(queue string, freed bool) {
	for _, name := range c.usage.Ledger().Path(queue) {
		c.countSoon(name, freed)
	}
}

// countSoon has a queue counted. An empty one is counted at once, before all others. It may be deleted as soon as its status says so.
func (c *Controller) countSoon(queue string, freed bool) {
	if freed && c.isEmpty(queue) {
		c.worker.EnqueueFirst(queue)
	} else {
		c.worker.EnqueueAfter(queue, gatherPause)
	}
}

// isEmpty says whether nothing is charged to a queue, and all its PodGroups are completed.
func (c *Controller) isEmpty(queue string) bool {
	if _, all := c.usage.Ledger().Totals(queue); !all.IsZero() {
		return false
	}
	return !countPhases(&schedulingv1beta1.QueueStatus{}, c.usage.PodGroups(queue))
}

func (c *Controller) queueHandler() cache.ResourceEventHandler {
	parent := func(queue *schedulingv1beta1.Queue) {
		if name := queue.ParentName(); name != "" {
			c.worker.Enqueue(name) // it may have its first child, or none any more
		}
	}
	withChildren := func(name string) {
		c.worker.Enqueue(name)
		children, _ := c.children.ByIndex(childrenIndex, name) // fails only for an unknown index
		for _, child := range children {
			c.worker.Enqueue(child.(*schedulingv1beta1.Queue).Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.worker.Enqueue(everyQueue)
			withChildren(obj.(*schedulingv1beta1.Queue).Name)
			parent(obj.(*schedulingv1beta1.Queue))
		},
		UpdateFunc: func(oldObj, newObj any) {
			last, next := oldObj.(*schedulingv1beta1.Queue), newObj.(*schedulingv1beta1.Queue)
			if last.Generation != next.Generation || last.UID != next.UID {
				c.worker.Enqueue(everyQueue)
			}
			if last.ParentName() != next.ParentName() {
				parent(last)
				parent(next)
			}
			if last.Status.State != next.Status.State {
				withChildren(next.Name)
				return
			}
			if last.Generation == next.Generation && apiequality.Semantic.DeepEqual(last.Annotations, next.Annotations) &&
				last.Labels[schedulingv1beta1.TakesNoJobsLabel] == next.Labels[schedulingv1beta1.TakesNoJobsLabel] {
				c.worker.EnqueueAfter(next.Name, gatherPause) // only what we write has changed
				return
			}
			c.worker.Enqueue(next.Name)
		},
		DeleteFunc: func(obj any) {
			if queue, ok := worker.LastKnown[*schedulingv1beta1.Queue](obj); ok {
				c.dropSeries(queue.Name)
				c.worker.Enqueue(everyQueue)
				withChildren(queue.Name)
				parent(queue)
			}
		},
	}
}

func (c *Controller) groupHandler() cache.ResourceEventHandler {
	count := func(obj any, freed bool) {
		if group, ok := worker.LastKnown[*schedulingv1beta1.PodGroup](obj); ok {
			c.countLater(admission.QueueOf(group), freed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { count(obj, false) },
		UpdateFunc: func(oldObj, newObj any) {
			last, next := oldObj.(*schedulingv1beta1.PodGroup), newObj.(*schedulingv1beta1.PodGroup)
			if last.Status.Phase != next.Status.Phase || admission.QueueOf(last) != admission.QueueOf(next) {
				count(oldObj, true)
				count(newObj, next.Status.Phase == schedulingv1beta1.PodGroupCompleted)
				c.countAdmission(last, next, c.clock.Now())
			}
		},
		DeleteFunc: func(obj any) { count(obj, true) },
	}
}

func (c *Controller) commandHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if queue, ok := targetQueue(obj.(*busv1alpha1.Command)); ok {
				c.worker.Enqueue(queue)
			}
		},
	}
}

func indexByParent(obj any) ([]string, error) {
	return []string{obj.(*schedulingv1beta1.Queue).ParentName()}, nil
}
