package report

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
)

// SelfCheck compares the state with the API until the context ends, and publishes the differences.
func SelfCheck(ctx context.Context, handle fwk.Handle, t *gangs.Tracker) {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	t.Quota.Ledger.SelfCheck(ctx, t.Metrics.Drift, func() (sets.Set[types.UID], []string) {
		all, _ := pods.List(labels.Everything()) // a lister never fails
		return Drifting(t, all), nil
	})
}

// Drifting returns the pods on which the state and the API disagree. They disagree on what a pod is charged, or on whether a member of a
// gang is bound.
func Drifting(t *gangs.Tracker, all []*corev1.Pod) sets.Set[types.UID] {
	t.Lock()
	defer t.Unlock()
	found := sets.New(t.Quota.Ledger.Pods()...)
	for _, pod := range all {
		if agreesOn(t, pod) {
			found.Delete(pod.UID)
		} else {
			found.Insert(pod.UID)
		}
	}
	return found
}

func agreesOn(t *gangs.Tracker, pod *corev1.Pod) bool {
	g, m := t.Find(pod.UID)
	if m != nil {
		if bound := pod.Spec.NodeName != ""; bound != (m.State == gang.Bound) && m.State != gang.Reserved && m.State != gang.Released && m.State != gang.Returning {
			return false
		}
	} else if _, member := t.KeyOf(pod); member && !t.IsOfOthers(pod) {
		return false
	}
	chargedTo, amount, charged := t.Quota.Ledger.Charged(pod.UID)
	if pod.Spec.NodeName == "" {
		return true // charged if it holds room, which only the scheduler knows
	}
	account := t.Quota.AccountIn(pod, g)
	if account == "" {
		return !charged
	}
	return charged && chargedTo == account && amount.Equal(resources.PodRequests(pod))
}
