package placement

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
)

// maxAlternatives is how many times other members of a gang are tried in place of members that do not fit.
const maxAlternatives = 4

// alternatives looks for other members that may start in place of members that do not fit. Only a gang with more members than its minimum
// has any.
type alternatives struct {
	waiting []*gang.Member
	classOf map[types.UID]string
	limits  map[string]int // of each demand class that fell short: how many of its members had places
}

// solveOthers returns the outcome for other members that fit, or nil. It does not accept an uncertain one, as room may be reserved for the
// first members. It returns one pod of each demand class that was tried, and adds the rejectors to the first outcome.
func (p *Planner) solveOthers(ctx context.Context, first *outcome, nodes []fwk.NodeInfo) (found *outcome, tried []*corev1.Pod) {
	if len(first.problem.Spare) == 0 || first.problem.Choose == nil {
		return nil, nil
	}
	a := p.newAlternatives(first.problem)
	last := first
	for range maxAlternatives {
		problem := a.next(last)
		if problem == nil {
			break
		}
		last = p.solve(ctx, problem, nodes)
		if last.Feasibility == Possible {
			return last, nil
		}
		first.rejectors = first.rejectors.Union(last.rejectors)
		for _, pod := range last.examples() {
			if !slices.Contains(tried, pod) {
				tried = append(tried, pod)
			}
		}
		if last.Feasibility != Impossible {
			break // it is not known which members fall short
		}
	}
	return nil, tried
}

func (p *Planner) newAlternatives(problem *Problem) *alternatives {
	a := &alternatives{waiting: slices.Concat(problem.Members, problem.Spare), classOf: map[types.UID]string{}, limits: map[string]int{}}
	classifier := classifierFor(p.profile, a.waiting)
	for _, m := range a.waiting {
		a.classOf[m.UID] = classifier.classOf(m)
	}
	return a
}

// next is the problem with other members: members of the classes that fell short, no more than have found places. It returns nil if there
// are no members of other classes, or too few.
func (a *alternatives) next(last *outcome) *Problem {
	for d, class := range last.classes {
		if placed := last.Placed[d]; placed < len(class) {
			a.limits[a.classOf[class[0].UID]] = placed
		}
	}
	started := sets.New(gang.UIDs(last.problem.Members)...)
	spare := slices.DeleteFunc(slices.Clone(a.waiting), func(m *gang.Member) bool { return started.Has(m.UID) })
	taken, other := map[string]int{}, false
	var from []*gang.Member
	for i, m := range slices.Concat(last.problem.Members, spare) {
		class := a.classOf[m.UID]
		limit, limited := a.limits[class]
		if limited && taken[class] == limit {
			continue
		}
		taken[class]++
		from = append(from, m)
		other = other || !limited && i >= len(last.problem.Members)
	}
	if !other {
		return nil
	}
	members := last.problem.Choose(from)
	if len(members) == 0 || slices.Equal(gang.UIDs(members), gang.UIDs(last.problem.Members)) {
		return nil
	}
	problem := *last.problem
	problem.Members, problem.Reserve, problem.Reserved, problem.Renew = members, false, nil, false // room is reserved for the first only
	return &problem
}
