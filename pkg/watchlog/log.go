// Package watchlog records what an API server says over time. It has when each pod was bound, the phases of Jobs, and the texts of conditions
// and events. From the record it answers whether the promises of gang scheduling were kept. The demo and the tests share it; it only reads.
package watchlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/client/informers/externalversions"
	"github.com/muster-sched/muster/pkg/resources"
)

// Log is a record of pods, PodGroups, Jobs and events, in the order in which their watches delivered them. Times are times of arrival. It
// is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	now     func() time.Time
	changed chan struct{} // closed and replaced with every change

	pods      map[types.UID]*Pod
	podOrder  []types.UID                          // as first seen
	podsOfJob map[types.NamespacedName][]types.UID // as first seen
	jobs      map[types.NamespacedName]*jobRecord
	groups    map[types.NamespacedName]*groupRecord
	events    map[types.UID]*Event
	eventSeen []types.UID

	usage map[string]resources.Sums // by queue, now
	peak  map[string]resources.List // by queue, the highest so far
}

// New returns an empty Log that is told the time by now.
func New(now func() time.Time) *Log {
	return &Log{
		now:       now,
		changed:   make(chan struct{}),
		pods:      map[types.UID]*Pod{},
		podsOfJob: map[types.NamespacedName][]types.UID{},
		jobs:      map[types.NamespacedName]*jobRecord{},
		groups:    map[types.NamespacedName]*groupRecord{},
		events:    map[types.UID]*Event{},
		usage:     map[string]resources.Sums{},
		peak:      map[string]resources.List{},
	}
}

// Start records all namespaces until the context ends. It returns once what exists already is in the Log.
func Start(ctx context.Context, kube kubernetes.Interface, muster versioned.Interface) (*Log, error) {
	l := New(time.Now)
	kubeInformers := informers.NewSharedInformerFactory(kube, 0)
	musterInformers := externalversions.NewSharedInformerFactory(muster, 0)
	watches := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{kubeInformers.Core().V1().Pods().Informer(), handle(l.RecordPod, l.RecordPodGone)},
		{kubeInformers.Core().V1().Events().Informer(), handle(l.RecordEvent, func(*corev1.Event) {})},
		{musterInformers.Batch().V1alpha1().Jobs().Informer(), handle(l.RecordJob, l.RecordJobGone)},
		{musterInformers.Scheduling().V1beta1().PodGroups().Informer(), handle(l.RecordGroup, func(*schedulingv1beta1.PodGroup) {})},
	}
	synced := make([]cache.InformerSynced, 0, len(watches))
	for _, w := range watches {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("watching: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	kubeInformers.Start(ctx.Done())
	musterInformers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("reading what exists: %w", context.Cause(ctx))
	}
	return l, nil
}

// handle makes handlers that see each state of an object once, and its end. If an object was deleted and created anew while the watch was
// broken, informers report an update.
func handle[T metav1.Object](seen, gone func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { seen(obj.(T)) },
		UpdateFunc: func(old, obj any) {
			was, is := old.(T), obj.(T)
			if was.GetUID() != is.GetUID() {
				gone(was)
			}
			seen(is)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if last, ok := obj.(T); ok {
				gone(last)
			}
		},
	}
}

// breath is how long Wait gathers changes before it asks again, so that watchers do not slow a busy cluster.
const breath = 20 * time.Millisecond

// quiet is after how long Wait asks again without a change. A caller may ask for an object that the Log does not record.
const quiet = time.Second

// Wait returns when met is true, or with the context's error. It asks soon after every change, and each second. met may read the Log.
func (l *Log) Wait(ctx context.Context, met func() bool) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if met() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-time.After(quiet):
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(breath):
		}
	}
}

// record runs a change under the lock and wakes the waiting callers.
func (l *Log) record(change func(now time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.now())
	close(l.changed)
	l.changed = make(chan struct{})
}

// RecordJob takes in a state of a Job.
func (l *Log) RecordJob(job *batchv1alpha1.Job) {
	l.record(func(now time.Time) {
		key := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
		known := l.jobs[key]
		if known == nil || known.uid != job.UID {
			known = &jobRecord{uid: job.UID}
			l.jobs[key] = known
		}
		known.see(stateOf(job, now))
	})
}

// RecordJobGone takes in that a Job was deleted.
func (l *Log) RecordJobGone(job *batchv1alpha1.Job) {
	l.record(func(now time.Time) {
		key := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
		if known := l.jobs[key]; known != nil && known.uid == job.UID {
			known.gone = now
		}
	})
}

// RecordGroup takes in a state of a PodGroup.
func (l *Log) RecordGroup(group *schedulingv1beta1.PodGroup) {
	l.record(func(now time.Time) {
		key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
		known := l.groups[key]
		if known == nil {
			known = &groupRecord{}
			l.groups[key] = known
		}
		known.see(group, now)
	})
}
