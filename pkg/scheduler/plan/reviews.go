package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	musterinformers "github.com/muster-sched/muster/pkg/client/informers/externalversions/muster/v1alpha1"
	"github.com/muster-sched/muster/pkg/runtimes"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/startreview"
	"github.com/muster-sched/muster/pkg/timeline"
)

const (
	// answersOfPlan is how many StartReviews a plan answers at most.
	answersOfPlan = 20
	// answersOfMinute is how many of a namespace are answered in a minute.
	answersOfMinute = 10
	// keptFor is how long a StartReview is kept. If more than keptOf of a namespace have their answer, the oldest go after readFor.
	keptFor, keptOf, readFor = 10 * time.Minute, 100, time.Minute
	// openForLong is after how long an answer is late.
	openForLong = 2 * period
	// tidyPerSecond bounds the writes that refuse and delete StartReviews. Of many, each look refuses or deletes a part, so that their number is
	// bounded by how fast they come.
	tidyPerSecond, tidyPart = 5, 20
	// systemNamespace has the history of run times, unless the program's service account is in another.
	systemNamespace = "muster-system"
	ownNamespace    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// reviews answers StartReviews. It is used by the goroutine of the Room.
type reviews struct {
	store    cache.Store
	client   versioned.Interface
	tracker  *gangs.Tracker
	past     func(context.Context) *runtimes.Past
	tidy     flowcontrol.PassiveRateLimiter
	answered map[string][]time.Time // namespace -> when, in the last minute
}

func newReviews(client versioned.Interface, tracker *gangs.Tracker, c clock.PassiveClock, store cache.Store, past func(context.Context) *runtimes.Past) *reviews {
	return &reviews{
		store: store, client: client, tracker: tracker, past: past, answered: map[string][]time.Time{},
		tidy: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(tidyPerSecond, tidyPerSecond*int(period/time.Second), c),
	}
}

// watchReviews follows the StartReviews. Their kind may be missing from the API, and may come later.
func watchReviews(ctx context.Context, handle fwk.Handle, tracker *gangs.Tracker) *reviews {
	informer := musterinformers.NewStartReviewInformer(tracker.Feed.Client, metav1.NamespaceAll, 0, cache.Indexers{})
	utilruntime.Must(informer.SetTransform(withoutSpec)) // only an informer that runs returns an error
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		klog.FromContext(ctx).V(4).Info("StartReviews cannot be read, will try again", "err", err)
	}))
	go informer.RunWithContext(ctx)
	namespace := systemNamespace
	if own, err := os.ReadFile(ownNamespace); err == nil {
		namespace = strings.TrimSpace(string(own))
	}
	return newReviews(tracker.Feed.Client, tracker, tracker.Clock, informer.GetStore(), func(ctx context.Context) *runtimes.Past {
		kept, err := handle.ClientSet().CoreV1().ConfigMaps(namespace).Get(ctx, runtimes.ConfigMap, metav1.GetOptions{})
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The history of run times cannot be read. StartReviews are answered without it", "err", err)
			kept = &corev1.ConfigMap{}
		}
		past, _ := runtimes.Read(kept.Data[runtimes.ConfigMapKey])
		return past
	})
}

// withoutSpec keeps little of a StartReview, as a tenant may create very many. Its question is read when it is answered.
func withoutSpec(object any) (any, error) {
	review, ok := object.(*musterv1alpha1.StartReview)
	if !ok {
		return object, nil
	}
	kept := &musterv1alpha1.StartReview{Status: musterv1alpha1.StartReviewStatus{Answer: review.Status.Answer}}
	kept.Namespace, kept.Name, kept.UID = review.Namespace, review.Name, review.UID
	kept.ResourceVersion, kept.CreationTimestamp = review.ResourceVersion, review.CreationTimestamp
	return kept, nil
}

// take returns what the next plan answers, the oldest first, and no more than some. It answers, refuses and deletes what needs no plan.
//
// A process that has had no scheduling cycle yet may lead, or another may. So it answers only what is open for long, and does nothing else.
// In muster-scheduler a standby cannot write anyway.
func (r *reviews) take(ctx context.Context, now time.Time, leads bool, most int) (asks []*question) {
	if r == nil {
		return nil
	}
	open, over := r.sort(now)
	var in *startreview.Cluster
	for _, known := range open {
		if len(asks) == most || !leads && now.Sub(known.CreationTimestamp.Time) < openForLong {
			break
		}
		if len(r.answered[known.Namespace]) >= answersOfMinute {
			over = append(over, known)
			continue
		}
		review, err := r.client.MusterV1alpha1().StartReviews(known.Namespace).Get(ctx, known.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "Reading a StartReview failed, trying again", "startReview", klog.KObj(known))
			break
		}
		if err != nil || review.UID != known.UID || review.Status.Answer != "" {
			continue // it is gone or answered, and the informer does not say so yet
		}
		if in == nil {
			in = &startreview.Cluster{ClassValue: r.tracker.ClassValue, Past: r.past(ctx), Queue: func(name string) *schedulingv1beta1.Queue {
				queue, _ := r.tracker.Feed.Queues.Get(name) // nil for none: a lister has no other error
				return queue
			}}
		}
		r.answered[review.Namespace] = append(r.answered[review.Namespace], now)
		if ask, status := startreview.Read(review, now, in); status != nil {
			r.write(ctx, review, status)
		} else {
			asks = append(asks, &question{Question: ask})
		}
	}
	for i, review := range inTurns(over) {
		if !leads || i >= len(over)/tidyPart && !r.tidy.TryAccept() {
			break
		}
		r.end(ctx, review, now)
	}
	return asks
}

