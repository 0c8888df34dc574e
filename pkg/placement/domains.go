package placement

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/topology"
)

// maxDomainTries bounds the domains of a tier that are tried with devices or inter-pod constraints, or searched for victims. So many are tried to
// reserve room.
const maxDomainTries = 4

// domains is the view of a problem on all nodes, by the domains of its tree.
type domains struct {
	*view
	problem  *Problem
	topology *Topology
	slots    [][]int   // of each demand, of each node of the tree; see exactly
	asked    [][]bool  // of each demand, of each node of the tree
	infoOf   []int     // of each node of the tree: its index in the view, -1 if it is not there
	room     *freeRoom // of the nodes that are not in the view yet; nil if all are
	units    []unit
	// withDevices is how many pods of a demand a node of the tree has devices for, where that was counted.
	withDevices map[pair]int
	deviceCalls int
}

// unit is members that are placed together, by demand.
type unit struct {
	topology.Unit
	sets [][][]*gang.Member // of each set that has these numbers, the members of each demand
}

// domainsOf is the view of a problem by domains, on nodes that are in the view.
func (p *Problem) domainsOf(v *view) *domains {
	d := p.newDomains(v)
	for n := range v.nodes {
		if at := d.topology.Tree.IndexOf(v.nodes[n].Name); at >= 0 {
			d.infoOf[at] = n
		}
	}
	for demand := range v.demands {
		for at, n := range d.infoOf {
			if n >= 0 {
				d.slots[demand][at] = Slots(v.demands[demand], v.nodes[n].Free)
			}
		}
	}
	return d
}

// domainsAmong is the view of a problem by domains of which only nodes are added that are tried. Amounts tell how many pods the others hold at most.
func (p *Planner) domainsAmong(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo) *domains {
	v := problem.among(ctx, p.profile, membersOf(p.profile, problem.Members), nodes)
	d := problem.newDomains(v)
	p.room.update(d.topology.Tree, nodes, v.names)
	d.room = &p.room
	for demand := range v.demands {
		p.room.slots(v.demands[demand], d.slots[demand])
	}
	return d
}

// newDomains has no nodes yet.
func (p *Problem) newDomains(v *view) *domains {
	size := len(p.Topology.Tree.Nodes)
	d := &domains{view: v, problem: p, topology: p.Topology, infoOf: slices.Repeat([]int{-1}, size), withDevices: map[pair]int{}}
	for range v.demands {
		d.slots, d.asked = append(d.slots, make([]int, size)), append(d.asked, make([]bool, size))
	}
	d.units = d.unitsOf(p.Members)
	return d
}

// indexOf is the index in the view of a node of the tree, which is added if need be. It is -1 if the snapshot does not have it.
func (d *domains) indexOf(at int) int {
	if d.infoOf[at] < 0 && d.room != nil {
		if info := d.room.infoOf(at); info != nil {
			d.infoOf[at] = len(d.nodes)
			d.add(info)
		}
	}
	return d.infoOf[at]
}

// exactly is how many pods of a demand a node of the tree holds. The filters are asked once.
func (d *domains) exactly(demand, at int) int {
	slots := &d.slots[demand][at]
	if *slots == 0 || d.asked[demand][at] {
		return *slots
	}
	d.asked[demand][at] = true
	n := d.indexOf(at)
	if *slots = min(*slots, Slots(d.demands[demand], d.nodes[n].Free)); *slots > 0 && !d.fits(demand, n) {
		*slots = 0
	}
	return *slots
}

// exactlyAll adds all nodes, and has the filters asked about each.
func (d *domains) exactlyAll() {
	for at := range d.infoOf {
		if d.indexOf(at) < 0 {
			continue
		}
		for demand := range d.demands {
			d.exactly(demand, at)
		}
	}
}

// recount is how many more pods of a demand a node holds beside the pods that it is given.
func (d *domains) recount(demand, at int, taken []int) int {
	left := d.nodes[d.indexOf(at)].Free.Clone()
	for other, count := range taken {
		if count > 0 {
			left.Sub(d.demands[other].Requests.Scale(int64(count)))
		}
	}
	slots := Slots(d.demands[demand], left)
	if most := d.demands[demand].MaxPerNode; most > 0 {
		slots = min(slots, most-taken[demand])
	}
	if most, counted := d.withDevices[pair{demand, at}]; counted {
		slots = min(slots, most-taken[demand])
	}
	return max(0, slots)
}

