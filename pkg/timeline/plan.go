package timeline

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// plan is a plan that is being made.
type plan struct {
	*Cluster
	names   []corev1.ResourceName // that count
	nodes   []line
	queues  []line
	kinds   []*kind
	ends    [][]ending // on each node: what gives back room
	charged [][]ending // to each queue
	settled rest       // when all has ended that has an end
	emptied rest       // when all has ended
	left    int        // work that the present gang may still take
	// Scratch:
	here    [][]int // of the parts of a sweep: 0 on each node
	runs    []int   // by run: one more than the last gang that was found to wait for it
	waitsOn []int   // the same by gang
}

// ending is a run, or a planned gang, that ends.
type ending struct {
	at   tick
	run  int // or -1
	gang int // or -1
}

// rest is what is free of nodes and queues when no gang of the plan has started.
type rest struct{ nodes, queues [][]int64 }

// lastOf is what is free of some lines in the end.
func lastOf(lines []line) [][]int64 {
	last := make([][]int64, len(lines))
	for i, l := range lines {
		last[i] = slices.Clone(l.steps[len(l.steps)-1].free)
	}
	return last
}

// kind is a Kind with the nodes that take it.
type kind struct {
	*Kind
	each   []int64
	most   int // on a node
	orders map[tick]*order
}

// entry is a node in the order of a kind. It is out of date if the node's line has changed since.
type entry struct {
	from    tick
	node    int
	version int
}

func newPlan(c *Cluster) *plan {
	p := &plan{Cluster: c, names: namesIn(c), nodes: make([]line, len(c.Nodes)), queues: make([]line, len(c.Queues)),
		ends: make([][]ending, len(c.Nodes)), charged: make([][]ending, len(c.Queues)),
		runs: make([]int, len(c.Runs)), waitsOn: make([]int, len(c.Gangs))}
	for n, free := range c.Nodes {
		p.nodes[n].steps = []step{{free: p.amounts(free, 0)}}
	}
	for q, free := range c.Queues {
		p.queues[q].steps = []step{{free: p.amounts(free, never)}}
	}
	p.addRuns()
	for i := range c.Kinds {
		k := &kind{Kind: &c.Kinds[i], each: p.amounts(c.Kinds[i].Requests, 0), most: enough, orders: map[tick]*order{}}
		if k.MaxPerNode > 0 {
			k.most = k.MaxPerNode
		}
		p.kinds = append(p.kinds, k)
	}
	return p
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
func (p *plan) amounts(l resources.List, missing int64) []int64 {
	amounts := make([]int64, len(p.names))
	for i, name := range p.names {
		amount, has := l[name]
		if !has {
			amount = missing
		}
		amounts[i] = max(min(amount, never), -never)
	}
	return amounts
}

// ticks is a time as a tick: now for one that is past.
func (p *plan) ticks(t time.Time) tick {
	if t.IsZero() {
		return never
	}
	return min(max(int64(t.Sub(p.Now)), 0), never-1)
}

// length of a gang.
func (p *plan) length(g int) tick {
	if p.Gangs[g].For <= 0 {
		return never
	}
	return min(int64(p.Gangs[g].For), never)
}

// addRuns gives back what runs hold when they end.
func (p *plan) addRuns() {
	for i := range p.Runs {
		if !p.Runs[i].End.IsZero() {
			p.addRun(i)
		}
	}
	p.settled, p.emptied = rest{lastOf(p.nodes), lastOf(p.queues)}, rest{lastOf(p.nodes), lastOf(p.queues)}
	for i := range p.Runs {
		if run := &p.Runs[i]; run.End.IsZero() {
			for _, on := range run.On {
				amount := p.amounts(on.Of, 0)
				add(p.emptied.nodes[on.Node], amount, 1)
				for _, q := range run.Queues {
					add(p.emptied.queues[q], amount, 1)
				}
			}
		}
	}
}

// addRun gives back what a run holds when it ends.
func (p *plan) addRun(i int) {
	run := &p.Runs[i]
	end := max(p.ticks(run.End), tick(time.Second)) // it holds its room now
	sum := make([]int64, len(p.names))
	for _, on := range run.On {
		amount := p.amounts(on.Of, 0)
		p.nodes[on.Node].add(end, never, amount, 1)
		p.ends[on.Node] = append(p.ends[on.Node], ending{end, i, -1})
		add(sum, amount, 1)
	}
	for _, q := range run.Queues {
		p.queues[q].add(end, never, sum, 1)
		p.charged[q] = append(p.charged[q], ending{end, i, -1})
	}
}

// wants is what a gang is charged for in all.
func (p *plan) wants(g int) []int64 {
	sum := make([]int64, len(p.names))
	for _, need := range p.Gangs[g].Needs {
		add(sum, p.kinds[need.Kind].each, int64(need.Count))
	}
	return sum
}

// take takes the room of a gang from its start on until its end.
func (p *plan) take(g int, at tick, places []Place) {
	end := min(at+p.length(g), never)
	for _, place := range places {
		p.nodes[place.Node].add(at, end, p.kinds[place.Kind].each, -int64(place.Count))
		p.ends[place.Node] = append(p.ends[place.Node], ending{end, -1, g})
	}
	for _, q := range p.Gangs[g].Queues {
		p.queues[q].add(at, end, p.wants(g), -1)
		p.charged[q] = append(p.charged[q], ending{end, -1, g})
	}
}

// start says what a gang waits for that starts at a time.
func (p *plan) start(g int, at tick, places []Place) Start {
	s := Start{At: p.Now.Add(time.Duration(at)), Places: places}
	if at == 0 {
		return s
	}
	note := func(endings []ending) {
		for _, e := range endings {
			switch {
			case e.at > at || e.gang == g:
			case e.run >= 0 && p.runs[e.run] != g+1:
				p.runs[e.run], s.Runs = g+1, append(s.Runs, e.run)
			case e.run < 0 && p.waitsOn[e.gang] != g+1:
				p.waitsOn[e.gang], s.Gangs = g+1, append(s.Gangs, e.gang)
			}
		}
	}
	for _, place := range places {
		if k := p.kinds[place.Kind]; slots(p.nodes[place.Node].least(0, at), k.each, k.most) < place.Count {
			note(p.ends[place.Node])
		}
	}
	wants := p.wants(g)
	for _, q := range p.Gangs[g].Queues {
		if slots(p.queues[q].least(0, at), wants, 1) == 0 {
			note(p.charged[q])
		}
	}
	slices.Sort(s.Runs)
	slices.Sort(s.Gangs)
	return s
}

// whyNever says why a gang has no start.
func (p *plan) whyNever(g int) Reason {
	switch {
	case !p.fitsInto(g, p.emptied):
		return TooLarge
	case !p.fitsInto(g, p.settled):
		return NoEnd
	}
	return Behind
}

// fitsInto says whether each need of a gang fits into some amounts by itself. All of it has to fit into its queues.
func (p *plan) fitsInto(g int, r rest) bool {
	for _, need := range p.Gangs[g].Needs {
		k, count := p.kinds[need.Kind], 0
		p.left -= len(r.nodes)
		for n, free := range r.nodes {
			if count < need.Count && k.takes(n) {
				count += slots(free, k.each, k.most)
			}
		}
		if count < need.Count {
			return false
		}
	}
	wants := p.wants(g)
	return !slices.ContainsFunc(p.Gangs[g].Queues, func(q int) bool { return slots(r.queues[q], wants, 1) == 0 })
}
