package gangs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// outcomePause is how long a gang waits to learn how a terminated member has ended. The PodGroup's status may never say.
const outcomePause = 500 * time.Millisecond

// SetPod takes over the present state of a pod. It may be called for the same pod any number of times.
func (t *Tracker) SetPod(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var e gang.Effects
	if pod.Spec.NodeName != "" {
		delete(t.Quota.grouped, pod.UID)
		t.Evictions.use(pod)
		e = t.WaitList.endPodSeat(pod.UID)
		e.Add(gang.Only(gang.SearchDiffers))
		t.Victims.searches.forget(pod.UID)
		delete(t.WaitList.sharing.turnedBack, pod.UID)
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		t.Leadership.probeGone(pod.UID) // the scheduler does not try it any more
	}
	key, isMember := t.keyOf(pod)
	t.detachUnless(key, isMember, pod)
	switch {
	case !isMember:
		t.outsiders.drop(pod.UID)
		e.Add(t.Quota.charge(pod, nil, nil))
		t.apply(nil, e)
		return
	case t.isOfOthers(pod):
		if t.outsiders.set(pod, key) {
			e.Add(gang.Only(gang.ToReport))
		}
		e.Add(t.Quota.charge(pod, nil, nil))
		t.apply(t.gangs[key], e)
		return
	}
	t.outsiders.drop(pod.UID)
	g := t.group(key)
	if old := g.Member(pod.UID); old == nil || old.Pod != pod {
		e.Add(t.setMember(g, old, gang.MemberOf(pod, requestsOf(pod, old))))
	}
	t.apply(g, e)
}

// setMember takes over the present state of a member. old is its earlier state, nil if it is new.
func (t *Tracker) setMember(g *group, old, m *gang.Member) gang.Effects {
	incarnation := g.Version()
	e := t.record(g, old, m)
	if old != nil && old.State == m.State && old.Terminating == m.Terminating && old.Version == m.Version && old.Task == m.Task {
		e.Add(g.podChanged(old, m))
		return e
	}
	switch {
	case g.attempt != nil && (g.Version() != incarnation || m.Terminating && g.isNeeded(m)):
		e.Add(t.rollBack(g, ""))
	case g.attempt != nil && m.State == gang.Bound: // though the answer to the binding said that it was not, or by another scheduler
		e.Add(t.took(g, m))
		e.Add(t.endIfSeated(g))
	case g.scout.uid == m.UID && (m.Terminating || m.State == gang.Bound):
		g.scout = scout{}
	}
	e.Add(g.change())
	if g.retry.binding > 0 && g.Seated() && g.CountIn(gang.Reserved)+g.CountIn(gang.Released) == 0 {
		g.retry.binding = 0 // bound as a whole
	}
	t.metrics.reachBinding(g, t.clock.Now())
	return e
}

// podChanged handles a change of a pod that does not matter to its gang.
func (g *group) podChanged(old, m *gang.Member) (e gang.Effects) {
	if m.State != gang.Waiting {
		return e
	}
	if mayFitNow(old.Pod, m.Pod) {
		e = g.change()
	}
	if !upstream.SameScheduledCondition(old.Pod, m.Pod) {
		g.conditions++
		e.Add(gang.Only(gang.ToReport))
	}
	return e
}

// record stores the present state of a member.
func (t *Tracker) record(g *group, old, m *gang.Member) gang.Effects {
	incarnation := g.Version()
	g.share(m)
	m.Account = t.Quota.namedBy(m.Pod)
	g.countNamed(old, -1)
	g.countNamed(m, 1)
	g.Put(m)
	g.membersChanged()
	if old == nil {
		g.joined = t.clock.Now()
		g.turnedAway = g.turnedAway || t.unseen[m.UID] != nil
		delete(t.unseen, m.UID)
	}
	if g.Version() != incarnation {
		g.beginIncarnation()
	}
	t.members[m.UID] = g
	if m.State == gang.Bound {
		delete(t.detached, m.UID)
	}
	e := t.settleAccount(g)
	e.Add(t.Quota.charge(m.Pod, g, m.Requests))
	return e
}

// mayFitNow says whether a change of a waiting pod may let it fit on more nodes. The queue tells the plugins of it when they rejected this
// very pod; but a gang is unschedulable under the name of its scout.
func mayFitNow(old, pod *corev1.Pod) bool {
	return slices.ContainsFunc(framework.PodSchedulingPropertiesChange(pod, old, true), func(e fwk.ClusterEvent) bool {
		return e.ActionType != fwk.Update // which stands for changes that upstream's plugins do not look at
	})
}

