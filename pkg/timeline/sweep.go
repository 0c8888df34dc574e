package timeline

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"
	"sort"
)

// manyTries is after how many vain tries to place several needs together the tries become fewer.
const manyTries = 50

// order has the nodes that take a kind, by when a pod fits first for so long. There is one for each power of two of the length. Nodes
// whose holes are too short need not be met each time.
type order struct {
	*kind
	length  tick
	entries []entry
}

// orderFor is the order for gangs of a length.
func (k *kind) orderFor(p *plan, length tick) *order {
	if length < never {
		length = 1 << (bits.Len64(uint64(length)) - 1)
	}
	if o := k.orders[length]; o != nil {
		return o
	}
	p.left -= len(p.nodes)
	o := &order{kind: k, length: length, entries: make([]entry, 0, len(p.nodes))}
	for n := range p.nodes {
		if k.takes(n) {
			if from := p.nodes[n].firstWindow(k.each, length, 0); from < never {
				o.entries = append(o.entries, entry{from, n, p.nodes[n].version})
			}
		}
	}
	slices.SortFunc(o.entries, compareEntries)
	k.orders[length] = o
	return o
}

// takes says whether a node takes pods of the kind.
func (k *kind) takes(node int) bool { return k.Takes == nil || k.Takes(node) }

func compareEntries(a, b entry) int {
	if a.from != b.from {
		return cmp.Compare(a.from, b.from)
	}
	return a.node - b.node
}

// settleAtOnce is how many entries are brought up to date together. Each time, the entries after them move.
const settleAtOnce = 128

// settle brings the entry at an index up to date. It does the same with outdated entries right after it, and with entries that take their place.
// The plan only takes room, so entries only move back.
func (o *order) settle(p *plan, i int) {
	for i < len(o.entries) && o.entries[i].version != p.nodes[o.entries[i].node].version {
		until := min(i+settleAtOnce, len(o.entries))
		p.left -= until - i
		fresh := make([]entry, 0, until-i)
		for _, e := range o.entries[i:until] {
			if version := p.nodes[e.node].version; e.version != version {
				e.from, e.version = p.nodes[e.node].firstWindow(o.each, o.length, e.from), version
			}
			if e.from < never {
				fresh = append(fresh, e)
			}
		}
		slices.SortFunc(fresh, compareEntries)
		o.merge(i, until, fresh)
	}
}

// merge fills a gap with entries that belong there or behind it, and closes what is left of it.
func (o *order) merge(from, until int, fresh []entry) {
	if gone := until - from - len(fresh); gone > 0 {
		o.entries = slices.Delete(o.entries, from, from+gone)
		until -= gone
	}
	for len(fresh) > 0 {
		if until < len(o.entries) && compareEntries(o.entries[until], fresh[0]) < 0 {
			o.entries[from] = o.entries[until]
			until++
		} else {
			o.entries[from], fresh = fresh[0], fresh[1:]
		}
		from++
	}
}

// sweep goes through time until a gang fits. For each need it knows how many pods can start on each node at the present time.
type sweep struct {
	p       *plan
	gang    int
	length  tick
	now     tick
	parts   []part
	events  events
	changes []change // scratch
	counts  []int    // scratch
}

// part is a need in a sweep.
type part struct {
	*order
	index   int // of the kind
	count   int
	next    int   // in the order: the first node that the sweep has not met
	here    []int // by node: pods that can start there now
	met     []int // the nodes that the sweep has met
	sum     int
	densest int // the most pods that could start on one node
}

// event is a change for a part on a node.
type event struct {
	change
	part, node int
}

// events is a heap by time.
type events []event

// Len is for package heap.
func (e events) Len() int { return len(e) }

// Less is for package heap.
func (e events) Less(i, j int) bool { return e[i].from < e[j].from }

// Swap is for package heap.
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push is for package heap. It is not called: add makes no garbage.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop is for package heap. It is not called: take makes no garbage.
func (e *events) Pop() any { return e.take() }

func (e *events) add(x event) {
	*e = append(*e, x)
	heap.Fix(e, len(*e)-1)
}

func (e *events) take() event {
	first, last := (*e)[0], len(*e)-1
	(*e)[0] = (*e)[last]
	*e = (*e)[:last]
	if last > 0 {
		heap.Fix(e, 0)
	}
	return first
}

// earliest finds the earliest time at which a gang fits until it ends, and its places. It is never if there is none, or finding it takes too much work.
func (p *plan) earliest(g int) (tick, []Place) {
	s := &sweep{p: p, gang: g, length: p.length(g)}
	for _, need := range p.Gangs[g].Needs {
		if p.left <= 0 {
			break
		}
		k := p.kinds[need.Kind]
		same := func(other part) bool { return other.index == need.Kind }
		if i := slices.IndexFunc(s.parts, same); i >= 0 {
			s.parts[i].count += need.Count
		} else {
			s.parts = append(s.parts, part{order: k.orderFor(p, s.length), index: need.Kind, count: need.Count, here: p.zeros(len(s.parts))})
		}
	}
	at, places := s.run()
	for i := range s.parts {
		for _, node := range s.parts[i].met {
			s.parts[i].here[node] = 0
		}
	}
	return at, places
}

// zeros is scratch for a part of a sweep.
func (p *plan) zeros(part int) []int {
	if part == len(p.here) {
		p.here = append(p.here, make([]int, len(p.nodes)))
	}
	return p.here[part]
}

