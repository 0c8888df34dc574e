package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
)

// Reasons why the gate is closed to a pod. The texts are constant: upstream may count changes of them.
const (
	notSynced        = "waiting until the scheduler has read the PodGroups"
	notSeen          = "waiting until the scheduler has read the pod"
	notCaughtUp      = "waiting until the scheduler has read the PodGroup as it was when the pod was created"
	oldIncarnation   = "the pod is of an earlier incarnation of its gang"
	terminating      = "the pod is being deleted"
	alreadyBound     = "the pod is bound already"
	behindScout      = "another pod of the gang is tried on behalf of all"
	behindChosen     = "waiting until the minimum of the gang has started"
	behindOther      = "waiting until a member that must be placed before has its room"
	holdsRoom        = "the pod holds room already"
	queueIsGone      = "the queue of the PodGroup does not exist: create it, or put the pods into another queue"
	awaitsController = "waiting for muster-controller to give the pod its PodGroup. If this lasts, see the events of the pod, and whether muster-controller runs and serves the pod's scheduler name (--podgroup-scheduler-names)"
	couldNotBePlaced = "the gang was found to fit, but its members could not be placed together; it is tried again"
)

// waitTexts say what a gang waits for.
var waitTexts = map[gang.WaitReason]string{
	gang.NoPodGroup:      "waiting for the pod's PodGroup to be created",
	gang.TooFewMembers:   "waiting for the minimum of the gang's pods to be created",
	gang.OutcomeUnknown:  "waiting to learn how a member of the gang has ended",
	gang.Admission:       "waiting for the PodGroup to be admitted by its queue",
	gang.DifferentQueues: "waiting until all pods of the gang name the same queue",
	gang.Room:            "the gang does not fit",
	gang.Quota:           "the gang waits for quota",
	gang.Rollback:        "waiting until the gang has given back the room of its last attempt",
	gang.BackOff:         "the gang could not be placed and backs off",
	gang.Eviction:        "waiting until pods have gone that were evicted for the gang",
	gang.Preemption:      "the gang is being preempted",
}

// Gate says why a pod may not enter the scheduling queue now, or "" when it may. Pods without a gang pass, if they need none. If the gang is Ready, exactly
// one pod passes, the scout. If it is Attempting, the chosen members pass, and if it is Running, all. It runs under the scheduling queue's
// lock.
//
// The queue's pod may be older than the tracker's: the queue may not have heard yet that it is bound, or gone. So the gate learns nothing
// from it, and holds a pod that the tracker does not know yet; the dispatcher activates it later.
func (t *Tracker) Gate(pod *corev1.Pod) string {
	key, ok := t.keyOf(pod)
	if !ok {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.members[pod.UID]; g != nil && g.key == key {
		delete(t.detached, pod.UID) // the queue knows of its gang
	}
	reason, isScout := t.closedTo(key, pod)
	if reason == "" || t.Leadership.mayBeProbe(pod) {
		t.letIn(pod, reason == "", isScout)
		return ""
	}
	g, e := t.gangs[key], gang.Only(gang.ToReport)
	if g != nil {
		g.turnedAway = true
		if g.scout.uid == pod.UID {
			g.scout.called = time.Time{} // it is held until then
		}
	}
	if reason == notSeen {
		t.unseen[pod.UID] = pod // it is activated when the tracker has seen it
		if t.members[pod.UID] != nil {
			t.WaitList.ready[pod.UID] = pod // the queue will know in a moment that the pod names another gang
			e.Add(gang.TriedIn(queueLag))
		}
	}
	t.apply(g, e)
	return reason
}

// letIn notes that a pod passes the gate. It may be the scout of its gang. If the gate is closed to it, it is the probe.
func (t *Tracker) letIn(pod *corev1.Pod, isOpen, isScout bool) {
	g, m := t.find(pod.UID)
	if m == nil {
		return
	}
	if isScout {
		t.callScout(g, m)
	}
	if !isOpen {
		t.Leadership.becomeProbe(pod.UID)
	}
	t.fixPriority(g)
	t.Order.freezeOrder(g, m)
}

// queueLag is the pause for the scheduling queue to learn of a change that the tracker knows.
const queueLag = 10 * time.Millisecond

// closedTo says why a pod must wait, or "". A waiting member that may pass is the scout of a gang that is Ready and has no other one.
func (t *Tracker) closedTo(key Key, pod *corev1.Pod) (reason string, isScout bool) {
	g, m := t.find(pod.UID)
	switch {
	case !t.synced:
		return notSynced, false
	case m == nil || g.key != key:
		return notSeen, false
	case m.Terminating:
		return terminating, false
	case m.State == gang.Bound:
		return alreadyBound, false
	case g.podGroup.exists && g.lagsBehind(pod):
		return notCaughtUp, false
	}
	status := t.status(g)
	switch {
	case key.AwaitsPodGroup():
		return awaitsController, false
	case status.Phase == gang.Incomplete && !g.podGroup.exists, status.Phase == gang.NotAdmitted:
		return t.waitText(g, status), false
	case !g.Counts(m):
		return oldIncarnation, false
	case status.Phase == gang.Running && status.Reason == "":
		return "", false
	case status.Phase == gang.Attempting:
		return g.attempt.closedTo(m.UID, status), false
	case status.Phase != gang.Ready && status.Phase != gang.Unschedulable:
		return waitTexts[status.Reason], false
	case m.State != gang.Waiting:
		return holdsRoom, false
	case g.scout.uid != noUID && g.scout.uid != m.UID:
		return behindScout, false
	}
	return "", true
}

// waitText says what a gang waits for that has no PodGroup, or is not admitted.
func (t *Tracker) waitText(g *group, status gang.Status) string {
	if status.Reason == gang.Admission && t.Quota.lacksQueue(g) {
		return queueIsGone
	}
	return waitTexts[status.Reason]
}

// closedTo says why a member must wait while the chosen members are still to come, or "".
func (a *attempt) closedTo(member types.UID, status gang.Status) string {
	_, chosen := a.toCome[member]
	switch {
	case !chosen:
		return behindChosen
	case status.Reason != "":
		return waitTexts[status.Reason]
	case !a.isNext(member):
		return behindOther
	}
	return ""
}

// callScout makes a member the scout, whose scheduling cycle is expected from now on.
func (t *Tracker) callScout(g *group, m *gang.Member) {
	g.scout.uid = m.UID
	if g.scout.called.IsZero() {
		g.scout.called = t.clock.Now()
	}
	t.metrics.reachQuorum(g, t.clock.Now())
}
