package report

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	schedulingx "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
	"github.com/muster-sched/muster/pkg/text"
)

// The reasons of the condition PodScheduled=False of a member. Cluster autoscalers make nodes only for pods whose reason is Unschedulable.
// A gang has it where nodes would help.
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
type Reports struct{ t *gangs.Tracker }

// NewReports makes the view of a tracker.
func NewReports(t *gangs.Tracker) *Reports { return &Reports{t} }

// TakeReport says why a gang waits, and takes it off the reporter's list.
func (r *Reports) TakeReport(key state.Key) Waiting {
	r.t.Lock()
	defer r.t.Unlock()
	g := r.t.Gangs[key]
	if g == nil {
		return Waiting{}
	}
	g.Reporting = false
	if !r.t.Synced {
		return Waiting{}
	}
	w := Waiting{
		Explanation: r.explanationOf(g), PodGroup: reference(g), HasPodGroup: g.PodGroup.Exists, Joined: g.Joined, Attempting: g.Attempt != nil, Version: g.Conditions,
	}
	if !w.IsZero() {
		w.Count = g.CountWaiting()
	}
	return w
}

// WaitingPods are the pods of a gang that wait, in the order in which they start.
func (r *Reports) WaitingPods(key state.Key) []*corev1.Pod {
	r.t.Lock()
	defer r.t.Unlock()
	if g := r.t.Gangs[key]; g != nil {
		return gang.Pods(g.Waiting())
	}
	return nil
}

// StillWaits says whether an explanation still holds for a member.
func (r *Reports) StillWaits(key state.Key, member types.UID, e Explanation) bool {
	r.t.Lock()
	defer r.t.Unlock()
	g := r.t.Gangs[key]
	if g == nil || r.explanationOf(g) != e {
		return false
	}
	m := g.Member(member)
	return g.Counts(m) && m.State == gang.Waiting
}

// Explains says whether the reporter says why a pod waits. It does if the pod belongs to a gang whose minimum has no room yet.
func (r *Reports) Explains(pod *corev1.Pod) bool {
	if _, isMember := r.t.KeyOf(pod); !isMember {
		return false
	}
	r.t.Lock()
	defer r.t.Unlock()
	g, m := r.t.Find(pod.UID)
	return m == nil || !g.PodGroup.Exists || !g.Seated()
}

// Leads says whether this process may write to the API.
func (r *Reports) Leads() bool { return r.t.Leadership.Leads() }

// Fail notes that a pod has found no node; see Tracker.Fail.
func (r *Reports) Fail(pod *corev1.Pod) (inGang bool) { return r.t.Fail(pod) }

// WaitsForQuota says whether a single pod or surplus waits for quota.
func (r *Reports) WaitsForQuota(pod *corev1.Pod) bool {
	r.t.Lock()
	defer r.t.Unlock()
	_, waits := r.t.Quota.Pods[pod.UID]
	return waits
}

// explanationOf says why a gang waits. It costs the same whatever the size of the gang.
func (r *Reports) explanationOf(g *gang.Group) Explanation {
	status := r.t.Status(g)
	switch status.Phase {
	case gang.Attempting:
		if status.Reason == gang.Eviction {
			return Explanation{Reason: ReasonWaitingForEvictions, Message: g.Attempt.Seat.Message}
		}
		return Explanation{}
	case gang.Running:
		return Explanation{}
	case gang.NotAdmitted:
		if status.Reason == gang.DifferentQueues {
			return Explanation{Reason: ReasonDifferentQueues, Message: differentQueues(g)}
		}
		return Explanation{Reason: ReasonWaitingForAdmission, Message: r.t.WaitText(g, status)}
	case gang.Incomplete:
		switch {
		case g.Key.AwaitsPodGroup():
			return Explanation{Reason: ReasonWaitingForController, Message: gangs.AwaitsController}
		case status.Reason == gang.NoPodGroup:
			return Explanation{Reason: ReasonWaitingForPodGroup, Message: gangs.WaitTexts[status.Reason]}
		case status.Reason == gang.TooFewMembers:
			return missingMembers(g, r.t.Outsiders.WhyMissing(g.Key))
		}
		return Explanation{}
	}
	switch {
	case g.Refusal != nil && g.Refusal.Lacks == gang.Quota:
		return Explanation{ReasonWaitingForQuota, g.Refusal.Message, g.Refusal.FoundAt}
	case g.Refusal != nil:
		return Explanation{ReasonUnschedulable, g.Refusal.Message, g.Refusal.FoundAt}
	case g.Retry.Failures > 0:
		return Explanation{Reason: ReasonUnschedulable, Message: gangs.CouldNotBePlaced}
	}
	return Explanation{} // about to be decided
}

