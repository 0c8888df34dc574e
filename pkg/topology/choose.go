package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// Bound is how far apart pods may be. All of them are in one domain of the tier, or in a domain inside it. The zero Bound allows any nodes.
type Bound struct {
	// Tier is the highest tier that is allowed, nil for any.
	Tier *int
	// TierName is the name of the widest tier that is allowed, empty for any.
	TierName string
}

// IsSet says whether there is a limit.
func (b Bound) IsSet() bool { return b.Tier != nil || b.TierName != "" }

// String says what the bound allows, in words.
func (b Bound) String() string {
	switch {
	case b.Tier != nil:
		return fmt.Sprintf("tier %d", *b.Tier)
	case b.TierName != "":
		return fmt.Sprintf("tier %q", b.TierName)
	}
	return "the cluster"
}

// Allows says whether pods with a bound may use a whole domain. A tier that is at least that of the root allows all nodes.
func (t *Tree) Allows(b Bound, domain int) bool {
	if b.Tier != nil && t.Domains[domain].Tier > *b.Tier {
		return false
	}
	if b.TierName == "" {
		return true
	}
	for d := domain; d >= 0; d = t.Domains[d].Parent {
		if t.Domains[d].TierName == b.TierName {
			return true
		}
	}
	return false
}

// HasTierName says whether any domain has a tier of this name.
func (t *Tree) HasTierName(name string) bool {
	return slices.ContainsFunc(t.Domains, func(d Domain) bool { return d.TierName == name })
}

// Unit is pods that are placed together: a group, or all pods without a group.
type Unit struct {
	// Pods is the number of pods of each class.
	Pods []int
	// Count is how many such units there are.
	Count int
	// Bound of each unit by itself.
	Bound Bound
	// BoundOn are the nodes of pods of the unit that run already. Its Count must be 1 then.
	BoundOn []int
	// Near are nodes that the unit should be close to. They do not bind it.
	Near []int
}

// Request is a gang that needs nodes. A class is pods that cannot be told apart.
type Request struct {
	// Slots is how many pods of each class each node of the tree holds. No node may hold more.
	Slots [][]int
	// Exact is how many pods of a class a node with Slots really holds. It is asked once for each, and only in domains that are tried. It is nil if
	// the Slots are exact.
	Exact func(class, node int) int
	// Recount is how many more pods of a class a node holds beside placed pods of each class. It may be nil for a single class.
	Recount func(class, node int, taken []int) int
	// Units must all be placed. Groups come before pods without a group.
	Units []Unit
	// All is how many pods of each class wait. A domain for all of them is preferred to one for the Units only. It may be nil.
	All []int
	// Bound of the whole gang.
	Bound Bound
	// BoundOn are the nodes of the gang's pods that run already.
	BoundOn []int
}

// Place is a number of pods of a class on a node of the tree.
type Place struct{ Class, Node, Count int }

// Choice is nodes for a gang.
type Choice struct {
	// Domain is the lowest domain that has all of them, and the pods that run already.
	Domain int
	// Places of each unit. A Unit with a Count has so many in sequence.
	Places [][]Place
}

// Search finds domains for a request, the best first.
type Search struct {
	*room
	request    *Request
	need       []int // pods of each class
	order      []int // classes, the scarcest first
	candidates []int
	settled    []bool      // of each node: its slots are exact
	stale      []bool      // of each domain: it has fewer slots than when it became a candidate
	failures   map[int]int // of each tier: domains that had room for each class, and no places for all
	refused    map[int]int // of each tier: choices that the caller refused
}

// maxFailures is how many domains of a tier are tried without success, before the next tier is.
const maxFailures = 16