// unitsOf sorts members into their groups, and groups of the same kind into one unit. Members without a group come last.
func (d *domains) unitsOf(members []*gang.Member) (units []unit) {
	demandOf := map[types.UID]int{}
	for demand, class := range d.classes {
		for _, m := range class {
			demandOf[m.UID] = demand
		}
	}
	var names []string
	groups := map[string]*unit{}
	for _, m := range byRank(members) {
		name, bound := d.groupOf(m)
		group := name
		if name == "" && len(d.topology.Holding) > 0 {
			name = alone + string(m.UID) // each returns to its own neighbours
		}
		g := groups[name]
		if g == nil {
			names = append(names, name)
			g = &unit{Unit: topology.Unit{Pods: make([]int, len(d.demands)), Count: 1, Bound: bound}, sets: [][][]*gang.Member{make([][]*gang.Member, len(d.demands))}}
			groups[name] = g
			g.BoundOn = d.heldBy(group)
			g.Near = d.neighbourOf(m, g.BoundOn)
		}
		demand := demandOf[m.UID]
		g.Pods[demand]++
		g.sets[0][demand] = append(g.sets[0][demand], m)
	}
	slices.SortStableFunc(names, func(a, b string) int { // groups first, the largest before others
		switch {
		case isGroup(a) && isGroup(b):
			return groups[b].size() - groups[a].size()
		case isGroup(a):
			return -1
		case isGroup(b):
			return 1
		}
		return 0
	})
	for _, name := range names {
		g := groups[name]
		if last := len(units) - 1; last >= 0 && isGroup(name) && units[last].isLike(g) {
			units[last].Count++
			units[last].sets = append(units[last].sets, g.sets...)
			continue
		}
		units = append(units, *g)
	}
	return units
}

// alone begins the names of units that have a single member without a group.
const alone = "\x00"

func isGroup(name string) bool { return name != "" && !strings.HasPrefix(name, alone) }

// neighbourOf is the node of the member with the closest rank. Only members with room count.
func (d *domains) neighbourOf(m *gang.Member, group []int) []int {
	if len(group) > 0 {
		return group
	}
	var closest *gang.Member
	distance := func(other *gang.Member) int {
		if other.Task != m.Task {
			return int(^uint(0) >> 1)
		}
		return max(other.Index-m.Index, m.Index-other.Index)
	}
	for other := range d.topology.Holding {
		if closest == nil || cmp.Or(cmp.Compare(distance(other), distance(closest)), cmp.Compare(other.Index, closest.Index), strings.Compare(string(other.UID), string(closest.UID))) < 0 {
			closest = other
		}
	}
	if closest == nil {
		return nil
	}
	if at := d.topology.Tree.IndexOf(d.topology.Holding[closest]); at >= 0 {
		return []int{at}
	}
	return nil
}

func (u *unit) isLike(other *unit) bool {
	return slices.Equal(u.Pods, other.Pods) && u.Bound == other.Bound && len(u.BoundOn)+len(other.BoundOn) == 0
}

// size is how many pods a unit has.
func (u *unit) size() (pods int) {
	for _, count := range u.Pods {
		pods += count
	}
	return pods
}

func (d *domains) groupOf(m *gang.Member) (string, topology.Bound) {
	if d.topology.GroupOf == nil {
		return "", topology.Bound{}
	}
	return d.topology.GroupOf(m)
}

// heldBy are the nodes of the members of a group that hold room. Members without a group are bound by the gang only.
func (d *domains) heldBy(group string) (nodes []int) {
	for m, node := range d.topology.Holding {
		if name, _ := d.groupOf(m); name == group && group != "" {
			if at := d.topology.Tree.IndexOf(node); at >= 0 {
				nodes = append(nodes, at)
			}
		}
	}
	return nodes
}

// held are the nodes of all members that hold room.
func (t *Topology) held() (nodes []int) {
	for _, node := range t.Holding {
		if at := t.Tree.IndexOf(node); at >= 0 {
			nodes = append(nodes, at)
		}
	}
	return nodes
}

// byRank sorts members by the order of their tasks and by index.
func byRank(members []*gang.Member) []*gang.Member {
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b *gang.Member) int {
		return cmp.Or(cmp.Compare(a.TaskOrder, b.TaskOrder), strings.Compare(a.Task, b.Task), cmp.Compare(a.Index, b.Index), strings.Compare(a.Pod.Name, b.Pod.Name))
	})
	return sorted
}

// request is the members as the tree sees them.
func (d *domains) request() *topology.Request {
	r := &topology.Request{Slots: d.slots, Exact: d.exactlyWithDevices, Bound: d.topology.Bound, BoundOn: d.topology.held()}
	if len(d.demands) > 1 {
		r.Recount = d.recount
	}
	for i := range d.units {
		r.Units = append(r.Units, d.units[i].Unit)
	}
	return r
}

