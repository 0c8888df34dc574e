package quota

import (
	"cmp"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-sched/muster/pkg/resources"
)

// Terms are a queue's settings for its share of its parent.
type Terms struct {
	// Parent of the queue; "" means the root.
	Parent string
	// Weight of the queue among its siblings where no share is written; less than 1 counts as 1.
	Weight int64
	// Guarantee is what the queue deserves at least, whatever it asks for. It is never lent.
	Guarantee resources.List
	// Deserved is the written share. A resource that it does not name is shared by weight.
	Deserved resources.List
	// Capability is what the queue deserves at most. A resource that it does not name is not limited.
	Capability resources.List
	// NotReclaimable: other queues do not take back what the queue and its descendants use beyond their shares.
	NotReclaimable bool
	// EachUser is the limit of each user of the queue who is not among Users.
	EachUser resources.List
	// Users are the limits of single users, by name.
	Users map[string]resources.List
}

// userLimit is the most that a user of the queue may have.
func (t *Terms) userLimit(user string) resources.List {
	if own, listed := t.Users[user]; listed {
		return own
	}
	return t.EachUser
}

// Shares is what each queue deserves, by its name.
type Shares map[string]resources.List

// ShareOut computes what each queue deserves of a total, resource by resource and from the root down.
//
// A queue whose share of a resource is written deserves that, within its guarantee and its capability. The rest is divided among its
// siblings by weight. No queue deserves more than it asks for or may have, nor less than its guarantee. A part that one does not need goes
// to queues that do. This is weighted max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5.2), as Volcano's proportion
// plugin has it. A resource that no queue asks for is in no queue's share.
//
// A queue asks for the use and the assumed amounts of itself and its descendants, and for their waiting demand. A queue that is its own
// ancestor counts as a child of the root. Only resources are shared out that the total has, or that a queue names as deserved or
// guaranteed. Pods may ask for resources of any name.
func (t *Tree) ShareOut(total resources.List, waiting map[string]resources.Sums) Shares {
	s := &sharing{tree: t, children: t.children(), waits: map[string]resources.Sums{},
		asks: map[string]resources.Sums{}, floors: map[string]resources.Sums{}, shares: Shares{}}
	s.gather(Root, waiting)
	s.shares[Root] = total.Clone()
	s.resources = t.shared(total)
	s.divide(Root)
	return s.shares
}

// Shares is ShareOut of what all nodes have (SetTotal).
func (t *Tree) Shares(waiting map[string]resources.Sums) Shares { return t.ShareOut(t.nodes, waiting) }

// Ratio is how much of its share a queue and its descendants use and have assumed.
func (t *Tree) Ratio(name string, shares Shares) Ratio {
	return ratioOf(t.find(name).total, shares[name])
}

// sharing is one call of ShareOut.
type sharing struct {
	tree      *Tree
	children  map[string][]string       // queue -> its children, by name
	resources []corev1.ResourceName     // that are shared out
	waits     map[string]resources.Sums // queue -> what waits in it and its descendants
	asks      map[string]resources.Sums // queue -> what it and its descendants ask for
	floors    map[string]resources.Sums // queue -> what it and its descendants are guaranteed
	shares    Shares
}

// children lists the children of each queue in the order of the alphabet. Users are none.
func (t *Tree) children() map[string][]string {
	children := map[string][]string{}
	for _, name := range t.Names() {
		if name != Root && !IsUser(name) {
			parent := t.parent(name)
			children[parent] = append(children[parent], name)
		}
	}
	return children
}

// parent is the parent of a queue. The root if it has no other, or if the way up comes back to the queue.
func (t *Tree) parent(name string) string {
	path := t.path(t.find(name))
	if t.queues[path[len(path)-2].terms.Parent] == path[0] {
		return Root // the path ends below the root because it is a circle
	}
	return path[1].name
}

// gather adds up what the queue and its descendants ask for and are guaranteed.
func (s *sharing) gather(name string, waiting map[string]resources.Sums) {
	q := s.tree.find(name)
	waits, floor := waiting[name].Clone(), resources.Sums{}
	for _, child := range s.children[name] {
		s.gather(child, waiting)
		waits.AddSums(s.waits[child])
		floor.AddSums(s.floors[child])
	}
	for resource, amount := range q.terms.Guarantee {
		if least := floor.Amount(resource); amount > least {
			floor.Add(resources.List{resource: amount - least})
		}
	}
	s.waits[name], s.asks[name], s.floors[name] = waits, q.total.Clone(), floor
	s.asks[name].AddSums(waits)
}

// divide works out what the children of a queue deserve of its share, and theirs.
func (s *sharing) divide(name string) {
	children := s.children[name]
	if len(children) == 0 {
		return
	}
	for _, child := range children {
		s.shares[child] = resources.List{}
	}
	for _, resource := range s.resources {
		left := s.shares[name][resource]
		var open []*part
		for _, child := range children {
			p := s.part(child, resource)
			if written, isWritten := s.tree.find(child).terms.Deserved[resource]; isWritten {
				s.shares[child][resource] = min(max(written, p.least), p.limit)
				left = max(0, left-s.shares[child][resource])
				continue
			}
			open = append(open, p)
		}
		fill(left, open)
		for _, p := range open {
			s.shares[p.queue][resource] = p.amount
		}
	}
	for _, child := range children {
		s.divide(child)
	}
}