// run goes to the first time at which all pods fit. It never looks at a node on which a pod fits only later. Most nodes are of that kind.
func (s *sweep) run() (tick, []Place) {
	tries, skip := 0, 0
	for s.now < never && s.p.left > 0 {
		s.p.left -= len(s.parts)
		s.apply()
		at := s.now
		if s.meetEnough() {
			at = s.p.quotaFrom(s.gang, s.now, s.length)
			switch {
			case at == never:
				return never, nil
			case at >= s.nextTime(): // first see what changes until then
			case skip > 0:
				skip--
				at = s.now
			default:
				if places := s.pack(at); places != nil {
					return at, places
				}
				tries++
				skip = tries / manyTries // nodes that are cut up much are looked at now and then
			}
		}
		s.now = max(s.nextTime(), at)
	}
	return never, nil
}

// nextTime is when something changes next. It is after now. Nodes on which a pod fits already change nothing by being met.
func (s *sweep) nextTime() tick {
	next := never
	if len(s.events) > 0 {
		next = s.events[0].from
	}
	for i := range s.parts {
		unmet := s.parts[i].entries[s.parts[i].next:]
		if later := sort.Search(len(unmet), func(j int) bool { return unmet[j].from > s.now }); later < len(unmet) {
			next = min(next, unmet[later].from)
		}
	}
	return next
}

// apply makes the changes that are due.
func (s *sweep) apply() {
	for len(s.events) > 0 && s.events[0].from <= s.now {
		e := s.events.take()
		s.p.left--
		s.parts[e.part].set(e.node, e.slots)
	}
}

// set notes how many pods can start on a node now.
func (p *part) set(node, slots int) {
	p.sum += slots - p.here[node]
	p.here[node], p.densest = slots, max(p.densest, slots)
}

// meetEnough meets more nodes until all parts have room, each by itself. It says whether they have. Parts compete for nodes. So each gets room beside the
// nodes that the others may take.
func (s *sweep) meetEnough() bool {
	pods := 0
	for i := range s.parts {
		pods += s.parts[i].count
	}
	for i := range s.parts {
		part := &s.parts[i]
		for part.sum < part.count+(pods-part.count)*part.densest {
			part.settle(s.p, part.next)
			if part.next == len(part.entries) || part.entries[part.next].from > s.now {
				break
			}
			s.meet(i, part.entries[part.next])
			part.next++
		}
		if part.sum < part.count {
			return false
		}
	}
	return true
}

// meet takes in when pods of a part can start on a node.
func (s *sweep) meet(i int, e entry) {
	part, node := &s.parts[i], e.node
	part.met = append(part.met, node)
	s.changes, s.counts = s.p.nodes[node].starts(s.changes[:0], part.kind, e.from, s.length, s.counts)
	s.p.left -= 1 + len(s.changes)
	for _, c := range s.changes {
		if c.from <= s.now {
			part.set(node, c.slots)
		} else {
			s.events.add(event{c, i, node})
		}
	}
}

// pack finds places for all parts at a time, the scarcest first, each on the nodes with the least room. It returns nil if it finds none.
func (s *sweep) pack(at tick) []Place {
	order := make([]*part, len(s.parts))
	for i := range s.parts {
		order[i] = &s.parts[i]
	}
	slices.SortStableFunc(order, func(a, b *part) int { return cmp.Compare(int64(a.sum)*int64(b.count), int64(b.sum)*int64(a.count)) })
	left, places := map[int][]int64{}, []Place{}
	for _, part := range order {
		if s.p.left -= len(part.met); s.p.left <= 0 {
			return nil
		}
		missing := part.count
		for _, node := range part.tightestFirst() {
			if missing == 0 {
				break
			}
			if left[node] == nil {
				left[node] = s.p.nodes[node].least(at, min(at+s.length, never))
			}
			if count := min(slots(left[node], part.each, part.most), missing); count > 0 {
				missing -= count
				add(left[node], part.each, -int64(count))
				places = append(places, Place{node, part.index, count})
			}
		}
		if missing > 0 {
			return nil
		}
	}
	return places
}

// tightestFirst are the nodes on which pods can start now.
func (p *part) tightestFirst() []int {
	nodes := slices.DeleteFunc(slices.Clone(p.met), func(node int) bool { return p.here[node] == 0 })
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Or(p.here[a]-p.here[b], a-b) })
	return nodes
}

// quotaFrom is the first time from one on at which the queues of a gang have room until it ends.
func (p *plan) quotaFrom(g int, from, length tick) tick {
	wants := p.wants(g)
	for moved := true; moved && from < never; {
		moved = false
		for _, q := range p.Gangs[g].Queues {
			if later := p.queues[q].roomFrom(wants, from, length); later > from {
				from, moved = later, true
			}
		}
	}
	return from
}

// roomFrom is the first time from one on at which an amount is free for a length of time.
func (l *line) roomFrom(amount []int64, from, length tick) tick {
	for i := l.at(from); i < len(l.steps) && l.steps[i].from < from+length; i++ {
		if slots(l.steps[i].free, amount, 1) > 0 {
			continue
		}
		if i+1 == len(l.steps) {
			return never
		}
		from = l.steps[i+1].from
	}
	return from
}
