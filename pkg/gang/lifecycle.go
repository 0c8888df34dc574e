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

// Facts are what the phase of a gang follows from beside its members.
type Facts struct {
	// Exists: the PodGroup exists.
	Exists bool
	// Admitted: the queue has admitted the PodGroup, or need not.
	Admitted bool
	// Disputed: the members name different queues, and the PodGroup names none.
	Disputed bool
	// Attempting: a scheduling attempt is going on.
	Attempting bool
	// Evicting: pods are being evicted that are in the way of the attempt.
	Evicting bool
	// Preempted: members are about to be evicted, so that the rest is below the minimum.
	Preempted bool
	// Lacks is what the last decision found to be missing, Room or Quota. It is empty if the gang has changed since, or may have been helped.
	Lacks WaitReason
	// OutcomeUntil is until when the outcome of a terminated member is waited for. Zero if it is not.
	OutcomeUntil time.Time
	// BackOffUntil is the end of a pause. Zero if there is none.
	BackOffUntil time.Time
}

// Status is the phase of a gang and what it waits for.
type Status struct {
	// Phase of the gang.
	Phase Phase
	// Reason says what the gang waits for, "" for nothing.
	Reason WaitReason
	// Until is when to look again; zero if only an event changes the status.
	Until time.Time
}

// Status computes the phase. It is the only place that does; see CONTRIBUTING.md for the picture.
func (g *Gang) Status(f Facts, now time.Time) Status {
	backsOff := now.Before(f.BackOffUntil)
	switch {
	case !f.Exists:
		return Status{Phase: Incomplete, Reason: NoPodGroup}
	case f.Disputed:
		return Status{Phase: NotAdmitted, Reason: DifferentQueues}
	case !f.Admitted:
		return Status{Phase: NotAdmitted, Reason: Admission}
	case f.Attempting && f.Evicting:
		return Status{Phase: Attempting, Reason: Eviction}
	case f.Attempting && backsOff:
		return Status{Phase: Attempting, Reason: BackOff, Until: f.BackOffUntil}
	case f.Attempting:
		return Status{Phase: Attempting}
	case g.Seated() && f.Preempted:
		return Status{Phase: Running, Reason: Preemption}
	case g.Seated():
		return Status{Phase: Running}
	case g.states[Returning] > 0 || g.states[Reserved] > 0:
		return Status{Phase: RollingBack, Reason: Rollback}
	case now.Before(f.OutcomeUntil):
		return Status{Phase: Incomplete, Reason: OutcomeUnknown, Until: f.OutcomeUntil}
	case !g.Complete():
		return Status{Phase: Incomplete, Reason: TooFewMembers}
	case f.Lacks != "":
		return Status{Phase: Unschedulable, Reason: f.Lacks}
	case backsOff:
		return Status{Phase: BackingOff, Reason: BackOff, Until: f.BackOffUntil}
	}
	return Status{Phase: Ready}
}
