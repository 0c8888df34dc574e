package gangs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/text"
)

// The reasons of the condition PodScheduled=False of a member. Cluster autoscalers make nodes for pods whose reason is Unschedulable, and
// only for them: a gang has it where nodes would help.
const (
	// ReasonUnschedulable: the gang was decided, and lacks room or nodes that its members may go to.
	ReasonUnschedulable = corev1.PodReasonUnschedulable
	// ReasonWaitingForPodGroup: the PodGroup that the pod names does not exist.
	ReasonWaitingForPodGroup = "WaitingForPodGroup"
	// ReasonWaitingForController: the pod names no PodGroup, and muster-controller has not made one for it yet.
	ReasonWaitingForController = "WaitingForController"
	// ReasonWaitingForAdmission: the queue has not admitted the PodGroup. The PodGroup says why.
	ReasonWaitingForAdmission = "WaitingForAdmission"
	// ReasonDifferentQueues: the members name different queues, and the PodGroup names none.
	ReasonDifferentQueues = "DifferentQueues"
	// ReasonWaitingForQuota: the capability of the queue, or of an ancestor, has no room.
	ReasonWaitingForQuota = schedulingv1beta1.WaitingForQuotaReason
	// ReasonWaitingForEvictions: pods that were evicted for the gang have not gone yet.
	ReasonWaitingForEvictions = "WaitingForEvictions"
	// ReasonNotEnoughPods: fewer members exist than the minimum.
	ReasonNotEnoughPods = schedulingv1beta1.NotEnoughPodsReason
	// ReasonNotEnoughPodsOfTask: fewer members of a task exist than its minimum.
	ReasonNotEnoughPodsOfTask = schedulingv1beta1.NotEnoughPodsOfTaskReason
)

// Explanation says why all members of a gang wait. The zero value says that they do not, or will not for long.
type Explanation struct {
	// Reason for the condition PodScheduled=False.
	Reason string
	// Message is a sentence for users. It stays the same while its facts stay the same.
	Message string
	// FoundAt is when the message was found first; zero if it has nothing that can be out of date.
	FoundAt time.Time
}

// IsZero says that there is nothing to say.
func (e Explanation) IsZero() bool { return e.Reason == "" }

// Text is the message with the time at which its numbers were found.
func (e Explanation) Text() string {
	if e.FoundAt.IsZero() {
		return e.Message
	}
	return text.FoundAt(e.Message, e.FoundAt)
}

// Waiting is a gang that waits, for the reporter.
type Waiting struct {
	Explanation
	// PodGroup is the gang's, as events name it.
	PodGroup *corev1.ObjectReference
	// HasPodGroup: it exists.
	HasPodGroup bool
	// Joined is when the last member came.
	Joined time.Time
	// Attempting: it is being started. If that fails, it waits as before.
	Attempting bool
	// Count is the number of members that wait.
	Count int
	// Version changes whenever a member may carry another condition than before.
	Version int
}

// Reports are the reporter's view of gangs.
type Reports struct {
	t     *Tracker
	queue workqueue.TypedDelayingInterface[Key] // gangs that the reporter should look at
}

// TakeReport says why a gang waits, and takes it off the reporter's list.
func (r *Reports) TakeReport(key Key) Waiting {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	g := r.t.gangs[key]
	if g == nil {
		return Waiting{}
	}
	g.reporting = false
	if !r.t.synced {
		return Waiting{}
	}
	w := Waiting{
		Explanation: r.explanationOf(g), PodGroup: reference(g), HasPodGroup: g.podGroup.exists, Joined: g.joined, Attempting: g.attempt != nil, Version: g.conditions,
	}
	if !w.IsZero() {
		w.Count = g.CountWaiting()
	}
	return w
}

// WaitingPods are the pods of a gang that wait, in the order in which they start.
func (r *Reports) WaitingPods(key Key) []*corev1.Pod {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if g := r.t.gangs[key]; g != nil {
		return pods(g.Waiting())
	}
	return nil
}

// StillWaits says whether an explanation still holds for a member.
func (r *Reports) StillWaits(key Key, member types.UID, e Explanation) bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	g := r.t.gangs[key]
	if g == nil || r.explanationOf(g) != e {
		return false
	}
	m := g.Member(member)
	return g.Counts(m) && m.State == gang.Waiting
}

