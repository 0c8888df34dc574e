package state

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/connection"
	"github.com/muster-sched/muster/pkg/gang"
)

// reconcilePeriod is how often all gangs are looked at in case a wake-up was lost.
const reconcilePeriod = time.Second

// Start feeds the Store from the API, once in a process: further calls return the result of the first. It returns at once; until
// the caches are synced, gangs are held at the gate.
func (s *Store) Start(ctx context.Context, handle fwk.Handle) error {
	s.startOnce.Do(func() { s.startErr = s.start(ctx, handle) })
	return s.startErr
}

// Connector makes the clients that the Store reads PodGroups and Queues with, ours and those of scheduler-plugins.
type Connector func(*rest.Config) (versioned.Interface, dynamic.Interface, error)

// ConnectBy has the Store make its clients in another way than from the scheduler's configuration: for programs that keep
// the API in memory. It must be called before Start.
func (s *Store) ConnectBy(connect Connector) { s.connect = connect }

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

func (s *Store) start(ctx context.Context, handle fwk.Handle) error {
	s.handle = handle
	s.registerMetrics(ctx)
	client, foreign, err := s.connect(handle.KubeConfig())
	if err != nil {
		return err
	}
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(dropManagedFields))
	core := handle.SharedInformerFactory()
	classes := core.Scheduling().V1().PriorityClasses()
	s.classes = classes.Lister()

	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Core().V1().Pods().Informer(), handlerFor(s.SetPod, s.DeletePod)},
		{ours.Scheduling().V1beta1().PodGroups().Informer(), handlerFor(s.SetPodGroup, s.DeletePodGroup)},
		{ours.Scheduling().V1beta1().Queues().Informer(), handlerFor(s.SetQueue, s.DeleteQueue)},
		{classes.Informer(), cache.ResourceEventHandlerFuncs{}},
	}
	synced := make([]cache.InformerSynced, 0, len(handlers))
	for _, h := range handlers {
		registration, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return fmt.Errorf("watching for changes: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	foreignRead := newLatch()
	ours.Start(ctx.Done())
	go s.run(ctx, append(synced, foreignRead.isOpen))
	go s.watchForeign(ctx, foreign, foreignRead)
	return nil
}

// run opens the gate when everything has been read, and then looks after the gangs.
func (s *Store) run(ctx context.Context, synced []cache.InformerSynced) {
	go func() {
		<-ctx.Done()
		s.waker.ShutDown()
		s.reporter.ShutDown()
	}()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		s.read.open()
		return
	}
	s.Open()
	go wait.UntilWithContext(ctx, s.reconcile, reconcilePeriod)
	go s.runReporter(ctx)
	go s.runSelfCheck(ctx, s.handle.SharedInformerFactory().Core().V1().Pods().Lister())
	s.runWaker(ctx)
}

// Open lets gangs pass the gate. Until then nothing is known of what is bound and promised.
func (s *Store) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
	for key := range s.gangs {
		s.waker.Add(key)
	}
	s.read.open()
}

// readWithin is how long pods that have nothing to do with gangs and queues wait until these have been read. Where the CRDs are missing they
// never are.
const readWithin = 30 * time.Second

// AwaitRead returns when everything has been read that the plugins ask the Store about, or when that takes too long. Until then no pod may
// be tried: a queue whose capability is not known has room for everything, and of a gang whose PodGroup is not known a pod of higher
// priority would have single members evicted. The scheduler itself waits for what it reads, and for nothing else.
func (s *Store) AwaitRead(logger klog.Logger) {
	if s.handle == nil {
		return // nothing is read: none of the plugins is in use
	}
	select {
	case <-s.read.opened:
	case <-s.clock.After(readWithin):
		logger.Error(nil, "PodGroups and Queues have not been read: pods without a gang are scheduled without regard to them. Are the CRDs installed?",
			"waited", readWithin)
	}
}

// latch is opened once, whoever does it and how often.
type latch struct {
	once   *sync.Once
	opened chan struct{}
}

func newLatch() latch { return latch{&sync.Once{}, make(chan struct{})} }

func (l latch) isOpen() bool {
	select {
	case <-l.opened:
		return true
	default:
		return false
	}
}

func (l latch) open() { l.once.Do(func() { close(l.opened) }) }

