// Package topology judges what the API says of the network. The status of each HyperNode and NetworkTopology says what of it is not used, and why.
package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/topology"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

const (
	// objectPause is how long further changes of objects are waited for, and nodePause those of nodes.
	objectPause = 200 * time.Millisecond
	nodePause   = time.Second
	// maxWrites bounds the statuses that one sync writes, with the writers at a time. Objects with faults are first. The rest follows after
	// writePause.
	maxWrites  = 200
	writers    = 16
	writePause = time.Second
	// recheckPeriod is how often all statuses are compared although nothing has changed: another program may have written one.
	recheckPeriod = 5 * time.Minute
)

// everything is the only key: one fault may be about several objects.
const everything = "topology"

// Config has the inputs of the controller.
type Config struct {
	// Muster writes the statuses.
	Muster versioned.Interface
	// Watching and Foreign follow the objects of Muster and of Kueue.
	Watching versioned.Interface
	Foreign  dynamic.Interface
	// Nodes are shared; they must not have been started.
	Nodes coreinformers.NodeInformer
	// Recorder emits the events on the objects of Kueue, whose status is not ours.
	Recorder record.EventRecorder
}

// Controller writes the statuses of all objects that describe the network. It finds the faults as the scheduler does.
type Controller struct {
	cfg     Config
	nodes   corev1listers.NodeLister
	synced  cache.InformerSynced
	worker  *worker.Worker
	objects *watch.Objects // nil before Run
	tree    atomic.Pointer[topology.Tree]
	changed func()            // may be nil
	told    map[string]string // Topology of Kueue -> its last event
}

// New makes the controller and registers it with the informer of nodes.
func New(cfg Config) (*Controller, error) {
	c := &Controller{cfg: cfg, nodes: cfg.Nodes.Lister(), told: map[string]string{}}
	c.worker = worker.New("topology", c)
	later := func(any) { c.worker.EnqueueAfter(everything, nodePause) }
	registration, err := cfg.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: later,
		UpdateFunc: func(old, obj any) {
			if !maps.Equal(old.(*corev1.Node).Labels, obj.(*corev1.Node).Labels) {
				later(obj)
			}
		},
		DeleteFunc: later,
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	c.synced = registration.HasSynced
	return c, nil
}

// Tree is the domains of the network, nil as long as they have not been read.
func (c *Controller) Tree() *topology.Tree { return c.tree.Load() }

// Watch has f called when the domains have been read, and when they have changed. It must come before Run.
func (c *Controller) Watch(f func()) { c.changed = f }

// keep keeps a new tree, and tells so if it differs.
func (c *Controller) keep(tree *topology.Tree) {
	last := c.tree.Swap(tree)
	if c.changed != nil && (last == nil || last.Generation != tree.Generation) {
		c.changed()
	}
}

// Run works until the context ends. The kinds of objects may be missing, and may come later.
func (c *Controller) Run(ctx context.Context) {
	objects, err := watch.Start(ctx, c.cfg.Watching, c.cfg.Foreign, func() { c.worker.EnqueueAfter(everything, objectPause) })
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "No HyperNode and no NetworkTopology will have a status")
		return
	}
	c.objects = objects
	if cache.WaitForCacheSync(ctx.Done(), c.synced, objects.Synced) {
		c.worker.Enqueue(everything)
		c.worker.Run(ctx, 1)
	}
}

// Sync writes the statuses that differ from what they should be, as many as one sync may.
func (c *Controller) Sync(ctx context.Context, _ string) (time.Duration, error) {
	d := c.described()
	c.keep(d.tree)
	c.tellKueue(d)
	due := d.due(metav1.Now())
	some := due[:min(len(due), maxWrites)]
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, writers, len(some), func(i int) {
		if err := c.write(ctx, &some[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	if len(some) < len(due) {
		return writePause, errors.Join(errs...)
	}
	return recheckPeriod, errors.Join(errs...)
}

// described is what the API says of the network now. Without any object no node is looked at.
func (c *Controller) described() *description {
	d := &description{hyperNodes: c.objects.HyperNodeObjects(), lists: c.objects.NetworkTopologyObjects()}
	lists := c.objects.Lists()
	if len(d.hyperNodes)+len(d.lists)+len(lists) == 0 {
		d.build(nil, nil)
		return d
	}
	all, _ := c.nodes.List(labels.Everything()) // the informer's store has no errors
	nodes := make([]topology.Node, len(all))
	for i, node := range all {
		nodes[i] = topology.Node{Name: node.Name, Labels: node.Labels}
	}
	d.build(lists, nodes)
	return d
}

// write patches one status. The UID protects a later object of the same name.
func (c *Controller) write(ctx context.Context, status *statusWrite) error {
	patch, err := status.patch()
	if err != nil {
		return err
	}
	switch status.kind {
	case topology.HyperNodeKind:
		_, err = c.cfg.Muster.TopologyV1alpha1().HyperNodes().Patch(ctx, status.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	default:
		_, err = c.cfg.Muster.MusterV1alpha1().NetworkTopologies().Patch(ctx, status.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the status of %s %s: %w", status.kind, status.name, err)
	}
	return nil
}

// tellKueue has events on the Topologies of Kueue that are not used as a whole, once for each text.
func (c *Controller) tellKueue(d *description) {
	told := map[string]string{}
	for _, object := range c.objects.KueueObjects() {
		faults := d.faults[watch.KueueKind+"/"+object.GetName()]
		if len(faults) == 0 {
			continue
		}
		key, message := string(object.GetUID()), messageOf(faults)
		if told[key] = message; c.told[key] != message {
			c.cfg.Recorder.Event(object, corev1.EventTypeWarning, faults[0].Reason, message)
		}
	}
	c.told = told
}
