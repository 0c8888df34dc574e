package plan

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/resources"
)

// Shortfall is what must come free, at the least, before a demand can be met. It says no only when that is certain: as long as
// it is not Covered, the demand does not fit, wherever the room came free.
type Shortfall struct {
	lacks  int            // how many pods more there must be room for
	each   resources.List // what a pod takes
	scarce []corev1.ResourceName
	gained map[corev1.ResourceName]int // how many pods more there may be room for, as far as each scarce resource goes
	any    int                         // the same, where no resource is scarce everywhere
}

// Lacking returns the shortfall of the first demand that cannot be met by the free amounts even if nobody else takes any of
// them, nil if there is none.
func Lacking(demands []Demand, nodes []Node) *Shortfall {
	for _, demand := range demands {
		if short := lacking(demand, nodes); short != nil {
			return short
		}
	}
	return nil
}

func lacking(demand Demand, nodes []Node) *Shortfall {
	left := demand.Count
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
	short := &Shortfall{lacks: left, each: each, gained: map[corev1.ResourceName]int{}}
	for name := range scarce {
		short.scarce = append(short.scarce, name)
	}
	return short
}

// Free takes into account that an amount has come free on a node, or with a new one.
func (s *Shortfall) Free(amount resources.List) {
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