// withSpare adds the members that wait beyond the minimum, if all of them are of known demands.
func (d *domains) withSpare(r *topology.Request) *topology.Request {
	for _, demand := range d.demands {
		r.All = append(r.All, demand.Count)
	}
	if len(d.problem.Spare) == 0 {
		return r
	}
	classifier := classifierFor(d.profile, slices.Concat(d.problem.Members, d.problem.Spare))
	demandOf := map[string]int{}
	for demand, class := range d.classes {
		demandOf[classifier.classOf(class[0])] = demand
	}
	for _, m := range d.problem.Spare {
		demand, known := demandOf[classifier.classOf(m)]
		if !known {
			r.All = nil
			return r
		}
		r.All[demand]++
	}
	return r
}

// isCounted says whether counts are enough to know that the members fit.
func (d *domains) isCounted() bool {
	if d.constraints != nil {
		return false
	}
	for demand := range d.demands {
		if d.claimsDevices(demand) {
			return false
		}
	}
	return true
}

// places gives each member its node. The members of a set come in the order of their ranks, the nodes in the order of their paths.
func (d *domains) places(choice *topology.Choice) map[types.UID]string {
	places, next := map[types.UID]string{}, 0
	for i := range d.units {
		u := &d.units[i]
		of := slices.Clone(choice.Places[next : next+u.Count])
		next += u.Count
		slices.SortStableFunc(of, func(a, b []topology.Place) int { return cmp.Compare(firstNode(a), firstNode(b)) })
		for set, members := range u.sets {
			given := make([]int, len(d.demands))
			for _, place := range of[set] {
				for range place.Count {
					places[members[place.Class][given[place.Class]].UID] = d.topology.Tree.Nodes[place.Node]
					given[place.Class]++
				}
			}
		}
	}
	return places
}

func firstNode(places []topology.Place) int {
	first := int(^uint(0) >> 1)
	for _, p := range places {
		first = min(first, p.Node)
	}
	return first
}

// ranked gives the members of each demand the nodes that they have together, in the order of ranks and paths.
func (t *Topology) ranked(m *members, places map[types.UID]string) map[types.UID]string {
	ranked := map[types.UID]string{}
	for _, class := range m.classes {
		nodes := make([]string, len(class))
		for i, member := range class {
			nodes[i] = places[member.UID]
		}
		slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(t.Tree.IndexOf(a)-t.Tree.IndexOf(b), strings.Compare(a, b)) })
		for i, member := range byRank(class) {
			ranked[member.UID] = nodes[i]
		}
	}
	return ranked
}

// DecideWithin is Decide for a problem that may have a topology. It finds the best domain for all members, or says why there is none. Problems
// inside a domain have no topology.
func (p *Planner) DecideWithin(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo) *Decision {
	if problem.Topology == nil {
		return p.Decide(ctx, problem, nodes)
	}
	d := p.domainsAmong(ctx, problem, nodes)
	search := d.topology.Tree.NewSearch(d.withSpare(d.request()))
	for choice := search.Next(); choice != nil; choice = search.Next() {
		if d.isCounted() {
			return &Decision{Feasibility: Possible, Members: problem.Members, Places: d.places(choice)}
		}
		if decision := p.decideIn(ctx, problem, d, choice, nodes); decision != nil {
			return decision
		}
		search.Refuse(choice, maxDomainTries)
	}
	return p.refuseDomains(ctx, problem, d, nodes, search.IsUncertain())
}

// within is the problem in one domain. Room is reserved for the members if that is asked for.
func (d *domains) within(domain int, reserve bool) *Problem {
	inside := *d.problem
	inside.Topology, inside.Nodes = nil, sets.New(d.topology.Tree.Names(domain)...)
	if !reserve {
		inside.Reserve, inside.Reserved, inside.Renew = false, nil, false
	}
	return &inside
}

// isDivided says whether groups have bounds of their own.
func (d *domains) isDivided() bool {
	return slices.ContainsFunc(d.units, func(u unit) bool { return u.Bound.IsSet() })
}

// decideIn places members with devices or inter-pod constraints in the domain of a choice. It returns nil if they do not fit.
func (p *Planner) decideIn(ctx context.Context, problem *Problem, d *domains, choice *topology.Choice, nodes []fwk.NodeInfo) *Decision {
	if d.isDivided() {
		return d.decideApart(choice)
	}
	inside := d.within(choice.Domain, false)
	inside.Spare, inside.Exact = nil, true
	decision := p.Decide(ctx, inside, nodes)
	if decision.Feasibility != Possible {
		return nil
	}
	if decision.Order == nil {
		decision.Places = problem.Topology.ranked(d.members, decision.Places)
	}
	return decision
}

