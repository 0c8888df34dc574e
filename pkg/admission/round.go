// Package admission decides which PodGroups leave phase Pending, what the others wait for, and at which place. A Round decides about all that
// wait, in their order: it is made of values, and returns values.
//
// candidate.go is a PodGroup that waits, waitlist.go the order, decision.go what a round answers. queues.go and cluster.go are reasons to wait.
// place.go finds places, evictable.go what may be evicted for a PodGroup, and minimum.go what its minimum takes.
//
// The package is pure: it knows no lock, no client and no clock.
package admission

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-sched/muster/pkg/job/validation"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Round is what a round of decisions is made on.
type Round struct {
	// Now is the time of the round.
	Now time.Time
	// Queues that exist.
	Queues Queues
	// Running is how many PodGroups of each queue and its descendants are admitted and have not finished. It may be nil if no queue limits
	// them.
	Running map[string]int32
	// Tree is what the queues use, and what is kept for admitted PodGroups. The round adds what it admits.
	Tree *quota.Tree
	// Shares are those of the queues.
	Shares quota.Shares
	// Nodes is what all nodes have.
	Nodes resources.List
	// Overcommit bounds a minimum as a multiple of Nodes; 0 for no bound. A queue may have a factor of its own.
	Overcommit float64
	// Units returns what may be evicted, in order. It is called only if that matters, and returns the same each time.
	Units func() []Evictable

	evictions map[bool]*quota.Evictions // by whether nothing that runs may be evicted
	claims    []quota.Claim             // quota that is kept for the candidates whose turn it is
	reserved  quota.Reserved            // the sum of them
}

// Decide decides about all candidates in turn. It admits the candidates that fit beside all earlier ones.
func (r *Round) Decide(candidates []*Candidate) []Decided {
	l := newWaitList(candidates, r.Queues, r.Tree, r.Shares)
	return r.decide(l.next, l.admitted)
}

// decide goes through the candidates of next until it returns nil. It calls admitted for each that it admits. When a candidate has its turn
// and lacks room, the free part of that room is kept for it.
func (r *Round) decide(next func() *Candidate, admitted func(*Candidate)) []Decided {
	var all []Decided
	ahead := map[string]*Candidate{} // queue, or user of one -> the candidate that blocks it
	r.reserved, r.evictions = quota.Reserved{}, map[bool]*quota.Evictions{}
	for c := next(); c != nil; c = next() {
		v := r.judge(c, cmp.Or(ahead[c.Queue], ahead[c.Account]))
		if v.Admitted {
			r.admit(c)
			admitted(c)
		} else if waitList := c.holdsUp(v.blocker); waitList != "" && ahead[waitList] == nil && (c.ByQuotaAlone || r.Queues.isFIFO(c.Queue)) {
			ahead[waitList] = c
		}
		if c.Turn > 0 && v.lacksRoom() && !r.Tree.Exceeds(c.Account, c.Want) {
			r.keep(quota.Claim{Queue: c.Account, Want: c.Lacks, Own: quota.QueueOf(v.blocker.kind.queue) == c.Queue})
			v.keeps = true
		}
		all = append(all, Decided{c, v})
	}
	return all
}

// admit keeps room for a candidate's demand.
func (r *Round) admit(c *Candidate) {
	r.Tree.Add(c.Account, c.Lacks)
	for _, e := range r.evictions {
		e.Add(c.Account, c.Lacks)
	}
	if r.Running == nil {
		return
	}
	for _, queue := range r.Tree.Path(c.Queue) {
		r.Running[queue]++
	}
}

// keep keeps the free part of a claim from later candidates.
func (r *Round) keep(claim quota.Claim) {
	if r.Tree.AddReserved(r.reserved, claim) {
		r.claims = append(r.claims, claim)
	}
}

// room is what a candidate lacks beside what is kept from it, and that. One within its share may take what is kept for one beyond its share.
func (r *Round) room(c *Candidate) (*quota.Shortage, quota.Reserved) {
	shortage := r.Tree.RoomBesideReserved(r.reserved, c.Account, c.Lacks)
	mayTake := func(claim quota.Claim) bool {
		return r.Tree.MayTake(r.Shares, claim, quota.Claim{Queue: c.Account, Want: c.Lacks})
	}
	if shortage == nil || !shortage.Behind || !r.hasClaim(c) || !slices.ContainsFunc(r.claims, mayTake) {
		return shortage, r.reserved
	}
	reserved := quota.Reserved{}
	for _, claim := range r.claims {
		if !mayTake(claim) {
			r.Tree.AddReserved(reserved, claim)
		}
	}
	return r.Tree.RoomBesideReserved(reserved, c.Account, c.Lacks), reserved
}

// hasClaim says whether a candidate is within the shares of its queue and others are beyond theirs.
func (r *Round) hasClaim(c *Candidate) bool {
	return r.Tree.Reclaim(r.Shares, c.Account, 0, c.Lacks).HasClaim()
}

// couldReclaim says whether the scheduler could make the room by evictions that a candidate lacks beside what is reserved.
func (r *Round) couldReclaim(c *Candidate, reserved quota.Reserved) bool {
	if r.evictions[c.NeverPreempts] == nil {
		r.evictions[c.NeverPreempts] = r.Tree.Evictions(r.Shares, unitsOf(r.Units(), c.NeverPreempts))
	}
	return r.evictions[c.NeverPreempts].CanMakeRoom(reserved, c.Account, c.Rank.Priority, c.Lacks)
}