// isOfOthers says whether a pod waits for another component: another scheduler, or the removal of its scheduling gates. It becomes a member
// when it has a node or the gates are gone.
func (t *Tracker) isOfOthers(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && (len(pod.Spec.SchedulingGates) > 0 || !t.settings.profiles.Has(pod.Spec.SchedulerName))
}

// detachUnless takes a pod out of its gang if it names another now, or none. Until it is seen in a scheduling cycle, or bound, it is
// activated again and again: the queue may not have heard yet.
func (t *Tracker) detachUnless(key Key, isMember bool, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		delete(t.detached, pod.UID)
	}
	g, m := t.find(pod.UID)
	if m == nil || isMember && g.key == key {
		return
	}
	e := t.leave(g, m)
	t.Quota.bound.Delete(pod.UID) // the account of its last PodGroup is not that of another
	if g.key.AwaitsPodGroup() && isMember {
		t.unseen[pod.UID] = pod // it was never let in, and its gang activates it
	} else if pod.Spec.NodeName == "" {
		t.detached[pod.UID] = pod
	}
	t.apply(g, e)
}

// DeletePod forgets a pod and takes its charge back.
func (t *Tracker) DeletePod(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Order.keys.Delete(pod.UID)
	t.Evictions.use(pod)
	e := t.WaitList.endPodSeat(pod.UID)
	e.Add(gang.Only(gang.SearchDiffers))
	t.Victims.searches.forget(pod.UID)
	t.Leadership.probeGone(pod.UID)
	delete(t.detached, pod.UID)
	t.outsiders.drop(pod.UID)
	delete(t.WaitList.ready, pod.UID)
	delete(t.unseen, pod.UID)
	delete(t.WaitList.held.pods, pod.UID)
	if pod.Spec.NodeName != "" {
		e.Add(gang.Only(gang.NodeFreed))
	}
	t.Quota.forget(pod.UID)
	e.Add(gang.Freed(t.Quota.Ledger.Release(pod.UID)))
	g, m := t.find(pod.UID)
	if m != nil {
		t.awaitOutcome(g, m, pod)
		e.Add(t.leave(g, m))
	}
	t.apply(g, e)
	if pod.Spec.NodeName != "" {
		t.leaving.Delete(pod.UID) // it was bound, so it had no room to give back
	}
	t.WaitList.gone(pod.UID)
}

// awaitOutcome has a gang pause when a bound pod vanished without a deletion: the pod has ended, and only the PodGroup's status says
// whether it succeeded. (The scheduler does not see pods that have succeeded.) Without it, a replacement or surplus would count as missing.
// It would go before all other pods.
func (t *Tracker) awaitOutcome(g *group, m *gang.Member, last *corev1.Pod) {
	now := t.clock.Now()
	waits := g.minimumBound && now.Before(g.outcomeUntil)
	if !waits && g.podGroup.exists && m.State == gang.Bound && g.Counts(m) && last.DeletionTimestamp == nil {
		g.outcomeUntil = now.Add(outcomePause)
	}
}

// leave takes a pod out of its gang. A pod that holds room may be on its way to Permit. Its gang cannot have it rejected there any more.
// Upstream's handler does not help: it may have seen the deletion before the pod waited. So the pod is rejected until it has given the room
// back.
func (t *Tracker) leave(g *group, m *gang.Member) gang.Effects {
	delete(t.members, m.UID)
	delete(t.WaitList.sharing.turnedBack, m.UID)
	if m.State != gang.Waiting && m.State != gang.Bound {
		t.leaving.Insert(m.UID)
	}
	g.kept = nil
	inAttempt, incarnation := g.isInAttempt(m), g.Version()
	switch g.Remove(m.UID); {
	case g.Len() == 0:
		g.requests = nil
	case g.Version() != incarnation:
		g.beginIncarnation() // an earlier one: nothing is known of it any more
	}
	g.countNamed(m, -1)
	e := t.settleAccount(g)
	if g.scout.uid == m.UID {
		g.scout = scout{}
	}
	if g.attempt != nil && (inAttempt || !g.SeatedWith(g.membersToCome())) {
		e.Add(t.rollBack(g, ""))
	}
	e.Add(g.change())
	return e
}

// requestsOf is what a pod requests, which only a change of its spec changes. Most changes are of its status.
func requestsOf(pod *corev1.Pod, old *gang.Member) resources.List {
	if old != nil && pod.Generation > 0 && pod.Generation == old.Pod.Generation {
		return old.Requests
	}
	return resources.PodRequests(pod)
}

// noUID stands for no particular pod.
const noUID types.UID = ""
