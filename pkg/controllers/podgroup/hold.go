package podgroup

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-sched/muster/pkg/admission"
	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// holdTimeouts says how long a queue's room is kept for an admitted PodGroup that does not start. Without a limit, a PodGroup that can never be
// placed would keep its queue from all others. Its pods may be too large for any node, for example.
type holdTimeouts struct {
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
	// suspended: no pod exists, as the Job that makes them is suspended.
	suspended bool
}

// left is how long room is still kept for a PodGroup with this status. 0 or less means that it is not kept any more. It is false if it is kept
// for as long as the PodGroup waits.
func (p *holdTimeouts) left(key string, uid types.UID, status *schedulingv1beta1.PodGroupStatus, now time.Time) (left time.Duration, limited bool) {
	if !waitsForMembers(status.Phase) {
		return 0, false
	}
	seen := p.firstSeen(key, uid, now)
	switch {
	case seen.suspended:
		return 0, true
	case p.limit == 0:
		return 0, false
	}
	since := seen.at
	if last := schedulingv1beta1.CurrentCondition(status.Conditions); last != nil && last.Type == schedulingv1beta1.PodGroupUnschedulableType {
		since = last.LastTransitionTime.Time
	}
	return since.Add(p.limit).Sub(now), true
}

func (p *holdTimeouts) firstSeen(key string, uid types.UID, now time.Time) sighting {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, seen := p.since[key]; !seen || last.uid != uid {
		p.since[key] = sighting{uid: uid, at: now}
	}
	return p.since[key]
}

// suspend has no room kept for a PodGroup whose pods are not to come.
func (p *holdTimeouts) suspend(key string, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since[key] = sighting{uid: uid, suspended: true}
}

// resume notes that a PodGroup has pods: its wait begins anew if it was suspended.
func (p *holdTimeouts) resume(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since[key].suspended {
		delete(p.since, key)
	}
}

// forget drops the record of a PodGroup that waits no longer.
func (p *holdTimeouts) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, key)
}

// settleHold keeps room for an admitted PodGroup until its minimum is bound, or it has waited too long. It stays admitted then, and other
// PodGroups may be admitted, too. It returns when to look again; 0 if it need not. Room that is kept for a deleted PodGroup of the same
// name is given back. pods are the members that exist. gone is the number of succeeded members that are gone: they need no room.
func (c *Controller) settleHold(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, gone int32, next *schedulingv1beta1.PodGroupStatus) time.Duration {
	key := cache.MetaObjectToName(group).String()
	c.usage.ReleaseOtherHolds(group.Namespace, group.Name, group.UID)
	if !waitsForMembers(next.Phase) {
		c.holdTimeouts.forget(key)
		switch {
		case next.Phase == schedulingv1beta1.PodGroupRunning:
			return c.keepForOthers(group, pods, gone, next)
		case next.Phase.Admitted():
			next.Reserved = nil
			c.usage.ReleaseHold(group.Namespace, group.Name, group.UID)
		}
		return 0
	}
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !gang.IsFinished(pod) }) {
		c.holdTimeouts.resume(key)
	}
	left, limited := c.holdTimeouts.left(key, group.UID, next, c.clock.Now())
	if limited && next.Phase == schedulingv1beta1.PodGroupInqueue && int32(len(pods))+gone < group.Spec.Minimum() {
		came := lastCreated(pods, c.holdTimeouts.firstSeen(key, group.UID, c.clock.Now()).at)
		left = min(left, came.Add(comingTime).Sub(c.clock.Now()))
	}
	if c.admission.phJobOf(group) != nil {
		left, limited = 0, false // its controller ends it, or lets it wait again
	}
	if limited && left <= 0 {
		next.Reserved = nil
		c.usage.ReleaseHold(group.Namespace, group.Name, group.UID)
		return 0
	}
	least := group.Spec.Minimum()
	c.usage.Hold(group, admission.WithoutGone(admission.MinimumOf(group), gone, least), admission.WithoutGone(admission.AskedFor(group, pods, c.usage.RequestsOf), gone, least))
	return max(left, 0)
}

