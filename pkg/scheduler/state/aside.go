package state

import (
	"cmp"
	"container/heap"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"github.com/muster-sched/muster/pkg/resources"
)

// Smaller gangs and pods may pass a gang that does not fit, but not for ever: the first of those that wait for room is
// due when enough have passed it, or when it has waited long enough. Then places are chosen for it on which it finds room
// when what runs there has ended, and what comes free there is set aside for it until it starts. There is one such gang
// at a time. A gang that a crash has left bound below its minimum comes before all others, and is due at once: what it needs
// counts as promised, or whoever is quicker might take it again and again. What waits for quota is not due for room, but for quota: see line.go. Neither is a gang due that would not fit
// into a cluster that has run empty: nothing is gained by holding room for it.

const (
	// choosePause is the least time between two choices of places for the same gang.
	choosePause = time.Second
	// firstRetry is how long a gang that would not fit into an empty cluster is not looked at for places again; it
	// doubles up to the time after which other places are chosen.
	firstRetry = 10 * time.Second
	// maxFailuresAside is how many rounds of a gang may fail although there seemed to be room, before what is set aside for
	// it is given back.
	maxFailuresAside = 10
	// defaultRenewal is that time where there is no bound to the time that a gang may be passed.
	defaultRenewal = 10 * time.Minute
)

// asideKey in the waker stands for the single pods that wait for room that is set aside for others.
var asideKey = Key{Foreign: true}

// Aside is what is set aside for a gang, on each node. It does not change; another takes its place.
type Aside struct {
	key      Key
	priority int32
	version  int // of the amounts
	places   map[types.UID]string
	nodes    map[string]resources.List
	avoid    sets.Set[string] // nodes on which the gang has waited in vain
	since    time.Time        // when the gang began to wait for these nodes
}

// For is the gang that it is set aside for.
func (a *Aside) For() Key { return a.key }

// Bars says whether a node on which so much is free has no room for so much more without what is set aside.
func (a *Aside) Bars(node string, free, requests resources.List) bool {
	kept, ok := a.nodes[node]
	if !ok {
		return false
	}
	for name, amount := range requests {
		if amount > 0 && amount > free[name]-kept[name] {
			return true
		}
	}
	return false
}

// On says whether something is set aside on a node.
func (a *Aside) On(node string) bool {
	_, ok := a.nodes[node]
	return ok
}

// asides is the part of the Store that keeps big gangs from starving.
type asides struct {
	current  atomic.Pointer[Aside]
	lacking  lacking                   // the gangs that wait for room
	broken   map[Key]*group            // the gangs that a crash has left below their minimum
	chosenAt time.Time                 // when places were chosen last
	versions int                       //
	waiters  map[types.UID]*corev1.Pod // single pods that wait for room that is set aside
}

// shortage is what a gang has gone through since it was first judged to lack something.
type shortage struct {
	of        *group    // while it is in lacking
	index     int       // its place there plus one, 0 if it is not there
	since     time.Time // when it was judged so first
	overtaken int       // how many have started before it while it was the first
	hopeless  bool      // it would not fit if all that may end had ended
	beyond    bool      // it would not fit into an empty cluster
	retryAt   time.Time // when to look again, if it is hopeless or was in vain
	retries   int
}

// lacking is a heap of gangs, the first in order on top.
type lacking []*shortage

// Len is the number of gangs.
func (l lacking) Len() int { return len(l) }

// Less orders by priority, then age. Both are fixed while a gang is in the heap.
func (l lacking) Less(i, j int) bool { return compareWaiting(l[i].of, l[j].of) < 0 }

// compareWaiting is negative if the gang a comes before b.
func compareWaiting(a, b *group) int {
	return cmp.Or(cmp.Compare(*b.priority, *a.priority), a.since.Compare(b.since), cmp.Compare(a.uid, b.uid))
}

// Swap swaps two gangs.
func (l lacking) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i+1, j+1
}

// Push adds a gang.
func (l *lacking) Push(x any) {
	added := x.(*shortage)
	*l = append(*l, added)
	added.index = len(*l)
}

// Pop takes the last gang out.
func (l *lacking) Pop() any {
	last := len(*l) - 1
	taken := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	taken.index = 0
	return taken
}

