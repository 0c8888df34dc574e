package ledger

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// Accounts are the accounts that may be charged for a bound pod. Each is "" for none.
type Accounts struct {
	// HasGroup: the PodGroup that the pod names exists.
	HasGroup bool
	// Group is the account of that PodGroup.
	Group string
	// Last is the account that the pod was charged to before its PodGroup was deleted.
	Last string
	// Named is the account that the pod names itself (Groups.AccountOf).
	Named string
}

// ChargedTo is the account that a bound pod is charged to. Scheduler and controllers follow this one rule. The account that was written with
// the binding stays until the pod has ended. A pod that was bound without one is charged to its PodGroup's account, or to the one that it
// names. When its PodGroup is deleted, it keeps its last account. A pod that AwaitsKubelet is charged to none.
func ChargedTo(pod *corev1.Pod, accounts Accounts) string {
	if account, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written {
		return account
	}
	if AwaitsKubelet(pod) {
		return ""
	}
	if accounts.HasGroup {
		return cmp.Or(accounts.Group, accounts.Named)
	}
	return cmp.Or(accounts.Last, accounts.Named)
}

// AwaitsKubelet says whether a pod was created with a node, and no kubelet has taken it yet. Anyone who may create pods can name a node
// that does not exist, or amounts that it does not have. A kubelet takes only pods that fit on its node, and says so. Each pod that it
// takes has the condition PodScheduled. The API server writes the same condition when it binds a pod for a scheduler.
func AwaitsKubelet(pod *corev1.Pod) bool {
	if _, written := pod.Annotations[schedulingv1beta1.ChargedToAnnotation]; written || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending {
		return false
	}
	return !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
}
