package timeline

import (
	"slices"
	"time"

	"github.com/muster-sched/muster/pkg/quota"
)

// look decides on all gangs that wait, in order. Each starts if it fits now, beside what is kept for gangs before it.
func (s *simulation) look() {
	for again := true; again; {
		s.lookOnce()
		again = s.left > 0 && s.settle() // less is kept
	}
}

func (s *simulation) lookOnce() {
	s.held.begin()
	s.claims.begin()
	for _, k := range s.kinds {
		k.before = k.sum
	}
	s.left -= 1 + len(s.waiting)/8
	still := s.waiting[:0]
	for i, g := range s.waiting {
		if s.left <= 0 {
			still = append(still, s.waiting[i:]...)
			break
		}
		if !s.decide(g) {
			still = append(still, g)
		}
	}
	s.waiting = still
}

// decide says whether a gang has started.
func (s *simulation) decide(g *waiting) bool {
	mayFit := s.mayFit(g)
	if !mayFit && s.held.heads[g.Line] && (len(g.Queues) == 0 || s.claims.short[g.Queues[0]]) {
		return false // nothing is kept for it
	}
	against := s.held.against(s, g)
	if !s.hasQuota(g, against) {
		s.lackQuota(g, against)
		return false
	}
	if mayFit {
		if places := s.placesFor(g, against); places != nil {
			s.take(g, places)
			return true
		}
	}
	s.lackRoom(g, against)
	return false
}

// mayFit says whether enough pods fit, each kind by itself.
func (s *simulation) mayFit(g *waiting) bool {
	for _, need := range g.needs {
		if s.kinds[need.Kind].sum < need.Count {
			return false
		}
	}
	return true
}

// claims are what is kept of queues for gangs that have lacked quota for long.
type claims struct {
	kept  map[int][]int64
	short map[int]bool // a gang that is charged to it lacks quota
	next  tick         // when a turn ends
}

func (c *claims) begin() { *c = claims{kept: map[int][]int64{}, short: map[int]bool{}, next: never} }

// hasQuota says whether the queues of a gang have room for it, beside what is kept for gangs before it. The first of a queue may have
// lacked quota for long, and have no start. Then quota is kept for it until it starts. It is not kept for longer than its turn.
func (s *simulation) hasQuota(g *waiting, against []*reserved) bool {
	lacks := slices.IndexFunc(g.Queues, func(q int) bool { return slots(s.quotaBeside(q, against), g.wants, 1) == 0 })
	switch {
	case lacks < 0 && !g.hasTurn:
		if g.lacksQuota != never {
			g.lacksQuota, g.retryAt, g.retries = never, 0, 0
		}
		return true
	case lacks >= 0 && g.lacksQuota == never:
		g.lacksQuota = s.since(g)
	}
	if lacks >= 0 {
		g.lacksOwn = lacks == 0
	}
	own := g.Queues[0]
	isFirst := !s.claims.short[own]
	s.claims.short[own], g.hasTurn = true, false
	if g.isFirst = isFirst; !isFirst || s.Patience <= 0 || s.hasStart(g) {
		return lacks < 0
	}
	if left := quota.TurnLeft(s.Patience, time.Duration(s.now-g.lacksQuota)); left > 0 {
		g.hasTurn, s.claims.next = true, min(s.claims.next, s.now+tick(left))
		s.claim(g)
	}
	return lacks < 0
}

// quotaBeside is what is free of a queue beside what is kept of it. The reservation that holds against all keeps quota of all its queues, another one
// that of its own.
func (s *simulation) quotaBeside(q int, against []*reserved) []int64 {
	free := s.claims.beside(q, s.queues[q])
	for _, r := range against {
		i := slices.Index(r.gang.Queues, q)
		if r.undated || i < 0 || i > 0 && r != s.held.first {
			continue
		}
		free = slices.Clone(free)
		for n, amount := range r.gang.wants {
			free[n] -= max(0, min(amount, free[n]))
		}
	}
	return free
}

