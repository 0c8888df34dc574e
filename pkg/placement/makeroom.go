package placement

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Rules say which victims may be evicted together.
type Rules interface {
	// Take says whether a victim may be evicted beside the victims taken before, and takes it if so.
	Take(v *Victim) bool
	// GiveBack undoes Take, in any order.
	GiveBack(v *Victim)
	// HasQuota says whether the quota is enough for the members without the taken victims.
	HasQuota() bool
}

// maxRoomCalls bounds the calls of filters in all searches for a gang with inter-pod constraints. Candidates that have not been tried by
// then are evicted.
const maxRoomCalls = 10 * maxCalls

// MakeRoom finds a minimal set of victims without which all members of a problem fit; nil if there is none. The candidates come in the
// order of RankForRoom. A victim of a later rule is taken only if those of earlier rules do not help.
// Reservations for the problem, and its need for exact places, make no difference.
func (p *Planner) MakeRoom(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo, candidates []*Victim, rules Rules) *Seat {
	if nodes = problem.within(nodes); len(nodes) == 0 {
		return nil
	}
	problem = problem.evicting(candidates)
	r := newRoom(problem.on(ctx, p.profile, membersOf(p.profile, problem.Members), nodes), candidates, rules)
	for _, r.last = range r.stages() {
		if !r.findUsable() {
			continue
		}
		if seat := r.best(); seat != nil {
			return seat
		}
	}
	return nil
}

// evicting is the problem as if no candidate ended by itself. A reservation with a start counts on what ends on its nodes. It keeps what a
// victim leaves there, and the members would be barred from it.
func (p *Problem) evicting(candidates []*Victim) *Problem {
	if len(p.Kept) == 0 {
		return p
	}
	mayGo := sets.New[types.UID]()
	for _, c := range candidates {
		for _, pod := range c.Pods() {
			mayGo.Insert(pod.GetPod().UID)
		}
	}
	evicting := *p
	evicting.EndOf = func(pod *corev1.Pod) (time.Time, bool) {
		if mayGo.Has(pod.UID) {
			return time.Time{}, false
		}
		return p.EndOf(pod)
	}
	return &evicting
}

// stages are the rules by which candidates may be evicted, in order. There is one at least.
func (r *room) stages() []quota.Rule {
	rules := sets.New[quota.Rule]()
	for _, c := range r.candidates {
		if c.Rule != quota.NotAllowed {
			rules.Insert(c.Rule)
		}
	}
	if rules.Len() == 0 {
		return []quota.Rule{quota.NotAllowed}
	}
	return sets.List(rules)
}

// best is the cheapest seat that was found; nil if there is none. Victims are taken in two orders until the members fit, and spare ones are
// given back. If a single member lacks nothing but room on a node, the order of the nodes' offers is enough.
func (r *room) best() *Seat {
	var best *Seat
	orders := []func() (takeMore func() bool){r.byNode, r.byRank}
	switch {
	case r.constraints != nil:
		orders = orders[1:]
	case r.count() == 1 && r.isExact() && r.rules.HasQuota():
		orders = orders[:1]
	}
	for _, begin := range orders {
		if r.takeUntilEnough(begin()) {
			r.giveBackSpare()
			if seat := r.seat(); seat != nil && (best == nil || seat.IsCheaperThan(best)) {
				best = seat
			}
		}
		for i := range r.candidates {
			if r.taken[i] {
				r.giveBack(i)
			}
		}
	}
	return best
}

// takeUntilEnough takes victims until the members fit. takeMore returns false if it finds none to take.
func (r *room) takeUntilEnough(takeMore func() bool) bool {
	for !r.isEnough() {
		if !takeMore() {
			return false
		}
	}
	return true
}

// byRank takes candidates in their order, in groups whose size doubles.
func (r *room) byRank() func() bool {
	next, size := 0, 1
	return func() bool {
		taken := 0
		for ; next < len(r.candidates) && taken < size; next++ {
			if r.take(next) {
				taken++
			}
		}
		size *= 2
		return taken > 0
	}
}

// answer says whether a node may ever take the pods of a demand.
type answer uint8

const (
	unasked answer = iota
	mayTake
	neverTakes
)

// part is a pod of a candidate on a node.
type part struct {
	node  int
	pod   fwk.PodInfo
	frees resources.List
}

// room is a search for victims.
type room struct {
	*view      // of the cluster without the victims
	rules      Rules
	candidates []*Victim
	parts      [][]part // of each candidate
	taken      []bool   // of each candidate
	surplus    map[string][]int
	whole      map[string]int
	on         [][]int // of each node, the candidates with a part there
	slots      [][]int // of each demand and node
	total      []int   // of each demand
	changed    []int   // nodes whose slots must be counted again
	answers    [][]answer
	usable     [][]bool
	last       quota.Rule // victims of later rules are not taken
	calls      int
}

