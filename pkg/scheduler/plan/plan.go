// Package plan tells users when gangs that wait are expected to start. It makes a plan beside the scheduling loop, and writes it on PodGroups.
// Nothing is scheduled or decided for it: the loop has reservations.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/client/clientset/versioned"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/timeline"
)

const (
	// period is the least time between two plans.
	period = 3 * time.Second
	// restFor is the pause after a plan, as a multiple of the time that it took. So the scheduling loop keeps the processor.
	restFor = 20
	// mostRest bounds that pause.
	mostRest = 30 * time.Second
	// freshness is after how long a plan is made anew though nothing has changed: what outlives its estimate ends later.
	freshness = 15 * time.Second
	// writesPerSecond bounds the writes of all gangs together.
	writesPerSecond = 10
	// pruneCheck is after how long a plan is written again if the API server dropped the last one.
	pruneCheck = time.Minute
	// shortSleep: what starts within it is about to start, and has no plan.
	shortSleep = time.Second
)

// Room makes plans and writes them. It is used by one goroutine.
type Room struct {
	tracker *gangs.Tracker
	client  versioned.Interface
	clock   clock.Clock
	survey  *survey
	ranges  *ranges
	limiter flowcontrol.PassiveRateLimiter
	last    signature
	madeAt  time.Time
	known   map[state.Key]*record
	reviews *reviews      // nil answers none
	each    time.Duration // how long the last plan took, for itself and for each StartReview
	// unsaid: gangs that are to get a plan have none yet.
	unsaid bool
	// prunedAt is when the API server last dropped a plan, as its CRD of PodGroups is older than this program. It is zero if the last one was kept.
	prunedAt time.Time
}

// signature changes with what a plan depends on.
type signature struct{ ledger, state int64 }

// record is what is known of a gang that has a plan.
type record struct {
	uid      types.UID
	queue    string
	written  *schedulingv1beta1.PodGroupPlan
	expected firsts
}

// Run makes plans until the context ends.
func Run(ctx context.Context, handle fwk.Handle, tracker *gangs.Tracker) {
	r := Of(handle, tracker)
	r.reviews = watchReviews(ctx, handle, tracker)
	for pause := period; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(pause):
			pause = restAfter(r.Look(ctx))
		}
	}
}

// restAfter is the pause after a plan that took some time.
func restAfter(took time.Duration) time.Duration { return min(max(period, restFor*took), mostRest) }

// answersIn is how many StartReviews a plan may answer if each takes so long. At least one is answered. So the
// pause after a plan need not be cut, and plans take at most a twentieth of a processor.
func answersIn(each time.Duration) int {
	return min(max(int(mostRest/restFor/max(each, 1))-1, 1), answersOfPlan)
}

// Of makes a room for the scheduler of a handle. It answers no StartReviews.
func Of(handle fwk.Handle, tracker *gangs.Tracker) *Room {
	core := handle.SharedInformerFactory().Core().V1()
	return New(tracker, tracker.Feed.Client, tracker.Clock, newSurvey(tracker, core.Nodes().Lister(), core.Pods().Lister()))
}

// New makes a room. A client of nil writes nothing.
func New(tracker *gangs.Tracker, client versioned.Interface, c clock.Clock, s *survey) *Room {
	return &Room{
		tracker: tracker, client: client, clock: c, survey: s, ranges: newRanges(), known: map[state.Key]*record{},
		limiter: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(writesPerSecond, writesPerSecond*int(period/time.Second), c),
	}
}

// Look makes a plan if it is time for one, and writes what is to be written of it. It returns how long the plan took. A slow API server takes
// no processor from the scheduling loop, so writes do not count.
func (r *Room) Look(ctx context.Context) (took time.Duration) {
	leads := r.tracker.Leadership.Leads()
	now := r.clock.Now()
	asks := r.reviews.take(ctx, now, leads, answersIn(r.each))
	if leads {
		r.settle(ctx, now)
		next := r.signature()
		if next == r.last && !r.unsaid && now.Sub(r.madeAt) < freshness && len(asks) == 0 {
			return 0
		}
		r.last, r.madeAt, r.unsaid = next, now, false
	} else if len(asks) == 0 {
		return 0
	}
	begun := r.clock.Now()
	snapshot := r.survey.take(now, asks)
	if snapshot == nil {
		r.tracker.Metrics.PlanGangs.Set(0)
		return r.clock.Since(begun)
	}
	starts := timeline.Plan(&snapshot.Cluster)
	r.tracker.Metrics.Plans.WithLabelValues().Observe(r.clock.Since(begun).Seconds())
	if len(asks) > 0 {
		r.foresee(snapshot, starts, asks)
	}
	took = r.clock.Since(begun)
	r.each = took / time.Duration(1+len(asks))
	planned := 0
	for i := range starts {
		if snapshot.Waiting[i].asked != nil {
			continue
		}
		if planned++; leads {
			r.tell(ctx, snapshot, i, &starts[i])
		}
	}
	r.tracker.Metrics.PlanGangs.Set(float64(planned))
	r.reviews.answer(ctx, snapshot, starts, asks, r.ranges)
	return took
}

