package state

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// netPause is how long a gang waits until it is judged again without having been woken. Nothing relies on it.
const netPause = 30 * time.Second

// netPeriod is within how many looks all parked gangs are judged again: as long as upstream leaves pods in its queue unasked, five
// minutes, less the pause.
const netPeriod = 270

// castNet has those gangs judged again that have waited longest since their last judgement, if that is long ago: few at a time. Were
// one to fit, its wake-up was lost.
func (s *Store) castNet() {
	var due []*group
	parked := 0
	for _, g := range s.gangs {
		if !g.parked {
			continue
		}
		parked++
		if s.clock.Since(g.judged) >= netPause {
			due = append(due, g)
		}
	}
	slices.SortFunc(due, func(a, b *group) int { return a.judged.Compare(b.judged) })
	for _, g := range due[:min(len(due), (parked+netPeriod-1)/netPeriod)] {
		s.judgeUnasked(g)
		s.waker.Add(g.key)
	}
}

// judgeUnasked lets a gang be judged again though nothing has happened that could help it.
func (s *Store) judgeUnasked(g *group) {
	s.unpark(g)
	s.unasked[g.key] = g
}

// Happens is to be called with each event before anybody is asked about it: who is judged meanwhile may see what has happened.
func (s *Store) Happens(event fwk.ClusterEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excuseUnasked(event)
}

// excuseUnasked has an event count as what has woken those who wait for it. Nobody asks them: they are about to be judged anyway.
func (s *Store) excuseUnasked(event fwk.ClusterEvent) {
	for key, g := range s.unasked {
		if s.waitsFor(g, event) {
			delete(s.unasked, key)
		}
	}
}

// waitsFor says whether one of the plugins that stood in a gang's way waits for an event.
func (s *Store) waitsFor(g *group, event fwk.ClusterEvent) bool {
	for _, hints := range s.asleep.hints {
		for _, h := range hints {
			if g.rejectors.Has(h.Plugin) && framework.MatchClusterEvents(h.Event, event) {
				return true
			}
		}
	}
	return false
}

// noteLostWakeup is called when a gang was judged to fit.
func (s *Store) noteLostWakeup(g *group, round *Round) {
	_, unasked := s.unasked[g.key]
	delete(s.unasked, g.key)
	if !unasked || round.Before != nil || round.Choose {
		return // woken; or time alone decides about what is set aside for it
	}
	klog.Background().Info("A gang fits that no event has woken", "podGroup", klog.KRef(g.key.Namespace, g.key.Name))
	s.lostWakeups++
	s.metrics.lostWakeups.Inc()
}

// LostWakeups is how many gangs fitted that nobody had woken.
func (s *Store) LostWakeups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostWakeups
}

// selfCheckPeriod is how often the state is compared with what the API says.
const selfCheckPeriod = time.Minute

// runSelfCheck compares the state with the API until the context ends, and publishes the differences. A pod counts when it
// differs twice in a row: news are on their way all the time.
func (s *Store) runSelfCheck(ctx context.Context, pods corelisters.PodLister) {
	logger := klog.FromContext(ctx)
	var last sets.Set[types.UID]
	wait.UntilWithContext(ctx, func(context.Context) {
		all, err := pods.List(labels.Everything())
		if err != nil {
			logger.Error(err, "Listing the pods for the self-check failed")
			return
		}
		differing := s.differing(all)
		drift := differing.Intersection(last)
		last = differing
		s.metrics.drift.Set(float64(drift.Len()))
		if drift.Len() > 0 {
			logger.Error(nil, "The scheduler's state differs from the API", "pods", drift.Len(), "example", sets.List(drift)[0])
		}
	}, selfCheckPeriod)
}

// differing returns the pods on which the state and the API disagree: on what a pod is charged, and on whether a member of a
// gang is bound.
func (s *Store) differing(all []*corev1.Pod) sets.Set[types.UID] {
	s.mu.Lock()
	defer s.mu.Unlock()
	differing := sets.New(s.ledger.Pods()...)
	for _, pod := range all {
		if s.agreesOn(pod) {
			differing.Delete(pod.UID)
		} else {
			differing.Insert(pod.UID)
		}
	}
	return differing
}

func (s *Store) agreesOn(pod *corev1.Pod) bool {
	g, m := s.find(pod.UID)
	queue := pod.Annotations[schedulingv1beta1.QueueNameAnnotation]
	if m != nil {
		if bound := pod.Spec.NodeName != ""; bound != (m.State == gang.Bound) && m.State != gang.Reserved {
			return false
		}
		if g.queue != "" {
			queue = g.queue
		}
	} else if _, member := groupOf(pod); member && !s.notOurs(pod) {
		return false
	}
	chargedTo, amount, charged := s.ledger.Charged(pod.UID)
	switch {
	case pod.Spec.NodeName == "":
		return true // charged if it holds room, and nobody but us knows that
	case queue == "":
		return !charged
	}
	return charged && chargedTo == queue && amount.Equal(resources.PodRequests(pod))
}
