package state

import (
	"container/heap"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Gangs that wait for quota stand in the line of their queue. The first of a line is due under the same bounds as the first
// that waits for room (see aside.go). Then what comes free of what it wants, in its queue and the ancestors, is set aside for
// it until it starts. There is one such gang in each line; of two that meet in an ancestor, the one that is behind in order
// stands back. So none is ever in the way of one before it, and the first of all is in nobody's way but those who may wait.
//
// Such a gang may have its quota at last and lack room. Then it is due for room at once, and keeps its quota. It may wait in
// vain though: for pods that never end, or use what higher priorities have. So nothing is set aside for it any more after a
// while, and others have their turn (quota.Turn, in units of the time after which a gang that waits for room has other places
// chosen).

// line is the gangs of one queue that wait for quota.
type line struct {
	waiting  lacking
	savedFor *group // the one of them for which quota is set aside, or nil
}

// quotaShortage is what a gang has gone through since it was first judged to lack quota.
type quotaShortage struct {
	shortage                   // hopeless: it asks for more than the capability
	queue      string          // in whose line it stands
	lacks      *quota.Shortage // when it was judged last
	wants      resources.List  // then
	savedSince time.Time       // since when quota is set aside for it, zero if none is
}

func (g *group) isSavedFor() bool { return !g.lack.savedSince.IsZero() }

// start is what those who wait may count as being passed by.
type start struct {
	priority int32
	since    time.Time
	surplus  bool
	queue    string // "" if it uses no quota
	amount   func() resources.List
}

// comesAfter says whether what starts is behind a gang in order.
func (st *start) comesAfter(g *group) bool {
	return st.priority < *g.priority || st.priority == *g.priority && (st.surplus || !st.since.Before(g.since))
}

// takesFrom says whether what starts, in a queue with the given path to the root, uses of what a gang is short of.
func (st *start) takesFrom(path []string, lacks *quota.Shortage) bool {
	return slices.Contains(path, lacks.Queue) && st.amount()[lacks.Resource] > 0
}

// startOf is the start of a pod without a gang.
func startOf(pod *corev1.Pod) *start {
	return &start{
		priority: corev1helpers.PodPriority(pod), since: pod.CreationTimestamp.Time,
		queue: pod.Annotations[queueNameAnnotation], amount: func() resources.List { return resources.PodRequests(pod) },
	}
}

// startOfGang is the start of the minimum of a gang, or of a member beyond that.
func (s *Store) startOfGang(g *group, members []*gang.Member, surplus bool) *start {
	return &start{
		priority: s.gangPriority(g), since: g.since, surplus: surplus,
		queue: g.queue, amount: func() resources.List { return requests(members) },
	}
}

// considerQuota says in a round whether the gang has its quota, and how it stands if not.
func (s *Store) considerQuota(g *group, round *Round) {
	round.wants = requests(round.Members)
	if round.Quota = s.quotaFor(g, round.wants); round.Quota != nil {
		round.Exceeds, round.Saved = s.ledger.Exceeds(g.queue, round.wants), g.isSavedFor()
	}
}

// quotaFor says which queue is short of what the gang's members request in all, or nil.
func (s *Store) quotaFor(g *group, wants resources.List) *quota.Shortage {
	return s.ledger.RoomFor(g.key.String(), s.savedBefore(g, s.gangPriority(g)), g.queue, wants)
}

// savedBefore is what is set aside against a gang of the priority, or a pod without a gang (nil). Gangs that must be completed
// after a crash stand back for nobody.
func (s *Store) savedBefore(g *group, priority int32) (claims []quota.Claim) {
	if priority >= scheduling.SystemCriticalPriority || g != nil && g.Broken() {
		return nil
	}
	for _, other := range s.savedFor {
		if other == g || *other.priority < priority {
			break
		}
		if other.phase == idle { // else it has a promise
			claims = append(claims, quota.Claim{Queue: other.queue, Want: other.lack.wants})
		}
	}
	return claims
}

// judgedForQuota takes note of how a gang was judged that does not fit: it lacks quota, or room and no quota.
func (s *Store) judgedForQuota(g *group, round *Round) {
	lack, now := &g.lack, s.clock.Now()
	if round.wants == nil {
		return
	}
	if g.isSavedFor() && !lack.wants.Equal(round.wants) {
		s.wakeQuotaWaiters()
	}
	lack.wants, lack.lacks = round.wants, round.Quota
	if round.Quota == nil {
		if !g.isSavedFor() {
			s.leaveLine(g)
		}
		return
	}
	if lack.since.IsZero() {
		lack.since = now
	}
	lack.hopeless = round.Exceeds
	switch {
	case lack.hopeless || g.Broken():
		s.leaveLine(g)
	case now.Before(lack.retryAt):
		s.leaveLine(g)
		s.judgeAgainIn(g, lack.retryAt.Sub(now))
	case lack.index == 0:
		s.joinLine(g)
	}
	s.settleLine(g.queue)
}

func (s *Store) joinLine(g *group) {
	s.gangPriority(g)
	l := s.lines[g.queue]
	if l == nil {
		l = &line{}
		s.lines[g.queue] = l
	}
	g.lack.queue, g.lack.of = g.queue, g
	heap.Push(&l.waiting, &g.lack.shortage)
}

// leaveLine takes a gang out of its line, for now: it keeps what it has gone through. Nothing is set aside for it
// any more.
func (s *Store) leaveLine(g *group) {
	if g.lack.index == 0 {
		return
	}
	name := g.lack.queue
	l := s.lines[name]
	heap.Remove(&l.waiting, g.lack.index-1)
	if l.savedFor == g {
		s.stopSaving(l)
		s.settleLine(name)
	}
	if len(l.waiting) == 0 {
		delete(s.lines, name)
	}
}

// endQuotaShortage forgets what a gang has gone through.
func (s *Store) endQuotaShortage(g *group) {
	s.leaveLine(g)
	g.lack = quotaShortage{}
}

// firstInLine is the first in order of the gangs that wait for quota in a line, or nil.
func (s *Store) firstInLine(l *line) *group {
	for len(l.waiting) > 0 {
		g := l.waiting[0].of
		if g == l.savedFor || g.phase == idle && s.belongsInLine(g) {
			return g
		}
		heap.Pop(&l.waiting)
	}
	return nil
}

// belongsInLine says whether a gang that lacked quota has a place in the line: nothing but quota, and then room, keeps it from
// starting. What must be completed has its promise.
func (s *Store) belongsInLine(g *group) bool { return s.waitsForRoom(g) && !g.Broken() }

// settleLine sets quota aside for the first gang of a line if that is due.
func (s *Store) settleLine(queue string) {
	l := s.lines[queue]
	if l == nil {
		return
	}
	g := s.firstInLine(l)
	if g == nil || g == l.savedFor || !s.hasBorneEnough(&g.lack.shortage) {
		return
	}
	if l.savedFor != nil {
		s.stopSaving(l)
	}
	l.savedFor, g.lack.savedSince = g, s.clock.Now()
	s.savedFor = append(s.savedFor, g)
	slices.SortFunc(s.savedFor, compareWaiting)
	s.callForQuota(g)
}

// stopSaving gives back what is set aside for a gang of the line, and wakes those who stood back for it.
func (s *Store) stopSaving(l *line) {
	l.savedFor.lack.savedSince = time.Time{}
	s.savedFor = slices.DeleteFunc(s.savedFor, func(g *group) bool { return g == l.savedFor })
	l.savedFor = nil
	s.wakeQuotaWaiters()
}

// callForQuota has a parked gang judged again: it may use now what is set aside for others, or the other way round.
func (s *Store) callForQuota(g *group) {
	if g.parked {
		s.unpark(g)
		s.waker.Add(g.key)
	}
}

// savedInVain gives back what was set aside in vain. The gang stands in no line until its pause is over.
func (s *Store) savedInVain(g *group) {
	_, others := quota.Turn(s.renewal(), g.lack.retries)
	g.lack.retryAt = s.clock.Now().Add(others)
	g.lack.retries++
	s.leaveLine(g)
	s.callForQuota(g)
}

// tendLines gives back what is set aside in vain, and sets quota aside for those who have waited long enough.
func (s *Store) tendLines() {
	for name, l := range s.lines {
		if g := l.savedFor; g != nil && g.phase == idle {
			if own, _ := quota.Turn(s.renewal(), g.lack.retries); s.clock.Since(g.lack.savedSince) >= own {
				s.savedInVain(g)
			}
		}
		s.settleLine(name)
		if len(l.waiting) == 0 {
			delete(s.lines, name)
		}
	}
}

// passedForQuota counts a start against the first gang of each line that is short of what it uses.
func (s *Store) passedForQuota(st *start) {
	if len(s.lines) == 0 || st.queue == "" {
		return
	}
	path := s.ledger.Path(st.queue)
	for name, l := range s.lines {
		g := s.firstInLine(l)
		if g == nil || g.lack.lacks == nil || !st.comesAfter(g) || !st.takesFrom(path, g.lack.lacks) {
			continue
		}
		g.lack.overtaken++
		s.settleLine(name)
	}
}
