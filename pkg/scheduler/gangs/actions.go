package gangs

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
)

// PluginName is the name under which members wait in Permit.
const PluginName = "Coscheduling"

// Four keys are for single pods and surplus: pods that wait for quota, for reserved room, or for node groups, and pods to be tried again.
var (
	quotaKey    = Key{}
	heldBackKey = Key{Foreign: true}
	readyKey    = Key{Name: "ready"} // no gang is without a namespace

	nodeGroupsKey = Key{Name: "node groups"}
)

// scoutPatience is how long a gang waits for its scout. A scout in a long queue of pods comes later; then two are tried.
const scoutPatience = 5 * time.Second

// Actions are operations to carry out outside the lock.
type Actions struct {
	// Activate are pods that may enter the scheduling queue now.
	Activate []*corev1.Pod
	// Allow are pods that may leave Permit to be bound.
	Allow []types.UID
	// Reject are pods that must leave Permit and give back their room.
	Reject []types.UID
}

func (a *Actions) add(more Actions) {
	a.Activate = append(a.Activate, more.Activate...)
	a.Allow = append(a.Allow, more.Allow...)
	a.Reject = append(a.Reject, more.Reject...)
}

// dispatcher acts on gangs that have changed.
type dispatcher struct{ t *Tracker }

// dispatch acts on gangs that have changed until the context ends. The actions follow from the state of a gang alone. So a gang may be
// marked at any time, and more than once. All gangs that are due are served together: pods that are activated in one call are sorted by the
// queue before the first of them is tried.
func (d *dispatcher) dispatch(ctx context.Context, handle fwk.Handle) {
	for {
		key, shutdown := d.t.dirty.Get()
		if shutdown {
			return
		}
		keys := []Key{key}
		for d.t.dirty.Len() > 0 {
			if key, shutdown = d.t.dirty.Get(); shutdown {
				return
			}
			keys = append(keys, key)
		}
		var all Actions
		for _, key := range append(d.woken(ctx, handle, keys), keys...) {
			all.add(d.nextActions(key))
		}
		d.apply(ctx, handle, all)
		for _, key := range keys {
			d.t.dirty.Done(key)
		}
	}
}

// woken are the gangs that have been woken, if one of those to be looked at has: they are tried in order if they are activated together. The
// scheduling queue holds its lock while it asks the hints of all scouts about an event. So all have been asked when its lock is free.
func (d *dispatcher) woken(ctx context.Context, handle fwk.Handle, keys []Key) []Key {
	if !d.isAnyWoken(keys) {
		return nil
	}
	handle.Activate(klog.FromContext(ctx), nil)
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	woken := d.t.woken.Delete(keys...).UnsortedList()
	d.t.woken.Clear()
	return woken
}

func (d *dispatcher) isAnyWoken(keys []Key) bool {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	return slices.ContainsFunc(keys, d.t.woken.Has)
}

// apply carries actions out. It takes the scheduling queue's lock, so the tracker must not be locked.
func (d *dispatcher) apply(ctx context.Context, handle fwk.Handle, a Actions) {
	for _, uid := range a.Allow {
		if waiting := handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(PluginName)
		}
	}
	for _, uid := range a.Reject {
		if waiting := handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(PluginName, "the gang's minimum could not be placed together")
			d.t.metrics.rejections.Inc()
		}
	}
	if len(a.Activate) == 0 {
		return
	}
	byName := make(map[string]*corev1.Pod, len(a.Activate))
	for _, pod := range a.Activate {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	handle.Activate(klog.FromContext(ctx), byName)
	d.t.metrics.activations.Inc()
}

