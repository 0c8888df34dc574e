package timeline

import (
	"cmp"
	"slices"
	"time"
)

const (
	// window is how far ahead a start may be to hold against all gangs.
	window = tick(24 * time.Hour)
	// manyTries is the number of ends after which a placement is tried each time. After that, twice as many ends are skipped each time.
	manyTries = 8
	// firstRetry is after how long a start is looked for again if none is known. It doubles.
	firstRetry = tick(10 * time.Second)
)

// reserved is a start that is kept for the first gang of its line that lacks room.
type reserved struct {
	gang   *waiting
	start  tick
	places []Place
	// awaitsOwn: it waits for a gang of its own line last.
	awaitsOwn bool
	on        map[int]*kept // by node
	// undated: no start is known. All that comes free in the places is kept.
	undated bool
	chosen  tick
	version int // of what is free and comes free on its nodes
	// isHurt: pods that started have taken room that it needs.
	isHurt bool
}

// kept is an amount of a node, and what comes free there by the start.
type kept struct{ amount, comes, left []int64 }

// held are the reservations.
type held struct {
	lines map[string]*reserved
	// Of this look:
	heads   map[string]bool // lines whose first gang that lacks room was found
	waiting []*waiting      // these gangs
	before  []*reserved     // of these that were found so far
	first   *reserved       // the first that holds against all
	holder  *reserved       // the one that has waited so long that it holds against all
}

func (h *held) begin() {
	h.heads, h.waiting, h.before, h.first, h.holder = map[string]bool{}, h.waiting[:0], h.before[:0], nil, nil
}

// add adds a reservation that gangs behind it are to leave alone.
func (h *held) add(s *simulation, r *reserved) {
	h.before = append(h.before, r)
	isWide := r.gang.Line == "" || !r.awaitsOwn && s.Patience > 0 && s.now-r.gang.lacksRoom >= tick(s.Patience)
	switch {
	case h.first == nil && !r.undated && !r.awaitsOwn && r.start-s.now <= window:
		h.first = r
	case h.holder == nil && isWide:
		h.holder = r
	}
}

// against are the reservations that hold against a gang that would start now.
func (h *held) against(s *simulation, g *waiting) (against []*reserved) {
	for _, r := range h.before {
		ofLine := r.gang.Line == g.Line && g.Line != ""
		if (r == h.first || r == h.holder || ofLine) && (r.undated || g.endsAt(s.now) > r.start) {
			against = append(against, r)
		}
	}
	return against
}

// ends notes that an amount comes free on a node at a time, or does not come free any more.
func (h *held) ends(at tick, of on, count int64, free []int64) {
	for _, r := range h.lines {
		k := r.on[of.node]
		if k == nil {
			continue
		}
		r.version++
		if r.undated {
			continue
		}
		if at <= r.start {
			add(k.comes, of.amount, count)
		}
		for i, amount := range k.amount {
			r.isHurt = r.isHurt || amount > 0 && free[i]+k.comes[i] < amount
		}
	}
}

// lackRoom notes that a gang lacks room. The first of its line gets a start at once if it was looked at because it might have fitted.
func (s *simulation) lackRoom(g *waiting, against []*reserved) {
	h := &s.held
	if g.lacksRoom == never {
		g.lacksRoom = s.since(g)
	}
	if h.heads[g.Line] {
		return
	}
	h.heads[g.Line] = true
	if !s.NoReservations || s.isKept(g) || h.lines[g.Line] != nil {
		h.waiting = append(h.waiting, g)
		s.reserve(g, against)
	}
}

// lackQuota gives a gang a start if it is known when both come free. No gang before it in its line may lack room or have a start.
func (s *simulation) lackQuota(g *waiting, against []*reserved) {
	h := &s.held
	if h.heads[g.Line] || !g.isFirst || g.hasTurn || s.NoReservations && !s.hasStart(g) {
		return
	}
	if s.reserve(g, against) {
		h.heads[g.Line], h.waiting = true, append(h.waiting, g)
	}
}

// isKept says whether the plan begins with a reservation of the gang.
func (s *simulation) isKept(g *waiting) bool {
	return s.now == 0 && g.Reserved != nil && s.ticks(g.Reserved.Start) > 0
}

