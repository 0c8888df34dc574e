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
	scarce []corev1.ResourceName
	gained map[corev1.ResourceName]int // how many pods more there may be room for, as far as each scarce resource goes
	any    int                         // the same, where no resource is scarce everywhere
}

// maxClosed bounds what is remembered of nodes that refuse a demand: many gangs may wait in a large cluster. What comes free on
// those that were forgotten counts.
const maxClosed = 1024

// Refuses says whether a node (by index) is known to refuse the pods of a demand (by index), whatever room it has.
type Refuses func(demand, node int) bool

// Lacking returns the shortfall of the first demand that cannot be met by what is free on the nodes that do not refuse it, even if
// nobody else takes any of that; nil if there is none. Whoever holds a shortfall must see to it himself that nodes may change their
// mind.
func Lacking(demands []Demand, nodes []Node, refuses Refuses) *Shortfall {
	for d, demand := range demands {
		if short := lacking(demand, nodes, func(n int) bool { return refuses(d, n) }); short != nil {
			return short
		}
	}
	return nil
}

func lacking(demand Demand, nodes []Node, refuses func(node int) bool) *Shortfall {
	left := demand.Count
	var closed []string
	scarce := map[corev1.ResourceName]bool{}
	for name, amount := range demand.Requests {
		if amount > 0 {
			scarce[name] = true
		}
	}
	if len(scarce) == 0 {
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
		for name := range scarce {
			if max(0, nodes[n].Free[name]/each[name]) > int64(slots) {
				delete(scarce, name)
			}
		}
	}
	slices.Sort(closed)
	short := &Shortfall{lacks: left, closed: closed, each: each, gained: map[corev1.ResourceName]int{}}
	for name := range scarce {
		short.scarce = append(short.scarce, name)
	}
	return short
}

// Free takes into account that an amount has come free on a node. A node that is new, or has changed, has no name yet: whether it
// refuses anybody is not known.
func (s *Shortfall) Free(node string, amount resources.List) {
	if _, closed := slices.BinarySearch(s.closed, node); closed && node != "" {
		return
	}
	for _, name := range s.scarce {
		s.gained[name] = addCapped(s.gained[name], s.podsFor(name, amount))
	}
	most := 0
	for name := range s.each {
		most = max(most, s.podsFor(name, amount))
	}
	s.any = addCapped(s.any, most)
}

// Covered says whether what has come free may be enough.
func (s *Shortfall) Covered() bool {
	for _, name := range s.scarce {
		if s.gained[name] < s.lacks {
			return false
		}
	}
	return s.any >= s.lacks
}

// podsFor is how many pods more may find enough of a resource on a node: the amount may fill up what was left over there.
func (s *Shortfall) podsFor(name corev1.ResourceName, amount resources.List) int {
	each, free := s.each[name], amount[name]
	if each <= 0 || free <= 0 {
		return 0
	}
	return int(min(math.MaxInt32, (free-1)/each+1))
}

func addCapped(a, b int) int { return min(math.MaxInt32, a+b) }
