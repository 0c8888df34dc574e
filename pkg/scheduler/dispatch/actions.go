// Package dispatch acts on gangs that have changed. It activates pods, and lets them leave Permit or rejects them. It has pods evicted whose
// gang must start over. The needs of a gang follow from its state alone.
package dispatch

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangs"
	"github.com/muster-sched/muster/pkg/scheduler/state"
)

// PluginName is the name under which members wait in Permit.
const PluginName = "Coscheduling"

// ScoutTimeout is how long a gang waits for its scout. A scout in a long queue of pods comes later; then two are tried.
const ScoutTimeout = 5 * time.Second

// Actions are operations to carry out outside the lock.
type Actions struct {
	// Activate are pods that may enter the scheduling queue now.
	Activate []*corev1.Pod
	// Allow are pods that may leave Permit to be bound.
	Allow []types.UID
	// Reject are pods that must leave Permit and give back their room.
	Reject []types.UID
}

// Add appends actions.
func (a *Actions) Add(more Actions) {
	a.Activate = append(a.Activate, more.Activate...)
	a.Allow = append(a.Allow, more.Allow...)
	a.Reject = append(a.Reject, more.Reject...)
}

// repairWorkers is how many repairs are carried out at the same time: a large gang may need hundreds of evictions.
const repairWorkers = 16

// Dispatch acts on gangs that have changed, and carries repairs out, until the context ends. Gangs that are not at rest are looked at again each tick.
func Dispatch(ctx context.Context, handle fwk.Handle, t *gangs.Tracker, tick time.Duration) {
	d := NewDispatcher(t)
	repairs := &evict.Repairer{IsDue: d.IsDue, Client: handle.ClientSet(), Pods: handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		Events: handle.EventRecorder(), Queue: t.Victims.Repairs, Workers: repairWorkers, Evicted: t.Victims.Evicted}
	go repairs.Run(ctx)
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		actions, due := d.Tick()
		d.Apply(ctx, handle, Actions{Reject: actions.Reject})
		d.activateWithGangs(actions.Activate)
		for _, repair := range due {
			repairs.Queue.Add(repair)
		}
	}, tick)
	d.Dispatch(ctx, handle)
}

// activateWithGangs has pods activated together with the gangs that are due. A pod that is activated alone would be tried before others that rank before it.
func (d *Dispatcher) activateWithGangs(pods []*corev1.Pod) {
	d.t.Lock()
	defer d.t.Unlock()
	for _, pod := range pods {
		d.t.WaitList.Ready[pod.UID] = pod
	}
	d.t.Apply(nil, gang.TriedIn(0))
}

// Dispatcher acts on gangs that have changed.
type Dispatcher struct{ t *gangs.Tracker }

// NewDispatcher makes a dispatcher.
func NewDispatcher(t *gangs.Tracker) *Dispatcher { return &Dispatcher{t} }

// Dispatch acts on gangs that have changed until the context ends. The actions follow from the state of a gang alone. So a gang may be
// marked at any time, and more than once. All gangs that are due are served together. The queue sorts pods that are activated in one call
// before the first of them is tried.
func (d *Dispatcher) Dispatch(ctx context.Context, handle fwk.Handle) {
	for {
		key, shutdown := d.t.Dirty.Get()
		if shutdown {
			return
		}
		keys, all := d.dueWith(key), Actions{}
		for _, key := range append(d.Woken(ctx, handle, keys), keys...) {
			all.Add(d.NextActions(key))
		}
		d.Apply(ctx, handle, all)
		for _, key := range keys {
			d.t.Dirty.Done(key)
		}
	}
}

// dueWith are the gangs that are due beside the first. Gangs are marked under the lock, so all that one event has marked are there.
func (d *Dispatcher) dueWith(first state.Key) []state.Key {
	d.t.Lock()
	defer d.t.Unlock()
	keys := []state.Key{first}
	for d.t.Dirty.Len() > 0 {
		key, _ := d.t.Dirty.Get()
		keys = append(keys, key)
	}
	return keys
}