// nextActions decides what a gang needs now.
func (d *dispatcher) nextActions(key Key) Actions {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	switch {
	case !d.t.synced:
		return Actions{}
	case key == quotaKey:
		return Actions{Activate: d.t.takeSingles(d.t.Quota.pods)}
	case key == heldBackKey:
		return Actions{Activate: d.t.takeSingles(d.t.WaitList.held.pods)}
	case key == nodeGroupsKey:
		return Actions{Activate: d.t.takeSingles(d.t.Quota.grouped)}
	case key == readyKey:
		return Actions{Activate: takeAll(d.t.WaitList.ready)}
	}
	actions := d.detachedActions()
	g := d.t.gangs[key]
	if g == nil {
		return actions
	}
	now := d.t.clock.Now()
	d.endWhatIsLate(g, now)
	var e gang.Effects
	if last := g.decision; last != nil && !last.woken && !last.wakeAt.IsZero() {
		if last.woken = !now.Before(last.wakeAt); !last.woken {
			e.Add(gang.LookIn(last.wakeAt.Sub(now)))
		}
	}
	status := d.t.status(g)
	needs, more := d.actionsFor(g, status, now)
	actions.add(needs)
	e.Add(more)
	if g.inPermit {
		actions.add(g.settlePermit(status))
	}
	if !status.Until.IsZero() {
		e.Add(gang.LookIn(status.Until.Sub(now)))
	}
	if g.attempt != nil {
		e.Add(gang.LookIn(g.attempt.deadline.Sub(now)))
	}
	d.t.apply(g, e)
	return actions
}

// endWhatIsLate ends the attempt of a gang whose time is over. It ends the wait for victims that have gone.
func (d *dispatcher) endWhatIsLate(g *group, now time.Time) {
	if g.attempt != nil {
		d.t.apply(g, d.t.WaitList.settleSeat(g))
	}
	if g.attempt != nil && !now.Before(g.attempt.deadline) {
		late := noUID
		if members := g.nextToCome(); len(members) > 0 {
			late = members[0].UID
		}
		d.t.apply(g, d.t.rollBack(g, late))
	}
}

// actionsFor is what a gang in a phase needs.
func (d *dispatcher) actionsFor(g *group, status gang.Status, now time.Time) (a Actions, e gang.Effects) {
	switch status.Phase {
	case gang.Running:
		d.t.WaitList.sharing.runs(g)
		if status.Reason == "" && (!g.surplusOpen || g.turnedAway) {
			a.Activate = pods(g.Waiting())
			g.surplusOpen, g.turnedAway = true, false
		}
		return a, e
	case gang.Attempting:
		if status.Reason != "" {
			break
		}
		a.Activate = pods(g.nextToCome())
	case gang.Ready:
		if last := g.decision; last != nil && now.Before(last.nextAt) {
			e = gang.LookIn(last.nextAt.Sub(now))
			break
		}
		if scout := d.nextScout(g); scout != nil {
			a.Activate = []*corev1.Pod{scout}
		}
	}
	g.surplusOpen = false
	return a, e
}

// nextScout returns the scout's pod if its cycle is not expected yet. If there is no scout, the first waiting member becomes it.
func (d *dispatcher) nextScout(g *group) *corev1.Pod {
	m := g.Member(g.scout.uid)
	if m == nil || m.State != gang.Waiting || !g.Counts(m) {
		waiting := g.Waiting()
		if len(waiting) == 0 {
			return nil
		}
		m = waiting[0]
		g.scout = scout{}
	}
	if !g.scout.called.IsZero() {
		return nil
	}
	d.t.callScout(g, m)
	return m.Pod
}

// replaceScout calls the next of the waiting members if the scout was called and does not come: another plugin's gate may be closed to it
// alone. If it comes late, the first of the two that comes is the scout (Enter).
func (d *dispatcher) replaceScout(g *group, now time.Time) {
	if !d.t.Leadership.Leads() || g.scout.called.IsZero() || now.Sub(g.scout.called) < scoutPatience {
		return // in a standby no scout comes
	}
	waiting := g.Waiting()
	at := slices.IndexFunc(waiting, func(m *gang.Member) bool { return m.UID == g.scout.uid })
	if len(waiting) > 0 {
		g.scout = scout{uid: waiting[(at+1)%len(waiting)].UID, replaced: true}
	}
}

// settlePermit acts on members whose release or rejection came before they waited in Permit. It allows released members,
// and rejects members that must give their room back. The rejection has no effect on members that are being bound.
func (g *group) settlePermit(status gang.Status) (a Actions) {
	g.inPermit = false
	for _, m := range g.In(gang.Released) {
		switch {
		case status.Phase == gang.Attempting:
		case status.Phase == gang.Running && g.Counts(m):
			a.Allow = append(a.Allow, m.UID)
		default:
			g.setState(m, gang.Returning) // no attempt counts on its room
		}
	}
	if status.Phase != gang.Running && status.Phase != gang.Attempting {
		for _, m := range g.In(gang.Reserved) {
			g.setState(m, gang.Returning)
		}
	}
	a.Reject = gang.UIDs(g.In(gang.Returning))
	return a
}

