package admission

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/text"
)

// messageAge is how long a message stays that is wrong only in its numbers: each costs a status write. It says when they were found.
const messageAge = time.Minute

// Decision is a decision on a PodGroup. The zero decision is nothing yet.
type Decision struct {
	// UID is the PodGroup that the decision is about.
	UID types.UID
	// Admitted: it may leave phase Pending.
	Admitted bool
	// HasRoom: its queue has the room for an admitted PodGroup. Otherwise evictions have to make it, or it has waited too long.
	HasRoom bool
	// Reason is the PodGroup's reason for what keeps it out, and Message explains that to users. Both are "" if nothing does.
	Reason, Message string

	blocker *blocker // the reason why it is not admitted; nil if there is none
	// since is when the message was written.
	since time.Time
	// lacking is since when a queue has had no room for the PodGroup, zero if there is another blocker.
	lacking time.Time
	// keeps: the free part of that room is kept for it.
	keeps bool
	// undecided: its queue is new and not open yet, or the PodGroup of an earlier PhJob is about to come. This is neither admission
	// nor a blocker to report.
	undecided bool
	// awaitsMembers: it is undecided because members are about to come.
	awaitsMembers bool
}

func (d Decision) isBlocked() bool { return d.blocker != nil }

// lacksRoom says whether a queue's room is missing.
func (d Decision) lacksRoom() bool { return d.isBlocked() && d.blocker.kind.queue != "" }

// blocker is a reason why a PodGroup is not admitted.
type blocker struct {
	// kind is equal for blockers that differ only in numbers.
	kind blockerKind
	// reason explains it. Its text is made only when it is read.
	reason error
}

// blockerKind says what is in the way. The queue takes no work (text), as many PodGroups run as may (tooMany), or no cluster is large enough
// (text). Further ones are: a PodGroup is ahead in a first-in-first-out queue (inLine), and the cluster is too small (resource). Or a queue
// has no room (queue, resource, want), or its room is kept for another (behind). Facts that change with each admission, such as the number of
// running PodGroups, are left out. Otherwise every waiting PodGroup would be written anew each time.
type blockerKind struct {
	text     string
	queue    string
	resource corev1.ResourceName
	want     int64
	behind   bool
	// inLine says that another PodGroup is ahead in a queue that is first in, first out.
	inLine bool
	// forEver says that the request is more than the whole limit of the queue. limit is that limit: if it changes, this is another blocker,
	// and the message is written at once.
	forEver bool
	limit   int64
	// tooMany says that as many PodGroups run in a queue as may.
	tooMany bool
	// unsupported says that the PodGroup asks for what Muster does not have.
	unsupported bool
}

// gangReason is the PodGroup's reason for a blocker.
func (o *blocker) gangReason() string {
	switch {
	case o.kind.queue != "" || o.kind.tooMany:
		return schedulingv1beta1.QuotaExceededReason
	case o.kind.unsupported:
		return schedulingv1beta1.NotSupportedReason
	}
	return schedulingv1beta1.NotEnoughResourcesReason
}

// hasNumbers says whether its explanation has numbers that change with other PodGroups. The size of a whole limit is no such number:
// another limit is another blocker.
func (o *blocker) hasNumbers() bool {
	ofLimit := o.kind.queue != "" && o.kind.forEver
	return o.kind.tooMany || o.kind.resource != "" && !ofLimit
}

// words is an explanation as a text.
type words string

func (w words) Error() string { return string(w) }

func blockedBy(kind blockerKind, reason error) Decision {
	return Decision{blocker: &blocker{kind: kind, reason: reason}}
}

func lacksQuota(s *quota.Shortage) Decision {
	kind := blockerKind{queue: s.Queue, resource: s.Resource, want: s.Want, behind: s.Behind, forEver: s.IsForEver()}
	if kind.forEver {
		kind.limit = s.Limit
	}
	return blockedBy(kind, s)
}

// Decided is a candidate with its decision.
type Decided struct {
	*Candidate
	Decision
}

// Tell completes a decision after the last one on the same name. It says whether to report the decision. A message is written anew only for
// another blocker, or when its numbers have been wrong for a while.
func (d Decided) Tell(last Decision, now time.Time) (v Decision, report bool) {
	v = d.Decision
	if v.undecided {
		return v, false
	}
	if v.lacksRoom() {
		if v.lacking = LackingSince(d.Group, last); v.lacking.IsZero() {
			v.lacking = now
		}
	}
	if v.isBlocked() {
		same := last.UID == d.Group.UID && last.isBlocked() && last.blocker.kind == v.blocker.kind
		if same && now.Sub(last.since) < messageAge {
			return v, false
		}
		v.Reason, v.Message = v.blocker.gangReason(), d.messageFor(v.blocker, last, now)
		if same && last.Message == v.Message {
			return v, false
		}
	}
	v.UID, v.since = d.Group.UID, now
	return v, true
}

// Again is when the decision may change by time alone, 0 for never. A turn or a waiting time ends then. Or a queue has to be open by then, or
// members have to be there.
func (d Decided) Again(now time.Time) (again time.Duration) {
	soonest := func(end time.Duration) {
		if again == 0 || end < again {
			again = end
		}
	}
	if d.keeps {
		soonest(d.Turn)
	}
	if d.undecided {
		soonest(openingTime)
	}
	if d.awaitsMembers {
		soonest(time.Second)
	}
	if left := d.UntilOverdue(now); left > 0 && !d.Admitted {
		soonest(left)
	}
	return again
}

// LackingSince is since when a queue has had no room for a PodGroup. It is zero if the last decision did not find that. Decisions of
// another process stand in the status, which says only since when the PodGroup waits.
func LackingSince(group *schedulingv1beta1.PodGroup, last Decision) time.Time {
	if last.UID == group.UID {
		return last.lacking
	}
	return waitingSince(&group.Status)
}

// waitingSince is since when a PodGroup has been kept out of its queue, as its status says. It is zero if it does not.
func waitingSince(status *schedulingv1beta1.PodGroupStatus) time.Time {
	last := schedulingv1beta1.CurrentCondition(status.Conditions)
	if status.Phase.Admitted() || last == nil || last.Type != schedulingv1beta1.PodGroupUnschedulableType {
		return time.Time{}
	}
	return last.LastTransitionTime.Time
}

// explain describes the blocker of a candidate, and other faults of it.
func (c *Candidate) explain(o *blocker) string {
	if c.ignored != nil {
		return o.reason.Error() + "; " + c.ignored.Error()
	}
	return o.reason.Error()
}

// messageFor describes the blocker of a candidate, and when its numbers were found. A message that was given already stays as it is, with
// its time. The last decision gave it, or an earlier run in the status.
func (c *Candidate) messageFor(o *blocker, last Decision, now time.Time) string {
	said := c.explain(o)
	if !o.hasNumbers() {
		return said
	}
	if last.UID == c.Group.UID && text.WithoutTime(last.Message) == said {
		return last.Message
	}
	if told := schedulingv1beta1.CurrentCondition(c.Group.Status.Conditions); told != nil && text.WithoutTime(told.Message) == said {
		return told.Message
	}
	return text.FoundAt(said, now)
}