// reconcile is the net: it asks the waker about every gang that is not at rest, and takes down gangs that were found bound
// below their minimum and cannot be completed.
func (s *Store) reconcile(ctx context.Context) {
	evict, holders := s.check()
	if s.follows.Load() {
		return
	}
	for _, pod := range evict {
		if err := s.evict(ctx, pod); err != nil {
			klog.FromContext(ctx).Error(err, "Evicting a member of a partial gang failed, trying again", "pod", klog.KObj(pod))
		}
	}
	for _, pod := range holders {
		if err := s.dropNomination(ctx, pod); err != nil {
			klog.FromContext(ctx).Error(err, "Dropping the nomination of a member of a waiting gang failed, trying again", "pod", klog.KObj(pod))
		}
	}
}

func (s *Store) check() (evict, holders []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepClaims()
	s.sweepEvictions()
	s.tendAside()
	now := s.clock.Now()
	s.castNet()
	s.countTheCrowd()
	for _, key := range s.strays {
		s.waker.Add(key)
	}
	for _, g := range s.gangs {
		s.lookAfter(g)
		if !g.reached && g.phase == idle && !g.brokenSince.IsZero() && now.Sub(g.brokenSince) > s.args.PartialGangTimeout.Duration && g.Broken() {
			evict = append(evict, pods(g.Bound())...)
		}
	}
	for uid := range s.nominated {
		if g, m := s.find(uid); m != nil && m.State == gang.Waiting && g.phase == idle && (!g.Seated() || !g.known || s.mustBeAdmitted(g)) {
			holders = append(holders, m.Pod)
		}
	}
	return evict, holders
}

// lookAfter asks the waker about a gang that is not at rest. If nobody is expected who has it judged, and was not at the last look, nobody
// has called it.
func (s *Store) lookAfter(g *group) {
	if g.phase != admitted && !g.HasReserved() && (g.parked || g.Seated() || !g.HasWaiting()) {
		g.missed = false
		return
	}
	if s.mayBeJudged(g) {
		s.relieveScout(g)
		overlooked := g.called.IsZero() && !g.relieved
		if overlooked && !g.missed {
			g.missed = true // it may have become so just now
			return
		}
		if overlooked {
			s.unasked[g.key] = g
		}
	}
	g.missed = false
	g.sweep = true
	s.waker.Add(g.key)
}

// mayBeJudged says whether all that a gang needs is that a member comes and has it judged.
func (s *Store) mayBeJudged(g *group) bool {
	now := s.clock.Now()
	return g.known && g.phase == idle && !g.parked && !g.Seated() && g.Complete() && g.HasWaiting() &&
		!s.mustBeAdmitted(g) && !g.givesBack() && !g.backsOff(now) && !g.hears(now) && s.pauseFor(g) <= wakeDelay
}

// dropNomination gives up the node that a pod was nominated for. The scheduler keeps the room of nominated pods from others, and
// a member whose gang waits may never come for it: it is from before a restart, or from before the gang fell apart.
func (s *Store) dropNomination(ctx context.Context, pod *corev1.Pod) error {
	without := pod.Status.DeepCopy()
	without.NominatedNodeName = ""
	return ignoreGone(util.PatchPodStatus(ctx, s.handle.ClientSet(), pod.Name, pod.Namespace, &pod.Status, without))
}

// evict marks a pod as disrupted by the scheduler and deletes it.
func (s *Store) evict(ctx context.Context, pod *corev1.Pod) error {
	client := s.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	marked := pod.DeepCopy()
	podutil.UpdatePodCondition(&marked.Status, &corev1.PodCondition{
		Type:    corev1.DisruptionTarget,
		Status:  corev1.ConditionTrue,
		Reason:  corev1.PodReasonPreemptionByScheduler,
		Message: "The pod's gang was bound below its minimum and could not be completed; it starts over.",
	})
	if _, err := client.UpdateStatus(ctx, marked, metav1.UpdateOptions{}); err != nil {
		return ignoreGone(err)
	}
	return ignoreGone(client.Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID))))
}

// ignoreGone drops errors that say that the pod is not there any more. A conflict is tried again with the next look.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// handlerFor adapts two verbs to an informer.
func handlerFor[T any](set, remove func(*T)) cache.ResourceEventHandler {
	return TellApart(cache.ResourceEventHandlerFuncs{
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
