package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/runtimes"
)

// placing is how long it takes at most, as a rule, until what was found to fit is bound.
const placing = 2 * time.Second

// EstimateOf is how long a gang is expected to run.
func (t *State) EstimateOf(g *gang.Group) runtimes.Estimate { return g.PodGroup.Runtime }

// estimateOfPod is how long a pod without a gang is expected to run. Its user says it, or its deadline.
func estimateOfPod(pod *corev1.Pod) runtimes.Estimate {
	e := runtimes.Of(pod)
	if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil && *limit > 0 && *limit < int64(maxLimit.Seconds()) {
		e.Limit = time.Duration(*limit) * time.Second
		if !e.Known() {
			e.For, e.Source = e.Limit, runtimes.Limit
		}
	}
	return e
}

// maxLimit is the longest limit that means anything.
const maxLimit = 100 * 365 * 24 * time.Hour

// EndOf is when a pod on a node is expected to end. It is false for a pod without an estimate, and for one that runs as long as its node. It
// takes the lock.
func (t *State) EndOf(pod *corev1.Pod) (time.Time, bool) {
	switch {
	case pod.DeletionTimestamp != nil: // after its time it is not known what it waits for
		return pod.DeletionTimestamp.Time, t.Clock.Now().Before(pod.DeletionTimestamp.Time)
	case gang.IsOfDaemonSet(pod) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return time.Time{}, false
	}
	t.Lock()
	defer t.Unlock()
	now := t.Clock.Now()
	g, m := t.Find(pod.UID)
	switch {
	case m == nil && t.Known(pod) == nil: // it is gone, and a scheduling cycle does not know yet
		return now, true
	case m == nil || !g.PodGroup.Exists && !g.PodGroup.Runtime.Known():
		return estimateOfPod(pod).End(begunBy(pod, now), now)
	case m.Version != g.Version() || g.Began.IsZero():
		return t.EstimateOf(g).End(begunBy(pod, now), now)
	}
	return t.EstimateOf(g).End(g.Began, now)
}

// begunBy is when a pod began to run. One that is not bound yet is about to begin.
func begunBy(pod *corev1.Pod, now time.Time) time.Time {
	if c := gang.ScheduledCondition(pod); c != nil && c.Status == corev1.ConditionTrue || pod.Status.StartTime != nil {
		return gang.BoundAt(pod)
	}
	return now.Add(placing)
}

// endIfStarted is when a gang, or a pod without one (nil), would end if it started now. Surplus ends with its gang. It is false if that is not
// known.
func (t *State) endIfStarted(g *gang.Group, pod *corev1.Pod) (time.Time, bool) {
	now := t.Clock.Now()
	switch {
	case g == nil:
		return estimateOfPod(pod).End(now.Add(placing), now)
	case g.Began.IsZero():
		return t.EstimateOf(g).End(now.Add(placing), now)
	}
	return t.EstimateOf(g).End(g.Began, now)
}
