package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/test/benchmark/meter"
	"github.com/muster-sched/muster/test/benchmark/report"
)

// A cluster of wakeNodes nodes of wakeCPU processors holds wakeRoom gangs of wakePods pods of one processor, and no more.
const (
	wakeNodes = 25
	wakeCPU   = 4
	wakePods  = 20
	wakeRoom  = wakeNodes * wakeCPU / wakePods
)

// wakeUps measures the time from the end of a gang's pods to the last bind of the next whole gang. The cluster is full, and gangs wait.
func wakeUps(ctx context.Context, o *options, gangs int) (wakeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	b, err := o.up(ctx, variants["podgroups"], wakeNodes, fmt.Sprint(wakeCPU))
	if err != nil {
		return wakeResult{}, err
	}
	defer b.Down(ctx)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen := newGangWatch()
	if err := seen.watch(watching, b); err != nil {
		return wakeResult{}, err
	}
	err = meter.InParallel(ctx, gangs, func(g int) error {
		pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gangName(g)}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: wakePods}}
		_, err := b.Muster.SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, pg, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return wakeResult{}, fmt.Errorf("submitting: %w", err)
	}
	err = meter.InParallel(ctx, gangs*wakePods, func(i int) error {
		_, err := b.Kube.CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, podOf(gangName(i/wakePods), i%wakePods, "1"), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return wakeResult{}, fmt.Errorf("submitting: %w", err)
	}
	if err := seen.await(ctx, func() bool { return len(seen.whole) == wakeRoom }); err != nil {
		return wakeResult{}, fmt.Errorf("waiting for the first gangs: %w", err)
	}
	result := wakeResult{Gangs: gangs}
	for i := range gangs - wakeRoom {
		kind := &result.Prompt
		if i%2 == 0 {
			kind = &result.Rested
			if err := pause(ctx); err != nil {
				return wakeResult{}, err
			}
		}
		took, err := seen.replaceOne(ctx, b)
		if err != nil {
			return wakeResult{}, err
		}
		*kind = append(*kind, took.Seconds())
	}
	result.AtRest = len(seen.whole)
	return result, nil
}

// pauseFor is how long nothing happens before room comes free, for every other gang.
const pauseFor = 2 * time.Second

func pause(ctx context.Context) error {
	select {
	case <-time.After(pauseFor):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wakeResult is how long the gangs waited, each in seconds, and how many ran at rest.
type wakeResult struct {
	Gangs  int `json:"gangs"`
	AtRest int `json:"wholeGangsAtRest"`
	// Prompt are the times for room that came free right after other room. Rested are the times after a pause.
	Prompt []float64 `json:"secondsPrompt"`
	Rested []float64 `json:"secondsRested"`
}

// gangWatch knows which gangs are bound as a whole.
type gangWatch struct {
	mu      sync.Mutex
	changed chan struct{}
	bound   map[string]int       // gang -> its pods that have a node
	gone    map[string]time.Time // gang -> when its last bound pod went
	whole   map[string]time.Time // gang -> when its last pod was bound
}

func newGangWatch() *gangWatch {
	return &gangWatch{changed: make(chan struct{}, 1), bound: map[string]int{}, gone: map[string]time.Time{}, whole: map[string]time.Time{}}
}

func (w *gangWatch) watch(ctx context.Context, b *bench) error {
	source := cache.NewListWatchFromClient(b.Kube.CoreV1().RESTClient(), "pods", corev1.NamespaceDefault, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, obj any) {
				if pod := obj.(*corev1.Pod); pod.Spec.NodeName != "" && old.(*corev1.Pod).Spec.NodeName == "" {
					w.count(pod.Annotations[schedulingv1beta1.GroupNameAnnotation], 1)
				}
			},
			DeleteFunc: func(obj any) {
				if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
					w.count(pod.Annotations[schedulingv1beta1.GroupNameAnnotation], -1)
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

func (w *gangWatch) count(gang string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bound[gang] += by
	delete(w.whole, gang)
	switch w.bound[gang] {
	case wakePods:
		w.whole[gang] = time.Now()
	case 0:
		w.gone[gang] = time.Now()
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until a question about what is known is answered with yes.
func (w *gangWatch) await(ctx context.Context, so func() bool) error {
	for {
		w.mu.Lock()
		done := so()
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replaceOne deletes the pods of the oldest whole gang. It returns how long after their end another gang was whole.
func (w *gangWatch) replaceOne(ctx context.Context, b *bench) (time.Duration, error) {
	w.mu.Lock()
	oldest, before := "", make([]string, 0, len(w.whole))
	for gang, since := range w.whole {
		before = append(before, gang)
		if oldest == "" || since.Before(w.whole[oldest]) {
			oldest = gang
		}
	}
	w.mu.Unlock()
	now := int64(0)
	err := meter.InParallel(ctx, wakePods, func(i int) error {
		name := fmt.Sprintf("%s-%d", oldest, i)
		return b.Kube.CoreV1().Pods(corev1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	if err != nil {
		return 0, fmt.Errorf("deleting the pods of %s: %w", oldest, err)
	}
	next := ""
	err = w.await(ctx, func() bool {
		for gang := range w.whole {
			if !slices.Contains(before, gang) {
				next = gang
			}
		}
		return next != "" && !w.gone[oldest].IsZero()
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for another gang: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole[next].Sub(w.gone[oldest]), nil
}

// reportWakeUps runs and prints the wake-ups with 25 and with 100 gangs. It returns an error if a goal is missed.
func reportWakeUps(ctx context.Context, o *options) ([]wakeResult, error) {
	var all []wakeResult
	var missed error
	for _, gangs := range []int{25, 100} {
		r, err := wakeUps(ctx, o, gangs)
		if err != nil {
			return nil, fmt.Errorf("waking up %d gangs: %w", gangs, err)
		}
		all = append(all, r)
		fmt.Fprintf(os.Stdout, "wake-up  %3d gangs  at rest %d of %d  at once: %s  after a pause: %s  (goal: < %.1f s)\n",
			gangs, r.AtRest, wakeRoom, inWords(r.Prompt), inWords(r.Rested), wakeGoal)
		if max(slices.Max(r.Prompt), slices.Max(r.Rested)) >= wakeGoal || r.AtRest != wakeRoom {
			missed = fmt.Errorf("with %d gangs the goal of wake-ups is missed", gangs)
		}
	}
	return all, missed
}

func inWords(seconds []float64) string {
	return fmt.Sprintf("p50 %.3f s max %.3f s of %d", report.Median(seconds), slices.Max(seconds), len(seconds))
}

// wakeGoal is the most seconds that a gang may wait for room that is free.
const wakeGoal = 0.1