// NewSearch begins a search.
func (t *Tree) NewSearch(r *Request) *Search {
	s := &Search{
		room: newRoom(t, r.Slots, r.Recount), request: r, need: make([]int, len(r.Slots)),
		settled: make([]bool, len(t.Nodes)), stale: make([]bool, len(t.Domains)), failures: map[int]int{}, refused: map[int]int{},
	}
	for _, u := range r.Units {
		for c, count := range u.Pods {
			s.need[c] += count * u.Count
		}
	}
	s.sortClasses()
	capacities := make([][]int, len(r.Units))
	for u := range r.Units {
		capacities[u] = s.capacity(&r.Units[u], Root)
	}
	inside := t.Common(r.BoundOn)
	for d := range t.Domains {
		if !t.Allows(r.Bound, d) || inside >= 0 && !t.Contains(d, inside) || !s.holds(d, s.need) {
			continue
		}
		if s.holdsUnits(func(u int) int { return capacities[u][d] }) {
			s.candidates = append(s.candidates, d)
		}
	}
	for _, n := range r.BoundOn {
		s.use(n, 1)
	}
	s.sort(s.candidates, s.need, r.All)
	return s
}

// sortClasses puts the class first that has least room for its pods.
func (s *Search) sortClasses() {
	for c := range s.need {
		s.order = append(s.order, c)
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		return cmp.Compare(s.sums[a][Root]*max(1, s.need[b]), s.sums[b][Root]*max(1, s.need[a]))
	})
}

// Common is the lowest domain that has all of the nodes, by their indexes. It is -1 for no nodes.
func (t *Tree) Common(nodes []int) int {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = t.Nodes[n]
	}
	return t.CommonDomain(names)
}

// capacity is how many of a unit a domain and each domain in it hold, by the sums of nodes.
func (s *Search) capacity(u *Unit, domain int) []int {
	t, inside := s.tree, s.tree.Common(u.BoundOn)
	capacity := make([]int, t.Domains[domain].End-domain)
	for d := t.Domains[domain].End - 1; d >= domain; d-- { // domains come before those in them
		holds := &capacity[d-domain]
		if t.Allows(u.Bound, d) && (inside < 0 || t.Contains(d, inside)) {
			*holds = u.Count
			for c, count := range u.Pods {
				if count > 0 {
					*holds = min(*holds, s.sums[c][d]/count)
				}
			}
			continue
		}
		for _, child := range t.Domains[d].Children {
			*holds += capacity[child-domain]
		}
	}
	return capacity
}

func (s *Search) holdsUnits(capacity func(unit int) int) bool {
	for u := range s.request.Units {
		if capacity(u) < s.request.Units[u].Count {
			return false
		}
	}
	return true
}

// sort puts the best domain for pods first.
func (s *Search) sort(domains, pods, all []int) {
	keys := make([]key, len(domains))
	for i, d := range domains {
		keys[i] = s.keyOf(d, pods, all)
	}
	slices.SortFunc(keys, func(a, b key) int { return s.compare(&a, &b, pods) })
	for i := range keys {
		domains[i] = keys[i].domain
	}
}

// key is what a domain is judged by.
type key struct{ domain, tier, lacks, unused, leaves, size int }

func (s *Search) keyOf(domain int, pods, all []int) key {
	of := &s.tree.Domains[domain]
	k := key{domain: domain, tier: of.Tier, size: of.Size(), leaves: s.leavesFor(domain, pods)}
	if all == nil || !s.holds(domain, all) {
		k.lacks = 1
	}
	if s.used[domain] == 0 {
		k.unused = 1
	}
	return k
}

// compare is below 0 if the first domain is better for pods. The lowest tier counts most, then room for all pods that wait, then use by the
// gang. The fewest leaves and the least room left come next. Of two with the same room the smaller one is better, as a large one may become
// whole again.
func (s *Search) compare(a, b *key, pods []int) int {
	by := cmp.Or(a.tier-b.tier, a.lacks-b.lacks, a.unused-b.unused, a.leaves-b.leaves)
	for _, c := range s.order {
		if by == 0 && pods[c] > 0 {
			by = s.sums[c][a.domain] - s.sums[c][b.domain]
		}
	}
	return cmp.Or(by, a.size-b.size, a.domain-b.domain)
}

// leavesFor is how many leaves of a domain the scarcest class of the pods needs.
func (s *Search) leavesFor(domain int, pods []int) (leaves int) {
	if len(s.tree.Domains[domain].Children) == 0 {
		return 1
	}
	for _, c := range s.order {
		if pods[c] == 0 {
			continue
		}
		var slots []int
		for _, p := range s.parts(domain, c) {
			slots = append(slots, p.slots)
		}
		slices.Sort(slots)
		for missing := pods[c]; missing > 0 && leaves < len(slots); leaves++ {
			missing -= slots[len(slots)-1-leaves]
		}
		break
	}
	return leaves
}