// comingTime is how long room is kept for members of a minimum that do not come. Each member that comes begins it anew.
const comingTime = time.Minute

// lastCreated is when the last of the members was created, and no earlier than a time.
func lastCreated(pods []*corev1.Pod, last time.Time) time.Time {
	for _, pod := range pods {
		if created := pod.CreationTimestamp.Time; created.After(last) {
			last = created
		}
	}
	return last
}

// keepForOthers keeps room for further members of a gang that runs, if its minResources include them. The minimum of Spark is the driver, and
// its minResources include the executors. The room is kept until members have used it, or none was bound for the hold timeout. The status
// says what is kept: the scheduler reads it, and the next controller. keepForOthers returns when to look again.
func (c *Controller) keepForOthers(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod, gone int32, next *schedulingv1beta1.PodGroupStatus) time.Duration {
	reserved := c.reservedFor(group, gone)
	if len(reserved) > 0 && sumOf(pods, c.usage.RequestsOf).Rest(reserved).IsZero() {
		reserved = nil
	}
	left := time.Duration(0)
	if len(reserved) > 0 && c.holdTimeouts.limit > 0 {
		if left = lastBound(pods).Add(c.holdTimeouts.limit).Sub(c.clock.Now()); left <= 0 {
			reserved = nil
			c.sayReleased(next)
		}
	}
	if len(reserved) == 0 {
		next.Reserved = nil
		c.usage.Rest(group)
		return 0
	}
	next.Reserved = reserved.ToResourceList()
	c.usage.Grant(group, reserved)
	return left
}

// reservedFor is the amount that is kept for the members of a running gang in all. When the gang starts, it is the amount that was held for
// it. Later it only shrinks. The minResources of a Job are those of its minimum.
func (c *Controller) reservedFor(group *schedulingv1beta1.PodGroup, gone int32) resources.List {
	status := &group.Status
	starts := !status.Phase.Admitted() || waitsForMembers(status.Phase)
	if batchv1alpha1.JobOf(group) != nil || !starts && status.Reserved == nil || starts && gone > 0 {
		return nil
	}
	held, moved := c.usage.Held(group)
	if !starts && !moved {
		held = resources.FromResourceList(status.Reserved)
	}
	return held.Least(admission.MinimumOf(group))
}

// sumOf is the sum of the requests of the members that have taken their part. They are bound and have not failed, or have succeeded.
func sumOf(pods []*corev1.Pod, requestsOf func(*corev1.Pod) resources.List) resources.Sums {
	sum := resources.Sums{}
	for _, pod := range pods {
		if usage.TakesSeat(pod) {
			sum.Add(requestsOf(pod))
		}
	}
	return sum
}

// lastBound is when the last of the members was bound.
func lastBound(pods []*corev1.Pod) time.Time {
	var last time.Time
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		bound := pod.CreationTimestamp.Time
		if condition := gang.ScheduledCondition(pod); condition != nil {
			bound = condition.LastTransitionTime.Time
		}
		if bound.After(last) {
			last = bound
		}
	}
	return last
}

// sayReleased says that no room is kept any more for members beyond the minimum.
func (c *Controller) sayReleased(next *schedulingv1beta1.PodGroupStatus) {
	next.Conditions = withFinding(next.Conditions, finding{
		kind: schedulingv1beta1.PodGroupScheduled, reason: schedulingv1beta1.PodGroupReadyReason,
		message: fmt.Sprintf("%s: members have not used all of minResources, and none was bound for %s", releasedMessage, c.holdTimeouts.limit),
	}, c.clock.Now(), string(uuid.NewUUID()))
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
			c.usage.Grant(group, admission.WithoutGone(admission.MinimumOf(group), members.gone, group.Spec.Minimum()))
		}
	}
	for _, obj := range groups {
		group := obj.(*schedulingv1beta1.PodGroup)
		pods, members := c.countMembers(group)
		c.settleHold(group, pods, members.gone, group.Status.DeepCopy())
	}
	c.admission.wake()
}