func (r *Room) signature() signature {
	ledger := r.tracker.Quota.Ledger.Changes()
	r.tracker.Lock()
	defer r.tracker.Unlock()
	return signature{ledger, r.tracker.Changes}
}

// tell writes the plan of a gang if it is due.
func (r *Room) tell(ctx context.Context, s *Snapshot, i int, start *timeline.Start) {
	w, now := &s.Waiting[i], s.Cluster.Now
	if r.clock.Since(r.prunedAt) < pruneCheck || w.Key.Foreign || start.Why == timeline.Known && start.At.Sub(now) < shortSleep {
		return
	}
	known := r.known[w.Key]
	if known == nil || known.uid != w.UID {
		known = &record{uid: w.UID, queue: w.Queue, written: w.Written}
	}
	next := s.planOf(i, start, r.ranges)
	if !isDue(known.written, next, w.Created, now) {
		r.unsaid = r.unsaid || known.written == nil
		return
	}
	if !r.limiter.TryAccept() || !r.write(ctx, w.Key, w.UID, next) {
		r.unsaid = true
		return
	}
	known.written, r.known[w.Key] = next, known
	if start.Why == timeline.Known {
		if first := &known.expected[horizonOf(start.At.Sub(now))]; first.made.IsZero() {
			first.ExpectedStart, first.made = *next.ExpectedStart, now
		}
	}
}

// settle takes the plans of gangs back that wait no more, and compares them with the starts.
func (r *Room) settle(ctx context.Context, now time.Time) {
	over := r.settled()
	for key, known := range r.known {
		if _, isOver := over[key]; !isOver {
			r.ranges.waits(known.queue, &known.expected, now)
		}
	}
	for key, over := range over {
		known := r.known[key]
		if !r.limiter.TryAccept() {
			return
		}
		if !r.write(ctx, key, over.uid, nil) {
			continue
		}
		if delete(r.known, key); known == nil || !over.started {
			continue
		}
		for horizon, ratio := range r.ranges.started(known.queue, &known.expected, now) {
			r.tracker.Metrics.PlanErrors.WithLabelValues(horizon).Observe(ratio)
		}
	}
}

// settled is a gang that has a plan and waits no more.
type settled struct {
	uid     types.UID
	started bool
}

// settled are the gangs that have a plan and have started, or wait for something else than room and quota. Gangs that are gone are forgotten.
func (r *Room) settled() map[state.Key]settled {
	t := r.tracker
	t.Lock()
	defer t.Unlock()
	for key, known := range r.known {
		if g := t.Gangs[key]; g == nil || g.PodGroup.UID != known.uid {
			delete(r.known, key)
		}
	}
	over := map[state.Key]settled{}
	for key, g := range t.Gangs {
		if (r.known[key] != nil || g.PodGroup.Plan != nil) && g.PodGroup.Exists && g.Attempt == nil && !r.survey.isWaiting(g) {
			over[key] = settled{g.PodGroup.UID, g.Seated()}
		}
	}
	return over
}

// wholePlan is a plan for a merge patch: what it lacks takes what was written before away.
type wholePlan struct {
	Position       int32                            `json:"position"`
	ExpectedStart  *schedulingv1beta1.ExpectedStart `json:"expectedStart"`
	WaitsFor       []string                         `json:"waitsFor"`
	WaitsForOthers int32                            `json:"waitsForOthers"`
	Message        string                           `json:"message"`
	ComputedAt     metav1.Time                      `json:"computedAt"`
}

// write writes a plan, or takes it back (nil). It says whether that is done.
func (r *Room) write(ctx context.Context, key state.Key, uid types.UID, plan *schedulingv1beta1.PodGroupPlan) bool {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"plan": (*wholePlan)(plan)}})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Writing a plan as JSON failed")
		return false
	}
	updated, err := r.client.SchedulingV1beta1().PodGroups(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another PodGroup may have its name
		return plan == nil
	case err != nil:
		klog.FromContext(ctx).Error(fmt.Errorf("patching the status: %w", err), "Writing when a gang is expected to start failed, trying again",
			"podGroup", klog.KRef(key.Namespace, key.Name))
		return false
	}
	return plan == nil || r.isKept(ctx, updated)
}

// isKept says whether the API server has kept a plan that was written.
func (r *Room) isKept(ctx context.Context, updated *schedulingv1beta1.PodGroup) bool {
	if updated.Status.Plan != nil {
		r.prunedAt = time.Time{}
		return true
	}
	if r.prunedAt.IsZero() {
		klog.FromContext(ctx).Error(nil, "The installed CRD of PodGroups is older than this scheduler: apply manifests/crds. Until then no expected start is written")
	}
	r.prunedAt = r.clock.Now()
	return false
}
