package podgroup

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
)

// patience says how long a queue's room is kept for an admitted PodGroup that does not start. Without a limit, a PodGroup that can never be
// placed would keep its queue from all others. Its pods may be too large for any node, for example.
type patience struct {
	limit time.Duration // 0: for ever

	mu sync.Mutex
	// since is when PodGroups without known members were first seen to wait, by key. A restart forgets it, and so gives them a little more
	// time.
	since map[string]sighting
}

// sighting is when a PodGroup was first seen. The UID tells it from an earlier one of the same name, whose deletion the controller may have
// missed.
type sighting struct {
	uid types.UID
	at  time.Time
}

// left is how long room is still kept for a PodGroup with this status. 0 or less means that it is not kept any more; false if it is kept
// for as long as the PodGroup waits.
func (p *patience) left(key string, uid types.UID, status *schedulingv1beta1.PodGroupStatus, now time.Time) (left time.Duration, limited bool) {
	// The rest of a gang of which some members run comes before all others.
	if p.limit == 0 || status.Phase != schedulingv1beta1.PodGroupInqueue {
		return 0, false
	}
	since := p.firstSeen(key, uid, now)
	if last := current(status.Conditions); last != nil && last.Type == schedulingv1beta1.PodGroupUnschedulableType {
		since = last.LastTransitionTime.Time
	}
	return since.Add(p.limit).Sub(now), true
}

func (p *patience) firstSeen(key string, uid types.UID, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since = map[string]sighting{}
	}
	if last, seen := p.since[key]; !seen || last.uid != uid {
		p.since[key] = sighting{uid, now}
	}
	return p.since[key].at
}

// forget drops the record of a PodGroup that waits no longer.
func (p *patience) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, key)
}

// settleHold keeps room for an admitted PodGroup until its minimum is bound, or it has waited too long; it stays admitted then, and other
// PodGroups may be admitted, too. It returns when to look again; 0 if it need not. Room that is kept for a deleted PodGroup of the same
// name is given back. pods are the members that exist. gone is the number of succeeded members that are gone: they need no room.
func (c *Controller) settleHold(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, gone int32, next *schedulingv1beta1.PodGroupStatus) time.Duration {
	key := cache.MetaObjectToName(group).String()
	c.usage.ReleaseOtherHolds(group.Namespace, group.Name, group.UID)
	if !waitsForMembers(next.Phase) {
		c.patience.forget(key)
		switch {
		case next.Phase == schedulingv1beta1.PodGroupRunning:
			c.usage.Rest(group)
		case next.Phase.Admitted():
			c.usage.ReleaseHold(group.Namespace, group.Name, group.UID)
		}
		return 0
	}
	left, limited := c.patience.left(key, group.UID, next, c.clock.Now())
	if c.admission.phJobs.JobOf(group) != nil {
		left, limited = 0, false // its controller ends it, or lets it wait again
	}
	if limited && left <= 0 {
		c.usage.ReleaseHold(group.Namespace, group.Name, group.UID)
		return 0
	}
	minimum := group.Spec.MinMember
	c.usage.Hold(group, withoutGone(usage.MinimumOf(group), gone, minimum), withoutGone(askedFor(group, pods, c.usage.RequestsOf), gone, minimum))
	return max(left, 0)
}

// waitsForMembers says whether a PodGroup in this phase still needs room for its minimum.
func waitsForMembers(phase schedulingv1beta1.PodGroupPhase) bool {
	return phase == schedulingv1beta1.PodGroupInqueue || phase == schedulingv1beta1.PodGroupUnknown
}

// restore keeps room for the PodGroups that an earlier run has admitted, before the first round. A decision that it has not written is made
// anew: nothing has followed from it yet. Further requests of members come after all holds.
func (c *Controller) restore() {
	groups := c.admission.groups.List()
	for _, obj := range groups {
		group := obj.(*schedulingv1beta1.PodGroup)
		_, members := c.countMembers(group)
		if waitsForMembers(group.Status.Phase) {
			c.usage.Grant(group, withoutGone(usage.MinimumOf(group), members.gone, group.Spec.MinMember))
		}
	}
	for _, obj := range groups {
		group := obj.(*schedulingv1beta1.PodGroup)
		pods, members := c.countMembers(group)
		c.settleHold(group, pods, members.gone, &group.Status)
	}
	c.admission.wake()
}