// sort returns the StartReviews without an answer, and the StartReviews to delete, each the oldest first. It forgets answers of more than a minute ago.
func (r *reviews) sort(now time.Time) (open, over []*musterv1alpha1.StartReview) {
	for namespace, times := range r.answered {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
		if r.answered[namespace] = times; len(times) == 0 {
			delete(r.answered, namespace)
		}
	}
	var all []*musterv1alpha1.StartReview
	for _, object := range r.store.List() {
		all = append(all, object.(*musterv1alpha1.StartReview))
	}
	slices.SortFunc(all, func(a, b *musterv1alpha1.StartReview) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	kept := map[string]int{}
	for _, review := range all { // the newest first: they are kept
		if review.Status.Answer != "" {
			kept[review.Namespace]++
		}
		switch age := now.Sub(review.CreationTimestamp.Time); {
		case age >= keptFor:
			over = append(over, review)
		case review.Status.Answer != "":
			if kept[review.Namespace] > keptOf && age >= readFor {
				over = append(over, review)
			}
		default:
			open = append(open, review)
		}
	}
	slices.Reverse(open)
	slices.Reverse(over)
	return open, over
}

// answer writes the answers that a plan has for StartReviews.
func (r *reviews) answer(ctx context.Context, s *Snapshot, starts []timeline.Start, asks []*question, past *ranges) {
	isIn := map[*question]bool{}
	for i := range starts {
		if ask := s.Waiting[i].asked; ask != nil {
			isIn[ask] = true
			r.write(ctx, ask.Review, s.answer(i, &starts[i], past, r.tracker.Quota.Ledger.Room))
		}
	}
	for _, ask := range asks {
		if !isIn[ask] {
			r.write(ctx, ask.Review, startreview.InWords(musterv1alpha1.StartUnknown, fmt.Sprintf("no start is known: more than %d gangs would wait before it", mostGangs)))
		}
	}
}

// inTurns orders StartReviews so that namespaces take turns. Those of each keep their order.
func inTurns(all []*musterv1alpha1.StartReview) []*musterv1alpha1.StartReview {
	turn, seen := map[types.UID]int{}, map[string]int{}
	for _, review := range all {
		turn[review.UID] = seen[review.Namespace]
		seen[review.Namespace]++
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b *musterv1alpha1.StartReview) int { return turn[a.UID] - turn[b.UID] })
}

// end deletes a StartReview whose time is over, or which is one too many. It refuses one that may not be answered yet. One that was not refused
// within readFor is deleted at once: more come than can be refused.
func (r *reviews) end(ctx context.Context, review *musterv1alpha1.StartReview, now time.Time) {
	if review.Status.Answer == "" && now.Sub(review.CreationTimestamp.Time) < readFor {
		r.write(ctx, review, startreview.InWords(musterv1alpha1.StartRefused,
			fmt.Sprintf("%d StartReviews of a namespace are answered in a minute, and there were more: ask again in a minute", answersOfMinute)))
		return
	}
	err := r.client.MusterV1alpha1().StartReviews(review.Namespace).Delete(ctx, review.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &review.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		klog.FromContext(ctx).Error(err, "Deleting a StartReview failed, trying again", "startReview", klog.KObj(review))
	}
}

// write writes an answer.
func (r *reviews) write(ctx context.Context, review *musterv1alpha1.StartReview, status *musterv1alpha1.StartReviewStatus) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": review.UID}, "status": status})
	if err == nil {
		_, err = r.client.MusterV1alpha1().StartReviews(review.Namespace).Patch(ctx, review.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		if logger := klog.FromContext(ctx); r.tracker.Leadership.Leads() {
			logger.Error(err, "Answering a StartReview failed, trying again", "startReview", klog.KObj(review))
		} else {
			logger.V(4).Info("Answering a StartReview failed, as another replica may lead", "startReview", klog.KObj(review), "err", err)
		}
	}
}