// Next returns the next best choice, nil if there is none.
func (s *Search) Next() *Choice {
	for len(s.candidates) > 0 {
		domain := s.candidates[0]
		s.candidates = s.candidates[1:]
		tier := s.tree.Domains[domain].Tier
		if s.failures[tier] >= maxFailures {
			continue
		}
		if s.stale[domain] {
			s.offer(domain)
			continue
		}
		places, ok := s.placeAll(domain)
		used := s.usedNodes()
		s.undo(0)
		for _, n := range used {
			s.settle(n)
		}
		if ok && !s.stale[domain] {
			return &Choice{Domain: domain, Places: places}
		}
		for n := s.tree.Domains[domain].From; n < s.tree.Domains[domain].To; n++ {
			s.settle(n)
		}
		if s.stale[domain] {
			s.offer(domain)
			continue
		}
		s.failures[tier]++
	}
	return nil
}

// Refuse counts a choice that is of no use to the caller. After so many of a tier, the other domains of the tier are left out.
func (s *Search) Refuse(choice *Choice, most int) {
	tier := s.tree.Domains[choice.Domain].Tier
	if s.refused[tier]++; s.refused[tier] >= most {
		s.failures[tier] = max(s.failures[tier], maxFailures)
	}
}

// usedNodes are the nodes of the pods that are placed.
func (s *Search) usedNodes() (nodes []int) {
	for _, c := range s.changes {
		nodes = append(nodes, c.node)
	}
	return nodes
}

// settle makes the slots of a node exact. Domains with fewer slots than before are stale then.
func (s *Search) settle(n int) {
	if s.request.Exact == nil || s.settled[n] {
		return
	}
	s.settled[n] = true
	for c := range s.slots {
		most := s.slots[c][n]
		if most == 0 {
			continue
		}
		if exact := s.request.Exact(c, n); exact < most {
			s.set(c, n, exact)
			for d := s.tree.domainOf[n]; d >= 0; d = s.tree.Domains[d].Parent {
				s.stale[d] = true
			}
		}
	}
}

// offer puts a stale domain into its place among the candidates again, if it still has room.
func (s *Search) offer(domain int) {
	s.stale[domain] = false
	if !s.holds(domain, s.need) || !s.holdsUnits(func(u int) int { return s.capacity(&s.request.Units[u], domain)[0] }) {
		return
	}
	own := s.keyOf(domain, s.need, s.request.All)
	at, _ := slices.BinarySearchFunc(s.candidates, own, func(other int, own key) int {
		k := s.keyOf(other, s.need, s.request.All)
		return s.compare(&k, &own, s.need)
	})
	s.candidates = slices.Insert(s.candidates, at, domain)
}

// IsUncertain says whether some domain had room for each class, and was of no use.
func (s *Search) IsUncertain() bool { return len(s.failures)+len(s.refused) > 0 }

// placeAll places all units in a domain.
func (s *Search) placeAll(domain int) (places [][]Place, ok bool) {
	for u := range s.request.Units {
		unit := &s.request.Units[u]
		for range unit.Count {
			placed, ok := s.placeUnit(domain, unit)
			if !ok {
				return nil, false
			}
			places = append(places, placed)
		}
	}
	return places, true
}

// placeUnit places a unit in the best domain inside the given one.
func (s *Search) placeUnit(domain int, u *Unit) ([]Place, bool) {
	inside := s.tree.Common(u.BoundOn)
	var candidates []int
	for d := domain; d < s.tree.Domains[domain].End; d++ {
		if s.holds(d, u.Pods) && s.tree.Allows(u.Bound, d) && (inside < 0 || s.tree.Contains(d, inside)) {
			candidates = append(candidates, d)
		}
	}
	s.sort(candidates, u.Pods, nil)
	if near := s.tree.Common(u.Near); near >= 0 {
		slices.SortStableFunc(candidates, func(a, b int) int { return s.distance(a, near) - s.distance(b, near) })
	}
	failures := map[int]int{}
	for _, d := range candidates {
		tier := s.tree.Domains[d].Tier
		if failures[tier] >= maxFailures {
			continue
		}
		before := len(s.changes)
		if s.placePods(d, u.Pods) {
			return s.placesSince(before), true
		}
		s.undo(before)
		failures[tier]++
	}
	return nil, false
}