func newRoom(v *view, candidates []*Victim, rules Rules) *room {
	r := &room{
		view: v.whatIf(), rules: rules, candidates: candidates, parts: make([][]part, len(candidates)), taken: make([]bool, len(candidates)),
		surplus: map[string][]int{}, whole: map[string]int{}, on: make([][]int, len(v.nodes)), total: make([]int, len(v.demands)), calls: maxRoomCalls,
	}
	index, frees := make(map[string]int, len(v.nodes)), newAmounts(v.names)
	for n, node := range v.nodes {
		index[node.Name] = n
		r.changed = append(r.changed, n)
	}
	for i, c := range candidates {
		for _, pod := range c.Pods() {
			if n, known := index[pod.GetPod().Spec.NodeName]; known && (c.OnlyOn == "" || c.OnlyOn == v.nodes[n].Name) {
				r.parts[i] = append(r.parts[i], part{n, pod, frees.freedBy(pod)})
				if on := r.on[n]; len(on) == 0 || on[len(on)-1] != i {
					r.on[n] = append(on, i)
				}
			}
		}
		switch c.Kind {
		case gang.SurplusMember:
			r.surplus[c.Gang] = append(r.surplus[c.Gang], i)
		case gang.WholeGang:
			r.whole[c.Gang] = i
		}
	}
	for range v.demands {
		r.slots = append(r.slots, make([]int, len(v.nodes)))
		r.answers = append(r.answers, make([]answer, len(v.nodes)))
	}
	return r
}

// findUsable finds, for each demand, the nodes that may take its pods without all candidates of the present stage. Amounts decide, and filters
// whose answer no eviction changes. It returns false if the members cannot fit even then.
func (r *room) findUsable() bool {
	most := freeOf(r.nodes)
	for n := range most {
		most[n] = most[n].Clone()
	}
	for i, c := range r.candidates {
		if c.Rule <= r.last {
			for _, p := range r.parts[i] {
				most[p.node].Add(p.frees)
			}
		}
	}
	r.usable = make([][]bool, len(r.demands))
	for d, demand := range r.demands {
		r.usable[d] = make([]bool, len(r.nodes))
		total := 0
		for n := range r.nodes {
			if slots := Slots(demand, most[n]); slots > 0 && r.mayFit(d, n) {
				r.usable[d][n] = true
				total += slots
			}
		}
		if total < demand.Count {
			return false
		}
	}
	return true
}

// mayFit says whether evictions on a node may let the pods of a demand go there.
func (r *room) mayFit(d, n int) bool {
	answer := &r.answers[d][n]
	if *answer == unasked {
		*answer = mayTake
		if status := r.ask(d, n); status.Code() == fwk.UnschedulableAndUnresolvable && !r.constraints.mayPassLater(d, status) {
			*answer = neverTakes
		}
	}
	return *answer == mayTake
}

// vacate takes the pods of a candidate off their nodes, without regard to the rules.
func (r *room) vacate(i int) {
	for _, p := range r.parts[i] {
		r.remove(p.node, p.pod, p.frees)
		r.changed = append(r.changed, p.node)
	}
}

// occupy undoes vacate.
func (r *room) occupy(i int) {
	for _, p := range r.parts[i] {
		r.restore(p.node, p.pod, p.frees)
		r.changed = append(r.changed, p.node)
	}
}

// take takes a candidate if the rules allow it. A gang goes only with its surplus.
func (r *room) take(i int) bool {
	c := r.candidates[i]
	if r.taken[i] || c.Rule > r.last || c.Kind == gang.WholeGang && slices.ContainsFunc(r.surplus[c.Gang], func(s int) bool { return !r.taken[s] }) || !r.rules.Take(c) {
		return false
	}
	r.taken[i] = true
	r.vacate(i)
	return true
}

// isBound says whether a candidate must go because the rest of its gang does.
func (r *room) isBound(i int) bool {
	whole, known := r.whole[r.candidates[i].Gang]
	return known && r.candidates[i].Kind == gang.SurplusMember && r.taken[whole]
}

// giveBack undoes take.
func (r *room) giveBack(i int) {
	r.taken[i] = false
	r.rules.GiveBack(r.candidates[i])
	r.occupy(i)
}

// isEnough says whether the members fit without the taken victims, in quota and on the nodes.
func (r *room) isEnough() bool { return r.rules.HasQuota() && r.hasRoom() }

// hasRoom says whether the members fit on the nodes. For a single demand, counting slots is enough.
func (r *room) hasRoom() bool {
	r.countSlots()
	for d, demand := range r.demands {
		if r.total[d] < demand.Count {
			return false
		}
	}
	if r.isExact() {
		return true
	}
	if r.constraints != nil && r.calls <= 0 {
		return false
	}
	packing, _, calls := r.place(func(d, n int) bool { return r.slots[d][n] > 0 })
	r.calls -= calls
	return packing.Feasibility == Possible
}