// beyond says why the cluster is too small for a candidate. If its queue has a factor of its own, all use counts, and all room that is
// kept. The same holds if it asks for more than its minimum, which is of no use without the rest. Otherwise only its own amount counts. It
// is undecided as long as members are about to come that tell what it asks for.
func (r *Round) beyond(c *Candidate) (e *excess, undecided bool) {
	if factor, _ := OvercommitFactor(r.Queues.get(c.Queue)); factor > 0 { // the queue controller reports one that is not valid
		return beyondCluster(c.Lacks, r.Tree.Total(quota.Root), r.Nodes, factor), false
	}
	if e = beyondCluster(c.Want, nil, r.Nodes, r.Overcommit); e != nil || c.Purpose == ForMinimum {
		return e, false
	}
	all := r.Tree.Total(quota.Root)
	if e = beyondCluster(c.Lacks, all, r.Nodes, r.Overcommit); e == nil || r.hasClaim(c) {
		return nil, false
	}
	if !c.NeverPreempts {
		for _, unit := range r.Units() {
			if unit.Priority < c.Rank.Priority && !unit.AsksToStay {
				all.Sub(unit.Requests) // it goes first
			}
		}
		e = beyondCluster(c.Lacks, all, r.Nodes, r.Overcommit)
	}
	if c.Purpose == NotKnown {
		return nil, e != nil && r.Now.Sub(c.Group.CreationTimestamp.Time) < openingTime
	}
	if e != nil {
		e.more = true
	}
	return e, false
}

// judge decides about a candidate. ahead is the one that blocks it in a first-in-first-out queue, nil for none.
func (r *Round) judge(c, ahead *Candidate) Decision {
	if c.IsEarly || r.Queues.opening(c.Queue, r.Now) {
		return Decision{undecided: true}
	}
	path := r.Tree.Path(c.Queue)
	if reason := r.Queues.notOpen(path); reason != "" {
		return blockedBy(blockerKind{text: reason}, words(reason))
	}
	if reason := validation.UnsupportedGroup(c.Group); reason != "" {
		return blockedBy(blockerKind{text: reason, unsupported: true, forEver: true}, words(reason))
	}
	if err := c.Want.Validate(); err != nil {
		return blockedBy(blockerKind{text: err.Error(), forEver: true}, fmt.Errorf("the minimum %w: see minResources and minMember", err))
	}
	if r.Tree.Exceeds(c.Account, c.Want) {
		return lacksQuota(r.Tree.RoomBesideReserved(nil, c.Account, c.Want))
	}
	tooMany := r.Queues.tooMany(r.Running, path)
	if c.isOverdue(r.Now) && tooMany == "" {
		return Decision{Admitted: true}
	}
	if ahead != nil {
		return blockedBy(blockerKind{inLine: true}, c.waitsForOther())
	}
	if e, undecided := r.beyond(c); (e != nil || undecided) && !c.ByQuotaAlone {
		if undecided {
			return Decision{undecided: true, awaitsMembers: true}
		}
		return blockedBy(blockerKind{resource: e.resource, forEver: e.isForEver()}, e)
	}
	if tooMany != "" {
		return blockedBy(blockerKind{tooMany: true}, words(tooMany))
	}
	s, reserved := r.room(c)
	if s != nil && (s.IsForEver() || s.Behind || c.ByQuotaAlone || !r.couldReclaim(c, reserved)) {
		return lacksQuota(s)
	}
	return Decision{Admitted: true, HasRoom: s == nil}
}

// holdsUp names the queue or user that a candidate blocks for later candidates, in a first-in-first-out queue. That is its queue, or only
// its user if the user's quota is short. It is "" if a candidate ahead already blocks it, or if this one can never be admitted.
func (c *Candidate) holdsUp(o *blocker) string {
	switch {
	case o == nil, o.kind.inLine, o.kind.forEver:
		return ""
	case quota.IsUser(o.kind.queue):
		return c.Account
	default:
		return c.Queue
	}
}

// waitsForEarlierJob explains why the PodGroup of a PhJob waits while another one is ahead. It does not name that one: otherwise all
// waiting PodGroups would be written anew whenever a job starts.
const waitsForEarlierJob = words("an earlier job of the group waits, and jobs of a group start in the order of their creation")

// waitsForOther explains why a candidate waits while another one is ahead. It does not name that one, which may be of a namespace that the
// candidate's owner may not read. Besides, all that wait would be written anew at each start.
func (c *Candidate) waitsForOther() words {
	if c.ByQuotaAlone {
		return waitsForEarlierJob
	}
	return words(fmt.Sprintf("queue %q is first in, first out, and a PodGroup that comes first is still waiting there", c.Queue))
}

// WaitingIn is the waiting demand of each queue.
func WaitingIn(candidates []*Candidate) map[string]resources.Sums {
	waiting := map[string]resources.Sums{}
	for _, c := range candidates {
		resources.AddTo(waiting, c.Queue, c.Lacks)
	}
	return waiting
}
