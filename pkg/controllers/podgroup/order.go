package podgroup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/controllers/usage"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/reservations"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// candidate is a PodGroup that waits for admission.
type candidate struct {
	group *schedulingv1beta1.PodGroup
	key   string // "<namespace>/<name>"
	queue string
	// account is the charged account: its user's in the queue, or the queue itself.
	account string
	// want is the demand of its minimum.
	want resources.List
	// lacks is the part of want that no member has yet. A PodGroup may come after its pods, or anew under its name.
	lacks resources.List
	// priority is the value of its PriorityClass, but at most the highest among its pods.
	priority int32
	// queuedSince and queuedAs are its place in the queue. They are the creation time and key of it, or of the PhJob that it is for.
	queuedSince time.Time
	queuedAs    string
	// phJob is the PhJob that it is for; nil if there is none. Only quota decides about a PhJob, in order. It is admitted though no node
	// has room, and it blocks later candidates of any queue. No room is kept for it otherwise.
	phJob *primehubv1alpha1.PhJob
	// isEarly says that the PodGroup of an earlier PhJob of its group is still to come.
	isEarly bool
	// turn is how much longer freed room that it lacks is kept for it from later candidates. It is 0 if it is not.
	turn time.Duration
	// waitingTime is how long it waits before it is admitted without room; 0 for as long as it takes.
	waitingTime time.Duration
	// ignored says which annotation of it is wrong, and why; nil for none.
	ignored error
	// overdue: waitingTime is over.
	overdue bool
}

// byTurn orders the candidates of a queue by admission, as waiting gangs are ordered by the scheduler.
func byTurn(a, b *candidate) int { return a.rank().Compare(b.rank()) }

func (c *candidate) rank() reservations.Rank {
	return reservations.Rank{Priority: c.priority, Since: c.queuedSince, Name: c.queuedAs}
}

// decision is a decision on a PodGroup. The zero decision is nothing yet.
type decision struct {
	// uid is the PodGroup that the decision is about.
	uid      types.UID
	admitted bool
	// obstacle is the reason why the PodGroup is not admitted; nil if there is none.
	obstacle *obstacle
	// message explains the obstacle to users.
	message string
	// since is when the message was written.
	since time.Time
	// lacking is since when a queue has had no room for the PodGroup, zero if there is another obstacle.
	lacking time.Time
	// keeps: the free part of that room is kept for it.
	keeps bool
	// undecided: its queue is new and not open yet, or the PodGroup of an earlier PhJob is about to come. This is neither admission
	// nor an obstacle to report.
	undecided bool
	// awaitsMembers: it is undecided because members are about to come.
	awaitsMembers bool
}

func (v decision) blocked() bool { return v.obstacle != nil }

// lacksRoom says whether a queue's room is missing.
func (v decision) lacksRoom() bool { return v.blocked() && v.obstacle.kind.queue != "" }

// obstacle is a reason why a PodGroup is not admitted.
type obstacle struct {
	// kind is equal for obstacles that differ only in numbers.
	kind obstacleKind
	// reason explains it. Its text is made only when it is read.
	reason error
}

// obstacleKind says what is in the way. The queue takes no work (text), as many PodGroups run as may (tooMany), or no cluster is large enough
// (text). Further ones are: a PodGroup is ahead in a first-in-first-out queue (inLine), and the cluster is too small (resource). Or a queue
// has no room (queue, resource, want), or its room is kept for another (behind). Facts that change with each admission, such as the number of
// running PodGroups, are left out. Otherwise every waiting PodGroup would be written anew each time.
type obstacleKind struct {
	text     string
	queue    string
	resource corev1.ResourceName
	want     int64
	behind   bool
	// inLine says that another PodGroup is ahead in a queue that is first in, first out.
	inLine bool
	// forEver says that the request is more than the whole limit of the queue. limit is that limit: if it changes, this is another obstacle,
	// and the message is written at once.
	forEver bool
	limit   int64
	// tooMany says that as many PodGroups run in a queue as may.
	tooMany bool
	// unsupported says that the PodGroup asks for what Muster does not have.
	unsupported bool
}

