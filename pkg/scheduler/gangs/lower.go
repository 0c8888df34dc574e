package gangs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
)

// Overused lists the accounts whose pods, without the leaving ones, use more than their limit. It lists none where no quota is enforced, or
// nothing may be evicted.
func (v *Victims) Overused(leaving []types.UID) []quota.Overuse {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if !v.enabled || !v.t.Quota.enforced {
		return nil
	}
	return v.t.Quota.Ledger.Overused(leaving)
}

// AboveCapability chooses which units to evict until an account uses no more than it may without the pods that leave.
func (v *Victims) AboveCapability(account string, units []quota.Unit, leaving []types.UID) []int {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.t.Quota.Ledger.AboveCapability(account, v.t.Quota.waiting(), units, leaving)
}

// EvictFor has pods evicted because an account uses more than it may. It does nothing if some gang would be left below its minimum. The API
// server may refuse an eviction for a disruption budget.
func (v *Victims) EvictFor(overuse quota.Overuse, pods []*corev1.Pod) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	by, until := types.UID("capability of "+overuse.Account), v.t.clock.Now()
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
		if gone := v.t.clock.Now().Add(min(gang.GraceOf(pod), gang.LongestGrace)); gone.After(until) {
			until = gone
		}
	}
	if !v.wholeWithout(by, uids) {
		return
	}
	v.claimVictims(by, uids, until.Add(goneWithin), true)
	for _, pod := range pods {
		v.t.repairs.Add(repair{
			namespace: pod.Namespace, name: pod.Name, uid: pod.UID, kind: lowerUsage,
			reason: aboveCapability, message: "evicted because " + overuse.Error(),
		})
	}
}

// lowers says whether a pod is still to be evicted because its account uses more than it may: pods without a gang have no claims, nor have those
// that are being deleted.
func (v *Victims) lowers(pod types.UID) bool {
	_, m := v.t.find(pod)
	return m == nil || m.Terminating || v.claimed(pod, noUID)
}
