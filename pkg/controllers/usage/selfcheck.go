package usage

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"github.com/muster-sched/muster/pkg/resources"
)

func newDrift() *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{
		Name: "muster_state_drift", StabilityLevel: metrics.ALPHA,
		Help: "Pods, PodGroups and queues whose amounts in the controller's books have differed from the API for at least a minute. " +
			"Anything but 0 is a defect.",
	})
}

// Drift is the metric of what the self-check finds.
func (t *Tracker) Drift() metrics.Registerable { return t.drift }

// RunSelfCheck compares the books with the API until the context ends, and publishes the differences.
func (t *Tracker) RunSelfCheck(ctx context.Context) { t.ledger.SelfCheck(ctx, t.drift, t.differing) }

// differing returns the pods that are not counted as the stores say. It also returns the groups whose totals differ from fresh sums.
func (t *Tracker) differing() (pods sets.Set[types.UID], groups []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pods = sets.KeySet(t.seats).Insert(t.ledger.Pods()...)
	for _, obj := range t.pods.GetIndexer().List() {
		pod := obj.(*corev1.Pod)
		if t.agreesOn(pod) {
			pods.Delete(pod.UID)
		} else {
			pods.Insert(pod.UID)
		}
	}
	return pods, t.differingGroups()
}

// agreesOn says whether a pod is counted as its stored state demands.
func (t *Tracker) agreesOn(pod *corev1.Pod) bool {
	last, seated := t.seats[pod.UID]
	account, amount, charged := t.ledger.Charged(pod.UID)
	if !TakesSeat(pod) {
		return !seated && !charged
	}
	next := t.seatOf(pod, last)
	if !seated || !last.equal(next) || charged != next.isCharged() {
		return false
	}
	return !charged || account == next.account && amount.Equal(next.amount)
}

// differingGroups lists the groups whose taken or charged amounts differ from their members' sums.
func (t *Tracker) differingGroups() []string {
	taken, charged := map[string]resources.Sums{}, map[string]resources.Sums{}
	for _, s := range t.seats {
		if s.group == "" {
			continue
		}
		countIn(taken, s, true)
		if s.charged {
			countIn(charged, s, true)
		}
	}
	groups := sets.KeySet(taken).Union(sets.KeySet(t.taken)).Union(sets.KeySet(t.charged))
	differing := []string{}
	for group := range groups {
		if !taken[group].Equal(t.taken[group]) || !charged[group].Equal(t.charged[group]) {
			differing = append(differing, group)
		}
	}
	slices.Sort(differing)
	return differing
}
