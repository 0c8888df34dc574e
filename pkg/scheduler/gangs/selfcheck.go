package gangs

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// selfCheckPeriod is how often the state is compared with what the API says.
const selfCheckPeriod = time.Minute

// selfCheck compares the tracker with the API.
type selfCheck struct{ t *Tracker }

// runSelfCheck compares the state with the API until the context ends, and publishes the differences. A pod counts when it differs twice in
// a row: some events are always still to come. The totals of queues are compared with the sums of their charges, so they never may differ.
func (s *selfCheck) runSelfCheck(ctx context.Context, pods corelisters.PodLister) {
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
		queues := s.t.Quota.Ledger.Differing()
		s.t.metrics.drift.Set(float64(drift.Len() + len(queues)))
		if drift.Len() > 0 {
			logger.Error(nil, "The scheduler's state differs from the API", "pods", drift.Len(), "example", sets.List(drift)[0])
		}
		if len(queues) > 0 {
			logger.Error(nil, "The scheduler's totals of queues are not the sums of their charges", "queues", queues)
		}
	}, selfCheckPeriod)
}

// differing returns the pods on which the state and the API disagree: on what a pod is charged, and on whether a member of a
// gang is bound.
func (s *selfCheck) differing(all []*corev1.Pod) sets.Set[types.UID] {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	differing := sets.New(s.t.Quota.Ledger.Pods()...)
	for _, pod := range all {
		if s.agreesOn(pod) {
			differing.Delete(pod.UID)
		} else {
			differing.Insert(pod.UID)
		}
	}
	return differing
}

func (s *selfCheck) agreesOn(pod *corev1.Pod) bool {
	g, m := s.t.find(pod.UID)
	if m != nil {
		if bound := pod.Spec.NodeName != ""; bound != (m.State == gang.Bound) && m.State != gang.Reserved && m.State != gang.Released && m.State != gang.Returning {
			return false
		}
	} else if _, member := s.t.keyOf(pod); member && !s.t.isOfOthers(pod) {
		return false
	}
	chargedTo, amount, charged := s.t.Quota.Ledger.Charged(pod.UID)
	if pod.Spec.NodeName == "" {
		return true // charged if it holds room, which only the scheduler knows
	}
	account := s.t.Quota.accountOf(pod, g)
	if account == "" {
		return !charged
	}
	return charged && chargedTo == account && amount.Equal(resources.PodRequests(pod))
}