// distance is the tier of the lowest domain that has two domains.
func (s *Search) distance(a, b int) int {
	for !s.tree.Contains(a, b) {
		a = s.tree.Domains[a].Parent
	}
	return s.tree.Domains[a].Tier
}

func (s *Search) placesSince(before int) []Place {
	var places []Place
	for _, c := range s.changes[before:] {
		places = append(places, Place{Class: c.class, Node: c.node, Count: c.count})
	}
	slices.SortFunc(places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node)) })
	return places
}

// placePods places pods of each class in a domain.
func (s *Search) placePods(domain int, pods []int) bool {
	for _, c := range s.order {
		if pods[c] == 0 {
			continue
		}
		if s.sums[c][domain] < pods[c] {
			return false
		}
		s.descend(domain, c, pods[c])
	}
	return true
}

// part is a leaf of a domain, or a node.
type part struct {
	domain, node int // the other one is -1
	slots, size  int
	used         bool
}

// descend places pods of a class in a domain that has room for them.
func (s *Search) descend(domain, class, count int) {
	for _, p := range pick(s.parts(domain, class), count) {
		placed := min(count, p.slots)
		if placed == 0 {
			break
		}
		if p.domain >= 0 {
			s.descend(p.domain, class, placed)
		} else {
			s.take(class, p.node, placed)
		}
		count -= placed
	}
}

// pick returns the fewest parts that hold so many pods, after the parts that the gang uses already. Of these it takes the tightest, so that
// other parts stay whole.
func pick(parts []part, count int) []part {
	slices.SortFunc(parts, func(a, b part) int {
		if a.used != b.used {
			if a.used {
				return -1
			}
			return 1
		}
		return cmp.Or(b.slots-a.slots, b.size-a.size, a.domain-b.domain, a.node-b.node)
	})
	chosen, excess := 0, -count
	for excess < 0 {
		excess += parts[chosen].slots
		chosen++
	}
	for i := range parts[:chosen] {
		if excess == 0 {
			break
		}
		for j := len(parts) - 1; j >= chosen && !parts[i].used; j-- { // the least room first
			if spared := parts[i].slots - parts[j].slots; spared > 0 && spared <= excess && !parts[j].used {
				excess -= spared
				parts[i], parts[j] = parts[j], parts[i]
				break
			}
		}
	}
	picked := parts[:chosen]
	fresh := slices.IndexFunc(picked, func(p part) bool { return !p.used })
	slices.SortStableFunc(picked[max(0, fresh):], func(a, b part) int { return b.slots - a.slots })
	return picked
}

// parts are the leaves of a domain with room for a class, and the nodes directly in a wider domain. The parts of a leaf are its nodes.
func (s *Search) parts(domain, class int) (parts []part) {
	for d := domain; d < s.tree.Domains[domain].End; d++ {
		of := &s.tree.Domains[d]
		if len(of.Children) == 0 && d != domain {
			if slots := s.sums[class][d]; slots > 0 {
				parts = append(parts, part{domain: d, node: -1, slots: slots, size: of.Size(), used: s.used[d] > 0})
			}
			continue
		}
		from := of.From
		if len(of.Children) > 0 {
			from = s.tree.Domains[of.Children[len(of.Children)-1]].To
		}
		for n := from; n < of.To; n++ {
			if slots := s.slots[class][n]; slots > 0 {
				parts = append(parts, part{domain: -1, node: n, slots: slots, size: 1, used: s.isUsed(n)})
			}
		}
	}
	return parts
}

func (s *Search) isUsed(node int) bool {
	return slices.ContainsFunc(s.taken[node], func(count int) bool { return count > 0 })
}
