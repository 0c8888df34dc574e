package gangs

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	schedulingv1beta1listers "github.com/muster-sched/muster/pkg/client/listers/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/connection"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/ledger"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
	"github.com/muster-sched/muster/pkg/topology/watch"
)

// ReadTimeout bounds how long pods without a gang and a queue wait until PodGroups and Queues have been read. If the CRDs are missing, they
// are never read.
const ReadTimeout = 30 * time.Second

// Feed tells the tracker what is in the API. It starts nothing else. NewRegistry in pkg/scheduler/plugins gives OnStart what is to run beside
// it. A registry that is made by hand must do so, too: without dispatch.Dispatch no gang ever starts. The others are report.SelfCheck,
// report.Run and eviction.LowerUsage.
type Feed struct {
	t       *store
	once    sync.Once
	err     error
	connect Connector
	onStart []func(context.Context, fwk.Handle)
	Started bool
	// Client writes the expected starts of PodGroups, and Queues has all queues. They are set by Start.
	Client  versioned.Interface
	Queues  schedulingv1beta1listers.QueueLister
	read    context.Context // ends when everything has been read, or when nothing will be any more
	endRead context.CancelFunc
}

func newFeed(t *store) *Feed {
	f := &Feed{t: t, connect: connect}
	f.read, f.endRead = context.WithCancel(context.Background())
	return f
}

// Connector makes the clients that the tracker reads PodGroups and Queues with, ours and those of scheduler-plugins.
type Connector func(*rest.Config) (versioned.Interface, dynamic.Interface, error)

// ConnectBy replaces the clients that are made from the scheduler's configuration: for programs that keep the API in memory. It must be
// called before Start.
func (f *Feed) ConnectBy(connect Connector) { f.connect = connect }

// OnStart has a function run, in a goroutine of its own, when everything has been read. It must be called before Start.
func (f *Feed) OnStart(run func(context.Context, fwk.Handle)) {
	f.onStart = append(f.onStart, run)
}

// Start feeds the tracker from the API, once in a process: further calls return the result of the first. It returns at once; until the
// caches are synced, gangs are held at the gate.
func (f *Feed) Start(ctx context.Context, handle fwk.Handle) error {
	f.once.Do(func() { f.err = f.start(ctx, handle) })
	return f.err
}

// connect is the Connector for an API server.
func connect(config *rest.Config) (versioned.Interface, dynamic.Interface, error) {
	// The scheduler's own configuration asks for protobuf, which custom resources do not have.
	config = connection.Own(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for PodGroups and Queues: %w", err)
	}
	foreign, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for the PodGroups of scheduler-plugins: %w", err)
	}
	return client, foreign, nil
}

func (f *Feed) start(ctx context.Context, handle fwk.Handle) error {
	if err := f.t.Metrics.Register(f.t.CountGangs, f.t.Quota.Ledger); err != nil {
		return err
	}
	client, foreign, err := f.connect(handle.KubeConfig())
	if err != nil {
		return err
	}
	f.Client = client
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(dropManagedFields))
	core := handle.SharedInformerFactory()
	classes := core.Scheduling().V1().PriorityClasses()
	f.Queues = ours.Scheduling().V1beta1().Queues().Lister()
	f.t.Classes, f.t.PodLister = classes.Lister(), core.Core().V1().Pods().Lister()

	nodes := ledger.NewNodes(f.t.Quota.Ledger, f.t.Quota.NodesChanged)
	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Core().V1().Pods().Informer(), HandlerFor(f.t.SetPod, f.t.DeletePod)},
		{core.Core().V1().Nodes().Informer(), HandlerFor(nodes.Set, nodes.Delete)},
		{core.Core().V1().Nodes().Informer(), f.t.Topology.NodeHandler()},
		{ours.Scheduling().V1beta1().PodGroups().Informer(), HandlerFor(f.t.SetPodGroup, f.t.DeletePodGroup)},
		{ours.Scheduling().V1beta1().Queues().Informer(), HandlerFor(f.t.SetQueue, f.t.DeleteQueue)},
		{classes.Informer(), cache.ResourceEventHandlerFuncs{}},
	}
	synced := make([]cache.InformerSynced, 0, len(handlers)+1)
	for _, h := range handlers {
		registration, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return fmt.Errorf("watching for changes: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	network, err := watch.Start(ctx, client, foreign, f.t.Topology.Changed)
	if err != nil {
		return err
	}
	f.t.Topology.Use(network, core.Core().V1().Nodes().Lister())
	foreignRead, endForeign := context.WithCancel(ctx)
	ours.Start(ctx.Done())
	f.Started = true
	go f.Run(ctx, handle, append(synced, func() bool { return foreignRead.Err() != nil }))
	go f.watchForeign(ctx, foreign, endForeign)
	return nil
}

// Run opens the gate when everything has been read, and starts what has been waiting for that.
func (f *Feed) Run(ctx context.Context, handle fwk.Handle, synced []cache.InformerSynced) {
	go func() {
		<-ctx.Done()
		f.t.Dirty.ShutDown()
		f.t.Victims.Repairs.ShutDown()
		f.t.Reports.ShutDown()
	}()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		f.endRead()
		return
	}
	f.Open()
	for _, run := range f.onStart {
		go run(ctx, handle)
	}
}

// Open lets gangs pass the gate. Before that, bound pods and assumed amounts are not known.
func (f *Feed) Open() {
	f.t.Lock()
	defer f.t.Unlock()
	f.t.Synced = true
	for _, g := range f.t.Gangs {
		if g.Seated() {
			f.t.FixPriority(g) // no member of it may ever pass the gate
		}
		f.t.Apply(g, gang.Only(gang.ToLook))
	}
	f.endRead()
}

// AwaitRead returns when everything has been read that the plugins ask the tracker about, or when that takes too long. Until then no pod
// may be tried: a queue whose capability is not known has room for everything. A pod of high priority could have single members of a gang
// evicted whose PodGroup is not known. The scheduler itself waits for its own informers only.
func (f *Feed) AwaitRead(ctx context.Context) {
	if !f.Started || f.read.Err() != nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-f.read.Done():
	case <-f.t.Clock.After(ReadTimeout):
		klog.FromContext(ctx).Error(nil, "PodGroups and Queues have not been read: pods without a gang are scheduled without regard to them. Are the CRDs installed?",
			"waited", ReadTimeout)
		f.endRead()
	}
}

// HandlerFor adapts two verbs to an informer.
func HandlerFor[T any](set, remove func(*T)) cache.ResourceEventHandler {
	return upstream.TellApart(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { set(obj.(*T)) },
		UpdateFunc: func(_, obj any) { set(obj.(*T)) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if typed, ok := obj.(*T); ok {
				remove(typed)
			}
		},
	})
}

func dropManagedFields(obj any) (any, error) {
	if accessor, ok := obj.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
