package state

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/resources"
)

// PluginName is the name under which members wait in Permit.
const PluginName = "Coscheduling"

const queueNameAnnotation = schedulingv1beta1.QueueNameAnnotation

// quotaKey in the waker stands for the single pods that wait for quota.
var quotaKey = Key{}

// deeds are what the waker found to do, outside the lock.
type deeds struct {
	activate []*corev1.Pod
	dismiss  []*corev1.Pod
	allow    []types.UID
	reject   []types.UID
}

// runWaker acts on gangs that have changed until the context ends. What it does follows from the state of a gang alone, so
// that it does not matter how often or why it is asked. All that ask at the same time are served together: pods that are
// activated in one go are sorted by the queue before the first of them is tried.
func (s *Store) runWaker(ctx context.Context) {
	for {
		key, shutdown := s.waker.Get()
		if shutdown {
			return
		}
		keys := []Key{key}
		for s.waker.Len() > 0 {
			if key, shutdown = s.waker.Get(); shutdown {
				return
			}
			keys = append(keys, key)
		}
		var all deeds
		for _, key := range keys {
			all.add(s.next(key))
		}
		s.do(ctx, all)
		for _, key := range keys {
			s.waker.Done(key)
		}
	}
}

func (d *deeds) add(more deeds) {
	d.activate = append(d.activate, more.activate...)
	d.dismiss = append(d.dismiss, more.dismiss...)
	d.allow = append(d.allow, more.allow...)
	d.reject = append(d.reject, more.reject...)
}

// next decides what a gang needs now.
func (s *Store) next(key Key) deeds {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch key {
	case quotaKey:
		return s.quotaWaitersToWake()
	case asideKey:
		return s.asideWaitersToWake()
	}
	g := s.gangs[key]
	switch {
	case !s.synced:
		return deeds{}
	case g == nil:
		return deeds{activate: s.callYielded(), reject: s.callStrays()}
	}
	s.expire(g)
	if s.isAsideFor(g) && g.phase == idle && !s.waitsForRoom(g) {
		s.notShort(g)
	}
	if g.isSavedFor() && g.phase == idle && !s.belongsInLine(g) {
		s.leaveLine(g)
	}
	s.judgeForItsReport(g)
	seated, open := g.staysSeated(), g.known && !s.mustBeAdmitted(g)
	d := s.needs(g, seated, open)
	if g.sweep {
		s.sweepPermit(g, seated, &d)
	}
	if len(d.activate) == 0 {
		delete(s.toJudge, g.key) // nothing will come of it now
	}
	d.activate = append(d.activate, s.callYielded()...)
	d.reject = append(d.reject, s.callStrays()...)
	g.wasSeated = seated && open && g.phase == idle
	return d
}

// sweepPermit looks after members that were on their way into Permit's waiting room when they were let go. What was true then may not be any
// more. Those that are being bound are not in that room, and are left alone.
func (s *Store) sweepPermit(g *group, seated bool, d *deeds) {
	g.sweep = false
	switch {
	case g.phase == admitted:
	case seated:
		g.allowed.Insert(uids(g.Reserved())...)
		d.allow = g.allowed.UnsortedList()
	default:
		d.reject = append(d.reject, g.allowed.UnsortedList()...)
	}
}

// judgeForItsReport has a parked gang judged again when what was reported of it is old.
func (s *Store) judgeForItsReport(g *group) {
	if !g.parked || g.retell.IsZero() {
		return
	}
	if left := g.retell.Sub(s.clock.Now()); left > 0 {
		s.waker.AddAfter(g.key, left) // of several times for one key the waker keeps the first only
		return
	}
	g.retell = time.Time{}
	s.judgeUnasked(g)
}

// needs is what is to be done for a gang, by what happens to it.
func (s *Store) needs(g *group, seated, open bool) (d deeds) {
	now := s.clock.Now()
	backsOff := g.backsOff(now)
	// These times may have been forgotten for an earlier one, which has come now.
	if backsOff {
		s.waker.AddAfter(g.key, g.notBefore.Sub(now))
	}
	if g.phase == admitted {
		s.waker.AddAfter(g.key, g.deadline.Sub(now))
	}
	switch {
	case g.phase == admitted && backsOff:
	case g.phase == admitted:
		for _, m := range g.Waiting() {
			if _, chosen := g.chosen[m.UID]; chosen && g.hasTurn(m.UID) {
				d.activate = append(d.activate, m.Pod)
			}
		}
	case seated:
		if open && (!g.wasSeated || g.turnedAway) {
			d.activate = pods(g.Waiting()) // the surplus may come now
			g.turnedAway = false
		}
	case g.givesBack():
		g.doomed = sets.New(uids(g.Reserved())...).Difference(g.allowed)
		d.reject = g.doomed.UnsortedList()
	case g.hears(now):
		s.waker.AddAfter(g.key, g.hearsUntil.Sub(now))
	case g.parked:
		d.dismiss = s.goToSleep(g)
	case g.known && g.Complete() && !backsOff:
		d.activate = s.callScout(g)
	}
	return d
}

