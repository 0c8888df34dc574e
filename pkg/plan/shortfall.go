package plan

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Shortfall is what must come free, at the least, before a demand can be met, on nodes that do not refuse its pods. It says no only
// when that is certain: as long as it is not Covered, and no node that refused the pods has changed its mind, the demand does not fit,
// wherever the room came free.
type Shortfall struct {
	lacks  int            // how many pods more there must be room for
	closed []string       // nodes on which room is of no use, sorted; not always all of them
	each   resources.List // what a pod takes
	scarce []scarce
	any    int    // how many pods more there may be room for, where no resource is scarce everywhere
	index  *Index // of the nodes
}

// scarce is a resource without more of which no node takes another pod.
type scarce struct {
	name   corev1.ResourceName
	gained int // how many pods more there may be room for, as far as this resource goes
	// left is what is left over of it on each node, less than a pod takes: most that comes free of a large demand is too little for one
	// pod more, and is added up here. Numbers alone: a gang that waits in a large cluster is nothing that the collector must look through.
	left []int64
}

// Index finds nodes by their names. Shortfalls on the same nodes share one.
type Index struct {
	names []string
	at    map[string]int
}

// IndexOf is the last index if it is of these nodes, in this order, or else a new one. last may be nil.
func IndexOf(nodes []Node, last *Index) *Index {
	if last != nil && slices.EqualFunc(last.names, nodes, func(name string, node Node) bool { return name == node.Name }) {
		return last
	}
	index := &Index{names: make([]string, len(nodes)), at: make(map[string]int, len(nodes))}
	for n := range nodes {
		index.names[n], index.at[nodes[n].Name] = nodes[n].Name, n
	}
	return index
}

// maxClosed bounds what is remembered of nodes that refuse a demand: many gangs may wait in a large cluster. What comes free on
// those that were forgotten counts.
const maxClosed = 1024

// Refuses says whether a node (by index) is known to refuse the pods of a demand (by index), whatever room it has.
type Refuses func(demand, node int) bool

// Lacking returns the shortfall of the first demand that cannot be met by what is free on the nodes that do not refuse it, even if
// nobody else takes any of that; nil if there is none. The index is that of the nodes. Whoever holds a shortfall must see to it himself
// that nodes may change their mind.
func Lacking(demands []Demand, nodes []Node, index *Index, refuses Refuses) *Shortfall {
	for d, demand := range demands {
		if short := lacking(demand, nodes, func(n int) bool { return refuses(d, n) }); short != nil {
			short.index = index
			return short
		}
	}
	return nil
}

func lacking(demand Demand, nodes []Node, refuses func(node int) bool) *Shortfall {
	left := demand.Count
	var closed []string
	lacked := map[corev1.ResourceName]bool{}
	for name, amount := range demand.Requests {
		if amount > 0 {
			lacked[name] = true
		}
	}
	if len(lacked) == 0 {
		return nil // it takes nothing: what it needs are nodes
	}
	each := demand.Requests.Clone()
	for n := range nodes {
		if refuses(n) {
			if len(closed) < maxClosed {
				closed = append(closed, nodes[n].Name)
			}
			continue
		}
		slots := Slots(demand, nodes[n].Free)
		if left -= slots; left <= 0 {
			return nil
		}
		// On this node only what is scarce keeps further pods off: more of the rest does not help.
		for name := range lacked {
			if max(0, nodes[n].Free[name]/each[name]) > int64(slots) {
				delete(lacked, name)
			}
		}
	}
	slices.Sort(closed)
	short := &Shortfall{lacks: left, closed: closed, each: each}
	for name := range lacked {
		short.scarce = append(short.scarce, scarce{name: name, left: leftOver(name, each[name], nodes)})
	}
	return short
}

// leftOver is what is left of a resource on each node when it is full of pods that take so much each.
func leftOver(name corev1.ResourceName, each int64, nodes []Node) []int64 {
	left := make([]int64, len(nodes))
	for n := range nodes {
		left[n] = nodes[n].Free[name]
		left[n] -= max(0, left[n]/each) * each
	}
	return left
}

// Free takes into account that an amount has come free on a node. A node that is new, or has changed, has no name yet: whether it
// refuses anybody is not known, and the amount is all that it has.
func (s *Shortfall) Free(node string, amount resources.List) {
	if _, closed := slices.BinarySearch(s.closed, node); closed && node != "" {
		return
	}
	n, known := s.index.at[node]
	for i := range s.scarce {
		short := &s.scarce[i]
		each, free := s.each[short.name], amount[short.name]
		switch {
		case free <= 0:
		case node == "":
			short.gained = addCapped(short.gained, int(min(math.MaxInt32, free/each)))
		case known:
			short.gained = addCapped(short.gained, short.add(n, free, each))
		default: // it has come meanwhile
			short.gained = addCapped(short.gained, s.podsFor(short.name, amount))
		}
	}
	if len(s.scarce) > 0 {
		return
	}
	most := 0
	for name := range s.each {
		most = max(most, s.podsFor(name, amount))
	}
	s.any = addCapped(s.any, most)
}

// add adds what has come free on a node to what was left over there, and returns how many pods more find enough.
func (s *scarce) add(n int, free, each int64) int {
	s.left[n] += min(free, math.MaxInt64-max(0, s.left[n]))
	if s.left[n] < each {
		return 0
	}
	more := s.left[n] / each
	s.left[n] -= more * each
	return int(min(math.MaxInt32, more))
}

// Covered says whether what has come free may be enough.
func (s *Shortfall) Covered() bool {
	for i := range s.scarce {
		if s.scarce[i].gained < s.lacks {
			return false
		}
	}
	return len(s.scarce) > 0 || s.any >= s.lacks
}

// podsFor is how many pods more may find enough of a resource on a node of which nothing is known: the amount may fill up what was
// left over there.
func (s *Shortfall) podsFor(name corev1.ResourceName, amount resources.List) int {
	each, free := s.each[name], amount[name]
	if each <= 0 || free <= 0 {
		return 0
	}
	return int(min(math.MaxInt32, (free-1)/each+1))
}

func addCapped(a, b int) int { return min(math.MaxInt32, a+b) }