// shared lists the resources that are shared out, by name.
func (t *Tree) shared(total resources.List) []corev1.ResourceName {
	found := sets.KeySet(total)
	for _, q := range t.queues {
		found = found.Union(sets.KeySet(q.terms.Deserved)).Union(sets.KeySet(q.terms.Guarantee))
	}
	return sets.List(found)
}

// part is what a queue gets of one resource.
type part struct {
	queue       string
	weight      int64
	least, most int64 // bounds of the amount
	limit       int64 // of a written share: the capability
	amount      int64
}

func (s *sharing) part(name string, resource corev1.ResourceName) *part {
	terms := s.tree.find(name).terms
	limit, isLimited := terms.Capability[resource]
	if !isLimited {
		limit = resources.MaxAmount
	}
	limit = max(0, limit)
	least := min(max(0, s.floors[name].Amount(resource)), limit)
	asked := max(0, s.asks[name].Amount(resource))
	return &part{queue: name, weight: max(1, terms.Weight), least: least, most: max(least, min(asked, limit)), limit: limit}
}

// fill divides an amount among the parts. Each gets its weight's share, but not less than its least nor more than its most. If the
// least are more than there is, each gets its least.
//
// Parts that a share by weight would take beyond a bound are fixed there, beginning with the nearer side. The rest is divided anew, until
// none is beyond its bound. This is the same resolution as that of flexible lengths in CSS (CSS Flexible Box Layout, section 9.7).
func fill(amount int64, parts []*part) {
	amount = max(0, amount)
	open := slices.Clone(parts)
	for len(open) > 0 {
		var weights int64
		for _, p := range open {
			weights += p.weight
		}
		var beyond wide // what the bounds add to the shares by weight, times the sum of weights
		for _, p := range open {
			beyond = beyond.plus(p.excess(amount, weights))
		}
		var still []*part
		left := amount
		for _, p := range open {
			switch side := p.excess(amount, weights).sign(); {
			case side > 0 && beyond.sign() >= 0: // below its least
				p.amount = p.least
				left = max(0, left-p.least)
			case side < 0 && beyond.sign() <= 0: // above its most
				p.amount = p.most
				left = max(0, left-p.most)
			default:
				still = append(still, p)
			}
		}
		if len(still) == len(open) {
			byWeight(amount, weights, open)
			return
		}
		amount, open = left, still
	}
}

// excess is what the bounds add to the share by weight, times the sum of weights. It is positive below the least, and negative above the most.
func (p *part) excess(amount, weights int64) wide {
	share := product(amount, p.weight)
	if below := product(p.least, weights).minus(share); below.sign() > 0 {
		return below
	}
	if above := product(p.most, weights).minus(share); above.sign() < 0 {
		return above
	}
	return wide{}
}

// wide is a number of 128 bits in two's complement. An amount has 63 bits and a weight 16, so the products of a million queues fit.
type wide struct {
	high, low uint64
}

// product multiplies two numbers that are not negative.
func product(a, b int64) wide {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return wide{high, low}
}

func (w wide) plus(other wide) wide {
	low, carry := bits.Add64(w.low, other.low, 0)
	high, _ := bits.Add64(w.high, other.high, carry)
	return wide{high, low}
}

func (w wide) minus(other wide) wide {
	low, borrow := bits.Sub64(w.low, other.low, 0)
	high, _ := bits.Sub64(w.high, other.high, borrow)
	return wide{high, low}
}

func (w wide) sign() int {
	if int64(w.high) < 0 {
		return -1
	}
	return min(1, bits.Len64(w.high|w.low))
}

// byWeight divides an amount by weight alone. Units that are left over go to the first parts that may have more.
func byWeight(amount, weights int64, parts []*part) {
	left := amount
	for _, p := range parts {
		high, low := bits.Mul64(uint64(amount), uint64(p.weight))
		quotient, _ := bits.Div64(high, low, uint64(weights))
		p.amount = int64(quotient)
		left -= p.amount
	}
	for _, p := range parts {
		if left > 0 && p.amount < p.most {
			p.amount++
			left--
		}
	}
}

// Ratio is how much of its share a queue uses: the largest over all resources. The zero value is nothing.
type Ratio struct {
	used, share int64
}

// ratioOf returns how much of a share is used. Use of a resource whose share is 0 is more than any other. One that is not shared out does
// not count.
func ratioOf(used resources.Sums, share resources.List) Ratio {
	var most Ratio
	for resource, amount := range share {
		if r := (Ratio{max(0, used.Amount(resource)), max(0, amount)}); r.Compare(most) > 0 {
			most = r
		}
	}
	return most
}

// Compare orders ratios: negative if r is smaller, 0 if both are the same.
func (r Ratio) Compare(other Ratio) int {
	switch {
	case r.used == 0 || other.used == 0:
		return cmp.Compare(min(r.used, 1), min(other.used, 1))
	case r.share == 0 || other.share == 0:
		return cmp.Compare(min(other.share, 1), min(r.share, 1))
	}
	high, low := bits.Mul64(uint64(r.used), uint64(other.share))
	otherHigh, otherLow := bits.Mul64(uint64(other.used), uint64(r.share))
	return cmp.Or(cmp.Compare(high, otherHigh), cmp.Compare(low, otherLow))
}
