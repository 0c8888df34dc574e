package gang

import "time"

// Phase is how far a gang has come. A gang is in exactly one.
type Phase string

// The phases, in the order in which a gang goes through them.
const (
	// Incomplete: there is no PodGroup, or there are fewer members than the minimum.
	Incomplete Phase = "Incomplete"
	// NotAdmitted: the queue has not admitted the PodGroup.
	NotAdmitted Phase = "NotAdmitted"
	// Ready: all is there; the scout's scheduling cycle decides.
	Ready Phase = "Ready"
	// Attempting: a decision gave the gang places; its members are still to wait in Permit.
	Attempting Phase = "Attempting"
	// RollingBack: an attempt has failed; members give their room back.
	RollingBack Phase = "RollingBack"
	// BackingOff: the pause after a rollback.
	BackingOff Phase = "BackingOff"
	// Unschedulable: the decision was no. The gang waits for an event that may help it.
	Unschedulable Phase = "Unschedulable"
	// Running: the minimum has its room.
	Running Phase = "Running"
)

// Phases are all phases.
var Phases = []Phase{Incomplete, NotAdmitted, Ready, Attempting, RollingBack, BackingOff, Unschedulable, Running}

// WaitReason says what a gang in a phase waits for.
type WaitReason string

// The wait reasons. A gang that waits for nothing has the empty one.
const (
	// NoPodGroup: the PodGroup that the pods name does not exist.
	NoPodGroup WaitReason = "NoPodGroup"
	// TooFewMembers: fewer members exist than the minimum, or than that of a task.
	TooFewMembers WaitReason = "TooFewMembers"
	// OutcomeUnknown: a bound member is gone, and the PodGroup does not say yet whether it has succeeded.
	OutcomeUnknown WaitReason = "OutcomeUnknown"
	// Admission: the queue has not admitted the PodGroup.
	Admission WaitReason = "Admission"
	// DifferentQueues: the PodGroup names no queue, and its members name more than one.
	DifferentQueues WaitReason = "DifferentQueues"
	// Room: the gang was found to lack room, or nodes that its members may go to.
	Room WaitReason = "Room"
	// Quota: the gang was found to lack quota of its queue.
	Quota WaitReason = "Quota"
	// Rollback: members of a failed attempt give their room back.
	Rollback WaitReason = "Rollback"
	// BackOff: the pause after a failed attempt, or before the binding of a member is tried again.
	BackOff WaitReason = "BackOff"
	// Eviction: pods that are in the way of the members are being evicted.
	Eviction WaitReason = "Eviction"
	// Preemption: members are being evicted, so that the rest is below the minimum.
	Preemption WaitReason = "Preemption"
)

// WaitReasons are all wait reasons.
var WaitReasons = []WaitReason{NoPodGroup, TooFewMembers, OutcomeUnknown, Admission, DifferentQueues, Room, Quota, Rollback, BackOff, Eviction, Preemption}

// Status is the phase of a gang and what it waits for.
type Status struct {
	// Phase of the gang.
	Phase Phase
	// Reason says what the gang waits for, "" for nothing.
	Reason WaitReason
	// Until is when to look again; zero if only an event changes the status.
	Until time.Time
}

// Status computes the phase. It is the only place that does; see CONTRIBUTING.md for the picture. admitted: the queue has admitted the PodGroup,
// or need not. preempted: members are about to be evicted, so that the rest is below the minimum.
func (g *Group) Status(admitted, preempted bool, now time.Time) Status {
	switch {
	case !g.PodGroup.Exists:
		return Status{Phase: Incomplete, Reason: NoPodGroup}
	case g.IsDisputed():
		return Status{Phase: NotAdmitted, Reason: DifferentQueues}
	case !admitted:
		return Status{Phase: NotAdmitted, Reason: Admission}
	case g.Attempt != nil && g.Attempt.Evicts():
		return Status{Phase: Attempting, Reason: Eviction}
	case g.Attempt != nil && now.Before(g.Attempt.StartAt):
		return Status{Phase: Attempting, Reason: BackOff, Until: g.Attempt.StartAt}
	case g.Attempt != nil:
		return Status{Phase: Attempting}
	case g.Seated() && preempted:
		return Status{Phase: Running, Reason: Preemption}
	case g.Seated():
		return Status{Phase: Running}
	case g.states[Returning] > 0 || g.states[Reserved] > 0:
		return Status{Phase: RollingBack, Reason: Rollback}
	case g.MinimumBound && now.Before(g.OutcomeUntil):
		return Status{Phase: Incomplete, Reason: OutcomeUnknown, Until: g.OutcomeUntil}
	case !g.Complete():
		return Status{Phase: Incomplete, Reason: TooFewMembers}
	case g.Refusal != nil && !g.Refusal.Woken:
		return Status{Phase: Unschedulable, Reason: g.Refusal.Lacks}
	case now.Before(g.Retry.Until):
		return Status{Phase: BackingOff, Reason: BackOff, Until: g.Retry.Until}
	}
	return Status{Phase: Ready}
}