// claim keeps what is free of a gang's queues. Where it lacks quota of its own queue, only of that.
func (s *simulation) claim(g *waiting) {
	amount := slices.Clone(g.wants)
	for i, q := range g.Queues {
		if i > 0 && g.lacksOwn {
			return
		}
		for r, left := range s.claims.beside(q, s.queues[q]) {
			amount[r] = max(0, min(amount[r], left))
		}
		if s.claims.kept[q] == nil {
			s.claims.kept[q] = make([]int64, len(s.names))
		}
		add(s.claims.kept[q], amount, 1)
	}
}

// beside is what is free of a queue beside claims.
func (c *claims) beside(q int, free []int64) []int64 {
	if kept := c.kept[q]; kept != nil {
		free = slices.Clone(free)
		add(free, kept, -1)
	}
	return free
}

// since is when a gang began to wait that is found to wait.
func (s *simulation) since(g *waiting) tick {
	if s.now == 0 && !g.Since.IsZero() {
		return s.ticks(g.Since)
	}
	return s.now
}

// placesFor finds places for a gang beside reservations; nil if there are none.
func (s *simulation) placesFor(g *waiting, against []*reserved) []Place {
	if len(against) > 0 {
		for _, need := range g.needs {
			if s.slotsBeside(s.kinds[need.Kind], against) < need.Count {
				return nil
			}
		}
	}
	if places := s.spread(g, s.beside(against)); places != nil {
		return places
	}
	return s.pack(g.needs, s.beside(against))
}

// besideSum is how many pods less fit beside reservations.
type besideSum struct {
	versions int // the sum of the versions of the reservations
	less     int
}

// slotsBeside is how many pods of a kind fit beside reservations.
func (s *simulation) slotsBeside(k *kind, against []*reserved) int {
	var key [3]*reserved
	versions := copy(key[:], against)
	for _, r := range against {
		versions += r.version
	}
	known, ok := k.beside[key]
	if !ok || known.versions != versions {
		b := s.beside(against)
		known = besideSum{versions: versions}
		for _, n := range b.touched {
			known.less += k.slots[n] - b.slots(k, n)
		}
		k.beside[key] = known
	}
	return k.sum - known.less
}

// overlay is what is free of nodes, where that is not what is free now.
type overlay struct {
	nodes   [][]int64
	amounts [][]int64
	has     []bool
	touched []int
}

func newOverlay(nodes [][]int64) *overlay {
	return &overlay{nodes: nodes, amounts: cloned(nodes), has: make([]bool, len(nodes))}
}

func (o *overlay) reset() {
	for _, n := range o.touched {
		o.has[n] = false
	}
	o.touched = o.touched[:0]
}

// free must not be changed.
func (o *overlay) free(n int) []int64 {
	if !o.has[n] {
		return o.nodes[n]
	}
	return o.amounts[n]
}

// own may be changed.
func (o *overlay) own(n int) []int64 {
	if !o.has[n] {
		o.has[n], o.touched = true, append(o.touched, n)
		copy(o.amounts[n], o.nodes[n])
	}
	return o.amounts[n]
}

func (o *overlay) slots(k *kind, n int) int {
	switch {
	case !o.has[n]:
		return k.slots[n]
	case !k.takes(n):
		return 0
	}
	return slots(o.free(n), k.each, k.most)
}

func (o *overlay) place(k *kind, n, count int) { add(o.own(n), k.each, -int64(count)) }

// beside is what is free beside reservations. There is one at a time.
func (s *simulation) beside(against []*reserved) *overlay {
	if s.besideNow == nil {
		s.besideNow = newOverlay(s.nodes)
	}
	b := s.besideNow
	b.reset()
	for i, r := range against {
		s.left -= len(r.on)
		for n := range r.on {
			if i > 0 && b.has[n] {
				continue
			}
			s.keep(b.own(n), n, against[i:])
		}
	}
	return b
}

