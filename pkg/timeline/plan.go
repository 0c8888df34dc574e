package timeline

import (
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// tick is a time: nanoseconds after now.
type tick = int64

// never is after all times. It has half of the range, so that sums of two do not overflow.
const never tick = math.MaxInt64 / 2

// enough is how many pods fit where nothing limits them.
const enough = math.MaxInt32

// simulation is the cluster at one time, and what is to end after it.
type simulation struct {
	*Cluster
	names   []corev1.ResourceName // that count
	kinds   []*kind
	now     tick
	nodes   [][]int64 // free on each
	queues  [][]int64 // free of each
	ends    []ending  // to come, the first first
	waiting []*waiting
	starts  []Start
	left    int // work
	// leastOn and ended say which room gangs have waited for, and leastOf and charged which quota.
	leastOn, leastOf [][]int64  // free of nodes and queues at any time so far
	ended, charged   [][]ending // what gave back room on each node, and of each queue
	runs, gangs      []int      // one more than the last gang that was found to wait for it
	// Without gangs that wait:
	settled rest // when all has ended that has an end
	emptied rest // when all has ended
	held    held
	claims  claims
	runsOn  [][]on
	gangsOn [][]on
	// Scratch:
	candidates []candidate
	later      future
	besideNow  *overlay
}

// waiting is a gang that waits.
type waiting struct {
	*Gang
	index  int
	needs  []Need // of each kind one, those of the largest pods first
	wants  []int64
	length tick
	// lacksRoom and lacksQuota are since when, never if it does not.
	lacksRoom, lacksQuota tick
	lacksOwn              bool // quota of its own queue
	isFirst               bool // of its queue to lack quota in this look
	hasTurn               bool // quota is kept for it
	retryAt               tick // no start is known: it is looked for again then
	retries               int
}

// endsAt is when a gang ends that starts at a time.
func (g *waiting) endsAt(at tick) tick { return min(at+g.length, never) }

// ending is a run, or a gang that has started, that ends.
type ending struct {
	at   tick
	run  int // or -1
	gang int // or -1
}

// rest is what is free of nodes and queues when no gang of the plan has started.
type rest struct{ nodes, queues [][]int64 }

// on is an amount on a node.
type on struct {
	node   int
	amount []int64
}

// kind is a Kind with how many of its pods fit now.
type kind struct {
	*Kind
	each    []int64
	most    int   // on a node
	slots   []int // on each node
	sum     int
	before  int                        // the sum when the present look began
	beside  map[[3]*reserved]besideSum // by the reservations
	waiting int                        // gangs
	ever    int                        // pods that fit on empty nodes
	later   int                        // pods that fit when all has ended that has an end
}

// takes says whether a node takes pods of the kind.
func (k *kind) takes(node int) bool { return k.Takes == nil || k.Takes(node) }

// newSimulation is the cluster now. Of the gangs that ask, one waits (-1 for none).
func newSimulation(c *Cluster, asks int) *simulation {
	s := &simulation{Cluster: c, names: namesIn(c), starts: make([]Start, len(c.Gangs)), left: mostWork,
		ended: make([][]ending, len(c.Nodes)), charged: make([][]ending, len(c.Queues)),
		runs: make([]int, len(c.Runs)), gangs: make([]int, len(c.Gangs)), runsOn: make([][]on, len(c.Runs)), gangsOn: make([][]on, len(c.Gangs))}
	for _, free := range c.Nodes {
		s.nodes, s.leastOn = append(s.nodes, s.amounts(free, 0)), append(s.leastOn, s.amounts(free, 0))
	}
	for _, free := range c.Queues {
		s.queues, s.leastOf = append(s.queues, s.amounts(free, never)), append(s.leastOf, s.amounts(free, never))
	}
	s.addRuns()
	for i := range c.Kinds {
		k := &kind{Kind: &c.Kinds[i], each: s.amounts(c.Kinds[i].Requests, 0), most: enough}
		if k.MaxPerNode > 0 {
			k.most = k.MaxPerNode
		}
		s.kinds = append(s.kinds, k)
	}
	s.held.lines = map[string]*reserved{}
	for i := range c.Gangs {
		if !c.Gangs[i].Asks || i == asks {
			s.addGang(i)
		}
	}
	return s
}

// namesIn are the resources that a waiting pod asks for.
func namesIn(c *Cluster) []corev1.ResourceName {
	asked := map[corev1.ResourceName]bool{}
	for i := range c.Kinds {
		for name, amount := range c.Kinds[i].Requests {
			if amount > 0 {
				asked[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(asked))
}

// amounts are the amounts of a list by the index of the resource.
func (s *simulation) amounts(l resources.List, missing int64) []int64 {
	amounts := make([]int64, len(s.names))
	for i, name := range s.names {
		amount, has := l[name]
		if !has {
			amount = missing
		}
		amounts[i] = max(min(amount, never), -never)
	}
	return amounts
}

// ticks is a time as a tick.
func (s *simulation) ticks(t time.Time) tick {
	if t.IsZero() {
		return never
	}
	return max(min(int64(t.Sub(s.Now)), never-1), -never)
}

// addRuns notes when runs end, and what is free then.
func (s *simulation) addRuns() {
	s.settled, s.emptied = rest{cloned(s.nodes), cloned(s.queues)}, rest{cloned(s.nodes), cloned(s.queues)}
	for i := range s.Runs {
		run := &s.Runs[i]
		if !run.End.IsZero() {
			s.ends = append(s.ends, ending{max(s.ticks(run.End), tick(time.Second)), i, -1}) // it holds its room now
		}
		for _, on := range run.On {
			amount := s.amounts(on.Of, 0)
			for _, r := range []rest{s.emptied, s.settled} {
				add(r.nodes[on.Node], amount, 1)
				for _, q := range run.Queues {
					add(r.queues[q], amount, 1)
				}
				if run.End.IsZero() {
					break
				}
			}
		}
	}
	slices.SortStableFunc(s.ends, func(a, b ending) int { return compareTicks(a.at, b.at) })
}

func compareTicks(a, b tick) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func cloned(all [][]int64) [][]int64 {
	all = slices.Clone(all)
	for i := range all {
		all[i] = slices.Clone(all[i])
	}
	return all
}

// addGang adds a gang that waits, unless it can never start.
func (s *simulation) addGang(i int) {
	g := &waiting{Gang: &s.Gangs[i], index: i, length: never, lacksRoom: never, lacksQuota: never, wants: make([]int64, len(s.names))}
	if g.For > 0 {
		g.length = min(int64(g.For), never)
	}
	if len(g.Needs)*len(s.nodes) > mostWorkOfOne {
		s.starts[i].Why = TooMuch
		return
	}
	for _, need := range g.Needs {
		if same := slices.IndexFunc(g.needs, func(other Need) bool { return other.Kind == need.Kind }); same >= 0 {
			g.needs[same].Count += need.Count
		} else {
			g.needs = append(g.needs, need)
		}
		s.count(s.kinds[need.Kind])
		add(g.wants, s.kinds[need.Kind].each, int64(need.Count))
	}
	if len(g.needs) > 1 {
		slices.SortStableFunc(g.needs, func(a, b Need) int { return s.kinds[b.Kind].compareSize(s.kinds[a.Kind]) })
	}
	if s.starts[i].Why = s.whyNever(g); s.starts[i].Why == TooLarge {
		return
	}
	for _, need := range g.needs {
		s.kinds[need.Kind].waiting++
	}
	s.waiting = append(s.waiting, g)
}

// compareSize compares by how few pods fit on empty nodes.
func (k *kind) compareSize(other *kind) int { return other.ever - k.ever }

// count counts the pods of a kind that fit.
func (s *simulation) count(k *kind) {
	if k.slots != nil {
		return
	}
	k.slots, k.beside = make([]int, len(s.nodes)), map[[3]*reserved]besideSum{}
	s.left -= len(s.nodes)
	for n := range s.nodes {
		if k.takes(n) {
			k.slots[n] = slots(s.nodes[n], k.each, k.most)
			k.sum += k.slots[n]
			k.ever += slots(s.emptied.nodes[n], k.each, k.most)
			k.later += slots(s.settled.nodes[n], k.each, k.most)
		}
	}
}

// add adds an amount, times a count. The result ends at the bounds of what is counted.
func add(to, amount []int64, count int64) {
	for r, a := range amount {
		if a == 0 {
			continue
		}
		if limit := never / max(count, -count, 1); a > limit || a < -limit {
			a = max(min(a, limit), -limit)
		}
		to[r] = max(min(to[r]+a*count, never), -never)
	}
}

// fits says whether an amount fits into another.
func fits(free, each []int64) bool {
	for r, want := range each {
		if want > 0 && free[r] < want {
			return false
		}
	}
	return true
}

// slots is how many pods fit into an amount.
func slots(free, each []int64, most int) int {
	if !fits(free, each) {
		return 0
	}
	for r, want := range each {
		if want > 0 {
			most = min(most, int(min(free[r]/want, enough)))
		}
	}
	return most
}

// run goes from end to end, until all gangs have started or nothing ends any more.
func (s *simulation) run() []Start {
	s.look()
	for len(s.waiting) > 0 && s.left > 0 {
		next := s.claims.next
		if len(s.ends) > 0 {
			next = min(next, s.ends[0].at)
		}
		if next == never {
			break
		}
		s.now = next
		for len(s.ends) > 0 && s.ends[0].at <= s.now {
			s.end(s.ends[0])
			s.ends = s.ends[1:]
		}
		s.look()
	}
	for _, g := range s.waiting {
		switch {
		case s.left <= 0:
			s.starts[g.index].Why = TooMuch
		case s.starts[g.index].Why == Known:
			s.starts[g.index].Why = Behind
		}
	}
	return s.starts
}

// onOf is what an ending gives back on nodes.
func (s *simulation) onOf(e ending) []on {
	if e.run < 0 {
		return s.gangsOn[e.gang]
	}
	if s.runsOn[e.run] == nil {
		for _, a := range s.Runs[e.run].On {
			s.runsOn[e.run] = append(s.runsOn[e.run], on{a.Node, s.amounts(a.Of, 0)})
		}
	}
	return s.runsOn[e.run]
}

// queuesOf are the queues of what ends.
func (s *simulation) queuesOf(e ending) []int {
	if e.run < 0 {
		return s.Gangs[e.gang].Queues
	}
	return s.Runs[e.run].Queues
}

// end gives back what has ended.
func (s *simulation) end(e ending) {
	all, queues := s.onOf(e), s.queuesOf(e)
	s.left -= len(all)
	for _, of := range all {
		s.change(of.node, of.amount, 1)
		s.held.ends(e.at, of, -1, s.nodes[of.node])
		s.ended[of.node] = append(s.ended[of.node], e)
		for _, q := range queues {
			add(s.queues[q], of.amount, 1)
		}
	}
	for _, q := range queues {
		s.charged[q] = append(s.charged[q], e)
	}
}

// change changes what is free on a node.
func (s *simulation) change(node int, amount []int64, count int64) {
	add(s.nodes[node], amount, count)
	for _, k := range s.kinds {
		if k.waiting == 0 || !k.takes(node) {
			continue
		}
		s.left--
		now := slots(s.nodes[node], k.each, k.most)
		k.sum += now - k.slots[node]
		k.slots[node] = now
	}
}

// take starts a gang in its places.
func (s *simulation) take(g *waiting, places []Place) {
	s.starts[g.index] = s.startOf(g, places)
	e := ending{g.endsAt(s.now), -1, g.index}
	for _, need := range g.needs {
		s.kinds[need.Kind].waiting--
	}
	for _, place := range places {
		amount := make([]int64, len(s.names))
		add(amount, s.kinds[place.Kind].each, int64(place.Count))
		s.gangsOn[g.index] = append(s.gangsOn[g.index], on{place.Node, amount})
	}
	all, queues := s.onOf(e), s.queuesOf(e)
	s.left -= len(all)
	for _, of := range all {
		s.change(of.node, of.amount, -1)
		s.held.ends(e.at, of, 1, s.nodes[of.node])
		lower(s.leastOn[of.node], s.nodes[of.node])
	}
	for _, q := range queues {
		add(s.queues[q], g.wants, -1)
		lower(s.leastOf[q], s.queues[q])
	}
	if e.at < never {
		i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i].at > e.at })
		s.ends = slices.Insert(s.ends, i, e)
	}
}

func lower(least, now []int64) {
	for r := range least {
		least[r] = min(least[r], now[r])
	}
}

// startOf says what a gang has waited for that starts now.
func (s *simulation) startOf(g *waiting, places []Place) Start {
	start := Start{At: s.Cluster.Now.Add(time.Duration(s.now)), Places: places}
	if s.now == 0 {
		return start
	}
	note := func(endings []ending) {
		for _, e := range endings {
			switch {
			case e.run >= 0 && s.runs[e.run] != g.index+1:
				s.runs[e.run], start.Runs = g.index+1, append(start.Runs, e.run)
			case e.run < 0 && s.gangs[e.gang] != g.index+1:
				s.gangs[e.gang], start.Gangs = g.index+1, append(start.Gangs, e.gang)
			}
		}
	}
	for _, place := range places {
		if k := s.kinds[place.Kind]; slots(s.leastOn[place.Node], k.each, k.most) < place.Count {
			note(s.ended[place.Node])
		}
	}
	for _, q := range g.Queues {
		if slots(s.leastOf[q], g.wants, 1) == 0 {
			note(s.charged[q])
		}
	}
	slices.Sort(start.Runs)
	slices.Sort(start.Gangs)
	return start
}

// whyNever says why a gang has no start; Known if it may have one.
func (s *simulation) whyNever(g *waiting) Reason {
	fitsInto := func(queues [][]int64, pods func(*kind) int) bool {
		for _, need := range g.needs {
			if pods(s.kinds[need.Kind]) < need.Count {
				return false
			}
		}
		return !slices.ContainsFunc(g.Queues, func(q int) bool { return slots(queues[q], g.wants, 1) == 0 })
	}
	switch {
	case !fitsInto(s.emptied.queues, func(k *kind) int { return k.ever }):
		return TooLarge
	case !fitsInto(s.settled.queues, func(k *kind) int { return k.later }):
		return NoEnd
	}
	return Known
}
