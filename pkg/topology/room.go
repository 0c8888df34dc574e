package topology

// room is how many pods nodes and domains hold beside the pods that are placed already.
type room struct {
	tree    *Tree
	slots   [][]int       // of each class, of each node
	sums    [][]int       // of each class, of each domain
	used    []int         // of each domain: placed pods
	taken   map[int][]int // of nodes: placed pods of each class
	recount func(class, node int, taken []int) int
	changes []change
}

// change is how a node was before some pods were placed on it.
type change struct {
	node, class, count int
	slots              []int // of each class
}

func newRoom(t *Tree, slots [][]int, recount func(class, node int, taken []int) int) *room {
	r := &room{tree: t, used: make([]int, len(t.Domains)), taken: map[int][]int{}, recount: recount}
	for _, of := range slots {
		r.slots = append(r.slots, append([]int(nil), of...))
		r.sums = append(r.sums, t.Sums(of))
	}
	return r
}

// Sums adds up what nodes have, for each domain.
func (t *Tree) Sums(of []int) []int {
	before := make([]int, len(of)+1)
	for n, count := range of {
		before[n+1] = before[n] + count
	}
	sums := make([]int, len(t.Domains))
	for d := range t.Domains {
		sums[d] = before[t.Domains[d].To] - before[t.Domains[d].From]
	}
	return sums
}

// take places pods of a class on a node.
func (r *room) take(class, node, count int) {
	old := change{node: node, class: class, count: count}
	if r.taken[node] == nil {
		r.taken[node] = make([]int, len(r.slots))
	}
	r.taken[node][class] += count
	for c := range r.slots {
		before, now := r.slots[c][node], r.slots[c][node]
		switch {
		case r.recount != nil && before > 0:
			now = min(before, r.recount(c, node, r.taken[node]))
		case r.recount == nil && c == class:
			now -= count
		}
		old.slots = append(old.slots, before)
		r.set(c, node, now)
	}
	r.use(node, count)
	r.changes = append(r.changes, old)
}

// set changes how many pods of a class a node holds.
func (r *room) set(class, node, slots int) {
	difference := slots - r.slots[class][node]
	if difference == 0 {
		return
	}
	r.slots[class][node] = slots
	for d := r.tree.domainOf[node]; d >= 0; d = r.tree.Domains[d].Parent {
		r.sums[class][d] += difference
	}
}

func (r *room) use(node, count int) {
	for d := r.tree.domainOf[node]; d >= 0; d = r.tree.Domains[d].Parent {
		r.used[d] += count
	}
}

// undo takes back all placements since there were so many changes.
func (r *room) undo(to int) {
	for len(r.changes) > to {
		last := r.changes[len(r.changes)-1]
		r.changes = r.changes[:len(r.changes)-1]
		r.taken[last.node][last.class] -= last.count
		for c, slots := range last.slots {
			r.set(c, last.node, slots)
		}
		r.use(last.node, -last.count)
	}
}

// holds says whether a domain has room for pods of each class.
func (r *room) holds(domain int, pods []int) bool {
	for c, count := range pods {
		if r.sums[c][domain] < count {
			return false
		}
	}
	return true
}
