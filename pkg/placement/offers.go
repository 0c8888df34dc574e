package placement

import (
	"cmp"
	"slices"

	"github.com/muster-sched/muster/pkg/gang"
	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// offer is the victims that free one more slot for a demand on a node.
type offer struct {
	victims []int // nil if there is no such choice
	cost    cost
	gain    int // the slots that come free, on other nodes too
	rank    int // of the most important victim
}

// compare compares the costs of two offers for each slot. It counts no more slots than are needed.
func (o offer) compare(other offer, most int) int {
	per := func(a, b int) int { return cmp.Compare(a*min(most, other.gain), b*min(most, o.gain)) }
	return cmp.Or(cmp.Compare(o.cost.class, other.cost.class), per(o.cost.protected, other.cost.protected),
		per(o.cost.wholeGangs, other.cost.wholeGangs), per(o.cost.pods, other.cost.pods), cmp.Compare(o.rank, other.rank))
}

// nodewise is a choice of victims that places the members in sequence, each where it costs least.
type nodewise struct {
	*room
	demand  int
	left    []resources.List // on each node, beside the members that have places; no other list shares them
	placed  [][]int          // of each demand and node
	refused []bool           // candidates that the rules do not allow
}

// byNode takes victims where they make the next slot at the least cost, for one demand after the other. When all members have a slot it takes
// what the quota needs, by rank.
func (r *room) byNode() func() bool {
	for i, c := range r.candidates {
		if c.Rule == quota.NotAllowed {
			r.take(i) // it goes anyway
		}
	}
	r.countSlots()
	fits := func(d, n int) bool { return r.slots[d][n] > 0 }
	packing := Pack(r.demands, r.nodes, fits)
	w := &nodewise{room: r, placed: make([][]int, len(r.demands)), refused: make([]bool, len(r.candidates))}
	for _, free := range packing.Left { // where nothing was placed it is the view's own, to which victims add what they free
		w.left = append(w.left, free.Clone())
	}
	for d := range w.placed {
		w.placed[d] = make([]int, len(r.nodes))
		for _, place := range packing.Places[d] {
			w.placed[d][place.Node] += place.Count
		}
	}
	rest, forQuota := bySize(r.demands, r.nodes), r.byRank()
	return func() bool {
		if len(rest) == 0 {
			return !r.rules.HasQuota() && forQuota()
		}
		w.demand, rest = rest[0], rest[1:]
		return w.placeRest(r.demands[w.demand].Count - packing.Placed[w.demand])
	}
}

// placeRest makes room for the members of the demand that have no place.
func (w *nodewise) placeRest(missing int) bool {
	offers := make([]offer, len(w.nodes))
	for n := range offers {
		offers[n] = w.offer(n)
	}
	for missing > 0 {
		best := -1
		for n, o := range offers {
			if o.victims != nil && (best < 0 || o.compare(offers[best], missing) < 0) {
				best = n
			}
		}
		if best < 0 {
			return false
		}
		concerned := w.accept(best, offers[best].victims)
		for _, n := range concerned {
			missing -= w.fill(n, missing)
		}
		for _, n := range append(concerned, best) {
			offers[n] = w.offer(n)
		}
	}
	return true
}

// accept takes victims that free a slot on a node, and further ones if filters need it. It returns the nodes on which something has
// changed, nil if the rules or the filters forbid it. Then it takes nothing and remembers that.
func (w *nodewise) accept(n int, victims []int) (concerned []int) {
	var taken []int
	allowed := true
	for _, i := range victims {
		switch {
		case w.taken[i] || !allowed:
		case w.take(i):
			taken = append(taken, i)
		default:
			w.refused[i], allowed = true, false
		}
	}
	fits := allowed && w.fits(w.demand, n)
	for _, i := range w.on[n] {
		if allowed && !fits && w.take(i) {
			taken = append(taken, i)
			fits = w.fits(w.demand, n)
		}
	}
	if !fits {
		for _, i := range slices.Backward(taken) {
			w.giveBack(i)
		}
		w.usable[w.demand][n] = !allowed
		return nil
	}
	for _, i := range taken {
		for _, p := range w.parts[i] {
			w.left[p.node].Add(p.frees)
			concerned = append(concerned, p.node)
		}
	}
	slices.Sort(concerned)
	return slices.Compact(concerned)
}

// slotsLeft is how many more pods of the demand a node holds with so much free room.
func (w *nodewise) slotsLeft(n int, left resources.List) int {
	demand := w.demands[w.demand]
	if demand.MaxPerNode == 0 {
		return Slots(demand, left)
	}
	most := demand.MaxPerNode - w.placed[w.demand][n]
	demand.MaxPerNode = 0
	return max(0, min(most, Slots(demand, left)))
}

// fill places up to some members on a node, and says how many.
func (w *nodewise) fill(n, missing int) int {
	count := min(missing, w.slotsLeft(n, w.left[n]))
	if count == 0 || !w.fits(w.demand, n) {
		return 0
	}
	take(w.left, n, w.demands[w.demand].Requests, count)
	w.placed[w.demand][n] += count
	return count
}

// offer finds the victims that cost least for one more slot on a node.
func (w *nodewise) offer(n int) offer {
	demand := w.demands[w.demand]
	if !w.usable[w.demand][n] || demand.MaxPerNode > 0 && w.placed[w.demand][n] >= demand.MaxPerNode {
		return offer{}
	}
	lacks := w.lacks(n)
	victims := w.cheapest(n, lacks)
	if victims == nil {
		return offer{}
	}
	o := offer{victims: w.withSurplus(victims)}
	freed := map[int]resources.List{}
	for _, i := range o.victims {
		o.cost.add(w.candidates[i])
		o.rank = max(o.rank, i)
		for _, p := range w.parts[i] {
			if freed[p.node] == nil {
				freed[p.node] = w.left[p.node].Clone()
			}
			freed[p.node].Add(p.frees)
		}
	}
	for m, left := range freed {
		if w.usable[w.demand][m] {
			o.gain += w.slotsLeft(m, left) - w.slotsLeft(m, w.left[m])
		}
	}
	o.gain = max(1, o.gain)
	return o
}

// lacks is the missing amounts of a node for one more pod of the demand, in the order of names.
func (w *nodewise) lacks(n int) []int64 {
	lacks := make([]int64, len(w.names))
	for k, name := range w.names {
		if amount := w.demands[w.demand].Requests[name]; amount > 0 {
			lacks[k] = max(0, resources.Left(amount, w.left[n][name]))
		}
	}
	return lacks
}

// withSurplus adds the surplus of the gangs that are among the victims.
func (w *nodewise) withSurplus(victims []int) (all []int) {
	for _, i := range victims {
		if c := w.candidates[i]; c.Kind == gang.WholeGang {
			for _, s := range w.surplus[c.Gang] {
				if !w.taken[s] && !slices.Contains(all, s) && !slices.Contains(victims, s) {
					all = append(all, s)
				}
			}
		}
	}
	all = append(all, victims...)
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(w.candidates[a].Kind, w.candidates[b].Kind) })
	return all
}