// differentQueues names two of the queues and what to change.
func differentQueues(g *gang.Group) string {
	named := g.NamedAccounts()
	remedy := fmt.Sprintf("give all of them the same annotation %s and the same label %s", schedulingv1beta1.QueueNameAnnotation, schedulingv1beta1.UserLabel)
	if !g.Key.Foreign {
		remedy += ", or name a queue in spec.queue of the PodGroup"
	}
	return fmt.Sprintf("the pods of the gang name different queues, %q and %q: %s", named[0], named[1], remedy)
}

// missingMembers says what is asked for, and not what is there. The existing number changes with every pod that is created. Pods that exist
// and may not be scheduled yet are missing for another reason.
func missingMembers(g *gang.Group, why string) Explanation {
	exist := "exist"
	switch {
	case why != "":
		exist, why = "may be scheduled", ": "+why
	case g.HasEnding():
		return Explanation{Reason: ReasonNotEnoughPods, Message: fmt.Sprintf(
			"waiting for members: earlier pods of the gang are still ending, and the %d that start together are not all created yet", g.MinMember)}
	}
	if task, minimum := g.ShortTask(); task != "" {
		return Explanation{Reason: ReasonNotEnoughPodsOfTask,
			Message: fmt.Sprintf("waiting for members: fewer pods of task %q %s than the %d that its minimum asks for%s", task, exist, minimum, why)}
	}
	if p := g.ShortGroups(); p != nil {
		return Explanation{Reason: ReasonNotEnoughPods, Message: shortGroups(g, p, exist+why)}
	}
	return Explanation{Reason: ReasonNotEnoughPods,
		Message: fmt.Sprintf("waiting for members: fewer pods %s than the %d that start together%s", exist, g.MinMember, why)}
}

// shortGroups says which sub groups are missing. It names a member that lacks the label of its sub group.
func shortGroups(g *gang.Group, p *gang.GroupPolicy, exist string) string {
	message := fmt.Sprintf("waiting for members: fewer than the %s of subGroupPolicy %q that start together %s", wholeGroups(p), p.Name, exist)
	if pod, label := g.LacksLabel(); pod != "" {
		message += fmt.Sprintf("; pod %s has no sub group, as it lacks the label %s of matchLabelKeys", pod, label)
	}
	return message
}

func wholeGroups(p *gang.GroupPolicy) string {
	if p.Least == 1 {
		return fmt.Sprintf("one sub group of %s", text.Count(p.Size, "pod"))
	}
	return fmt.Sprintf("%d sub groups of %s", p.Least, text.Count(p.Size, "pod"))
}

// reference is the PodGroup of a gang, as events name it.
func reference(g *gang.Group) *corev1.ObjectReference {
	version := schedulingv1beta1.SchemeGroupVersion
	if g.Key.Foreign {
		version = schedulingx.SchemeGroupVersion
	}
	return &corev1.ObjectReference{
		APIVersion: version.String(), Kind: "PodGroup", Namespace: g.Key.Namespace, Name: g.Key.Name, UID: g.PodGroup.UID,
	}
}

// Queue has the gangs that the reporter should look at.
func (r *Reports) Queue() workqueue.TypedDelayingInterface[state.Key] { return r.t.Reports }

// Reported counts a condition that was written.
func (r *Reports) Reported(reason string) { r.t.Metrics.Reports.WithLabelValues(reason).Inc() }
