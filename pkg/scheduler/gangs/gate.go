package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// Reasons why the gate is closed to a pod. The texts are constant: upstream may count changes of them.
const (
	NotSynced        = "waiting until the scheduler has read the PodGroups"
	NotSeen          = "waiting until the scheduler has read the pod"
	NotCaughtUp      = "waiting until the scheduler has read the PodGroup as it was when the pod was created"
	OldIncarnation   = "the pod is of an earlier incarnation of its gang"
	Terminating      = "the pod is being deleted"
	AlreadyBound     = "the pod is bound already"
	BehindScout      = "another pod of the gang is tried on behalf of all"
	behindChosen     = "waiting until the minimum of the gang has started"
	behindOther      = "waiting until a member that must be placed before has its room"
	behindGroup      = "waiting until enough pods of its sub group exist to start it whole"
	holdsRoom        = "the pod holds room already"
	outOfTurn        = "waiting until the gangs that rank before its own have been tried"
	QueueIsGone      = "the queue of the PodGroup does not exist: create it, or put the pods into another queue"
	AwaitsController = "waiting for muster-controller to give the pod its PodGroup. If this lasts, see the events of the pod, and whether muster-controller runs and serves the pod's scheduler name (--podgroup-scheduler-names)"
	CouldNotBePlaced = "the gang was found to fit, but its members could not be placed together; it is tried again"
)

// WaitTexts say what a gang waits for.
var WaitTexts = map[gang.WaitReason]string{
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
// The queue's pod may be older than the tracker's. The queue may not have heard yet that it is bound, or gone. So the gate learns nothing
// from it, and holds a pod that the tracker does not know yet. The dispatcher activates it later.
func (t *store) Gate(pod *corev1.Pod) string {
	key, ok := t.KeyOf(pod)
	if !ok {
		return ""
	}
	t.Lock()
	defer t.Unlock()
	if g := t.Members[pod.UID]; g != nil && g.Key == key {
		delete(t.Detached, pod.UID) // the queue knows of its gang
	}
	reason, isScout := t.closedTo(key, pod)
	if reason == "" || t.Leadership.MayBeProbe(pod) {
		t.letIn(pod, reason == "", isScout)
		return ""
	}
	g, e := t.Gangs[key], gang.Only(gang.ToReport)
	if g != nil {
		g.SurplusOpen = false
		if g.Scout.UID == pod.UID {
			g.Scout.Called = time.Time{} // it is held until then
		}
	}
	if reason == NotSeen {
		t.Unseen[pod.UID] = pod // it is activated when the tracker has seen it
		if t.Members[pod.UID] != nil {
			t.WaitList.Ready[pod.UID] = pod // the queue will know in a moment that the pod names another gang
			e.Add(gang.TriedIn(QueueLag))
		}
	}
	t.Apply(g, e)
	return reason
}

// letIn notes that a pod passes the gate. It may be the scout of its gang. If the gate is closed to it, it is the probe.
func (t *store) letIn(pod *corev1.Pod, isOpen, isScout bool) {
	g, m := t.Find(pod.UID)
	if m == nil {
		return
	}
	if isScout {
		t.CallScout(g, m)
	}
	if !isOpen {
		t.Leadership.BecomeProbe(pod.UID)
	}
	t.FixPriority(g)
	t.Order.freezeOrder(g, m)
}

// QueueLag is the pause for the scheduling queue to learn of a change that the tracker knows.
const QueueLag = 10 * time.Millisecond

// closedTo says why a pod must wait, or "". A waiting member that may pass is the scout of a gang that is Ready and has no other one.
func (t *store) closedTo(key state.Key, pod *corev1.Pod) (reason string, isScout bool) {
	g, m := t.Find(pod.UID)
	switch {
	case !t.Synced:
		return NotSynced, false
	case m == nil || g.Key != key:
		return NotSeen, false
	case m.Terminating:
		return Terminating, false
	case m.State == gang.Bound:
		return AlreadyBound, false
	case g.PodGroup.Exists && g.LagsBehind(pod):
		return NotCaughtUp, false
	}
	status := t.Status(g)
	switch {
	case key.AwaitsPodGroup():
		return AwaitsController, false
	case status.Phase == gang.Incomplete && !g.PodGroup.Exists, status.Phase == gang.NotAdmitted:
		return t.WaitText(g, status), false
	case !g.Counts(m):
		return OldIncarnation, false
	}
	return closedByPhase(g, m, status)
}

// closedByPhase says why a member of an admitted gang must wait, or "".
func closedByPhase(g *gang.Group, m *gang.Member, status gang.Status) (reason string, isScout bool) {
	switch {
	case status.Phase == gang.Running && status.Reason == "" && g.AwaitsGroup(m):
		return behindGroup, false
	case status.Phase == gang.Running && status.Reason == "":
		return "", false
	case status.Phase == gang.Attempting:
		return closedByAttempt(g.Attempt, m.UID, status), false
	case status.Phase != gang.Ready && status.Phase != gang.Unschedulable:
		return WaitTexts[status.Reason], false
	case m.State != gang.Waiting:
		return holdsRoom, false
	case g.Scout.UID != state.NoUID && g.Scout.UID != m.UID:
		return BehindScout, false
	}
	return "", true
}

// WaitText says what a gang waits for that has no PodGroup, or is not admitted.
func (t *store) WaitText(g *gang.Group, status gang.Status) string {
	if status.Reason == gang.Admission && t.Quota.LacksQueue(g) {
		return QueueIsGone
	}
	return WaitTexts[status.Reason]
}

// closedByAttempt says why a member must wait while the chosen members are still to come, or "".
func closedByAttempt(a *gang.Attempt, member types.UID, status gang.Status) string {
	_, chosen := a.ToCome[member]
	switch {
	case !chosen:
		return behindChosen
	case status.Reason != "":
		return WaitTexts[status.Reason]
	case !a.IsNext(member):
		return behindOther
	}
	return ""
}

// CallScout makes a member the scout, whose scheduling cycle is expected from now on.
func (t *store) CallScout(g *gang.Group, m *gang.Member) {
	g.Scout.UID = m.UID
	if g.Scout.Called.IsZero() {
		g.Scout.Called = t.Clock.Now()
	}
	t.Metrics.ReachQuorum(g, t.Clock.Now())
}