// fellShort notes that a gang was judged to lack room.
func (s *Store) fellShort(g *group) {
	if g.short.since.IsZero() {
		g.short.since = s.clock.Now()
	}
	g.short.beyond = false
	if g.short.index == 0 && !g.short.hopeless {
		s.gangPriority(g)
		g.short.of = g
		heap.Push(&s.asides.lacking, &g.short)
	}
}

// isBeyond notes that a gang was judged to need more than all nodes have. It is not one of those for which room may be set aside, until it
// is judged otherwise.
func (s *Store) isBeyond(g *group) {
	if g.short.since.IsZero() {
		g.short.since = s.clock.Now()
	}
	g.short.beyond = true
	s.notShort(g)
	if g.isSavedFor() {
		s.savedInVain(g)
	}
	s.callDue()
}

// foundRoom takes a gang out of those that wait for room that was judged to have it: should it fail all the same, again and again, it
// must not keep others from being the first. It is back when it is judged to lack room. Where room is set aside for it that is for
// the number of its failures to end.
func (s *Store) foundRoom(g *group) {
	if !s.isAsideFor(g) {
		s.notShort(g)
	}
}

// notShort takes a gang out of those that wait for room, for now: it keeps what it has gone through.
func (s *Store) notShort(g *group) {
	if g.short.index > 0 {
		heap.Remove(&s.asides.lacking, g.short.index-1)
	}
	if s.isAsideFor(g) {
		s.dropAside()
	}
}

// endShortage forgets what a gang has gone through: it has started, or is another one now.
func (s *Store) endShortage(g *group) {
	s.notShort(g)
	g.short = shortage{}
	s.endQuotaShortage(g)
}

// waitsForRoom says whether nothing but room keeps a gang that lacked it from starting.
func (s *Store) waitsForRoom(g *group) bool {
	return g.known && !s.mustBeAdmitted(g) && g.Complete() && !g.Seated()
}

// firstShort is the first in order of the gangs that wait for room, or nil.
func (s *Store) firstShort() *group {
	for len(s.asides.lacking) > 0 {
		g := s.asides.lacking[0].of
		if s.waitsForRoom(g) {
			return g
		}
		s.notShort(g)
	}
	return nil
}

// firstDue returns the gang for which room is to be set aside before all others, or nil.
func (s *Store) firstDue() *group {
	if g := s.firstBroken(); g != nil {
		return g
	}
	if g := s.firstShort(); g != nil && s.isDue(g) {
		return g
	}
	return nil
}

// firstBroken returns the first in order of the gangs that must be completed after a crash and can be, or nil.
func (s *Store) firstBroken() *group {
	var first *group
	now := s.clock.Now()
	for _, g := range s.asides.broken {
		if !s.waitsForRoom(g) || g.phase != idle || g.backsOff(now) || g.short.hopeless || g.short.beyond || g.lack.lacks != nil {
			continue
		}
		s.gangPriority(g)
		if first == nil || compareWaiting(g, first) < 0 {
			first = g
		}
	}
	return first
}

// noteBroken takes note of whether a gang must be completed after a crash. One that had reached its minimum need not be: what becomes
// of it is for its policies to say. Nor need one that is in no queue: it would not be evicted after partialGangTimeout, and what is set
// aside for it would have no end.
func (s *Store) noteBroken(g *group) {
	if g.known && !g.reached && g.queue != "" && g.Broken() {
		s.asides.broken[g.key] = g
		return
	}
	if _, was := s.asides.broken[g.key]; !was {
		return
	}
	delete(s.asides.broken, g.key)
	if s.isAsideFor(g) {
		s.dropAside() // one that is due all the same has places chosen anew, which are not before everybody
	}
}

// isDue says whether room is to be set aside for a gang: it has borne enough, or has quota set aside already.
func (s *Store) isDue(g *group) bool { return g.isSavedFor() || s.hasBorneEnough(&g.short) }

// hasBorneEnough says whether a gang has been passed often enough, or for long enough.
func (s *Store) hasBorneEnough(short *shortage) bool {
	number, limit := int(s.args.MaxOvertakes), s.args.MaxOvertakeTime.Duration
	return number > 0 && short.overtaken >= number ||
		limit > 0 && !short.since.IsZero() && s.clock.Since(short.since) >= limit
}

