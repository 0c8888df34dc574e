package gangs

import (
	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// The controller keeps quota for further members of a started gang whose minResources include them, as Spark's executors. Admission counts
// it. Surplus and pods without a gang need no admission, so they are checked here.

// keepFor notes whether quota is kept for further members of a gang. reserved is what was reserved for it before.
func (q *Quota) keepFor(g *group, reserved resources.List) gang.Effects {
	if len(g.podGroup.reserved) > 0 {
		q.started[g.key] = g
	} else {
		delete(q.started, g.key)
	}
	g.kept = nil
	return gang.Freed(!reserved.Equal(g.podGroup.reserved))
}

// claimsOfStarted is the quota that is kept for further members of started gangs, against a pod of the priority. For a member of one of
// them (nil for no gang) its own does not count.
func (q *Quota) claimsOfStarted(own *group, priority int32) []quota.Claim {
	var claims []quota.Claim
	for _, g := range q.started {
		if g == own || g.podGroup.account == "" || !g.Seated() || q.t.priorityOf(g) < priority {
			continue
		}
		if kept := g.keptForOthers(); !kept.IsZero() {
			claims = append(claims, quota.Claim{Queue: g.podGroup.account, Want: kept, Started: true})
		}
	}
	return claims
}

// keptForOthers is the part of what is reserved for a gang that its members do not use.
func (g *group) keptForOthers() resources.List {
	if g.kept == nil {
		used := resources.Sums{}
		for _, m := range g.Members() {
			if m.State.Holds() {
				used.Add(m.Requests)
			}
		}
		g.kept = used.Rest(g.podGroup.reserved)
	}
	return g.kept
}