// SpeaksFor says whether the reporter says why a pod waits: it belongs to a gang whose minimum has no room yet.
func (r *Reports) SpeaksFor(pod *corev1.Pod) bool {
	if _, isMember := r.t.keyOf(pod); !isMember {
		return false
	}
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	g, m := r.t.find(pod.UID)
	return m == nil || !g.podGroup.exists || !g.Seated()
}

// Leads says whether this process may write to the API.
func (r *Reports) Leads() bool { return r.t.Leadership.Leads() }

// Fail notes that a pod has found no node; see Tracker.Fail.
func (r *Reports) Fail(pod *corev1.Pod) (inGang bool) { return r.t.Fail(pod) }

// WaitsForQuota says whether a pod that stands for itself waits for quota.
func (r *Reports) WaitsForQuota(pod *corev1.Pod) bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	_, waits := r.t.Quota.pods[pod.UID]
	return waits
}

// explanationOf says why a gang waits. It costs the same whatever the size of the gang.
func (r *Reports) explanationOf(g *group) Explanation {
	status := r.t.status(g)
	switch status.Phase {
	case gang.Attempting:
		if status.Reason == gang.Eviction {
			return Explanation{Reason: ReasonWaitingForEvictions, Message: g.attempt.seat.message}
		}
		return Explanation{}
	case gang.Running:
		return Explanation{}
	case gang.NotAdmitted:
		if status.Reason == gang.DifferentQueues {
			return Explanation{Reason: ReasonDifferentQueues, Message: differentQueues(g)}
		}
		return Explanation{Reason: ReasonWaitingForAdmission, Message: r.t.waitText(g, status)}
	case gang.Incomplete:
		switch {
		case g.key.AwaitsPodGroup():
			return Explanation{Reason: ReasonWaitingForController, Message: awaitsController}
		case status.Reason == gang.NoPodGroup:
			return Explanation{Reason: ReasonWaitingForPodGroup, Message: waitTexts[status.Reason]}
		case status.Reason == gang.TooFewMembers:
			return missingMembers(g, r.t.outsiders.whyMissing(g.key))
		}
		return Explanation{}
	}
	switch {
	case g.decision != nil && g.decision.lacks == gang.Quota:
		return Explanation{ReasonWaitingForQuota, g.decision.message, g.decision.foundAt}
	case g.decision != nil:
		return Explanation{ReasonUnschedulable, g.decision.message, g.decision.foundAt}
	case g.retry.failures > 0:
		return Explanation{Reason: ReasonUnschedulable, Message: couldNotBePlaced}
	}
	return Explanation{} // about to be decided
}

// differentQueues names two of the queues and what to change.
func differentQueues(g *group) string {
	named := slices.Sorted(maps.Keys(g.named))
	remedy := fmt.Sprintf("give all of them the same annotation %s and the same label %s", schedulingv1beta1.QueueNameAnnotation, schedulingv1beta1.UserLabel)
	if !g.key.Foreign {
		remedy += ", or name a queue in spec.queue of the PodGroup"
	}
	return fmt.Sprintf("the pods of the gang name different queues, %q and %q: %s", named[0], named[1], remedy)
}

// missingMembers says what is asked for, and not what is there: the existing number changes with every pod that is created. Pods that exist
// and may not be scheduled yet are missing for another reason.
func missingMembers(g *group, why string) Explanation {
	exist := "exist"
	if why != "" {
		exist, why = "may be scheduled", ": "+why
	}
	if task, minimum := g.ShortTask(); task != "" {
		return Explanation{Reason: ReasonNotEnoughPodsOfTask,
			Message: fmt.Sprintf("waiting for members: fewer pods of task %q %s than the %d that its minimum asks for%s", task, exist, minimum, why)}
	}
	return Explanation{Reason: ReasonNotEnoughPods,
		Message: fmt.Sprintf("waiting for members: fewer pods %s than the %d that start together%s", exist, g.MinMember, why)}
}

// reference is the PodGroup of a gang, as events name it.
func reference(g *group) *corev1.ObjectReference {
	version := schedulingv1beta1.SchemeGroupVersion
	if g.key.Foreign {
		version = schedulingx.SchemeGroupVersion
	}
	return &corev1.ObjectReference{
		APIVersion: version.String(), Kind: "PodGroup", Namespace: g.key.Namespace, Name: g.key.Name, UID: g.podGroup.uid,
	}
}

// reportDelay gathers members that are held at the same time.
const reportDelay = 100 * time.Millisecond

// Queue has the gangs that the reporter should look at.
func (r *Reports) Queue() workqueue.TypedDelayingInterface[Key] { return r.queue }
