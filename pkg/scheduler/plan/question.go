package plan

import (
	"slices"

	musterv1alpha1 "github.com/muster-sched/muster/pkg/apis/muster/v1alpha1"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/startreview"
	"github.com/muster-sched/muster/pkg/timeline"
)

// question is a StartReview, with parts of the answer.
type question struct {
	*startreview.Question
	evicts bool
	delays *musterv1alpha1.StartDelays
}

// insert adds the gangs of StartReviews to the waiting gangs, sorted by rank, and sets the positions of all. If the plan leaves out waiting gangs,
// a gang that ranks after the last planned one is left out, too. The caller holds the lock.
func (s *survey) insert(waiting []Waiting, asks []*question, hasAll bool) []Waiting {
	last := len(waiting) - 1
	for _, a := range asks {
		of := &a.Group.PodGroup
		w := Waiting{Key: a.Group.Key, UID: of.UID, Queue: quota.QueueOf(of.Account), Created: of.Created, rank: s.tracker.Rank(a.Group), runs: a.Runs, account: of.Account, asked: a}
		if hasAll || w.rank.Compare(waiting[last].rank) < 0 {
			waiting = append(waiting, w)
		}
	}
	slices.SortStableFunc(waiting, func(a, b Waiting) int { return a.rank.Compare(b.rank) })
	position := int32(1)
	for i := range waiting {
		if waiting[i].position = position; waiting[i].asked == nil {
			position++
		}
	}
	return waiting
}

// needs are the needs of a StartReview. Its kinds are of its own, so that no other gang is planned with them.
func (b *builder) needs(a *question) (needs []timeline.Need) {
	for _, of := range a.Shares {
		needs = append(needs, timeline.Need{Kind: b.kindOf(of.Member, "asked "), Count: of.Count})
	}
	return needs
}

// answer is what a plan says of the gang of a StartReview.
func (s *Snapshot) answer(i int, start *timeline.Start, past *ranges, quotaFor func(account string, want resources.List) *quota.Shortage) *musterv1alpha1.StartReviewStatus {
	w := &s.Waiting[i]
	status := &musterv1alpha1.StartReviewStatus{Answer: musterv1alpha1.StartUnknown, Plan: s.planOf(i, start, past)}
	status.Message = status.Plan.Message
	if w.asked.Runs > 0 {
		status.Runtime = w.asked.Runs.String()
	}
	switch {
	case start.Why == timeline.TooLarge:
		status.Answer, status.Message = musterv1alpha1.StartsNever, "it would never start: no nodes that take its pods have room for its minimum, even if they are empty"
		if shortage := quotaFor(w.account, w.asked.Want); shortage != nil && shortage.IsForEver() {
			status.Message = "it would never start: its minimum " + shortage.Error()
		}
	case start.Why != timeline.Known:
	case start.At.Sub(s.Cluster.Now) < shortSleep:
		status.Answer, status.Message, status.Delays = musterv1alpha1.StartsNow, "it would start at once", w.asked.delays
	default:
		status.Answer, status.Delays = musterv1alpha1.StartsLater, w.asked.delays
	}
	status.Evicts = w.asked.evicts && (status.Answer == musterv1alpha1.StartsLater || status.Answer == musterv1alpha1.StartUnknown)
	nodes := map[int]bool{}
	for _, place := range start.Places {
		nodes[place.Node] = true
	}
	status.NodeCount = int32(len(nodes))
	return status
}

// foresee notes what the gangs of StartReviews would do to others.
func (r *Room) foresee(s *Snapshot, starts []timeline.Start, asks []*question) {
	claims := make([]quota.Claim, len(asks))
	for i, a := range asks {
		claims[i] = quota.Claim{Queue: a.Group.PodGroup.Account, Want: a.Want}
	}
	for i, may := range r.tracker.Quota.MayReclaim(claims) {
		asks[i].evicts = may && r.tracker.Victims.Enabled
	}
	for i := range s.Waiting {
		w := &s.Waiting[i]
		if w.asked == nil {
			continue
		}
		var later []Owner
		for _, g := range starts[i].Delays {
			later = append(later, s.Waiting[g].owner())
		}
		w.asked.delays = &musterv1alpha1.StartDelays{}
		w.asked.delays.Names, w.asked.delays.Others = mention(w.Key.Namespace, later)
	}
}
