package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// roleLabel says on which side a pod is.
const roleLabel = "bench-role"

// The roles of pods.
const (
	runs  = "runs"  // has room, and may have to go
	waits = "waits" // is in a gang for which room is made
)

// counts are the pods of a role since the last reset.
type counts struct {
	bound, gone         int
	lastBound, lastGone time.Time // when this was last seen of a pod that is bound
}

// podWatch counts pods by role.
type podWatch struct {
	mu      sync.Mutex
	changed chan struct{}
	of      map[string]*counts
	live    int // bound pods that are not gone, of both roles
}

func newPodWatch() *podWatch {
	w := &podWatch{changed: make(chan struct{}, 1)}
	w.clear()
	return w
}

func (w *podWatch) clear() { w.of = map[string]*counts{runs: {}, waits: {}} }

// reset begins to count anew.
func (w *podWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear()
}

// watch counts until the context ends.
func (w *podWatch) watch(ctx context.Context, client kubernetes.Interface) error {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", corev1.NamespaceDefault, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.see(&corev1.Pod{}, obj.(*corev1.Pod)) },
			UpdateFunc: func(old, obj any) { w.see(old.(*corev1.Pod), obj.(*corev1.Pod)) },
			DeleteFunc: func(obj any) {
				if pod, ok := obj.(*corev1.Pod); ok {
					w.lose(pod)
				}
			},
		},
	})
	go controller.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return nil
}

// see counts what has come about between two states of a pod.
func (w *podWatch) see(old, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.of[pod.Labels[roleLabel]]
	if own == nil {
		return
	}
	if pod.Spec.NodeName != "" && old.Spec.NodeName == "" {
		own.bound++
		own.lastBound = time.Now()
		w.live++
	}
	w.signal()
}

// lose counts a pod that is gone.
func (w *podWatch) lose(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.of[pod.Labels[roleLabel]]
	if own == nil || pod.Spec.NodeName == "" {
		return
	}
	own.gone++
	own.lastGone = time.Now()
	w.live--
	w.signal()
}

// signal has await look again. The lock is held.
func (w *podWatch) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// role returns the counts of a role.
func (w *podWatch) role(role string) counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.of[role]
}

// await waits until the counts are as asked for.
func (w *podWatch) await(ctx context.Context, what string, met func() bool) error {
	for {
		if met() {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s (%d pods that ran are gone, %d of the gangs are bound): %w", what,
				w.role(runs).gone, w.role(waits).bound, ctx.Err())
		}
	}
}

// isEmpty says whether no bound pod is left.
func (w *podWatch) isEmpty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live == 0
}