// detachedActions are for pods that have left their gang, and for pods that are gone.
func (d *dispatcher) detachedActions() (a Actions) {
	for _, pod := range d.t.detached {
		a.Activate = append(a.Activate, pod)
	}
	a.Reject = d.t.leaving.UnsortedList()
	return a
}

// standsForItself says whether a pod is a single pod or surplus. A pod may cease to be one while it waits: it is given a PodGroup, or its gang has
// lost members. Then only events that help its gang may have it tried.
func (t *Tracker) standsForItself(pod *corev1.Pod) bool {
	g, m := t.find(pod.UID)
	return m == nil || g.Seated()
}

// takeSingles empties a set of waiting pods. It returns those that are still single pods or surplus.
func (t *Tracker) takeSingles(waiting map[types.UID]*corev1.Pod) []*corev1.Pod {
	return t.onlySingles(takeAll(waiting))
}

func (t *Tracker) onlySingles(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !t.standsForItself(pod) })
}

// takeAll empties a set of waiting pods.
func takeAll(waiting map[types.UID]*corev1.Pod) []*corev1.Pod {
	all := make([]*corev1.Pod, 0, len(waiting))
	for uid, pod := range waiting {
		all = append(all, pod)
		delete(waiting, uid)
	}
	return all
}

// retriedAtOnce bounds how many pods that are held back are tried again in a tick: each costs a scheduling cycle.
const retriedAtOnce = 100

// takeSome returns pods that may not block a gang any more, because room was taken.
func (h *held) takeSome() []*corev1.Pod {
	if h.taken {
		h.taken, h.retry = false, len(h.pods)
	}
	var some []*corev1.Pod
	for uid, pod := range h.pods {
		if len(some) == min(h.retry, retriedAtOnce) {
			break
		}
		some = append(some, pod)
		delete(h.pods, uid)
	}
	h.retry -= len(some)
	return some
}

// tickPeriod is how often gangs that are not at rest are looked at again, for actions that came too early.
const tickPeriod = time.Second

// tick looks at the clock: for gangs that are not at rest, for reservations, and for expected events that have not come.
func (d *dispatcher) tick() (Actions, []repair) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	now := d.t.clock.Now()
	d.t.Victims.sweepClaims()
	d.t.Evictions.sweep()
	d.t.apply(nil, d.t.WaitList.sweepPodSeats(now))
	d.t.WaitList.book.Tick(now)
	d.t.Victims.searchAgain(now)
	d.t.apply(nil, gang.Effects{})
	var repairs []repair
	for _, g := range d.t.gangs {
		repairs = append(repairs, (&repairRules{d.t}).repairsOf(g, now)...)
		var e gang.Effects
		if g.underRepair && d.t.isRepairOver(g, now) {
			e = gang.Only(gang.ToSettle)
		}
		if !d.isAtRest(g) {
			d.replaceScout(g, now)
			g.inPermit = true
			e.Add(gang.Only(gang.ToLook))
		}
		if e != (gang.Effects{}) {
			d.t.apply(g, e)
		}
	}
	actions := d.detachedActions()
	actions.Activate = append(actions.Activate, d.t.onlySingles(d.t.WaitList.held.takeSome())...)
	actions.Activate = append(actions.Activate, takeAll(d.t.unseen)...) // the gate notes pods again that are still unseen
	actions.Activate = append(actions.Activate, d.t.Leadership.nextProbe(now)...)
	return actions, repairs
}

// isAtRest says whether only an event can change what a gang needs.
func (d *dispatcher) isAtRest(g *group) bool {
	if g.attempt != nil || g.CountIn(gang.Reserved)+g.CountIn(gang.Released)+g.CountIn(gang.Returning) > 0 {
		return false
	}
	switch d.t.status(g).Phase {
	case gang.Ready, gang.BackingOff:
		return false
	}
	return true
}
