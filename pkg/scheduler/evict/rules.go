package evict

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/placement"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// evictionFor is the eviction of one of a victim's pods for a claimant.
func evictionFor(c *Claimant, v *placement.Victim, pod *corev1.Pod) Repair {
	e := Repair{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Kind: MakeRoom, By: c.UID, Reason: gangmetrics.Preempted}
	e.Message = fmt.Sprintf("evicted to make room for %s, whose priority is higher", c.Who)
	if v.Rule == quota.ByShare {
		e.Reason = gangmetrics.Reclaimed
		e.Message = fmt.Sprintf("evicted to make room for %s: queue %q is above its share, and queue %q is below its own",
			c.Who, quota.QueueOf(v.Account), quota.QueueOf(c.Account))
	}
	return e
}

// EvictionRules say which pods may be evicted together for a gang, by the shares of queues and by priority.
type EvictionRules struct {
	reclaim  *quota.Reclaim
	claimant Claimant // without an account where no quota is enforced
	// sparesOutsiders: what is in no queue stays.
	sparesOutsiders bool
}

// Claimant is the gang or single pod that pods may be evicted for.
type Claimant struct {
	// Gang that it is, or is a member of; the zero value for none.
	Gang state.Key
	// Account that it is charged to, "" for none.
	Account string
	// Priority of it.
	Priority int32
	// Wants is what it requests.
	Wants resources.List

	UID       types.UID // of the PodGroup, or of the pod
	Who       string    // as messages name it
	LedgerKey string    // under which it assumes quota
	uncounted bool      // it is not among what is known to wait
	surplus   bool      // it is a member beyond the minimum: nothing outside all queues goes for it
}

// Below is the priority below which units of an account may be evicted, where priority counts.
func (r *EvictionRules) Below(account string) int32 {
	if r.claimant.Account == "" || account == "" || quota.QueueOf(account) == quota.QueueOf(r.claimant.Account) {
		return r.claimant.Priority
	}
	return math.MaxInt32
}

// Judged returns a candidate with the rule that allows its eviction, or nil if no rule does.
func (r *EvictionRules) Judged(v *placement.Victim) *placement.Victim {
	v.Rule = r.reclaim.Rule(unitOf(v))
	if v.Rule == quota.NotAllowed || v.Rule == quota.FromOutside && r.sparesOutsiders {
		return nil
	}
	return v
}

// Take notes that a victim is evicted. It refuses one that must not go beside the taken ones. Pods that go by themselves are gone already.
func (r *EvictionRules) Take(v *placement.Victim) bool {
	return v.Rule == quota.NotAllowed || r.reclaim.Take(unitOf(v))
}

// GiveBack undoes Take.
func (r *EvictionRules) GiveBack(v *placement.Victim) {
	if v.Rule != quota.NotAllowed {
		r.reclaim.GiveBack(unitOf(v))
	}
}

// HasQuota says whether the gang has quota without the taken victims.
func (r *EvictionRules) HasQuota() bool { return r.reclaim.Shortage() == nil }

// Excess is how far the queue of a victim is above its share.
func (r *EvictionRules) Excess(v *placement.Victim) quota.Ratio { return r.reclaim.Excess(unitOf(v)) }

// unitOf is a victim as the queues see it.
func unitOf(v *placement.Victim) quota.Unit {
	return quota.Unit{Account: v.Account, Priority: v.Priority(), Requests: v.Requests, AsksToStay: v.AsksToStay}
}