// passed notes a start: of a gang, or of a single pod. It counts against the first gang that waits for room, and against those
// that wait for quota, if it comes behind them in order.
func (s *Store) passed(st *start) {
	s.passedForQuota(st)
	if g := s.firstShort(); g != nil && st.comesAfter(g) {
		g.short.overtaken++
		s.callDue()
	}
}

// callDue has the gang judged that is due before all others, if nothing is set aside for it yet.
func (s *Store) callDue() {
	if g := s.firstDue(); g != nil && g.parked && !s.isAsideFor(g) {
		s.unpark(g)
		s.waker.Add(g.key)
	}
}

// tendAside has places chosen when it is time to.
func (s *Store) tendAside() {
	s.tendLines()
	s.callDue()
	a := s.asides.current.Load()
	if a == nil {
		return
	}
	if g := s.gangs[a.key]; g != nil && g.parked && s.clock.Since(a.since) >= s.renewal() {
		s.unpark(g)
		s.waker.Add(g.key)
	}
}

// renewal is after how long other places are chosen for a gang that waits for some.
func (s *Store) renewal() time.Duration {
	return cmp.Or(s.args.MaxOvertakeTime.Duration, defaultRenewal)
}

func (s *Store) isAsideFor(g *group) bool {
	a := s.asides.current.Load()
	return a != nil && a.key == g.key
}

// considerAside says in a round what is set aside for the gang or for another, and whether places are to be chosen.
func (s *Store) considerAside(g *group, round *Round) {
	now := s.clock.Now()
	round.Priority = s.gangPriority(g)
	if g.short.hopeless && !now.Before(g.short.retryAt) {
		g.short.hopeless = false
		s.fellShort(g)
	}
	round.Hopeless = g.short.hopeless
	a := s.asides.current.Load()
	switch {
	case a != nil && a.key == g.key:
		round.Before, round.Avoid = a.places, a.avoid
		round.Renew = now.Sub(a.since) >= s.renewal()
		left := choosePause - now.Sub(s.asides.chosenAt)
		if round.Choose = round.Renew || left <= 0; !round.Choose {
			s.judgeAgainIn(g, left)
		}
		return
	default:
		round.Choose = s.firstDue() == g
	}
	if a != nil && s.standsBack(g, a) {
		round.Behind = true
		for node, amount := range a.nodes {
			sum := round.Elsewhere[node].Clone()
			sum.Add(amount)
			round.Elsewhere[node] = sum
		}
	}
}

// judgeAgainIn has a gang that will be parked judged again after a while.
func (s *Store) judgeAgainIn(g *group, wait time.Duration) {
	at := s.clock.Now().Add(wait)
	if !g.retell.IsZero() && !at.Before(g.retell) {
		return
	}
	g.retell = at
	s.waker.AddAfter(g.key, wait)
}

// standsBack says whether a gang must leave to another what is set aside for that. Gangs that must be completed after a
// crash need not.
func (s *Store) standsBack(g *group, a *Aside) bool {
	priority := s.gangPriority(g)
	return g.key != a.key && priority <= a.priority && priority < scheduling.SystemCriticalPriority && !g.Broken()
}

// SetAside takes over the places that were chosen in a round, and the nodes that were avoided; places is nil if there are none
// even in a cluster that has run empty.
func (s *Store) SetAside(round *Round, places map[types.UID]string, avoid sets.Set[string]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gangs[round.Key]
	if g == nil || g.phase != idle || !sameMembers(g.Choose(), round.Members) {
		return
	}
	s.asides.chosenAt = s.clock.Now()
	if round.Hopeless = places == nil; round.Hopeless {
		s.giveUpOn(g)
		round.roundsEnded = s.roundsEnded
		return
	}
	s.fellShort(g)
	old := s.asides.current.Load()
	priority := s.gangPriority(g)
	if s.asides.broken[g.key] != nil {
		priority = scheduling.SystemCriticalPriority - 1 // only what is critical passes it
	}
	next := &Aside{key: g.key, priority: priority, places: places, nodes: map[string]resources.List{}, avoid: avoid, since: s.clock.Now()}
	for _, m := range round.Members {
		sum := next.nodes[places[m.UID]].Clone()
		sum.Add(m.Requests)
		next.nodes[places[m.UID]] = sum
	}
	if old != nil && old.key == g.key && !round.Renew {
		next.since = old.since
	}
	round.Before = places
	if old != nil && old.key == g.key && sameAmounts(old.nodes, next.nodes) {
		next.version = old.version
		s.asides.current.Store(next)
		return
	}
	s.asides.versions++
	next.version = s.asides.versions
	s.asides.current.Store(next)
	if old != nil {
		s.wakeBehindAside()
	}
	if !round.Behind { // else the gang was judged beside what was set aside for another: it may fit without that
		round.roundsEnded = s.roundsEnded
	}
}

