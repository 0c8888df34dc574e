// Package placement finds places for all pods of a gang, or says what is missing. It finds places to reserve for a gang that waits, and
// victims. It is pure except for the profile's filters, which it asks about pods and nodes of one snapshot.
package placement

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
)

// Decision is the answer to a Problem: places, or why there are none.
type Decision struct {
	// Feasibility says whether the gang fits.
	Feasibility Feasibility
	// Members that start: members of the Problem, or other members chosen in their place.
	Members []*gang.Member
	// Places has the node of each member if the Feasibility is Possible, else it is nil.
	Places map[types.UID]string
	// Order is the order in which the members must be placed, each where Places says, because they have inter-pod constraints. It is nil for any
	// order.
	Order []types.UID

	// Message says in a sentence what is missing. This and the fields below, down to SearchTime, are set if the Feasibility is
	// Impossible.
	Message string
	// Rejectors are the plugins that rejected members.
	Rejectors sets.Set[string]
	// Rejected are the pod that was rejected most, and one of each other demand class that was tried.
	Rejected []*corev1.Pod
	// Shortfall is the least room that must come free, nil if that is not known.
	Shortfall *Shortfall
	// ShortWithoutHeld: the gang would lack room even if all of Held were given back. The Shortfall is counted without it then.
	ShortWithoutHeld bool
	// TooLarge: the gang asks for more than all nodes have that do not refuse it, even when they are empty.
	TooLarge bool
	// SearchTime is how long the decision has taken if it tried many arrangements and none fits. It is 0 if there was no such search.
	SearchTime time.Duration

	// Seat is the room that evictions would make for the Problem's Members; nil if none was asked for or found.
	Seat *Seat
	// SearchAgain is when more pods may be evicted than when no Seat was found. A pod has run long enough then. It is zero if there is none.
	SearchAgain time.Time
	// Reserve are the places to reserve for the Problem's Members; nil if none were asked for or found. This and NoPlaces are set whatever
	// the Feasibility is.
	Reserve *Places
	// NoPlaces: places to reserve were asked for, and there are none.
	NoPlaces bool
	// NoStart: they were asked for only with a start, and none is known.
	NoStart bool
}

// Planner solves problems with the filters of one scheduling profile. It is used by one scheduling cycle at a time.
type Planner struct {
	profile Profile
	next    int    // where the next search on a few nodes begins
	index   *Index // of the nodes on which a gang was found short of room last
	room    freeRoom
}

// NewPlanner makes a planner for a profile.
func NewPlanner(profile Profile) *Planner { return &Planner{profile: profile} }

// A small gang in a large cluster is tried on a few nodes first. Their number grows with the members, and is at least firstNodes. If it does
// not fit there, moreNodes times as many are tried, and in the end all.
const (
	nodesPerMember = 4
	firstNodes     = 8
	moreNodes      = 8
)

// Decide solves a problem on the nodes of the current snapshot. If the members do not fit it tries to replace them by spare ones.
func (p *Planner) Decide(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo) *Decision {
	begun := time.Now()
	nodes = problem.within(nodes)
	first := p.solve(ctx, problem, nodes)
	best := first
	var tried []*corev1.Pod
	if first.Feasibility == Impossible {
		var other *outcome
		if other, tried = p.solveOthers(ctx, first, nodes); other != nil {
			best = other
		}
	}
	decision := &Decision{
		Feasibility: best.Feasibility, Members: best.problem.Members, Order: best.order, Reserve: first.reserve, NoPlaces: first.noPlaces, NoStart: first.noStart,
	}
	switch decision.Feasibility {
	case Possible:
		decision.Places = best.nodesOf(best.Places)
	case Impossible:
		p.reject(decision, first, tried)
		if first.apart || len(tried) > 0 {
			decision.SearchTime = time.Since(begun)
		}
	}
	return decision
}

// reject fills in the reasons why a gang does not fit. tried has one pod of each demand class that was tried instead.
func (p *Planner) reject(decision *Decision, o *outcome, tried []*corev1.Pod) {
	decision.Message, decision.TooLarge = o.explain()+o.outlook(len(tried) > 0), o.tooLarge
	most := o.mostRejected()
	decision.Rejected = []*corev1.Pod{most}
	for _, class := range o.classes {
		if !slices.ContainsFunc(class, func(m *gang.Member) bool { return m.Pod == most }) {
			decision.Rejected = append(decision.Rejected, class[0].Pod)
		}
	}
	decision.Rejected = append(decision.Rejected, tried...)
	// If no node has room, the filters were not asked, and free room must still retry the gang.
	decision.Rejectors = o.rejectors.Insert(names.NodeResourcesFit)
	if len(tried) == 0 { // otherwise it is not known which room is of use
		p.index = IndexOf(o.nodes, p.index)
		decision.Shortfall, decision.ShortWithoutHeld = o.shortfall(p.index)
	}
}

// solve finds places for the members of a problem. If they do not fit, the outcome is for all nodes.
func (p *Planner) solve(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo) *outcome {
	m := membersOf(p.profile, problem.Members)
	// Constraints and reservations concern all nodes. If it fits, it needs none with a start.
	if m.constraints == nil && !problem.Exact && (!problem.Reserve || problem.OnlyWithStart) && problem.Reserved == nil {
		for few := max(firstNodes, nodesPerMember*len(problem.Members)); few < len(nodes)/2; few *= moreNodes {
			v := problem.on(ctx, p.profile, m, p.nextNodes(nodes, few))
			if packing := v.dryRunReserve(Pack(v.demands, v.nodes, v.fits)); packing.Feasibility == Possible {
				return &outcome{view: v, problem: problem, Packing: packing}
			}
		}
	}
	return problem.solveOn(problem.on(ctx, p.profile, m, nodes))
}

// nextNodes returns the nodes after those of the last search, in a circle, as the upstream scheduler does.
func (p *Planner) nextNodes(nodes []fwk.NodeInfo, count int) []fwk.NodeInfo {
	from := p.next % len(nodes)
	p.next = from + count
	some := slices.Clone(nodes[from:min(len(nodes), from+count)])
	return append(some, nodes[:count-len(some)]...)
}