// isExact says whether counting slots is enough to know that the members fit.
func (r *room) isExact() bool {
	return len(r.demands) == 1 && r.constraints == nil && !r.claimsDevices(0)
}

// countSlots counts the slots of changed nodes again. If filters look beyond one node, every node has changed.
func (r *room) countSlots() {
	if len(r.changed) == 0 {
		return
	}
	slices.Sort(r.changed)
	for d, demand := range r.demands {
		changed := slices.Compact(slices.Clone(r.changed))
		if r.looksBeyondNodes(d) {
			changed = changed[:0]
			for n := range r.nodes {
				changed = append(changed, n)
			}
		}
		for _, n := range changed {
			slots := Slots(demand, r.nodes[n].Free)
			if slots > 0 && !r.fits(d, n) {
				slots = 0
			}
			r.total[d] += slots - r.slots[d][n]
			r.slots[d][n] = slots
		}
	}
	r.changed = r.changed[:0]
}

// looksBeyondNodes says whether a filter's answer for a node may depend on pods of other nodes.
func (r *room) looksBeyondNodes(d int) bool {
	f := r.filter(d)
	return f.status.IsSuccess() && !f.cycle.GetSkipFilterPlugins().HasAll(names.InterPodAffinity, names.PodTopologySpread)
}

// place finds places for the members in the cluster of the view. With inter-pod constraints it returns an order, too, and how many filters
// its search has called.
func (v *view) place(fits Fits) (packing Packing, order []types.UID, calls int) {
	packing = v.dryRunReserve(Pack(v.demands, v.nodes, fits))
	if v.constraints == nil || packing.Feasibility == Impossible {
		return packing, nil, 0
	}
	s, prefer := v.newSearch(), map[types.UID]string(nil)
	if packing.Feasibility == Possible {
		prefer = v.nodesOf(packing.Places)
	}
	packing, order = s.run(prefer)
	return packing, order, maxCalls - s.calls
}

// giveBackSpare gives back every victim without which the members still fit, the most important first. It does so in groups, whose size
// doubles after each success. The filters may allow more to be given back after the first groups, unless the slots alone decide.
func (r *room) giveBackSpare() {
	for r.giveBackOnce() && (!r.isExact() || r.looksBeyondNodes(0)) {
	}
}

func (r *room) giveBackOnce() (some bool) {
	next := len(r.candidates) - 1
	for size := 1; next >= 0; {
		var group []int
		last := next
		for ; last >= 0 && len(group) < size; last-- {
			if r.taken[last] && !r.isBound(last) {
				r.giveBack(last)
				group = append(group, last)
			}
		}
		switch {
		case len(group) == 0:
			return some
		case r.isEnough():
			some, next, size = true, last, 2*size
			continue
		}
		for _, i := range slices.Backward(group) {
			r.take(i)
		}
		if size == 1 {
			next = last
		}
		size = 1
	}
	return some
}

// seat is the room that the victims make. It asks the filters once more, without any remembered answer; nil if they make none.
func (r *room) seat() *Seat {
	seat, without := &Seat{}, r.ended.from.whatIf()
	for i, v := range r.candidates {
		if r.taken[i] {
			seat.Victims = append(seat.Victims, v)
			for _, p := range r.parts[i] {
				without.remove(p.node, p.pod, p.frees)
			}
		}
	}
	packing, order, _ := without.place(without.fits)
	if packing.Feasibility != Possible || !r.rules.HasQuota() {
		return nil
	}
	seat.Places, seat.Order = without.nodesOf(packing.Places), order
	return seat
}

// IsCheaperThan says whether the victims of a seat cost less than those of another one. Both were chosen among the same candidates.
func (s *Seat) IsCheaperThan(other *Seat) bool {
	return costOf(s.Victims).compare(costOf(other.Victims)) < 0
}

// WholeGangs is how many gangs are evicted whole; 0 for no seat.
func (s *Seat) WholeGangs() int {
	if s == nil {
		return 0
	}
	return costOf(s.Victims).wholeGangs
}

// cost is the cost of victims: the class of the most important one, and how many are evicted.
type cost struct{ class, protected, wholeGangs, pods int }

func costOf(victims []*Victim) cost {
	var c cost
	for _, v := range victims {
		c.add(v)
	}
	return c
}

func (c *cost) add(v *Victim) {
	c.class = max(c.class, v.class)
	if v.Rule == quota.NotAllowed {
		return // it goes anyway
	}
	if v.Protected {
		c.protected++
	}
	if v.Kind == gang.WholeGang {
		c.wholeGangs++
	}
	c.pods += len(v.Pods()) + len(v.Unseen)
}

func (c cost) compare(other cost) int {
	return cmp.Or(cmp.Compare(c.class, other.class), cmp.Compare(c.protected, other.protected), cmp.Compare(c.wholeGangs, other.wholeGangs),
		cmp.Compare(c.pods, other.pods))
}