// Woken are the gangs that have been woken, if one of those to be looked at has. They are tried in order if they are activated together.
// The scheduling queue holds its lock while it asks the hints of all scouts about an event. So all have been asked when its lock is free.
func (d *Dispatcher) Woken(ctx context.Context, handle fwk.Handle, keys []state.Key) []state.Key {
	d.t.Lock()
	isAny := slices.ContainsFunc(keys, d.t.Woken.Has)
	d.t.Unlock()
	if !isAny {
		return nil
	}
	handle.Activate(klog.FromContext(ctx), nil)
	d.t.Lock()
	defer d.t.Unlock()
	woken := d.t.Woken.Delete(keys...).UnsortedList()
	d.t.Woken.Clear()
	return woken
}

// Apply carries actions out. It takes the scheduling queue's lock, so the tracker must not be locked.
func (d *Dispatcher) Apply(ctx context.Context, handle fwk.Handle, a Actions) {
	for _, uid := range a.Allow {
		if waiting := handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(PluginName)
		}
	}
	for _, uid := range a.Reject {
		if waiting := handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(PluginName, "the gang's minimum could not be placed together")
			d.t.Metrics.Rejections.Inc()
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
	d.t.Metrics.Activations.Inc()
}

// NextActions decides what a gang needs now.
func (d *Dispatcher) NextActions(key state.Key) Actions {
	d.t.Lock()
	defer d.t.Unlock()
	switch {
	case !d.t.Synced:
		return Actions{}
	case key == state.QuotaKey:
		return Actions{Activate: d.t.TakeSingles(d.t.Quota.Pods)}
	case key == state.BlockedKey:
		return Actions{Activate: d.t.TakeSingles(d.t.WaitList.Held.Pods)}
	case key == state.NodeGroupsKey:
		return Actions{Activate: d.t.TakeSingles(d.t.Quota.Grouped)}
	case key == state.ReadyKey:
		return Actions{Activate: state.TakeAll(d.t.WaitList.Ready)}
	}
	actions := d.detachedActions()
	g := d.t.Gangs[key]
	if g == nil {
		return actions
	}
	now := d.t.Clock.Now()
	d.endWhatIsLate(g, now)
	var e gang.Effects
	if last := g.Refusal; last != nil && !last.Woken && !last.WakeAt.IsZero() {
		if last.Woken = !now.Before(last.WakeAt); !last.Woken {
			e.Add(gang.LookIn(last.WakeAt.Sub(now)))
		}
	}
	status := d.t.Status(g)
	needs, more := d.actionsFor(g, status, now)
	actions.Add(needs)
	e.Add(more)
	if g.InPermit {
		actions.Add(settlePermit(g, status))
	}
	if !status.Until.IsZero() {
		e.Add(gang.LookIn(status.Until.Sub(now)))
	}
	if g.Attempt != nil {
		e.Add(gang.LookIn(g.Attempt.Deadline.Sub(now)))
	}
	d.t.Apply(g, e)
	return actions
}

// endWhatIsLate ends the attempt of a gang whose time is over. It ends the wait for victims that have gone.
func (d *Dispatcher) endWhatIsLate(g *gang.Group, now time.Time) {
	if g.Attempt != nil {
		d.t.Apply(g, d.t.Victims.SettleSeat(g))
	}
	if g.Attempt != nil && !now.Before(g.Attempt.Deadline) {
		late := state.NoUID
		if members := g.NextToCome(); len(members) > 0 {
			late = members[0].UID
		}
		d.t.Apply(g, d.t.RollBack(g, late))
	}
	d.t.EndLateGroups(g)
}

// actionsFor is what a gang in a phase needs.
func (d *Dispatcher) actionsFor(g *gang.Group, status gang.Status, now time.Time) (a Actions, e gang.Effects) {
	switch status.Phase {
	case gang.Running:
		d.t.WaitList.Sharing.Runs(g)
		if status.Reason == "" && !g.SurplusOpen {
			a.Activate = gang.Pods(g.Waiting())
			g.SurplusOpen = g.CountIn(gang.Returning) == 0 // else members are still to wait
		}
		return a, e
	case gang.Attempting:
		if status.Reason != "" {
			break
		}
		a.Activate = gang.Pods(g.NextToCome())
	case gang.Ready:
		if last := g.Refusal; last != nil && now.Before(last.NextAt) {
			e = gang.LookIn(last.NextAt.Sub(now))
			break
		}
		if scout := d.nextScout(g); scout != nil {
			a.Activate = []*corev1.Pod{scout}
		}
	}
	g.SurplusOpen = false
	return a, e
}

