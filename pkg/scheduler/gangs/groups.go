package gangs

import (
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/placement"
)

// groupOf is the placement of surplus that starts with the rest of its group. It is nil for a member that starts alone.
func (t *store) groupOf(g *gang.Group, m *gang.Member) *placement.Problem {
	members := g.Companions(m)
	if len(members) == 0 {
		return nil
	}
	problem, _ := t.problemOf(g, members)
	var missing string
	if problem.Topology, missing = t.Topology.of(g); missing != "" {
		return nil // its limit says why it must wait
	}
	return &problem
}

// returnGroup has the members of a surplus group give their room back, as a member of it got none.
func returnGroup(g *gang.Group, failed *gang.Member) (e gang.Effects) {
	if len(g.Groups) == 0 {
		return e
	}
	for _, m := range g.ReservedWith(failed) {
		if m.State == gang.Reserved && g.IsGroupToCome(m) {
			g.SetState(m, gang.Returning)
			g.InPermit, e = true, gang.Only(gang.ToLook)
		}
	}
	return e
}

// EndLateGroups has members of surplus groups give their room back whose others have not come in time. All are tried again.
func (t *store) EndLateGroups(g *gang.Group) {
	if len(g.Groups) == 0 || g.Attempt != nil || !g.Seated() || t.Clock.Now().Before(g.GroupUntil) {
		return
	}
	for _, m := range g.In(gang.Reserved) {
		if g.IsGroupToCome(m) {
			g.SetState(m, gang.Returning)
			g.InPermit, g.SurplusOpen = true, false
		}
	}
}
