package state

import (
	"context"
	"fmt"
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

	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
)

// reconcilePeriod is how often all gangs are looked at in case a wake-up was lost.
const reconcilePeriod = time.Second

// Start feeds the Store from the API, once in a process: further calls return the result of the first. It returns at once; until
// the caches are synced, gangs are held at the gate.
func (s *Store) Start(ctx context.Context, handle fwk.Handle) error {
	s.startOnce.Do(func() { s.startErr = s.start(ctx, handle) })
	return s.startErr
}

func (s *Store) start(ctx context.Context, handle fwk.Handle) error {
	s.handle = handle
	// The scheduler's own configuration asks for protobuf, which custom resources do not have.
	restConfig := rest.CopyConfig(handle.KubeConfig())
	restConfig.ContentType, restConfig.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := versioned.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("making a client for PodGroups and Queues: %w", err)
	}
	foreign, err := dynamic.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("making a client for the PodGroups of scheduler-plugins: %w", err)
	}
	ours := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(dropManagedFields))
	core := handle.SharedInformerFactory()
	classes := core.Scheduling().V1().PriorityClasses()
	s.classes = classes.Lister()

	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
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
	ours.Start(ctx.Done())
	go s.run(ctx, synced)
	go s.watchForeign(ctx, foreign)
	return nil
}

// run opens the gate when everything has been read, and then looks after the gangs.
func (s *Store) run(ctx context.Context, synced []cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	s.Open()
	go wait.UntilWithContext(ctx, s.reconcile, reconcilePeriod)
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
}

// reconcile is the net: it asks the waker about every gang that is not at rest, and takes down gangs that were found bound
// below their minimum and cannot be completed.
func (s *Store) reconcile(ctx context.Context) {
	for _, pod := range s.check() {
		if err := s.evict(ctx, pod); err != nil {
			klog.FromContext(ctx).Error(err, "Evicting a member of a partial gang failed, trying again", "pod", klog.KObj(pod))
		}
	}
}

func (s *Store) check() (evict []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for key, g := range s.gangs {
		if g.phase == admitted || g.HasReserved() || !g.parked && !g.Seated() && g.HasWaiting() {
			g.sweep = true
			s.waker.Add(key)
		}
		if !g.reached && !g.brokenSince.IsZero() && now.Sub(g.brokenSince) > s.args.PartialGangTimeout.Duration && g.Broken() {
			evict = append(evict, pods(g.Bound())...)
		}
	}
	return evict
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
func handlerFor[T any](set, remove func(*T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
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
	}
}

func dropManagedFields(obj any) (any, error) {
	if accessor, ok := obj.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