// gangReason is the PodGroup's reason for an obstacle.
func (o *obstacle) gangReason() string {
	switch {
	case o.kind.queue != "" || o.kind.tooMany:
		return schedulingv1beta1.QuotaExceededReason
	case o.kind.unsupported:
		return schedulingv1beta1.NotSupportedReason
	}
	return schedulingv1beta1.NotEnoughResourcesReason
}

// waitsForEarlierJob explains why the PodGroup of a PhJob waits while another one is ahead. It does not name that one: otherwise all
// waiting PodGroups would be written anew whenever a job starts.
const waitsForEarlierJob = words("an earlier job of the group waits, and jobs of a group start in the order of their creation")

// hasNumbers says whether its explanation has numbers that change with other PodGroups. The size of a whole limit is no such number:
// another limit is another obstacle.
func (o *obstacle) hasNumbers() bool {
	ofLimit := o.kind.queue != "" && o.kind.forEver
	return o.kind.tooMany || o.kind.resource != "" && !ofLimit
}

// words is an explanation as a text.
type words string

func (w words) Error() string { return string(w) }

// rules are the facts about queues and the cluster that admission needs for a candidate.
type rules struct {
	// opening says whether a queue is new, and about to be opened.
	opening func(queue string) bool
	// notOpen says why a queue takes no work; "" if it does.
	notOpen func(queue string) string
	// tooMany says why no other PodGroup may run in a queue; "" if one may.
	tooMany func(queue string) string
	// fifo says whether a blocked PodGroup blocks later ones in the same queue.
	fifo func(queue string) bool
	// beyond says why the cluster is too small for a candidate; nil if it is not. undecided says that it is not known yet.
	beyond func(c *candidate) (e *excess, undecided bool)
	// room says what a queue or one of its ancestors lacks for an amount beside what is reserved. It is nil if nothing.
	room func(reserved quota.Reserved, queue string, want resources.List) *quota.Shortage
	// addReserved adds the free part of a claim to what is reserved. It says whether all queues that are asked have some.
	addReserved func(reserved quota.Reserved, claim quota.Claim) bool
	// mayTake says whether a candidate within its share may take what is kept for a claim. It is nil beyond its share.
	mayTake func(c *candidate) func(from quota.Claim) bool
	// exceeds says whether an amount is more than the queue or an ancestor could have even if nothing was used.
	exceeds func(queue string, want resources.List) bool
	// couldReclaim says whether the scheduler could make the room by evictions that a candidate lacks beside what is reserved.
	couldReclaim func(c *candidate, reserved quota.Reserved) bool
	// hold keeps room for the candidate's demand.
	hold func(c *candidate)
}

// decided is a candidate with its decision.
type decided struct {
	*candidate
	decision
}

// decide goes through the candidates of next until it returns nil. It admits the candidates that fit beside all earlier ones. When a
// candidate has its turn and lacks room, the free part of that room is kept for it.
func decide(next func() *candidate, r rules) []decided {
	var all []decided
	ahead := map[string]*candidate{} // queue, or user of one -> the candidate that holds its line
	keeps := kept{rules: &r, reserved: quota.Reserved{}}
	for c := next(); c != nil; c = next() {
		v := r.judge(c, cmp.Or(ahead[c.queue], ahead[c.account]), &keeps)
		if v.admitted {
			r.hold(c)
		} else if line := c.holdsUp(v.obstacle); line != "" && ahead[line] == nil && (c.byQuotaAlone() || r.fifo(c.queue)) {
			ahead[line] = c
		}
		if c.turn > 0 && v.lacksRoom() && !r.exceeds(c.account, c.want) {
			keeps.add(quota.Claim{Queue: c.account, Want: c.lacks, Own: quota.QueueOf(v.obstacle.kind.queue) == c.queue})
			v.keeps = true
		}
		all = append(all, decided{c, v})
	}
	return all
}

// kept is the quota that is kept for the candidates whose turn it is.
type kept struct {
	*rules
	claims   []quota.Claim
	reserved quota.Reserved
}