// MakeRoomWithin is MakeRoom for a problem that may have a topology. The victims make room in a single domain. Of the best domains it takes the
// one with the cheapest victims.
func (p *Planner) MakeRoomWithin(ctx context.Context, problem *Problem, nodes []fwk.NodeInfo, candidates []*Victim, rules Rules) (best *Seat) {
	if problem.Topology == nil {
		return p.MakeRoom(ctx, problem, nodes, candidates, rules)
	}
	problem = problem.evicting(candidates)
	m := membersOf(p.profile, problem.Members)
	r := newRoom(problem.on(ctx, p.profile, m, problem.within(nodes)), candidates, rules)
	for i := range candidates {
		r.vacate(i)
	}
	d := problem.domainsOf(r.view)
	search := d.topology.Tree.NewSearch(d.request())
	tries := 0
	for choice := search.Next(); choice != nil && (best == nil || tries < maxDomainTries); choice = search.Next() {
		seat := p.MakeRoom(ctx, d.within(choice.Domain, false), nodes, candidates, rules)
		if seat != nil && (best == nil || seat.IsCheaperThan(best)) && d.seatIn(p, choice.Domain, nodes, seat) {
			best = seat
		}
		tries++
		search.Refuse(choice, maxDomainTries)
	}
	return best
}

// seatIn gives the members of a seat their nodes by rank. It returns false if the groups do not fit into their own domains.
func (d *domains) seatIn(p *Planner, domain int, nodes []fwk.NodeInfo, seat *Seat) bool {
	if seat.Order != nil || !d.isCounted() {
		if !d.isDivided() && seat.Order == nil {
			seat.Places = d.topology.ranked(d.members, seat.Places)
		}
		return !d.isDivided()
	}
	inside := *d.problem
	inside.Nodes = sets.New(d.topology.Tree.Names(domain)...)
	r := newRoom(inside.on(d.ctx, p.profile, d.members, inside.within(nodes)), seat.Victims, nil)
	for i := range seat.Victims {
		r.vacate(i)
	}
	free := inside.domainsOf(r.view)
	choice := free.topology.Tree.NewSearch(free.request()).Next()
	if choice == nil {
		return false
	}
	seat.Places = free.places(choice)
	return true
}

// reserveApart reserves room for groups with bounds of their own. All of them fit there, each within its bound, when the pods have ended that the
// gang may wait for. So room is kept in a domain for each group. Which group takes which is decided when it starts.
func (d *domains) reserveApart(domain int, nodes []fwk.NodeInfo) *Decision {
	reserved := &Decision{}
	if !d.problem.Reserve || !d.isCounted() {
		return reserved
	}
	inside := d.within(domain, true)
	v := inside.on(d.ctx, d.profile, d.members, inside.within(nodes))
	v.apart = d.placesApart
	reserved.Reserve = v.chooseReservation(inside)
	reserved.NoPlaces, reserved.NoStart = reserved.Reserve == nil && !inside.OnlyWithStart, reserved.Reserve == nil && inside.OnlyWithStart
	return reserved
}

// placesApart finds places for groups in the cluster as it will be: the earlier places if these are enough.
func (d *domains) placesApart(later *view, avoid sets.Set[string], before [][]Place) ([][]Place, bool) {
	again := d.problem.domainsOf(later)
	again.onlyOn(before)
	if places, ok := again.pack(); ok {
		return places, true
	}
	anew := d.problem.domainsOf(later)
	for at, n := range anew.infoOf {
		if n >= 0 && avoid.Has(later.nodes[n].Name) {
			for demand := range anew.slots {
				anew.slots[demand][at] = 0
			}
		}
	}
	return anew.pack()
}

// onlyOn leaves the members some places only.
func (d *domains) onlyOn(places [][]Place) {
	for demand := range d.slots {
		most := map[int]int{}
		for _, place := range places[demand] {
			most[place.Node] = place.Count
		}
		for at, n := range d.infoOf {
			d.slots[demand][at] = min(d.slots[demand][at], most[n])
		}
	}
}

// pack finds places for all members.
func (d *domains) pack() ([][]Place, bool) {
	choice := d.topology.Tree.NewSearch(d.request()).Next()
	if choice == nil {
		return nil, false
	}
	places := make([][]Place, len(d.demands))
	for _, unit := range choice.Places {
		for _, place := range unit {
			places[place.Class] = append(places[place.Class], Place{Node: d.infoOf[place.Node], Count: place.Count})
		}
	}
	return places, true
}
