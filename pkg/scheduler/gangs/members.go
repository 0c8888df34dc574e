package gangs

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/scheduler/upstream"
)

// OutcomePause is how long a gang waits to learn how a terminated member has ended. The PodGroup's status may never say.
const OutcomePause = 500 * time.Millisecond

// SetPod takes over the present state of a pod. It may be called for the same pod any number of times.
func (t *store) SetPod(pod *corev1.Pod) {
	t.Lock()
	defer t.Unlock()
	var e gang.Effects
	if pod.Spec.NodeName != "" {
		delete(t.Quota.Grouped, pod.UID)
		t.Evictions.Use(pod)
		e = t.Victims.EndPodSeat(pod.UID)
		e.Add(gang.Only(gang.SearchDiffers))
		t.Victims.Searches.Forget(pod.UID)
		delete(t.WaitList.Sharing.TurnedBack, pod.UID)
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		t.Leadership.EndProbe(pod.UID) // the scheduler does not try it any more
	}
	key, isMember := t.KeyOf(pod)
	t.detachUnless(key, isMember, pod)
	switch {
	case !isMember:
		t.Outsiders.Drop(pod.UID)
		e.Add(t.Quota.ChargeBound(pod, nil, nil))
		t.Apply(nil, e)
		return
	case t.IsOfOthers(pod):
		if t.Outsiders.Set(pod, key) {
			e.Add(gang.Only(gang.ToReport))
		}
		e.Add(t.Quota.ChargeBound(pod, nil, nil))
		t.Apply(t.Gangs[key], e)
		return
	}
	t.Outsiders.Drop(pod.UID)
	g := t.Group(key)
	if old := g.Member(pod.UID); old == nil || old.Pod != pod {
		e.Add(t.setMember(g, old, gang.MemberOf(pod, RequestsOf(pod, old))))
	}
	t.Apply(g, e)
}

// setMember takes over the present state of a member. old is its earlier state, nil if it is new.
func (t *store) setMember(g *gang.Group, old, m *gang.Member) gang.Effects {
	incarnation := g.Version()
	e := t.record(g, old, m)
	if old != nil && old.State == m.State && old.Terminating == m.Terminating && old.Version == m.Version && old.Task == m.Task {
		e.Add(podChanged(g, old, m))
		return e
	}
	switch {
	case g.Attempt != nil && (g.Version() != incarnation || !g.Counts(m) && g.IsInAttempt(m) || takesSeat(g, old, m) && !g.SeatedWith(g.ToCome())):
		e.Add(t.RollBack(g, ""))
	case g.Attempt != nil && m.State == gang.Bound: // though the answer to the binding said that it was not, or by another scheduler
		e.Add(t.took(g, m))
		e.Add(t.endIfSeated(g))
	case g.Scout.UID == m.UID && (m.Terminating || m.State == gang.Bound):
		g.Scout = gang.Scout{}
	}
	e.Add(g.Change())
	if g.Retry.Binding > 0 && g.Seated() && g.CountIn(gang.Reserved)+g.CountIn(gang.Released) == 0 {
		g.Retry.Binding = 0 // bound as a whole
	}
	t.Metrics.ReachBinding(g, t.Clock.Now())
	return e
}

// takesSeat says whether a change of a member may leave its gang with fewer seats. Only then all members are counted, as there may be very many.
func takesSeat(g *gang.Group, old, m *gang.Member) bool {
	return !g.Counts(m) || old != nil && (old.Task != m.Task || old.State.Holds() && !m.State.Holds())
}

// podChanged handles a change of a pod that does not matter to its gang.
func podChanged(g *gang.Group, old, m *gang.Member) (e gang.Effects) {
	if m.State != gang.Waiting {
		return e
	}
	if mayFitNow(old.Pod, m.Pod) {
		e = g.Change()
	}
	if !upstream.SameScheduledCondition(old.Pod, m.Pod) {
		g.Conditions++
		e.Add(gang.Only(gang.ToReport))
	}
	return e
}

// record stores the present state of a member.
func (t *store) record(g *gang.Group, old, m *gang.Member) gang.Effects {
	m.Account = t.Quota.NamedBy(m.Pod)
	g.Join(old, m)
	if old == nil {
		g.Joined = t.Clock.Now()
		g.SurplusOpen = g.SurplusOpen && t.Unseen[m.UID] == nil
		delete(t.Unseen, m.UID)
	}
	t.Members[m.UID] = g
	if m.State == gang.Bound {
		delete(t.Detached, m.UID)
	}
	e := t.settleAccount(g)
	e.Add(t.Quota.ChargeBound(m.Pod, g, m.Requests))
	return e
}