// givesBack says whether a member holds room that it is going to lose: it waits in Permit, and the round that it was part of is over. Those
// that are being bound keep theirs.
func (g *group) givesBack() bool { return g.CountReserved() > g.allowed.Len() }

// staysSeated says whether the gang is seated without the members that were decided to be rejected. Between the decision and the deed the
// minimum may be lowered to what they are.
func (g *group) staysSeated() bool {
	if g.doomed.Len() == 0 || !g.Seated() {
		return g.Seated()
	}
	var staying []*gang.Member
	for _, m := range g.Members() {
		if g.Counts(m) && (m.State == gang.Bound || m.State == gang.Reserved && !g.doomed.Has(m.UID)) {
			staying = append(staying, m)
		}
	}
	return gang.Call(g.Asks(), staying).Seated()
}

// expire ends a round whose members have not come in time.
func (s *Store) expire(g *group) {
	if g.phase == admitted && !s.clock.Now().Before(g.deadline) {
		late := types.UID("")
		for _, m := range g.Waiting() {
			if _, chosen := g.chosen[m.UID]; chosen {
				late = m.UID
				break
			}
		}
		s.letGo(g, late)
	}
}

// callScout returns the scout's pod; the first of the waiting members becomes it if there is none.
func (s *Store) callScout(g *group) []*corev1.Pod {
	if m := g.Member(g.scout); m != nil && m.State == gang.Waiting && g.Counts(m) {
		s.scoutIsCalled(g)
		return []*corev1.Pod{m.Pod}
	}
	g.scout = ""
	for _, m := range g.Waiting() {
		g.scout = m.UID
		s.scoutIsCalled(g)
		return []*corev1.Pod{m.Pod}
	}
	return nil
}

// scoutIsCalled notes since when the scout is expected.
func (s *Store) scoutIsCalled(g *group) {
	g.missed = false
	if g.called.IsZero() {
		g.called = s.clock.Now()
	}
}

// relieveScout makes the next of the waiting members the scout if the scout was called and does not come: another plugin's gate may be
// closed to it alone. Should it come after all, it is the scout again (Enter).
func (s *Store) relieveScout(g *group) {
	if g.called.IsZero() || s.clock.Since(g.called) < scoutPatience {
		return
	}
	waiting := g.Waiting()
	if len(waiting) < 2 {
		return
	}
	at := slices.IndexFunc(waiting, func(m *gang.Member) bool { return m.UID == g.scout })
	g.scout, g.called, g.relieved = waiting[(at+1)%len(waiting)].UID, time.Time{}, true
}

// scoutPatience is how long a gang waits for its scout. One that stands in a long queue of pods comes later; then two are tried.
const scoutPatience = 5 * time.Second

// do carries the deeds out. It takes the scheduling queue's lock, so it must not hold the Store's.
func (s *Store) do(ctx context.Context, d deeds) {
	for _, uid := range d.allow {
		if waiting := s.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(PluginName)
		}
	}
	for _, uid := range d.reject {
		if waiting := s.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(PluginName, "the gang's minimum could not be placed together")
			s.metrics.rejections.Inc()
		}
	}
	if len(d.dismiss) > 0 {
		s.asleep.queue.Dismiss(d.dismiss)
	}
	if len(d.activate) > 0 {
		byName := make(map[string]*corev1.Pod, len(d.activate))
		for _, pod := range d.activate {
			byName[pod.Namespace+"/"+pod.Name] = pod
		}
		s.handle.Activate(klog.FromContext(ctx), byName)
		s.metrics.activations.Inc()
	}
}

// wakeQuotaWaiters lets everything that waits for quota try again.
func (s *Store) wakeQuotaWaiters() {
	s.wakeParked(s.quotaParked)
	if len(s.quotaWaiters) > 0 {
		s.waker.Add(quotaKey)
	}
}

// wakeParked has the gangs of a set judged again, and empties it.
func (s *Store) wakeParked(gangs sets.Set[Key]) {
	for key := range gangs {
		if g := s.gangs[key]; g != nil {
			s.unpark(g)
			s.waker.Add(key)
		}
	}
	gangs.Clear()
}