// hasStart says whether a gang has a reservation with a start.
func (s *simulation) hasStart(g *waiting) bool {
	r := s.held.lines[g.Line]
	return r != nil && r.gang == g && !r.undated || s.isKept(g) && !g.Reserved.Start.IsZero()
}

// reserve gives a gang a reservation, chosen anew if that may help. It says whether there is one.
func (s *simulation) reserve(g *waiting, against []*reserved) bool {
	h := &s.held
	r := h.lines[g.Line]
	if r != nil && r.gang != g {
		delete(h.lines, g.Line)
		r = nil
	}
	if s.isKept(g) {
		r = s.kept(g, against)
		h.lines[g.Line] = r
	} else if r == nil || s.wasEnough(g) && s.isOutdated(r) {
		r = s.renew(g, against)
	}
	if r != nil {
		h.add(s, r)
	}
	return r != nil
}

// kept is the reservation that a gang has now.
func (s *simulation) kept(g *waiting, against []*reserved) *reserved {
	start, w := s.ticks(g.Reserved.Start), s.walk(g, against)
	for start < never && w.next() <= start {
		w.step()
	}
	for _, place := range g.Reserved.Places {
		w.place(s.kinds[place.Kind], place.Node, place.Count)
	}
	return w.made(start, g.Reserved.Places)
}

// wasEnough says whether a gang might have fitted when this look began.
func (s *simulation) wasEnough(g *waiting) bool {
	for _, need := range g.needs {
		if s.kinds[need.Kind].before < need.Count {
			return false
		}
	}
	return true
}

// renew chooses the start of a gang anew.
func (s *simulation) renew(g *waiting, against []*reserved) *reserved {
	h := &s.held
	var before []Place
	r := h.lines[g.Line]
	switch {
	case r != nil:
		before = r.places
	case s.now < g.retryAt:
		return nil
	}
	if h.first != nil && s.left < mostWork-mostReserving {
		delete(h.lines, g.Line)
		return nil
	}
	r = s.choose(g, against, before)
	if r == nil {
		delete(h.lines, g.Line)
		g.retryAt = s.now + min(firstRetry<<min(g.retries, 20), max(tick(s.Patience), firstRetry))
		g.retries++
		return nil
	}
	g.retries, r.chosen, h.lines[g.Line] = 0, s.now, r
	return r
}

// isOutdated says whether the places of a reservation are to be chosen again. They may move whenever something ends.
func (s *simulation) isOutdated(r *reserved) bool {
	if r.undated {
		return false
	}
	return s.now >= r.start || r.isHurt || s.left > mostWork-mostRenewing
}

// settle chooses the starts anew that were not chosen in this look. It says whether other gangs may fit now.
func (s *simulation) settle() (freed bool) {
	h := &s.held
	heads := h.waiting
	h.before, h.first, h.holder = h.before[:0], nil, nil
	for _, g := range heads {
		r := h.lines[g.Line]
		if r == nil || r.chosen < s.now && s.isOutdated(r) {
			old := r
			r = s.renew(g, h.against(s, g))
			freed = freed || old != nil && (r == nil || r.start > old.start || !slices.Equal(r.places, old.places))
		}
		if r != nil {
			h.add(s, r)
		}
	}
	for line, r := range h.lines {
		if !slices.Contains(h.before, r) {
			delete(h.lines, line)
			freed = true
		}
	}
	return freed
}

// future is the cluster at a later time.
type future struct {
	*overlay
	needs []Need
	slots [][]int // of each need, on each node
	sums  []int
}

// future begins with the cluster now. There is one at a time.
func (s *simulation) future(needs []Need) *future {
	f := &s.later
	if f.overlay == nil {
		f.overlay = newOverlay(s.nodes)
	}
	f.reset()
	f.needs, f.sums = needs, f.sums[:0]
	for i, need := range needs {
		if i == len(f.slots) {
			f.slots = append(f.slots, make([]int, len(s.nodes)))
		}
		s.left -= len(s.nodes) / 8
		copy(f.slots[i], s.kinds[need.Kind].slots)
		f.sums = append(f.sums, s.kinds[need.Kind].sum)
	}
	return f
}

func (w *walk) add(of on, count int64) {
	free := w.own(of.node)
	add(free, of.amount, count)
	for i, need := range w.needs {
		if k := w.kinds[need.Kind]; k.takes(of.node) {
			w.left--
			now := slots(free, k.each, k.most)
			w.sums[i] += now - w.slots[i][of.node]
			w.slots[i][of.node] = now
		}
	}
}