// mayFitNow says whether a change of a waiting pod may let it fit on more nodes. The queue tells the plugins of it when they rejected this
// very pod. But a gang is unschedulable under the name of its scout.
func mayFitNow(old, pod *corev1.Pod) bool {
	return slices.ContainsFunc(framework.PodSchedulingPropertiesChange(pod, old, true), func(e fwk.ClusterEvent) bool {
		return e.ActionType != fwk.Update // which stands for changes that upstream's plugins do not look at
	})
}

// detachUnless takes a pod out of its gang if it names another now, or none. Until it is seen in a scheduling cycle, or bound, it is
// activated again and again. The queue may not have heard yet.
func (t *store) detachUnless(key state.Key, isMember bool, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		delete(t.Detached, pod.UID)
	}
	g, m := t.Find(pod.UID)
	if m == nil || isMember && g.Key == key {
		return
	}
	e := t.leave(g, m)
	t.Quota.Bound.Delete(pod.UID) // the account of its last PodGroup is not that of another
	if g.Key.AwaitsPodGroup() && isMember {
		t.Unseen[pod.UID] = pod // it was never let in, and its gang activates it
	} else if pod.Spec.NodeName == "" {
		t.Detached[pod.UID] = pod
	}
	t.Apply(g, e)
}

// DeletePod forgets a pod and takes its charge back.
func (t *store) DeletePod(pod *corev1.Pod) {
	t.Lock()
	defer t.Unlock()
	t.Order.Keys.Delete(pod.UID)
	t.Evictions.Use(pod)
	e := t.Victims.EndPodSeat(pod.UID)
	e.Add(gang.Only(gang.SearchDiffers))
	t.Victims.Searches.Forget(pod.UID)
	t.Leadership.EndProbe(pod.UID)
	delete(t.Detached, pod.UID)
	t.Outsiders.Drop(pod.UID)
	delete(t.WaitList.Ready, pod.UID)
	delete(t.Unseen, pod.UID)
	delete(t.WaitList.Held.Pods, pod.UID)
	if pod.Spec.NodeName != "" {
		e.Add(gang.Only(gang.NodeFreed))
	}
	t.Quota.Forget(pod.UID)
	e.Add(gang.Freed(t.Quota.Ledger.Release(pod.UID)))
	g, m := t.Find(pod.UID)
	if m != nil {
		t.awaitOutcome(g, m, pod)
		e.Add(t.leave(g, m))
	}
	t.Apply(g, e)
	if pod.Spec.NodeName != "" {
		t.Leaving.Delete(pod.UID) // it was bound, so it had no room to give back
	}
	t.Victims.Gone(pod.UID)
}

// awaitOutcome has a gang pause when a bound pod vanished without a deletion. The pod has ended, and only the PodGroup's status says
// whether it succeeded. (The scheduler does not see pods that have succeeded.) Without it, a replacement or surplus would count as missing.
// It would go before all other pods.
func (t *store) awaitOutcome(g *gang.Group, m *gang.Member, last *corev1.Pod) {
	now := t.Clock.Now()
	waits := g.MinimumBound && now.Before(g.OutcomeUntil)
	if !waits && g.PodGroup.Exists && m.State == gang.Bound && g.Counts(m) && last.DeletionTimestamp == nil {
		g.OutcomeUntil = now.Add(OutcomePause)
	}
}

// leave takes a pod out of its gang. A pod that holds room may be on its way to Permit. Its gang cannot have it rejected there any more.
// Upstream's handler does not help: it may have seen the deletion before the pod waited. So the pod is rejected until it has given the room
// back.
func (t *store) leave(g *gang.Group, m *gang.Member) gang.Effects {
	delete(t.Members, m.UID)
	delete(t.WaitList.Sharing.TurnedBack, m.UID)
	if m.State != gang.Waiting && m.State != gang.Bound {
		t.Leaving.Insert(m.UID)
	}
	inAttempt := g.IsInAttempt(m)
	g.Leave(m)
	e := t.settleAccount(g)
	if g.Attempt != nil && (inAttempt || !g.SeatedWith(g.ToCome())) {
		e.Add(t.RollBack(g, ""))
	}
	e.Add(g.Change())
	return e
}

// RequestsOf is what a pod requests, which only a change of its spec changes. Most changes are of its status.
func RequestsOf(pod *corev1.Pod, old *gang.Member) resources.List {
	if old != nil && pod.Generation > 0 && pod.Generation == old.Pod.Generation {
		return old.Requests
	}
	return resources.PodRequests(pod)
}