// nextScout returns the scout's pod if its cycle is not expected yet. If there is no scout, the first waiting member becomes it.
func (d *Dispatcher) nextScout(g *gang.Group) *corev1.Pod {
	m := g.Member(g.Scout.UID)
	if m == nil || m.State != gang.Waiting || !g.Counts(m) {
		waiting := g.Waiting()
		if len(waiting) == 0 {
			return nil
		}
		m = waiting[0]
		g.Scout = gang.Scout{}
	}
	if !g.Scout.Called.IsZero() {
		return nil
	}
	d.t.CallScout(g, m)
	return m.Pod
}

// replaceScout calls the next of the waiting members if the scout was called and does not come. Another plugin's gate may be closed to it
// alone. If it comes late, the first of the two that comes is the scout (Enter).
func (d *Dispatcher) replaceScout(g *gang.Group, now time.Time) {
	if !d.t.Leadership.Leads() || g.Scout.Called.IsZero() || now.Sub(g.Scout.Called) < ScoutTimeout {
		return // in a standby no scout comes
	}
	waiting := g.Waiting()
	at := slices.IndexFunc(waiting, func(m *gang.Member) bool { return m.UID == g.Scout.UID })
	if len(waiting) > 0 {
		g.Scout = gang.Scout{UID: waiting[(at+1)%len(waiting)].UID, Replaced: true}
	}
}

// settlePermit acts on members whose release or rejection came before they waited in Permit. It allows released members,
// and rejects members that must give their room back. The rejection has no effect on members that are being bound.
func settlePermit(g *gang.Group, status gang.Status) (a Actions) {
	g.InPermit = false
	for _, m := range g.In(gang.Released) {
		switch {
		case status.Phase == gang.Attempting:
		case status.Phase == gang.Running && g.Counts(m):
			a.Allow = append(a.Allow, m.UID)
		default:
			g.SetState(m, gang.Returning) // no attempt counts on its room
		}
	}
	if status.Phase != gang.Running && status.Phase != gang.Attempting {
		for _, m := range g.In(gang.Reserved) {
			g.SetState(m, gang.Returning)
		}
	}
	a.Reject = gang.UIDs(g.In(gang.Returning))
	return a
}

// detachedActions are for pods that have left their gang, and for pods that are gone.
func (d *Dispatcher) detachedActions() (a Actions) {
	for _, pod := range d.t.Detached {
		a.Activate = append(a.Activate, pod)
	}
	a.Reject = d.t.Leaving.UnsortedList()
	return a
}

// Tick looks at the clock. It serves gangs that are not at rest, reservations, and expected events that have not come.
func (d *Dispatcher) Tick() (Actions, []evict.Repair) {
	d.t.Lock()
	defer d.t.Unlock()
	now := d.t.Clock.Now()
	d.t.SweepClaims()
	d.t.Evictions.Sweep()
	d.t.Apply(nil, d.t.Victims.SweepPodSeats(now))
	d.t.WaitList.Book.Tick(now)
	d.t.Victims.SearchAgain(now)
	d.t.Apply(nil, gang.Effects{})
	var repairs []evict.Repair
	for _, g := range d.t.Gangs {
		repairs = append(repairs, d.repairsOf(g, now)...)
		var e gang.Effects
		if g.UnderRepair && d.t.IsRepairOver(g, now) {
			e = gang.Only(gang.ToSettle)
		}
		if !d.isAtRest(g) {
			d.replaceScout(g, now)
			g.InPermit = true
			e.Add(gang.Only(gang.ToLook))
		}
		if e != (gang.Effects{}) {
			d.t.Apply(g, e)
		}
	}
	actions := d.detachedActions()
	actions.Activate = append(actions.Activate, d.t.OnlySingles(d.t.WaitList.Held.TakeSome())...)
	actions.Activate = append(actions.Activate, state.TakeAll(d.t.Unseen)...) // the gate notes pods again that are still unseen
	actions.Activate = append(actions.Activate, d.t.Leadership.NextProbe(now)...)
	return actions, repairs
}

// isAtRest says whether only an event can change what a gang needs.
func (d *Dispatcher) isAtRest(g *gang.Group) bool {
	if g.Attempt != nil || g.CountIn(gang.Reserved)+g.CountIn(gang.Released)+g.CountIn(gang.Returning) > 0 {
		return false
	}
	switch d.t.Status(g).Phase {
	case gang.Ready, gang.BackingOff:
		return false
	}
	return true
}