func (f *future) isEnough() bool {
	for i, need := range f.needs {
		if f.sums[i] < need.Count {
			return false
		}
	}
	return true
}

// freed is an amount that has come free, and whether a gang of the same line had it.
type freed struct {
	on
	at   tick
	own  bool
	kept bool // for another gang
}

// walk goes from end to end, for a gang that lacks room.
type walk struct {
	*simulation
	*future
	gang   *waiting
	others []freed // what other reservations will give back
	i, j   int     // of what ends, and of these
	ended  []freed
	at     tick
	quotas [][]int64 // free of the gang's queues
	short  bool      // of them, before the last step
}

func (s *simulation) walk(g *waiting, against []*reserved) *walk {
	w := &walk{simulation: s, future: s.future(g.needs), gang: g}
	for _, q := range g.Queues {
		w.quotas = append(w.quotas, slices.Clone(s.quotaBeside(q, against)))
	}
	for _, r := range against {
		for n, k := range r.on {
			w.add(on{n, k.amount}, -1)
			if until := r.gang.endsAt(r.start); until < never {
				w.others = append(w.others, freed{on{n, k.amount}, until, false, true})
			}
		}
	}
	slices.SortStableFunc(w.others, func(a, b freed) int { return cmp.Or(compareTicks(a.at, b.at), a.node-b.node) })
	return w
}

// next is when something ends, never if nothing does.
func (w *walk) next() tick {
	at := never
	if w.i < len(w.ends) {
		at = w.ends[w.i].at
	}
	if w.j < len(w.others) {
		at = min(at, w.others[w.j].at)
	}
	return at
}

// step ends what ends next.
func (w *walk) step() {
	w.at, w.short = w.next(), w.lacksQuota()
	for ; w.i < len(w.ends) && w.ends[w.i].at == w.at; w.i++ {
		all := w.onOf(w.ends[w.i])
		own := w.gang.Line != "" && w.lineOf(w.ends[w.i]) == w.gang.Line
		for _, of := range all {
			w.add(of, 1)
			w.ended = append(w.ended, freed{of, w.at, own, false})
			w.giveBack(w.ends[w.i], of.amount)
		}
	}
	for ; w.j < len(w.others) && w.others[w.j].at == w.at; w.j++ {
		w.add(w.others[w.j].on, 1)
		w.ended = append(w.ended, w.others[w.j])
	}
}

// giveBack gives quota back.
func (w *walk) giveBack(e ending, amount []int64) {
	queues := w.queuesOf(e)
	for i, q := range w.gang.Queues {
		if slices.Contains(queues, q) {
			add(w.quotas[i], amount, 1)
		}
	}
}

func (w *walk) lacksQuota() bool {
	return slices.ContainsFunc(w.quotas, func(free []int64) bool { return slots(free, w.gang.wants, 1) == 0 })
}

// made is a reservation of places at a time up to which the walk went.
func (w *walk) made(at tick, places []Place) *reserved {
	r := &reserved{gang: w.gang, start: at, undated: at == never, places: places, on: map[int]*kept{}}
	for _, place := range places {
		k := r.on[place.Node]
		if k == nil {
			k = &kept{amount: make([]int64, len(w.names)), comes: make([]int64, len(w.names))}
			r.on[place.Node] = k
		}
		add(k.amount, w.kinds[place.Kind].each, int64(place.Count))
	}
	if r.undated {
		return r
	}
	for _, e := range w.ended {
		if k := r.on[e.node]; k != nil && !e.kept {
			add(k.comes, e.amount, 1)
		}
	}
	r.awaitsOwn = w.short && w.gang.lacksOwn || w.gang.Line != "" && w.lastNeeded(r, w.ended, true) > w.lastNeeded(r, w.ended, false)
	return r
}

// choose finds the first time at which a gang fits, by what ends, and its places. It is nil if there is none.
func (s *simulation) choose(g *waiting, against []*reserved, before []Place) *reserved {
	w := s.walk(g, against)
	tries, next := 0, 0
	for w.next() < never && s.left > 0 {
		w.step()
		if len(w.ended) < next && w.next() < never || !w.isEnough() || w.lacksQuota() {
			continue
		}
		if places := w.packLater(against, before); places != nil {
			return w.made(w.at, places)
		}
		if tries++; tries > manyTries {
			next = len(w.ended) + 1<<min(tries-manyTries, 20)
		}
	}
	return nil
}

