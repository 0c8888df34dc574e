package dispatch

import (
	"time"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/scheduler/evict"
	"github.com/muster-sched/muster/pkg/scheduler/gangmetrics"
)

// repairsOf are the writes that a gang needs.
//
// A gang that a crash left below its minimum, and that is not completed in time, starts over. All pods are evicted that attempts for this
// PodGroup have bound. Pods that were bound otherwise stay. The scheduler keeps room for nominated pods. A member whose gang waits may
// never use it. Its nomination is from before a restart, or from before the gang fell apart. A member of an earlier incarnation never uses
// it.
func (d *Dispatcher) repairsOf(g *gang.Group, now time.Time) (repairs []evict.Repair) {
	if !d.t.Leadership.Leads() {
		return nil
	}
	if d.startsOver(g, now) {
		for _, m := range g.Own() {
			repairs = append(repairs, evict.Repair{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: m.UID, Kind: evict.StartOver, Reason: gangmetrics.BelowMinimum, Message: evict.StartsOverMessage})
		}
	}
	if g.Nominated == 0 || g.CountIn(gang.Waiting) == 0 || !g.HasEarlier() && !d.isHeld(g) {
		return repairs
	}
	for _, m := range g.In(gang.Waiting) {
		if m.Pod.Status.NominatedNodeName != "" && d.dropsNomination(g, m) {
			repairs = append(repairs, evict.Repair{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: m.UID, Kind: evict.DropNomination})
		}
	}
	return repairs
}

// startsOver says whether a gang is to be evicted whole.
func (d *Dispatcher) startsOver(g *gang.Group, now time.Time) bool {
	return g.Attempt == nil && g.NeedsRepair() && d.t.IsRepairOver(g, now)
}

// dropsNomination says whether a waiting member must not be nominated.
func (d *Dispatcher) dropsNomination(g *gang.Group, m *gang.Member) bool {
	return m.Version != g.Version() || d.isHeld(g)
}

// isHeld says whether no member of a gang may start by itself.
func (d *Dispatcher) isHeld(g *gang.Group) bool {
	return g.Attempt == nil && d.t.Status(g).Phase != gang.Running
}

// IsDue says whether a repair is still due. A repair that is tried again may be out of date: the gang may have been completed. A repair
// that is still due must be made.
func (d *Dispatcher) IsDue(job evict.Repair) bool {
	d.t.Lock()
	defer d.t.Unlock()
	switch job.Kind {
	case evict.MakeRoom:
		return d.t.Victims.BeginOne(job.By, job.UID)
	case evict.LowerUsage:
		return d.t.Victims.Lowers(job.UID)
	}
	g, m := d.t.Find(job.UID)
	switch {
	case m == nil:
		return false
	case job.Kind == evict.StartOver:
		return d.startsOver(g, d.t.Clock.Now())
	}
	return d.dropsNomination(g, m)
}