func (k *kept) add(claim quota.Claim) {
	if k.addReserved(k.reserved, claim) {
		k.claims = append(k.claims, claim)
	}
}

// room is what a candidate lacks beside what is kept from it, and that. One within its share may take what is kept for one beyond its share.
func (k *kept) room(c *candidate) (*quota.Shortage, quota.Reserved) {
	shortage := k.rules.room(k.reserved, c.account, c.lacks)
	if shortage == nil || !shortage.Behind {
		return shortage, k.reserved
	}
	mayTake := k.mayTake(c)
	if mayTake == nil || !slices.ContainsFunc(k.claims, mayTake) {
		return shortage, k.reserved
	}
	reserved := quota.Reserved{}
	for _, claim := range k.claims {
		if !mayTake(claim) {
			k.addReserved(reserved, claim)
		}
	}
	return k.rules.room(reserved, c.account, c.lacks), reserved
}

// holdsUp names the queue or user that a candidate blocks for later candidates, in a first-in-first-out queue. That is its queue, or only
// its user if the user's quota is short. It is "" if a candidate ahead already blocks it, or if this one can never be admitted.
func (c *candidate) holdsUp(o *obstacle) string {
	switch {
	case o == nil, o.kind.inLine, o.kind.forEver:
		return ""
	case quota.IsUser(o.kind.queue):
		return c.account
	default:
		return c.queue
	}
}

func (r *rules) judge(c, ahead *candidate, keeps *kept) decision {
	if c.isEarly || r.opening(c.queue) {
		return decision{undecided: true}
	}
	if reason := r.notOpen(c.queue); reason != "" {
		return heldBack(obstacleKind{text: reason}, words(reason))
	}
	if reason := unsupported(c.group); reason != "" {
		return heldBack(obstacleKind{text: reason, unsupported: true, forEver: true}, words(reason))
	}
	if err := c.want.Validate(); err != nil {
		return heldBack(obstacleKind{text: err.Error(), forEver: true}, fmt.Errorf("the minimum %w: see minResources and minMember", err))
	}
	if r.exceeds(c.account, c.want) {
		return lacksQuota(r.room(nil, c.account, c.want))
	}
	if c.overdue && r.tooMany(c.queue) == "" {
		return decision{admitted: true}
	}
	if ahead != nil {
		return heldBack(obstacleKind{inLine: true}, c.waitsFor(ahead))
	}
	if e, undecided := r.beyond(c); (e != nil || undecided) && !c.byQuotaAlone() {
		if undecided {
			return decision{undecided: true, awaitsMembers: true}
		}
		return heldBack(obstacleKind{resource: e.resource, forEver: e.isForEver()}, e)
	}
	if reason := r.tooMany(c.queue); reason != "" {
		return heldBack(obstacleKind{tooMany: true}, words(reason))
	}
	if s, reserved := keeps.room(c); s != nil && (s.IsForEver() || s.Behind || c.byQuotaAlone() || !r.couldReclaim(c, reserved)) {
		return lacksQuota(s)
	}
	return decision{admitted: true}
}

// waitsFor explains why a candidate waits while another one is ahead.
func (c *candidate) waitsFor(ahead *candidate) words {
	if c.byQuotaAlone() {
		return waitsForEarlierJob
	}
	return words(fmt.Sprintf("queue %q is first in, first out, and %s is still waiting there", c.queue, ahead.key))
}

func lacksQuota(s *quota.Shortage) decision {
	kind := obstacleKind{queue: s.Queue, resource: s.Resource, want: s.Want, behind: s.Behind, forEver: s.IsForEver()}
	if kind.forEver {
		kind.limit = s.Limit
	}
	return heldBack(kind, s)
}

// explain describes the obstacle of a candidate, and other faults of it.
func (c *candidate) explain(o *obstacle) string {
	if c.ignored != nil {
		return o.reason.Error() + "; " + c.ignored.Error()
	}
	return o.reason.Error()
}