// lineOf is the line of what ends.
func (s *simulation) lineOf(e ending) string {
	if e.run >= 0 {
		return s.Runs[e.run].Line
	}
	return s.Gangs[e.gang].Line
}

// lastNeeded is when the last of those ends that the places need. The future has the places taken.
func (f *future) lastNeeded(r *reserved, ended []freed, own bool) tick {
	last := -never
	for _, e := range slices.Backward(ended) {
		k := r.on[e.node]
		if k == nil || e.own != own {
			continue
		}
		if k.left == nil {
			k.left = slices.Clone(f.free(e.node))
		}
		add(k.left, e.amount, -1)
		for i, amount := range k.amount {
			if amount > 0 && k.left[i] < 0 {
				last = e.at
			}
		}
		if last > -never {
			break
		}
	}
	for _, k := range r.on {
		k.left = nil
	}
	return last
}

// choice is a choice of places at a later time.
type choice struct {
	*walk
	now     *overlay
	isNow   bool          // only room counts that is free now, too
	counts  []map[int]int // of each need, the pods on each node
	missing []int         // of each need
}

// packLater chooses places at that time, and takes them. It takes room that is free now first, and earlier places second. The rest goes where most
// is free.
func (w *walk) packLater(against []*reserved, before []Place) (places []Place) {
	c := &choice{walk: w, now: w.simulation.beside(against)}
	for _, need := range w.needs {
		c.counts, c.missing = append(c.counts, map[int]int{}), append(c.missing, need.Count)
	}
	for _, c.isNow = range []bool{true, false} {
		for i, need := range w.needs {
			for _, place := range before {
				if place.Kind == need.Kind {
					c.take(i, place.Node, min(place.Count-c.counts[i][place.Node], c.room(i, place.Node)))
				}
			}
		}
		for i := range w.needs {
			c.takeFreest(i)
		}
	}
	for i, need := range w.needs {
		for n, count := range c.counts[i] {
			places = append(places, Place{n, need.Kind, count})
		}
	}
	sortPlaces(places)
	if slices.Max(c.missing) == 0 {
		return places
	}
	for _, place := range places {
		w.place(w.kinds[place.Kind], place.Node, -place.Count)
	}
	return w.pack(w.needs, w.overlay)
}

// take places up to some pods of a need on a node.
func (c *choice) take(i, n, count int) {
	if count = min(count, c.missing[i]); count > 0 {
		k := c.kinds[c.needs[i].Kind]
		c.now.place(k, n, count)
		c.place(k, n, count)
		c.counts[i][n] += count
		c.missing[i] -= count
	}
}

// room is how many more pods of a need a node has room for.
func (c *choice) room(i, n int) int {
	k := c.kinds[c.needs[i].Kind]
	count := c.overlay.slots(k, n)
	if c.isNow {
		count = min(count, c.now.slots(k, n))
	}
	if k.MaxPerNode > 0 {
		count = min(count, k.MaxPerNode-c.counts[i][n])
	}
	return count
}

// takeFreest places the rest of a need, first where most is free now.
func (c *choice) takeFreest(i int) {
	if c.missing[i] == 0 {
		return
	}
	k, queue := c.kinds[c.needs[i].Kind], c.candidates[:0]
	for n := range c.nodes {
		if c.slots[i][n] == 0 || c.isNow && k.slots[n] == 0 {
			continue
		}
		if count := c.room(i, n); count > 0 {
			queue = append(queue, candidate{n, count, inPods(k, c.now.free(n))})
		}
	}
	c.candidates = queue
	c.left -= len(c.nodes)/8 + len(queue)
	for heapify(queue); len(queue) > 0 && c.missing[i] > 0; queue = pop(queue) {
		c.take(i, queue[0].node, queue[0].slots)
	}
}

// inPods is a free amount, counted in pods of a kind.
func inPods(k *kind, free []int64) float64 {
	pods := float64(enough)
	for r, each := range k.each {
		if each > 0 {
			pods = min(pods, float64(free[r])/float64(each))
		}
	}
	return pods
}