func sameAmounts(a, b map[string]resources.List) bool {
	if len(a) != len(b) {
		return false
	}
	for node, amount := range a {
		if other, ok := b[node]; !ok || !amount.Equal(other) {
			return false
		}
	}
	return true
}

// giveUpOn sets nothing aside for a gang until it is time to look again; the next in order has its turn.
func (s *Store) giveUpOn(g *group) {
	g.short.hopeless = true
	wait := firstRetry
	for range g.short.retries {
		wait = min(2*wait, s.renewal())
	}
	g.short.retries++
	g.short.retryAt = s.clock.Now().Add(wait)
	s.notShort(g)
	if g.isSavedFor() {
		s.savedInVain(g)
	}
	s.callDue()
}

// dropAside gives back what is set aside, and wakes those who stood back for it.
func (s *Store) dropAside() {
	s.asides.current.Store(nil)
	s.wakeBehindAside()
}

func (s *Store) wakeBehindAside() {
	s.roundsEnded++
	s.wakeParked(s.promiseParked)
	if len(s.asides.waiters) > 0 {
		s.waker.Add(asideKey)
	}
}

func (s *Store) asideWaitersToWake() deeds {
	var d deeds
	for uid, pod := range s.asides.waiters {
		d.activate = append(d.activate, pod)
		delete(s.asides.waiters, uid)
	}
	return d
}

// AsideFrom returns what is set aside against a pod that is about to be tried, nil if nothing is. Pods of DaemonSets can go
// nowhere else, and those of native pod groups are the native plugin's: both pass.
func (s *Store) AsideFrom(pod *corev1.Pod) *Aside {
	a := s.asides.current.Load()
	if a == nil || pod.Spec.SchedulingGroup != nil || ownedByDaemonSet(pod) {
		return nil
	}
	if _, ok := groupOf(pod); !ok {
		if priority := corev1helpers.PodPriority(pod); priority > a.priority || priority >= scheduling.SystemCriticalPriority {
			return nil
		}
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil || !s.standsBack(g, a) {
		return nil
	}
	if _, chosen := g.chosen[pod.UID]; chosen && g.asideVersion != a.version {
		return nil // the gang was promised its room before
	}
	return a
}

// WaitBehind notes that a single pod found no node because of what is set aside. It is woken when that changes.
func (s *Store) WaitBehind(pod *corev1.Pod, a *Aside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asides.waiters[pod.UID] = pod
	if now := s.asides.current.Load(); now == nil || now.version != a.version {
		s.waker.Add(asideKey)
	}
}

// WaitsBehind says whether a pod is one of those. More room on a node may help it too.
func (s *Store) WaitsBehind(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.asides.waiters[pod.UID]
	return ok
}

// Stays says whether a pod on a node is not to be waited for when places are chosen: it has a higher priority, is tied to its
// node, or is of the gang itself. With endless, pods that never end by themselves stay as well.
func (r *Round) Stays(pod *corev1.Pod, endless bool) bool {
	key, inGang := groupOf(pod)
	switch {
	case inGang && key == r.Key:
		return true
	case corev1helpers.PodPriority(pod) > r.Priority || ownedByDaemonSet(pod):
		return true
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return true
	}
	return endless && !inGang && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && pod.DeletionTimestamp == nil
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// asideVersion tells what is set aside now from what was at another time.
func (s *Store) asideVersion() int {
	if a := s.asides.current.Load(); a != nil {
		return a.version
	}
	return 0
}