// messageFor describes the obstacle of a candidate, and when its numbers were found. A message that was given already stays as it is, with
// its time. The last decision gave it, or an earlier run in the status.
func (c *candidate) messageFor(o *obstacle, last decision, now time.Time) string {
	said := c.explain(o)
	if !o.hasNumbers() {
		return said
	}
	if last.uid == c.group.UID && text.WithoutTime(last.message) == said {
		return last.message
	}
	if told := schedulingv1beta1.CurrentCondition(c.group.Status.Conditions); told != nil && text.WithoutTime(told.Message) == said {
		return told.Message
	}
	return text.FoundAt(said, now)
}

// untilOverdue is how long a candidate has to wait at most. It is 0 if there is no end to that, or it is over.
func (c *candidate) untilOverdue(now time.Time) time.Duration {
	if c.waitingTime == 0 {
		return 0
	}
	return max(0, c.group.CreationTimestamp.Add(c.waitingTime).Sub(now))
}

func heldBack(kind obstacleKind, reason error) decision {
	return decision{obstacle: &obstacle{kind: kind, reason: reason}}
}

// excess says that a PodGroup asks for more than the cluster has.
type excess struct {
	resource corev1.ResourceName
	want     int64
	others   int64 // use, and room kept for admitted PodGroups, where that counts
	total    int64 // the total of all nodes
	factor   float64
	// more: the amount is for further members, too, not for the minimum alone.
	more bool
}

// isForEver says whether the PodGroup asks for too much, whatever others use.
func (e *excess) isForEver() bool { return float64(e.want) > e.factor*float64(e.total) }

// Error describes the excess.
func (e *excess) Error() string {
	needs := "the minimum needs"
	if e.more {
		needs = "minResources need"
	}
	if !e.isForEver() {
		return fmt.Sprintf("%[6]s %[2]s %[1]s, and %[3]s are used or kept for admitted PodGroups: together more than %[4]g times the %[5]s "+
			"that all nodes have together", e.resource, resources.Format(e.resource, e.want), resources.Format(e.resource, e.others), e.factor,
			resources.Format(e.resource, e.total), needs)
	}
	return fmt.Sprintf("%s %s %s, more than %g times the %s that all nodes have together", needs,
		resources.Format(e.resource, e.want), e.resource, e.factor, resources.Format(e.resource, e.total))
}

// beyondCluster says whether a minimum and all other use are more than factor times what all nodes have together. Factor 0 switches it off.
func beyondCluster(want resources.List, others resources.Sums, total resources.List, factor float64) *excess {
	if factor == 0 {
		return nil
	}
	var worst *excess // the first by name, so that the answer does not depend on the order of the map
	for name, amount := range want {
		e := &excess{resource: name, want: amount, others: others.Amount(name), total: total[name], factor: factor}
		isBeyond := amount > 0 && float64(amount)+float64(e.others) > factor*float64(e.total)
		if isBeyond && (worst == nil || e.isWorseThan(worst)) {
			worst = e
		}
	}
	return worst
}

// isWorseThan orders excesses: an excess that lasts for ever comes first, then the name of the resource counts.
func (e *excess) isWorseThan(other *excess) bool {
	if e.isForEver() != other.isForEver() {
		return e.isForEver()
	}
	return e.resource < other.resource
}

// takePlaceOf gives a candidate the place of its PhJob; nil if it has none.
func (c *candidate) takePlaceOf(job *primehubv1alpha1.PhJob) {
	c.phJob = job
	if job != nil {
		c.queuedSince, c.queuedAs, c.turn = job.CreationTimestamp.Time, job.Namespace+"/"+job.Name, 0
	}
}

// byQuotaAlone says that only quota decides about it.
func (c *candidate) byQuotaAlone() bool { return c.phJob != nil }

func newCandidate(group *schedulingv1beta1.PodGroup) *candidate {
	waitingTime, err := usage.WaitingTime(group)
	want := usage.MinimumOf(group)
	return &candidate{
		waitingTime: waitingTime,
		ignored:     err,

		group:   group,
		key:     group.Namespace + "/" + group.Name,
		queue:   usage.QueueOf(group),
		account: usage.AccountOf(group),
		want:    want,
		lacks:   want,

		queuedSince: group.CreationTimestamp.Time,
		queuedAs:    group.Namespace + "/" + group.Name,
	}
}