func (s *Store) quotaWaitersToWake() deeds {
	var d deeds
	for uid, pod := range s.quotaWaiters {
		d.activate = append(d.activate, pod)
		delete(s.quotaWaiters, uid)
	}
	return d
}

// wakeDelay lets the gangs that one event may help gather, so that they are tried in order.
const wakeDelay = 2 * time.Millisecond

// judgePause is the least time between two judgements of a gang that does not fit: on a busy cluster every pod that goes
// is an event. After a judgement that no event has asked for there is no pause: others, which come after the gang in order, would be
// called for the next event before it.
const judgePause = 50 * time.Millisecond

// labourPause is how many times as long as a laborious judgement took the gang is left alone after it, so that it takes no more than a
// small part of the scheduler's time.
const labourPause = 20

// MayBeHelpedBy says whether an event that a plugin waits for may help the gang for which a pod is parked, and with which
// pods to ask that plugin: what helps one of them may help the gang. Events of the gang's own pods count too: room that its
// members gave up may be seen only after the gang was judged again.
func (s *Store) MayBeHelpedBy(pod *corev1.Pod, plugin string) (rejected []*corev1.Pod, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil || !g.parked || g.scout != pod.UID || !g.rejectors.Has(plugin) {
		return nil, false
	}
	return g.rejected, true
}

// ParkedBehind returns the pods under whose names those gangs are parked that a plugin stood in the way of.
func (s *Store) ParkedBehind(plugin string) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var scouts []types.NamespacedName
	for _, g := range s.gangs {
		if m := g.Member(g.scout); m != nil && g.parked && g.rejectors.Has(plugin) {
			scouts = append(scouts, types.NamespacedName{Namespace: m.Pod.Namespace, Name: m.Pod.Name})
		}
	}
	return scouts
}

// refreshPause is how long a report may say less room than there is, while what has come free is not enough yet. Where many wait,
// it takes longer until the text may change.
const refreshPause = 10 * time.Second

// MayBeEnough says whether the room that has come free since the gang of a parked pod was judged, with this amount, may
// seat it. The amount came free on a node, or a node has come or changed: then the name is "". If it is not enough, the gang is only
// judged again for the sake of its report, after a while.
func (s *Store) MayBeEnough(pod *corev1.Pod, node string, amount resources.List) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, _ := s.find(pod.UID)
	return g == nil || !g.parked || s.mayBeEnough(g, node, amount)
}

// mayBeEnough is MayBeEnough for a gang that is parked.
func (s *Store) mayBeEnough(g *group, node string, amount resources.List) bool {
	if g.shortfall == nil {
		return true
	}
	g.shortfall.Free(node, amount)
	if g.shortfall.Covered() {
		return true
	}
	s.judgeAgainIn(g, max(refreshPause, s.rewordPause()))
	return false
}

// Help has the gang of a parked pod judged again. It does so by way of the waker, which goes past the back-off of the
// scheduling queue: there a gang would stand behind whoever has not been tried lately, whatever the order says.
func (s *Store) Help(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m := s.find(pod.UID)
	if m == nil || !g.parked {
		return
	}
	s.unpark(g)
	s.judgeSoon(g)
}

// judgeSoon has a gang judged that is not parked any more.
func (s *Store) judgeSoon(g *group) { s.waker.AddAfter(g.key, s.pauseFor(g)) }

// pauseFor is how long a gang is left alone before it is judged again.
func (s *Store) pauseFor(g *group) time.Duration {
	return max(wakeDelay, judgePause-s.clock.Since(g.helped), labourPause*g.labour-s.clock.Since(g.judged))
}

// unpark lets a gang be judged again. Until it is, surplus of other gangs stands back.
func (s *Store) unpark(g *group) {
	g.parked = false
	delete(s.unasked, g.key)
	s.toJudge[g.key] = s.clock.Now()
}

// callYielded returns the surplus pods that stood back for gangs that were about to be judged, and the pods that have left a gang.
func (s *Store) callYielded() []*corev1.Pod {
	var yielded []*corev1.Pod
	for uid, pod := range s.yielded {
		yielded = append(yielded, pod)
		delete(s.yielded, uid)
	}
	return yielded
}

// callStrays returns the pods that wait in Permit for a gang that they have left, until they are rejected: they may be on their way there.
func (s *Store) callStrays() []types.UID { return slices.Collect(maps.Keys(s.strays)) }

func uids(members []*gang.Member) []types.UID {
	out := make([]types.UID, 0, len(members))
	for _, m := range members {
		out = append(out, m.UID)
	}
	return out
}

func pods(members []*gang.Member) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		out = append(out, m.Pod)
	}
	return out
}