// keep takes what reservations keep of a node now.
func (s *simulation) keep(free []int64, n int, against []*reserved) {
	for i := range free {
		var used int64
		for _, r := range against {
			if on := r.on[n]; on != nil {
				kept := max(0, on.amount[i]-max(0, on.comes[i]-used))
				used += on.amount[i] - kept
				free[i] -= kept
			}
		}
	}
}

// candidate is a node that takes pods.
type candidate struct {
	node, slots int
	free        float64
}

// spread places pods as kube-scheduler does: each where the largest part of the node is free.
func (s *simulation) spread(g *waiting, b *overlay) (places []Place) {
	for _, need := range g.needs {
		k := s.kinds[need.Kind]
		queue := s.candidates[:0]
		s.left -= len(s.nodes) / 8
		for n := range s.nodes {
			if k.slots[n] == 0 {
				continue
			}
			if count := b.slots(k, n); count > 0 {
				queue = append(queue, candidate{n, count, s.freePart(k, n, b.free(n), 1)})
			}
		}
		s.candidates, s.left = queue, s.left-len(queue)
		heapify(queue)
		placed := map[int]int{}
		for range need.Count {
			if len(queue) == 0 {
				return nil
			}
			best := &queue[0]
			placed[best.node]++
			if best.slots--; best.slots == 0 {
				queue = pop(queue)
				continue
			}
			best.free = s.freePart(k, best.node, b.free(best.node), int64(placed[best.node])+1)
			sift(queue, 0)
		}
		for n, count := range placed {
			b.place(k, n, count)
			places = append(places, Place{n, need.Kind, count})
		}
	}
	sortPlaces(places)
	return places
}

func sortPlaces(places []Place) {
	slices.SortFunc(places, func(a, b Place) int {
		if a.Kind != b.Kind {
			return a.Kind - b.Kind
		}
		return a.Node - b.Node
	})
}

// before says whether a node is filled before another.
func (c *candidate) before(other *candidate) bool {
	switch {
	case c.free != other.free:
		return c.free > other.free
	case c.slots != other.slots:
		return c.slots > other.slots
	}
	return c.node < other.node
}

func heapify(queue []candidate) {
	for i := len(queue)/2 - 1; i >= 0; i-- {
		sift(queue, i)
	}
}

// pop takes the first entry of a heap away.
func pop(queue []candidate) []candidate {
	queue[0] = queue[len(queue)-1]
	queue = queue[:len(queue)-1]
	sift(queue, 0)
	return queue
}

// sift moves an entry of a heap down to its place.
func sift(queue []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(queue) {
			return
		}
		if child+1 < len(queue) && queue[child+1].before(&queue[child]) {
			child++
		}
		if !queue[child].before(&queue[i]) {
			return
		}
		queue[i], queue[child] = queue[child], queue[i]
		i = child
	}
}

// freePart is how much of a node is free beside some pods, as a sum of parts.
func (s *simulation) freePart(k *kind, n int, free []int64, count int64) (sum float64) {
	for r, each := range k.each {
		if each > 0 && s.emptied.nodes[n][r] > 0 {
			sum += float64(free[r]-count*each) / float64(s.emptied.nodes[n][r])
		}
	}
	return sum
}

// pack places pods where the fewest fit first, so that large gaps stay whole.
func (s *simulation) pack(needs []Need, b *overlay) (places []Place) {
	for _, need := range needs {
		k, missing := s.kinds[need.Kind], need.Count
		queue := s.candidates[:0]
		s.left -= len(s.nodes)
		for n := range s.nodes {
			if count := b.slots(k, n); count > 0 {
				queue = append(queue, candidate{node: n, slots: count})
			}
		}
		s.candidates = queue
		slices.SortStableFunc(queue, func(a, b candidate) int { return a.slots - b.slots })
		for _, c := range queue {
			if count := min(c.slots, missing); count > 0 {
				missing -= count
				b.place(k, c.node, count)
				places = append(places, Place{c.node, need.Kind, count})
			}
		}
		if missing > 0 {
			return nil
		}
	}
	sortPlaces(places)
	return places
}
