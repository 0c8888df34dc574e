package state

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/muster-sched/muster/pkg/gang"
)

// Claims are the evictions that are about to be made.
type Claims struct {
	clock  clock.Clock
	Of     map[types.UID]Claim // pods that are about to be evicted
	OnGang map[*gang.Group]int // how many of them are of each gang
}

// Claim marks a member that a preemptor is about to have evicted.
type Claim struct {
	By    types.UID
	Of    *gang.Group // that it is a member of
	Until time.Time
	Begun bool // the preemptor's plan, or what its seat takes of this gang, has begun
	Made  bool // the pod's own eviction goes on, or the API server has taken it. The informer has yet to show it
}

// Holding are the members that hold room, without those whose eviction has begun. Nor are those in it that another preemptor is about
// to have evicted. The given preemptor is "" for none.
func (c *Claims) Holding(g *gang.Group, but types.UID) []*gang.Member {
	var members []*gang.Member
	for _, m := range g.Members() {
		if g.Counts(m) && m.State.Holds() && !c.Claimed(m.UID, but) {
			members = append(members, m)
		}
	}
	return members
}

// Claimed says whether a pod counts as gone for a preemptor. It does if another preemptor claims it, or if its eviction has begun.
func (c *Claims) Claimed(uid, but types.UID) bool {
	own, ok := c.Of[uid]
	return ok && (own.By != but || own.Begun || own.Made) && c.clock.Now().Before(own.Until)
}

// MayStay says whether a member of a gang may stay though it counts as gone for a preemptor. Another one is about to have it evicted.
func (c *Claims) MayStay(g *gang.Group, but types.UID) bool {
	return c.OnGang[g] > 0 && slices.ContainsFunc(g.Members(), func(m *gang.Member) bool {
		own := c.Of[m.UID]
		return own.By != but && !own.Begun && !own.Made && c.Claimed(m.UID, but) && g.Counts(m) && m.State.Holds()
	})
}

// Make notes that a pod is evicted now, if it is claimed.
func (c *Claims) Make(pod types.UID) {
	if claim, claimed := c.Of[pod]; claimed {
		claim.Made = true
		c.Of[pod] = claim
	}
}

// CountClaim counts the claims on members of a gang; nil for none.
func (c *Claims) CountClaim(g *gang.Group, n int) {
	if g == nil {
		return
	}
	if c.OnGang[g] += n; c.OnGang[g] == 0 {
		delete(c.OnGang, g)
	}
}

// isPreempted says whether the evictions that are about to be made leave a gang below its minimum. A member that started now would be left
// alone.
func (c *Claims) isPreempted(g *gang.Group) bool {
	if c.OnGang[g] == 0 {
		return false // asked for each gang in each tick
	}
	for uid := range c.Of {
		if g.Member(uid) != nil && c.Claimed(uid, "") {
			return !gang.NewRemaining(g.Asks(), c.Holding(g, "")).Seated()
		}
	}
	return false
}