// piece is what a candidate frees on one node.
type piece struct {
	candidate int
	frees     []int64
}

// pieces are the candidates that may be taken on a node, in their order.
func (w *nodewise) pieces(n int) []piece {
	var pieces []piece
	for _, i := range w.on[n] {
		if w.taken[i] || w.candidates[i].Rule > w.last || w.isRefused(i) {
			continue
		}
		p := piece{candidate: i, frees: make([]int64, len(w.names))}
		for _, part := range w.parts[i] {
			if part.node == n {
				for k, name := range w.names {
					p.frees[k] += part.frees[name]
				}
			}
		}
		pieces = append(pieces, p)
	}
	return pieces
}

// isRefused says whether the rules have refused a candidate, or surplus that must go with it.
func (w *nodewise) isRefused(i int) bool {
	c := w.candidates[i]
	return w.refused[i] || c.Kind == gang.WholeGang && slices.ContainsFunc(w.surplus[c.Gang], func(s int) bool { return w.refused[s] && !w.taken[s] })
}

// cheapest chooses victims on a node that free what it lacks. They are few, and of the lowest classes that have enough. In each
// class it takes the smallest that is enough. If there is none, it takes the largest and goes on. In the end it drops victims that are not
// needed, the most important first. It returns nil if all are not enough.
func (w *nodewise) cheapest(n int, lacks []int64) []int {
	pieces, wanted := w.pieces(n), slices.Clone(lacks)
	if len(pieces) > 0 && isCovered(lacks) {
		return []int{pieces[0].candidate} // a filter wants more than amounts
	}
	var chosen []piece
	for from := 0; from < len(pieces) && !isCovered(wanted); {
		to := from
		for to < len(pieces) && w.candidates[pieces[to].candidate].class == w.candidates[pieces[from].candidate].class {
			to++
		}
		class := slices.Clone(pieces[from:to])
		for len(class) > 0 && !isCovered(wanted) {
			i := bestPiece(class, wanted)
			reduce(wanted, class[i].frees)
			chosen = append(chosen, class[i])
			class = slices.Delete(class, i, i+1)
		}
		from = to
	}
	if !isCovered(wanted) {
		return nil
	}
	var victims []int
	for i := len(chosen) - 1; i >= 0; i-- {
		wanted := slices.Clone(lacks)
		for j, other := range chosen {
			if j != i {
				reduce(wanted, other.frees)
			}
		}
		if isCovered(wanted) {
			chosen = slices.Delete(chosen, i, i+1)
		} else {
			victims = append(victims, chosen[i].candidate)
		}
	}
	return victims
}

// bestPiece is the smallest piece that covers the missing amounts, or else the one that covers most of them.
func bestPiece(pieces []piece, wanted []int64) int {
	enough, most := -1, 0
	var least, covered float64
	for i, p := range pieces {
		left, size, part := slices.Clone(wanted), 0.0, 0.0
		reduce(left, p.frees)
		for k, amount := range wanted {
			if amount > 0 {
				size += float64(p.frees[k]) / float64(amount)
				part += float64(min(amount, p.frees[k])) / float64(amount)
			}
		}
		if isCovered(left) && (enough < 0 || size < least) {
			enough, least = i, size
		}
		if part > covered {
			most, covered = i, part
		}
	}
	if enough >= 0 {
		return enough
	}
	return most
}

func reduce(wanted, by []int64) {
	for k := range wanted {
		wanted[k] -= by[k]
	}
}

func isCovered(wanted []int64) bool {
	return !slices.ContainsFunc(wanted, func(amount int64) bool { return amount > 0 })
}
